"""Private algorithms: one folder a family, each with `plan` (public constants) and `run` (the listing)."""
