"""The page: one HTML file that shows a report on both dates, and works without any network."""
