"""Words: vocabularies, parsing, object classes, rewards, and captions told backwards."""
