"""WHO WORKS: strategies behind one interface, arrivals, indexes, results, the live join."""
