"""What is audited of searches: a handful of records, two settings, fits whose law is known in closed form."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpconvex._types import FloatArray
from dpconvex.algorithms.search.run import Part, run
from dpconvex.audit.neighbors import record_pairs
from dpconvex.audit.target import Builder, Subject, Use, targets
from dpconvex.estimators import PrivateLinearSVC, PrivateSearchCV
from dpconvex.privacy import PrivacyParams, Unit
from dpconvex.problems import Block, DataDomain
from dpconvex.randomness import BitSource

N = 6
"""Records, two of them held out: one of them moves a score far."""


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

        def searched(X: Any, y: Any, source: BitSource) -> FloatArray:
            chosen, model = run(plan, base, Part(X, y, None), source)
            return np.array([chosen, *np.ravel(model.coef_)])

        use = Use(plan.privacy, plan.algorithm, plan.releases, searched)
        return Subject(use, record_pairs(plan.whole[0].plan.problem), output=np.asarray)

    return build


TARGETS = targets(
    Unit.RECORD,
    {
        "private_search": ("pure", _search("composition")),
        "private_search/repeats": ("pure", _search("repeats")),
    },
)
