"""Private minimizers of sums of losses over records: linear models and convex functions of any form."""
