"""Report formats other than GeoJSON: GeoPackage, FlatGeobuf, GeoParquet, GeoJSON lines."""
