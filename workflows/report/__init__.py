"""The report: changes, the record of the run, and the files that hold both."""
