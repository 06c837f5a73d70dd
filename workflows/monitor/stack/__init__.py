"""Events in stacks of 0.2 to 1.2 m: maps of pairs, steps in them, and what each date shows."""
