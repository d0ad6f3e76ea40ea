"""Intervals from released numbers: what anybody can compute. Reads no data, draws no private noise."""
