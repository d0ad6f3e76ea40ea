"""Private centers of points in a ball."""
