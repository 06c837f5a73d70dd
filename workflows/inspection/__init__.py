"""Looks at pairs without changing anything: inspect, explain, and what a run will cost."""
