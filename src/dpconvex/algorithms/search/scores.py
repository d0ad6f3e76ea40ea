"""Scores of fitted candidates on held-out records: means of losses that lie in a public range."""

from collections.abc import Callable
from typing import Any, ClassVar, Protocol, Self

import numpy as np

from dpconvex import _validate
from dpconvex._types import Array, Floats, final_dataclass
from dpconvex.algorithms import LinearModelPlan, stored
from dpconvex.mechanisms import GaussianMechanism, LaplaceMechanism
from dpconvex.privacy import Sensitivity, Unit
from dpconvex.problems import UserGroups
from dpconvex.problems.data.sources.rows import each_row
from dpconvex.problems.data.summation import exact_sum
from dpconvex.randomness import BitSource

BOUNDS = {"error_rate": 1.0, "log_loss": 2.0, "squared_error": 1.0, "absolute_error": 1.0, "pinball": 1.0}
"""Default bound at which the losses of each score are clipped.

Errors of regressors are in units of the target's public range, so no error is larger than 1.
"""


class Searchable(Protocol):
    """The interface that a search needs of models; private linear models have it, and document its members."""

    _own_score: ClassVar[str]  #: Name of the score that ``"auto"`` means.
    _scores: ClassVar[tuple[str, ...]]  #: Names of the scores that apply.

    def get_params(self, deep: bool = True) -> dict[str, Any]: ...
    def _target_range(self) -> Any: ...
    def _truth(self, X: Any, y: Any) -> Floats: ...
    def _losses(self, score: "Score", X: Any, truth: Floats) -> Floats: ...
    def _blind(self, by_row: bool = False) -> Self: ...
    def _fitted_as(self, plan: LinearModelPlan, X: Any, y: Any, labels: Array | None, source: BitSource) -> Self: ...


@stored
@final_dataclass
class Score:
    """A held-out loss."""

    name: str  #: Name of the score, a key of `BOUNDS`
    bound: float  #: Losses of single records are clipped into [0, bound]
    level: float = 0.5  #: Quantile of the pinball loss
    range: Any = None  #: Public range of a numeric target: it scales numbers to units of its width

    def sensitivity(self, count: int, unit: Unit) -> Sensitivity:
        """Return how far one unit moves the mean over `count` held-out units."""
        each = {"record": "one held-out record", "user": "one held-out user, whose records are averaged first"}[unit]
        value = self.bound / count * (1 + count * 2.0**-45 + 2.0**-50)  # sums err by 2^-46 of count * bound at most
        lemma = f"{each} moves the mean of {count:,} losses in [0, {self.bound:g}] by at most bound/n"
        return Sensitivity(value, "absolute", lemma, unit=unit)

    def mean(self, model: Searchable, X: Any, truth: Callable[[Any], Floats], groups: UserGroups | None) -> float:
        """Return minus the mean loss of a fitted model, so larger is better; every user counts once.

        `truth` is `Searchable._truth` of the model whose parameters are searched, so all candidates are scored on one
        scale. `groups` names the user of each record. The sum over records does not depend on their order.
        """
        blind = model._blind(by_row=True)  # a matrix product may move the last bits of others' scores

        def losses_of(part: Any) -> Floats:
            with np.errstate(all="ignore"):
                found = blind._losses(self, part, truth(part))
                return np.clip(np.nan_to_num(found, nan=self.bound, posinf=self.bound), 0.0, self.bound)

        losses = each_row(X, losses_of)
        if groups is None:
            return -exact_sum(losses) / len(losses)
        grouped = losses if groups.order is None else losses[groups.order]
        return -float((np.add.reduceat(grouped, groups.starts[:-1]) / groups.sizes).mean())

    def of_residuals(self, away: Floats) -> Floats:
        """Return the losses of residuals, target minus prediction."""
        if self.name == "squared_error":
            return away**2
        return np.abs(away) if self.name == "absolute_error" else np.maximum(self.level * away, (self.level - 1) * away)


def fit_label(k: int, count: int) -> str:
    """Return the ledger's name of the fit of candidate k, counted from 0."""
    return f"fit of candidate {k + 1} of {count}"


def plain(value: Any) -> Any:
    """Return a parameter's value as a JSON value, or as text if JSON has no such value."""
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value if value is None or isinstance(value, bool | int | float | str) else repr(value)


@stored
@final_dataclass
class Repeats:
    """Law of the number of runs, and noise of their scores."""

    shape: float
    gamma: float
    epsilon: float | None = None  #: Budget of Laplace noise on each score
    mu: float | None = None  #: Budget of Gaussian noise on each score

    def noise(self, sensitivity: Sensitivity) -> LaplaceMechanism | GaussianMechanism:
        """Return the noise for scores of that sensitivity."""
        if self.mu is not None:
            return GaussianMechanism.of_mu(sensitivity, self.mu, 1)
        assert self.epsilon is not None
        return LaplaceMechanism.calibrate(sensitivity, self.epsilon, 1)


def score_for(model: Searchable, scoring: str, bound: float | None) -> Score:
    """Return the score that a search's parameters mean for this kind of model."""
    name = _validate.choice("scoring", scoring, ("auto", *model._scores))
    name = model._own_score if name == "auto" else name
    largest = BOUNDS[name] if bound is None else _validate.real("score_bound", bound, above=0.0, at_most=1e6)
    level = _validate.real("quantile", model.get_params(deep=False).get("quantile", 0.5), above=0.0, below=1.0)
    return Score(name, largest, level, model._target_range())
