"""What rscc would do with two scenes, without doing it."""
