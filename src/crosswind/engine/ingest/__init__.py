"""How tuples come in: columns, filters, keys, admission, batches."""
