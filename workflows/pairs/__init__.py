"""Which scenes belong together: the table of pairs and the catalogs that it is made from."""
