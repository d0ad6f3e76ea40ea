"""dpconvex."""
