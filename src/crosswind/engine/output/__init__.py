"""Where results are made: rows, their order, what did not match, and ways to take them."""
