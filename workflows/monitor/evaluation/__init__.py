"""Scores of events in series against dated truth, beside simple baselines."""
