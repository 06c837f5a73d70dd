"""One reader a benchmark; each knows its layout on disk and nothing else."""
