"""What models that find ranges share: how much that costs, what is planned before it, and what it found."""

import math
from abc import abstractmethod
from dataclasses import replace
from typing import Any

from dpconvex import _rounding
from dpconvex.algorithms import LinearModelPlan
from dpconvex.algorithms.erm.registry import Found, plans
from dpconvex.algorithms.erm.two_stage import ranges
from dpconvex.algorithms.select import Plans
from dpconvex.data import Schema
from dpconvex.estimators._features import FeatureMap, step_of
from dpconvex.losses import SquaredLoss
from dpconvex.privacy import PrivacyParams
from dpconvex.problems import LinearModelProblem, NumberRange
from dpconvex.problems.linear.expected_risk import ORDINARY

IN_UNITS = ("l2", "coefficient_norm", "tilt", "adversarial_radius")
"""Parameters in units of encoded columns, or of losses: where one is given, no declared range is looked at."""


class FindsRanges:
    """A model whose fits find the ranges of columns, and of the target, that are left open."""

    schema: Schema | None
    epsilon: float
    n_features_in_: int
    coef_: Any
    ranges_: tuple[NumberRange, ...] = ()
    """Ranges that a fit found, of the columns in their order, then of the target, or the part of its declared range;
    then the parts of the columns' declared ranges."""
    _looks: bool = True  #: Whether a caller lets fits look at declared ranges: not a search
    _may_look: bool = False  #: Whether parameters let them look at ranges of columns, and at a target's
    _finds_target: bool = False  #: Whether the target's range is to be found, too

    @property
    def _missing(self) -> float:
        """What a fit encodes where a number is missing: NaN if a look may have to tell it from a middle."""
        return math.nan if self._may_look else 0.0

    @property
    def _told(self) -> tuple[tuple[NumberRange, ...], tuple[NumberRange, ...]]:
        """Of `ranges_` those that were found, the target's included, and the parts of the columns' declared ones."""
        features = self._feature_map(getattr(self, "n_features_in_", None))
        first = len(features.unranged) + (self._target_range() is not None)
        return self.ranges_[:first], self.ranges_[first:]

    @property
    def found_schema_(self) -> Schema | None:
        """The schema with the ranges that a fit found: all of them public from then on. None without a schema."""
        if self.schema is None:
            return None
        (found, parts), names = self._told, [name for name, *_ in self._feature_map(None).divisible]
        made = self.schema.with_ranges(found).with_ranges(dict(zip(names, parts, strict=False)))
        return made if self.coef_.any() else replace(made, columns=self.schema.columns)  # a constant looks at no column

    @abstractmethod
    def _feature_map(self, n_features: int | None) -> FeatureMap:
        """Return the public map from a user's features to a domain."""

    def _fitted_map(self) -> FeatureMap:
        """Return the map that coefficients are for."""
        return self._feature_map(self.n_features_in_).found(*self._told)

    def _open(self, features: FeatureMap) -> int:
        """Return how many ranges a fit is to find."""
        return len(features.unranged) + self._finds_target

    def _found(self, features: FeatureMap, ran: LinearModelPlan) -> tuple[NumberRange, ...]:
        """Return the ranges that a run released, in the unit of each."""
        return *self._released(features, ran), *self._target_part(ran), *features.parts(getattr(ran, "cells", ()))

    def _released(self, features: FeatureMap, ran: LinearModelPlan) -> tuple[NumberRange, ...]:
        """Return the ranges that a run found; any will do for columns that its answer, a constant, does not use."""
        unused = len(features.unranged) * (ran.algorithm == "constant")
        return (*(ranges.ranges.WHOLE,) * unused, *getattr(ran, "found", ()))

    def _target_part(self, ran: LinearModelPlan) -> tuple[NumberRange, ...]:
        """Return the part of the target's declared range that a run released, if there is one."""
        return ()

    def _beside(self, features: FeatureMap, privacy: PrivacyParams, n: int) -> PrivacyParams:
        """Return what finding ranges that are left open leaves of a promise."""
        open_, placed = len(features.unranged), len(features.placed)
        left = ranges.remaining(privacy.epsilon, n, open_, placed, self._finds_target, features.n_knots)
        return replace(privacy, epsilon=left)

    def _look_costs(self, features: FeatureMap, privacy: PrivacyParams, n: int) -> tuple[float, float]:
        """Return what looks at the target's and the columns' declared ranges take of epsilon; 0 where none is taken."""
        if not self._may_look:
            return 0.0, 0.0
        epsilon, target = self._beside(features, privacy, n).epsilon, self._target_range() is not None
        felt = ranges.weighing(n, privacy)
        each = ranges.looks_cost(epsilon, felt, len(features.lookable))
        return target * ranges.look_cost(epsilon, felt), each

    def _expecting(self, problem: LinearModelProblem, share: float, look: bool) -> LinearModelProblem:
        """Return what is expected of targets, at that share of the default norm, perhaps in a part of a range."""
        residual = ORDINARY.residual_in_part if look else None
        return replace(problem, explained=self._explained(share, look), residual=residual)

    def _explained(self, share: float, look: bool) -> float | None:
        """Return the variance of predictions to expect there."""
        return None

    def _rest(self, features: FeatureMap, privacy: PrivacyParams, n: int) -> PrivacyParams:
        """Return what finding ranges, and looks at declared ones, leave of a promise."""
        left = self._beside(features, privacy, n)
        looks = _rounding.sum_up(self._look_costs(features, privacy, n))
        return replace(left, epsilon=_rounding.difference_down(left.epsilon, looks))

    def _target_range(self) -> Any:
        """Return the public range of a numeric target; None for classes."""
        return None

    def _with_ranges(self, features: FeatureMap, found: Found, privacy: PrivacyParams) -> Found:
        """Return plans that find the ranges first, where some are left open, and look at the target's, if so."""
        listed = found if isinstance(found, Plans) else Plans(found)
        n = found[0].problem.n
        look, looks = (cost > 0 for cost in self._look_costs(features, privacy, n))
        finds = self._open(features) + len(features.placed) + look + looks
        declared = self._may_look and self._target_range() is not None and not self._finds_target
        alone = ranges.look_cost(privacy.epsilon, n, True) if declared else 0.0  # before a mean, which uses no columns
        # what a number is in proportion to is seldom a logarithm
        linear = features.linear if self._target_range() is None else features.unranged
        looked = features.lookable if looks else ()
        target = getattr(self.schema, "target", None) if getattr(self, "target_bounds", None) is None else None
        steps = (*(step for *_, step in features.divisible), step_of(target))
        steps = steps if any(length >= 1 for _, length in steps) else ()  # others leave parts as they are
        asked = features.unranged, linear, self._finds_target, features.n_knots, features.placed, look, looked, steps
        place = features.place if features.unranged or features.placed or looks else None  # else the method's already

        def ranged(each: Any) -> LinearModelPlan:
            if each.algorithm != "constant":
                return ranges.plan(each, privacy, *asked).through(place) if finds else each
            if self._finds_target:
                own = ranges.remaining(privacy.epsilon, n, 0, target=True)
            elif look or (alone and isinstance(each.problem.loss.usual.unweighted, SquaredLoss)):
                own = _rounding.difference_down(privacy.epsilon, alone)
            else:
                return each.at(privacy)  # of which it is left all: it uses no column
            each = each.at(replace(each.privacy, epsilon=own))
            finds_it = self._finds_target
            return ranges.plan(each, privacy, (), target=finds_it, look=not finds_it, steps=steps[-1:])

        if self._loses_target(features, n):
            found = tuple(sorted(found, key=lambda each: each.algorithm != "constant"))
        return listed.changed(map(ranged, found))

    def _loses_target(self, features: FeatureMap, n: int) -> bool:
        """Return whether the target's range would be lost in noise beside those of columns, but not alone."""
        return self._finds_target and ranges.lost(float(self.epsilon), n, self._open(features))

    def _planned(self, features: FeatureMap, problem: LinearModelProblem, privacy: PrivacyParams, *how: Any) -> Found:
        """Return the plans of a problem under a promise, of which ranges take a part."""
        return self._with_ranges(features, plans(problem, self._rest(features, privacy, problem.n), *how), privacy)
