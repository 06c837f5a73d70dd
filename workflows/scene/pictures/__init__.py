"""What the model sees in one crop of two scenes, as a picture."""
