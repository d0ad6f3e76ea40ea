"""The event of sampling vertices: many draws of exponential mechanisms over one run, charged together."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import ClassVar

import numpy as np

from dpconvex import _rounding, _validate
from dpconvex._types import FloatArray
from dpconvex.privacy.events.base import Event, Parts, pure_delta
from dpconvex.privacy.profiles import ORDERS, bounded_range_divergence, renyi_delta


@dataclass(frozen=True)
class VertexDraws(Event):
    r"""Adaptive draws from soft-max laws whose scores move, between neighbors, by vectors of small range.

    If the scores of a draw satisfy ``s_j - s'_j in [a, a + eta]`` for all j, the log-ratio of the two laws lies in an
    interval of length eta. So the draw is eta-DP and ``eta^2/8``-zCDP: with ``h(s) = log E_Q e^{s L}``,
    ``h(0) = h(1) = 0`` and ``h'' <= eta^2/4`` (variance on an interval), hence ``h(a) <= a (a-1) eta^2/8`` (Cesar and
    Rogers 2021). zCDP adds up over adaptive draws: the whole costs ``rho = square_sum/8``. Draws whose scores do not
    depend on the replaced record cost nothing and are not counted. For a pure promise use `PureMechanism`.
    """

    largest: float  #: largest range of one draw, positive
    draws: int  #: most draws that depend on one record
    # Most that the squared ranges of the draws that depend on one record sum to; at most `draws largest^2`
    square_sum: float
    kind: ClassVar[str] = "vertex_draws"

    def __post_init__(self) -> None:
        _validate.real("largest", self.largest, above=0.0)
        _validate.integer("draws", self.draws, at_least=1)
        _validate.real("square_sum", self.square_sum, above=0.0)

    @property
    def range_sum(self) -> Fraction:
        """Most that the ranges can sum to (Cauchy-Schwarz), the pure epsilon of all draws together."""
        root = _rounding.widen_up(math.sqrt(_rounding.product_up(self.square_sum, float(self.draws))))
        return min(Fraction(self.largest) * self.draws, Fraction(root))

    @property
    def rho(self) -> float:
        """The zCDP cost, rounded up."""
        return _rounding.ratio_up(self.square_sum, 8.0)

    @property
    def parts(self) -> Parts:
        return Parts(Fraction(0), rho=self.rho)

    @property
    def claimed_sensitivity(self) -> float:
        return self.largest

    @cached_property
    def _divergences(self) -> FloatArray:
        return np.minimum(ORDERS * self.rho, self.draws * bounded_range_divergence(self.largest))

    def delta(self, epsilon: float) -> float:
        """The better of two profiles: of the Renyi divergences, and of the worst mechanism of this pure epsilon."""
        return min(renyi_delta(self._divergences, epsilon), pure_delta(self.range_sum, epsilon))
