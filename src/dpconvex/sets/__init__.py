"""Convex constraint sets. A new set is one class and its name in `SETS`; the contract tests then check it."""

from dpconvex.sets.balls import Box, Ellipsoid, L1Ball, L2Ball, Simplex
from dpconvex.sets.base import ConvexSet, WholeSpace
from dpconvex.sets.polytope import Polytope
from dpconvex.sets.sections import BallSection, SecondOrderCones, Section

SETS: tuple[type[ConvexSet], ...] = (
    WholeSpace, L2Ball, L1Ball, Box, Simplex, SecondOrderCones, Ellipsoid, BallSection, Section, Polytope,
)  # fmt: skip
"""Every set of the library."""

__all__ = [
    "SETS", "BallSection", "Box", "ConvexSet", "Ellipsoid", "L1Ball", "L2Ball", "Polytope", "SecondOrderCones",
    "Section", "Simplex", "WholeSpace",
]  # fmt: skip
