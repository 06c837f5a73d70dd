"""What a finished model's numbers mean: calibration, where the words look, finer outlines."""
