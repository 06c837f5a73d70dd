"""Changes that somebody else outlined: a person, or another detector; here they get facts and sentences."""
