"""What is audited of searches: a handful of records, two settings, fits whose law is known in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, final

import numpy as np

from dpconvex._types import FloatArray
from dpconvex.algorithms.search.plan import SearchPlan
from dpconvex.algorithms.search.run import Part, run
from dpconvex.audit.neighbors import record_pairs
from dpconvex.audit.target import Builder, Subject, targets
from dpconvex.estimators import PrivateLinearSVC, PrivateSearchCV
from dpconvex.privacy import PrivacyParams, Release, Unit
from dpconvex.problems import Block, DataDomain
from dpconvex.randomness import BitSource

N = 6
"""Records, two of them held out: one of them moves a score far."""


@final
@dataclass(frozen=True, eq=False)
class SearchUse:
    """One search as something to audit: a plan, and the estimator whose parameters it searches."""

    plan: SearchPlan
    base: PrivateLinearSVC

    @property
    def privacy(self) -> PrivacyParams:
        """That of the search."""
        return self.plan.privacy

    @property
    def algorithm(self) -> str:
        """Its name."""
        return self.plan.algorithm

    @property
    def releases(self) -> tuple[Release, ...]:
        """Those of the plan."""
        return self.plan.releases

    def run(self, X: Any, y: Any, source: BitSource) -> FloatArray:
        """Return the chosen position and the model's coefficients."""
        chosen, model = run(self.plan, self.base, Part(X, y, None), source)
        return np.array([chosen, *np.ravel(model.coef_)])


def _search(method: str, ratio: float = 9.0) -> Builder:
    """Two strengths of the ridge, `ratio` apart; output perturbation of a hinge loss in one dimension."""

    def build(privacy: PrivacyParams, bound: float) -> Subject:
        base = PrivateLinearSVC(
            privacy.epsilon,
            domain=DataDomain((Block(1, "linf", bound),)),
            classes=[-1.0, 1.0],
            fit_intercept=False,
            algorithm="output_perturbation",
            noise="l2",
        )
        grid = {"l2": [4 * bound**2, 4 * ratio * bound**2]}
        plan = PrivateSearchCV(base, grid, method=method, holdout=1 / 3).plan(N)[0]
        return Subject(SearchUse(plan, base), record_pairs(plan.whole[0].plan.problem), output=np.asarray)

    return build


TARGETS = targets(
    Unit.RECORD,
    {
        "private_search": ("pure", _search("composition")),
        "private_search/repeats": ("pure", _search("repeats")),
    },
)
