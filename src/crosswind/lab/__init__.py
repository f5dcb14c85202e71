"""THE LAB: the papers' experiments and hardware models, one folder a paper: claim, configuration, run, result."""
