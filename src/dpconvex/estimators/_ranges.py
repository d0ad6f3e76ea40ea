"""Models whose fits find ranges privately, or look at declared ranges: costs, plans and results."""

import math
from abc import abstractmethod
from dataclasses import replace
from typing import Any

from dpconvex import _rounding
from dpconvex.algorithms import LinearModelPlan
from dpconvex.algorithms.erm.registry import Found, plans
from dpconvex.algorithms.erm.two_stage import ranges
from dpconvex.algorithms.erm.two_stage.constant import ConstantPlan
from dpconvex.algorithms.select import Plans
from dpconvex.data import Schema
from dpconvex.errors import BudgetExceededError, UnsupportedEventError
from dpconvex.estimators._features import FeatureMap, step_of
from dpconvex.losses import SquaredLoss
from dpconvex.privacy import PrivacyParams
from dpconvex.problems import LinearModelProblem, NumberRange
from dpconvex.problems.linear.expected_risk import ORDINARY

IN_MODEL_UNITS = ("l2", "coefficient_norm", "tilt", "adversarial_radius")
"""Parameters in units of encoded columns or of losses: if one is given, a fit does not look at declared ranges."""


class FindsRanges:
    """A model whose fits find the ranges of columns, and of the target, that are left open."""

    schema: Schema | None
    epsilon: float
    n_features_in_: int
    coef_: Any
    ranges_: tuple[NumberRange, ...] = ()
    """Ranges that a fit released: found ranges of columns in their order, the target's range, or the part of its
    declared range, and last the parts of the columns' declared ranges."""
    _looks: bool = True  #: Whether the caller allows looks, which privately narrow declared ranges; a search does not.
    _may_look: bool = False  #: Whether the parameters allow looks at declared ranges of columns and target.
    _looks_at_columns: bool = True  #: Whether such fits look at columns, too, not at the target alone.
    _numeric: bool = False  #: Whether the target is a number.
    _finds_target: bool = False  #: Whether the fit finds the target's range, too.
    _yes_or_no: bool = False  #: Whether the target's declared range joins two whole numbers, with no fine step.

    @property
    def _missing(self) -> float:
        """The code of a missing number in a fit: NaN if a look may have to tell it from the middle, else 0."""
        return math.nan if self._may_look and self._looks_at_columns else 0.0

    @property
    def _schema_target(self) -> Any:
        """The schema's target, unless another range of it is given apart; None without one."""
        return getattr(self.schema, "target", None) if getattr(self, "target_bounds", None) is None else None

    @property
    def _told(self) -> tuple[tuple[NumberRange, ...], tuple[NumberRange, ...]]:
        """The found ranges in `ranges_`, the target's included, and the parts of the columns' declared ranges."""
        features = self._feature_map(getattr(self, "n_features_in_", None))
        first = len(features.unranged) + (self._target_range() is not None)
        return self.ranges_[:first], self.ranges_[first:]

    @property
    def found_schema_(self) -> Schema | None:
        """The schema with the ranges that a fit found, which are public from then on; None without a schema."""
        if self.schema is None:
            return None
        (found, parts), names = self._told, [name for name, *_ in self._feature_map(None).divisible]
        made = self.schema.with_ranges(found).with_ranges(dict(zip(names, parts, strict=False)))
        return made if self.coef_.any() else replace(made, columns=self.schema.columns)  # a constant looks at no column

    @abstractmethod
    def _feature_map(self, n_features: int | None) -> FeatureMap:
        """Return the public map from a user's features to a domain."""

    def _fitted_map(self) -> FeatureMap:
        """Return the map to the features that the coefficients belong to."""
        return self._feature_map(self.n_features_in_).found(*self._told)

    def _open(self, features: FeatureMap) -> int:
        """Return the number of ranges that a fit finds."""
        return len(features.unranged) + self._finds_target

    def _found(self, features: FeatureMap, ran: LinearModelPlan) -> tuple[NumberRange, ...]:
        """Return the ranges that a run released, each in its column's unit."""
        return *self._released(features, ran), *self._target_part(ran), *features.parts(getattr(ran, "cells", ()))

    def _released(self, features: FeatureMap, ran: LinearModelPlan) -> tuple[NumberRange, ...]:
        """Return the ranges that a run found; if its answer is a constant, which uses no column, arbitrary ranges."""
        unused = len(features.unranged) * (not getattr(ran, "columns", ()))
        return (*(ranges.ranges.WHOLE,) * unused, *getattr(ran, "found", ()))

    def _target_part(self, ran: LinearModelPlan) -> tuple[NumberRange, ...]:
        """Return the part of the target's declared range that a run released, if there is one."""
        return ()

    def _beside(self, features: FeatureMap, privacy: PrivacyParams, n: int) -> PrivacyParams:
        """Return the promise that remains after open ranges are found."""
        open_, placed = len(features.unranged), len(features.placed)
        left = ranges.remaining(privacy.epsilon, n, open_, placed, self._finds_target, features.n_knots)
        return replace(privacy, epsilon=left).less(0.0) if open_ or placed or self._finds_target else privacy

    def _look_costs(self, features: FeatureMap, privacy: PrivacyParams, n: int) -> tuple[float, float]:
        """Return the epsilon of looks at the target's range and at the columns' declared ranges; 0 without a look."""
        if not self._may_look:
            return 0.0, 0.0
        epsilon, felt = self._beside(features, privacy, n).epsilon, ranges.weighing(n, privacy)
        kept = self._infers() or (self._yes_or_no and felt * epsilon < ranges.ENDS)
        target = self._numeric and not kept  # a clipped target is another thing to estimate
        each = ranges.looks_cost(epsilon, felt, len(features.lookable) * self._looks_at_columns)
        return ranges.look_cost(epsilon, felt) if target else 0.0, each

    def _expecting(self, problem: LinearModelProblem, share: float, look: bool) -> LinearModelProblem:
        """Return the problem with what is expected of targets at this share of the default norm, with a look or not."""
        residual = ORDINARY.residual_of_two if self._yes_or_no else ORDINARY.residual_in_part if look else None
        problem = replace(problem, explained=self._explained(share, look), residual=residual)
        each = problem.n * float(self.epsilon) / problem.domain.dim
        stated = problem.grouped or getattr(self, "coefficient_norm", None) is not None
        usual = stated or self._target_range() is not None or each <= ORDINARY.many[0]
        return problem if usual else replace(problem, surplus=2.0 ** sum(each > most for most in ORDINARY.many))

    def _infers(self) -> bool:
        """Return whether intervals are asked for."""
        return False

    def _explained(self, share: float, look: bool) -> float | None:
        """Return the expected variance of predictions at this share of the default norm; None if unknown."""
        return None

    def _rest(self, features: FeatureMap, privacy: PrivacyParams, n: int) -> PrivacyParams:
        """Return the promise that remains after open ranges are found and declared ranges looked at."""
        left = self._beside(features, privacy, n)
        looks = _rounding.sum_up(self._look_costs(features, privacy, n))
        return left.less(looks) if looks else left

    def _target_range(self) -> Any:
        """Return the public range of a numeric target; None for classes."""
        return None

    def _with_ranges(self, features: FeatureMap, found: Found, privacy: PrivacyParams) -> Found:
        """Return plans that first find open ranges and knots, and look at declared ranges, where that applies."""
        listed = found if isinstance(found, Plans) else Plans(found)
        n = found[0].problem.n
        look, looks = (cost > 0 for cost in self._look_costs(features, privacy, n))
        finds = self._open(features) + len(features.placed) + look + looks
        declared = self._may_look and self._numeric and not self._finds_target and (look or not self._yes_or_no)
        alone = ranges.look_cost(privacy.epsilon, n, True) if declared else 0.0  # for constants, which use no column
        # numeric targets are seldom proportional to the logarithm of a column
        linear = features.unranged if self._numeric else features.linear
        looked = features.lookable if looks else ()
        steps = (*(step for *_, step in features.divisible), step_of(self._schema_target))
        steps = steps if any(length >= 1 for _, length in steps) else ()  # shorter steps do not change the parts
        asked = features.unranged, linear, self._finds_target, features.n_knots, features.placed, look, looked, steps
        place = features.place if features.unranged or features.placed or looks else None  # else already encoded

        def ranged(each: Any) -> LinearModelPlan:
            if not isinstance(each, ConstantPlan):  # a plan that finds users' numbers of records may turn into one
                return ranges.plan(each, privacy, *asked).through(place) if finds else each
            if self._finds_target:
                own = ranges.remaining(privacy.epsilon, n, 0, target=True)
            elif look or (alone and isinstance(each.problem.loss.usual.unweighted, SquaredLoss)):
                own = _rounding.difference_down(privacy.epsilon, alone)
            else:
                return each.at(privacy)  # a constant uses no column, so it keeps the whole promise
            each = each.at(replace(each.privacy, epsilon=own))
            finds_it = self._finds_target
            return ranges.plan(each, privacy, (), target=finds_it, look=not finds_it, steps=steps[-1:])

        if self._loses_target(features, n):
            found = tuple(sorted(found, key=lambda each: each.algorithm != "constant"))
        kept, first = list[LinearModelPlan](), None
        for each in found:
            try:
                kept.append(ranged(each))
            except (BudgetExceededError, UnsupportedEventError) as error:  # it costs more beside looks
                first = first or error
        if first is not None and not kept:
            raise first
        return listed.changed(kept)

    def _loses_target(self, features: FeatureMap, n: int) -> bool:
        """Return whether the target's range would be lost in noise beside those of columns, but not alone."""
        return self._finds_target and ranges.lost(float(self.epsilon), n, self._open(features))

    def _planned(self, features: FeatureMap, problem: LinearModelProblem, privacy: PrivacyParams, *how: Any) -> Found:
        """Return the plans of a problem under a promise, part of which pays for ranges."""
        return self._with_ranges(features, plans(problem, self._rest(features, privacy, problem.n), *how), privacy)
