"""Monitor places over time: dated scenes in, events with a history out."""
