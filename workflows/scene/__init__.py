"""One pair of scenes from end to end: opened, searched, grouped, described."""
