"""Nothing that a run computes with, but its data, depends on its data.

Every algorithm runs on two neighboring data sets with the same releases. Whatever a solver is told (the objective's
constants, the radius, the set, the solver's own parameters) and every mechanism that is used must be the same on both:
they come from the plan, or from what was released. All runs are seeded; no error probability.
"""

from __future__ import annotations

from unittest import mock

import pytest

from dpconvex.errors import UnsupportedEventError
from dpconvex.problems import LinearModelProblem
from dpconvex.solvers import Solver
from dpconvex_experiments.audit.auditor import priced_once
from dpconvex_experiments.audit.replay import coins, replayed
from dpconvex_experiments.audit.target import run_of
from dpconvex_experiments.audit.targets import TARGETS

NAMES = [name for name in TARGETS if not name.startswith("mechanism/")]


def told(solver, objective, radius, constraint=None, start=None):
    """Everything that a solver is told but the data."""
    constants = (
        objective.dim,
        objective.tilt,
        objective.weighted,
        objective.strong_convexity,
        objective.smoothness,
        objective.minimizer_norm,
        objective.initial_gap,
        objective.lipschitz_within(1.0),
    )
    return solver, constants, radius, constraint


def seen(target, pair):
    """What solvers were told, then mechanisms, on the first data set and on the second."""
    run, solve = run_of(target.plan), Solver.solve
    calls: list[list] = []

    def spy(self, *arguments, **options):
        calls[-1].append(told(self, *arguments, **options))
        return solve(self, *arguments, **options)

    def noted(*arguments):
        calls.append([])
        return run(*arguments)

    with mock.patch.object(Solver, "solve", spy), priced_once():
        try:
            steps = replayed(noted, pair.first, pair.second, (0, 0))
        except (
            UnsupportedEventError
        ):  # noise inside an objective, secret samples: there is one solve, before any release
            calls.clear()
            steps = ([], [])
            for data in (pair.first, pair.second):
                noted(*data, coins((0, 0)))
    return [calls[k] + [step.mechanism for step in steps[k]] for k in (0, 1)]


@pytest.mark.thin
@pytest.mark.parametrize("name", NAMES)
def test_constants_do_not_depend_on_the_data(name) -> None:
    target = TARGETS[name].subject(1.0, 0.05, 1.0)
    pairs = list(target.pairs.values())
    for pair in (pairs[0], pairs[len(pairs) // 2], pairs[-1]):
        first, second = seen(target, pair)
        assert first, "nothing was seen"
        assert first == second


def test_a_ridge_from_the_data_is_seen() -> None:
    """The planted mistake: each data set has its own weight."""
    objective = LinearModelProblem.objective

    def biased(self, X, y, l2, groups=None):
        return objective(self, X, y, l2 * (1.5 - float((y > 0).mean())), groups)

    target = TARGETS["output_perturbation"].subject(1.0, 0.05, 1.0)
    with mock.patch.object(LinearModelProblem, "objective", biased):
        first, second = seen(target, target.pairs["target turned, balanced others"])
    assert first != second
