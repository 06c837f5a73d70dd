"""Runs over archives: planned, dispatched, watched, merged."""
