"""Choose the picture among the rasters of a delivery: providers add masks, elevations and single bands."""
