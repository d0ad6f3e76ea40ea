"""What models that find ranges share: how much that costs, what is planned before it, and what it found."""

from dataclasses import replace
from typing import Any

from dpconvex import _rounding
from dpconvex.algorithms import LinearModelPlan
from dpconvex.algorithms.erm.registry import plans
from dpconvex.algorithms.erm.two_stage import ranges
from dpconvex.algorithms.select import Plans
from dpconvex.data import Schema
from dpconvex.estimators._features import FeatureMap
from dpconvex.privacy import PrivacyParams
from dpconvex.problems import LinearModelProblem, NumberRange


class FindsRanges:
    """A model whose fits find the ranges of columns, and of the target, that are left open."""

    schema: Schema | None
    ranges_: tuple[NumberRange, ...] = ()
    """Ranges that a fit found, of the columns in their order, then of the target, or the part of its declared range."""
    _looks: bool = True  #: Whether a caller lets fits look at a declared target's range: not a search
    _may_look: bool = False  #: Whether parameters let them

    @property
    def _finds_target(self) -> bool:
        """Whether the target's range is to be found, too."""
        return False

    @property
    def found_schema_(self) -> Schema | None:
        """The schema with the ranges that a fit found: all of them public from then on. None without a schema."""
        return self.schema and self.schema.with_ranges(self.ranges_)

    def _open(self, features: FeatureMap) -> int:
        """Return how many ranges a fit is to find."""
        return len(features.unranged) + self._finds_target

    def _found(self, ran: LinearModelPlan) -> tuple[NumberRange, ...]:
        """Return the ranges that a run released, in the unit of each."""
        return getattr(ran, "found", ())

    def _beside(self, features: FeatureMap, privacy: PrivacyParams, n: int) -> PrivacyParams:
        """Return what finding ranges that are left open leaves of a promise."""
        left = ranges.remaining(privacy.epsilon, n, self._open(features), len(features.placed))
        return replace(privacy, epsilon=left)

    def _look_cost(self, features: FeatureMap, privacy: PrivacyParams, n: int) -> float:
        """Return what a look at the target's declared range takes of epsilon; 0 where none is taken."""
        return ranges.look_cost(self._beside(features, privacy, n).epsilon, n) if self._may_look else 0.0

    def _explained(self, share: float, look: bool) -> float | None:
        """Return the variance of predictions to expect, at that share of the default norm, and perhaps after a look."""
        return None

    def _rest(self, features: FeatureMap, privacy: PrivacyParams, n: int) -> PrivacyParams:
        """Return what finding ranges, and a look at the target's, leave of a promise."""
        left, look = self._beside(features, privacy, n), self._look_cost(features, privacy, n)
        return replace(left, epsilon=_rounding.difference_down(left.epsilon, look))

    def _target_range(self) -> Any:
        """Return the public range of a numeric target; None for classes."""
        return None

    def _with_ranges(
        self, features: FeatureMap, found: tuple[LinearModelPlan, ...], privacy: PrivacyParams
    ) -> tuple[LinearModelPlan, ...]:
        """Return plans that find the ranges first, where some are left open, and look at the target's, if so."""
        listed = found if isinstance(found, Plans) else Plans(found)
        look = self._look_cost(features, privacy, found[0].problem.n) > 0
        if not self._open(features) + len(features.placed) + look:
            return listed
        # what a number is in proportion to is seldom a logarithm
        linear = features.linear if self._target_range() is None else features.unranged
        asked = features.unranged, linear, self._finds_target, features.n_knots, features.placed, look
        place = features.place if features.unranged or features.placed else None  # else these are the method's already
        return listed.changed(ranges.plan(each, privacy, *asked).through(place) for each in found)

    def _planned(
        self, features: FeatureMap, problem: LinearModelProblem, privacy: PrivacyParams, *how: Any
    ) -> tuple[LinearModelPlan, ...]:
        """Return the plans of a problem under a promise, of which ranges take a part."""
        return self._with_ranges(features, plans(problem, self._rest(features, privacy, problem.n), *how), privacy)
