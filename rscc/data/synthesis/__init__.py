"""Makes captioned training pairs from imagery with masks."""
