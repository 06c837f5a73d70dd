"""Image trunks: what they are built of, their published weights, and the registry of their names."""
