"""Private saddle points of convex-concave problems, and minimizers over a simplex or polytope."""
