"""The web page of a report: one HTML file with both dates, which works offline."""
