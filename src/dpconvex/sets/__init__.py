"""Convex constraint sets.

A new set is one new file and its name in `SETS`; the contract tests then check it.
"""

from __future__ import annotations

from dpconvex.sets.ball_l1 import L1Ball
from dpconvex.sets.ball_l2 import L2Ball
from dpconvex.sets.ball_section import BallSection
from dpconvex.sets.base import ConvexSet
from dpconvex.sets.box import Box
from dpconvex.sets.ellipsoid import Ellipsoid
from dpconvex.sets.polytope import Polytope
from dpconvex.sets.second_order import SecondOrderCones
from dpconvex.sets.simplex import Simplex
from dpconvex.sets.whole_space import WholeSpace

SETS: tuple[type[ConvexSet], ...] = (
    WholeSpace,
    L2Ball,
    L1Ball,
    Box,
    Simplex,
    SecondOrderCones,
    Ellipsoid,
    BallSection,
    Polytope,
)
"""Every set of the library."""

__all__ = [
    "SETS",
    "BallSection",
    "Box",
    "ConvexSet",
    "Ellipsoid",
    "L1Ball",
    "L2Ball",
    "Polytope",
    "SecondOrderCones",
    "Simplex",
    "WholeSpace",
]
