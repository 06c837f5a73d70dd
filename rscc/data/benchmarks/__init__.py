"""Readers of the benchmarks, one file each, which know the layout on disk."""
