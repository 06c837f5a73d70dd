"""Two scenes on one grid, read as tiles, and change maps turned into polygons; knows no network."""
