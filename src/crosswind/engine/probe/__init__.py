"""Where tuples are compared: probe trees, their steps, bounds, masks, cached pairs, join orders, indexes."""
