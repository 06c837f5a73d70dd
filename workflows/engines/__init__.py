"""Where the work of an archive is done: on this machine or on a Dask cluster, by one contract."""
