"""Sentences from facts, vocabularies, parsing, object classes, and reversed captions."""
