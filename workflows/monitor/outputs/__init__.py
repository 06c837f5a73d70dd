"""What a monitor writes for others: layers, catalog, page, feed, notices."""
