"""Change captioners: one module per paper, and the parts that they share."""
