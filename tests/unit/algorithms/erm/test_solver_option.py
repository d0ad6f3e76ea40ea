"""``solver=``: every certified method may be asked for, and none can fail on some data set."""

from __future__ import annotations

import numpy as np
import pytest

from dpconvex import DataDomain, PrivateLogisticRegression, verify
from dpconvex.algorithms.erm.output_perturbation import plan
from dpconvex.algorithms.select import Options
from dpconvex.errors import InvalidParameterError
from dpconvex.losses import HingeLoss, LinearModelLoss, LogisticLoss
from dpconvex.privacy import PrivacyParams, Unit
from dpconvex.problems import LinearModelProblem
from dpconvex.randomness import SeededSource
from dpconvex.solvers import NAMED_SOLVERS, default_solver

N = 60
ONE = PrivacyParams(1.0)
SMOOTH = ("newton_cholesky", "ball_newton", "lbfgs", "accelerated_gradient", "katyusha")
KINKS = ("dual_coordinate_ascent", "smoothed_accelerated_gradient", "smoothed_newton")
BOTH = ("subgradient", "stochastic_subgradient", "cutting_plane")


def problem(loss: LinearModelLoss, tilt: float = 0.0, users: int | None = None) -> LinearModelProblem:
    return LinearModelProblem(loss, DataDomain.l2_ball(3, 1.0), N, 1.0, tilt, records_per_user=users)


def test_every_solver_treats_some_problem() -> None:
    assert {*SMOOTH, *KINKS, *BOTH, "extra_gradient"} == set(NAMED_SOLVERS)  # the last: training under attack


@pytest.mark.parametrize("name", [*SMOOTH, *KINKS, *BOTH])
def test_asked_for_and_never_without_a_last_resort(name: str) -> None:
    for loss, others in ((LogisticLoss(), KINKS), (HingeLoss(), SMOOTH)):
        if name in others:
            with pytest.raises(InvalidParameterError, match=f"solver='{name}': does not solve this problem"):
                plan(problem(loss), ONE, solver=name)
            continue
        (found,) = plan(problem(loss), ONE, solver=name, constants="paper", l2=0.1)
        (usual,) = plan(problem(loss), ONE, constants="paper", l2=0.1)
        assert found.solver.last == usual.solver.last  # it can be reached by every data set
        assert found.public["solver"] == name
        assert "solver" not in usual.public
        assert found.schedule == usual.schedule
        assert found.releases == usual.releases


@pytest.mark.parametrize("content", ["separable", "zeros", "one point", "huge"])
def test_every_data_set_is_certified(content: str) -> None:
    rng = np.random.default_rng(1)
    X = {
        "separable": np.outer(np.where(np.arange(N) % 2, 1.0, -1.0), [1.0, 0.0, 0.0]),
        "zeros": np.zeros((N, 3)),
        "one point": np.ones((N, 3)),
        "huge": rng.standard_normal((N, 3)) * 1e300,
    }[content]
    y = np.where(np.arange(N) % 2, 1.0, -1.0)
    exact: dict[type, list[tuple[np.ndarray, float]]] = {}
    for loss, names in ((LogisticLoss(), SMOOTH + BOTH), (HingeLoss(), KINKS + BOTH)):
        for name in names:
            (found,) = plan(problem(loss), ONE, solver=name, constants="paper", l2=0.1)
            point = found.run(X, y, SeededSource(0)).point  # the same noise
            exact.setdefault(type(loss), []).append((point, found.solver_radius))
        first = exact[type(loss)][0][0]
        assert all(np.linalg.norm(point - first) <= 2 * radius * (1 + 1e-9) for point, radius in exact[type(loss)])


def test_what_it_cannot_treat_is_refused_from_public_facts() -> None:
    for refused, name in (
        (problem(LogisticLoss(), tilt=0.5), "katyusha"),
        (problem(LogisticLoss(), users=2), "katyusha"),
    ):
        privacy = PrivacyParams(1.0, unit=Unit.USER) if refused.grouped else ONE
        with pytest.raises(InvalidParameterError, match=f"solver='{name}'"):
            plan(refused, privacy, solver=name)
    with pytest.raises(InvalidParameterError, match="solver='nope': must be one of"):
        plan(problem(LogisticLoss()), ONE, solver="nope")


def test_estimators_hand_it_on() -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-0.5, 0.5, (2000, 3))
    y = X[:, 0] > 0
    model = PrivateLogisticRegression(epsilon=2.0, feature_norm=1.0, solver="lbfgs", random_state=0).fit(X, y)
    assert model.plan_.algorithm == "output_perturbation"
    assert model.plan_.public["solver"] == "lbfgs"
    assert model.slope_cap_ < 1  # a surrogate that the solver can treat is still taken
    assert verify(model.certificate_).planned
    with pytest.raises(InvalidParameterError, match="solver='lbfgs': is not available for algorithm='noisy_gradient'"):
        PrivateLogisticRegression(feature_norm=1.0, algorithm="noisy_gradient", solver="lbfgs").plan(N, 3)
    with pytest.raises(InvalidParameterError, match="user_test='threshold': is for users"):
        PrivateLogisticRegression(feature_norm=1.0, user_test="threshold").plan(N, 3)
    (found, *_) = PrivateLogisticRegression(8.0, 1e-6, feature_norm=1.0, user_test="threshold").plan(N, 3, unit="user")
    assert found.algorithm == "accelerated_user"
    assert Options(solver="lbfgs").fixed() == {"solver": "lbfgs"}
    assert default_solver(LogisticLoss()).last != default_solver(LogisticLoss())
