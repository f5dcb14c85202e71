"""HOW: predicates split, boxes, programs, routes, the time axis, and plans as text."""
