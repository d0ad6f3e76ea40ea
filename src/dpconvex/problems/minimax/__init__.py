"""Convex-concave problems, games and worst-group losses."""
