"""WHERE TUPLES WAIT: columns, basic windows, runs, watermarks and the order."""
