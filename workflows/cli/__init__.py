"""The ``rscc`` command, on top of everything: one file a command."""
