"""The words for the changes of a scene: facts, land cover, location, and the decoder."""
