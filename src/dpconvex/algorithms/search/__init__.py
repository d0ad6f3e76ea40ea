"""Private search: the best of several settings of a model, chosen on held-out records, in one promise."""
