"""Where pairs are processed: Dask workers on this machine or on a cluster."""
