"""Private runs over Lipschitz extensions and sets: planes, sensitivity, planned rounding, fixed steps, refusals."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from dpconvex.algorithms.erm.heavy_tailed import Moments, plan
from dpconvex.algorithms.erm.heavy_tailed.schedule import sensitivity
from dpconvex.algorithms.erm.heavy_tailed.surrogates import SURROGATES, surrogate_named
from dpconvex.errors import InvalidParameterError
from dpconvex.losses import AbsoluteLoss, HingeLoss, HuberLoss, LogisticLoss, PinballLoss, SquaredLoss
from dpconvex.privacy import PrivacyParams, verify
from dpconvex.problems import DataDomain, LinearModelProblem, Records
from dpconvex.problems.linear.lipschitz_extension import Pieces, lipschitz_extension
from dpconvex.problems.linear.truncated import ExtensionRisk, RecordCap, extension_rounding, profiles
from dpconvex.randomness import SeededSource, SystemSource
from dpconvex.sets import Box, Ellipsoid, L1Ball, L2Ball, Polytope, Section, Simplex
from dpconvex_experiments.reference.extensions import (
    FixedSteps,
    Joint,
    biased_subgradient,
    ridge_subgradient,
    ridge_subgradient_steps,
)
from max_affine import MaxAffine, max_affine_extension

SQUARE = Polytope([[1, 0], [0, 1], [-1, 0], [0, -1], [1, 1]], [0.5, 1, 1, 0.5, 1])
SETS = {
    "ball": L2Ball(1.0, dim=2),
    "box": Box(-0.5, 1.0, dim=2),
    "ellipsoid": Ellipsoid([[0.6, 0.3], [0.3, 0.5]]),
    "polytope": SQUARE,
    "l1": L1Ball(1.0, dim=2),
}
LOSSES = (AbsoluteLoss(1e3), HuberLoss(0.5, 1e3), LogisticLoss(), SquaredLoss(50.0, prediction_bound=50.0))
STEEP = 200.0


def adversaries(loss, n: int, seed: int, radius: float, steep: float = STEEP) -> tuple[np.ndarray, np.ndarray]:
    """Records at the cap: of the largest gradient norm, kinks near the middle and the border of the set, tiny ones."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    X *= (steep * 10.0 ** -rng.integers(0, 6, n) / np.linalg.norm(X, axis=1))[:, None] * (1 - 1e-9)
    y = np.linalg.norm(X, axis=1) * rng.choice([-1.0, 1.0, 0.0, 0.3, -1e-7], n) * radius
    return X, loss.clip_targets(np.sign(y) if loss.task == "classification" else y)


@pytest.mark.thin
@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.dear("absolute-polytope")
def test_t33_planes_never_exceed_the_extension_at_another_member(name, loss) -> None:
    """T33: Lemma 6, on records at the cap; slopes are at most C and values are below brute force."""
    domain, level, cap = SETS[name], 1.3, RecordCap(1e9)
    X, y = adversaries(loss, 12, 0, domain.radius)
    some, rng = profiles(loss, X, y, domain.radius, cap), np.random.default_rng(1)
    cloud = np.array([domain.project(2 * v) for v in rng.standard_normal((300, 2))])
    uppers = [(u, lipschitz_extension(some, u, level, domain, 1e-9).upper) for u in cloud[3:6]]
    for w in cloud[:3]:
        found = lipschitz_extension(some, w, level, domain, 1e-9)
        assert np.linalg.norm(found.slopes, axis=1).max() <= level * (1 + 1e-12)
        rounding = 1e-12 * STEEP * (1 + np.abs(y).max())
        for u, upper in uppers:
            assert np.all(found.lower + found.slopes @ (u - w) <= upper + rounding)
        brute = np.min([some.values(v) + level * np.linalg.norm(w - v) for v in cloud], axis=0)
        assert np.all(found.lower <= brute + rounding)


@pytest.mark.thin
@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.dear("absolute-polytope", "logistic-ellipsoid", "squared-polytope")
def test_t35_no_record_under_the_cap_leaves_a_bracket_above_what_was_planned(name, loss) -> None:
    """T35: tolerance plus the public rounding, whatever the record; members at the border, in the middle, anywhere."""
    domain, level = SETS[name], 0.7
    X, y = adversaries(loss, 60, 2, domain.radius)
    cap = RecordCap(1e5, 1e6)
    rounding = extension_rounding(loss, level, 1.0, cap, domain, 2)
    some, rng = profiles(loss, X, y, domain.radius, cap), np.random.default_rng(3)
    for w in (domain.project(9 * rng.standard_normal(2)), domain.project(np.zeros(2)), 1e-9 * X[0] / STEEP):
        found = lipschitz_extension(some, domain.project(w), level, domain, 1e-7)
        assert np.max(found.upper - found.lower) <= 1e-7 + rounding


def test_records_beyond_the_cap_count_as_nothing_each_by_itself() -> None:
    X, y = np.array([[1.0, 0.0], [1e6, 0.0], [np.inf, 0.0]]), np.array([3.0, 1.0, 1.0])
    for loss in LOSSES[:2]:
        some = profiles(loss, X, y, 1.0, RecordCap(100.0, 1e3))
        assert np.array_equal(some.slopes != 0, [[True, False], [False, False], [False, False]])
        assert np.isfinite(some.values(np.array([0.3, 0.2]))).all()


def problem(loss, n: int = 30, radius: float = 1.0, cap: float = 50.0) -> LinearModelProblem:
    return LinearModelProblem(loss, DataDomain.l2_ball(2, cap), n, radius)


def planned(surrogate: str, loss=None, constraint=None, n: int = 30, epsilon: float = 8.0, **options):
    radius = 1.0 if constraint is None else constraint.radius
    loss = AbsoluteLoss(1e3) if loss is None else loss
    public = problem(loss, n, radius)
    return plan(
        public, PrivacyParams(epsilon), Moments(2.0, 2.0), surrogate=surrogate, constraint=constraint, **options
    )


SIZES = {"joint": 3, "printed_steps": 2, "fixed_steps": 4}
QUICK = [(s, n) for s in ("truncated", "extension") for n in (None, *SETS)] + [
    ("structured", "box"), ("joint", None), ("joint", "box"), ("fixed_steps", "polytope"),
    ("printed_steps", "ellipsoid"),
]  # fmt: skip


def at_the_cap(found, rng, m: int) -> tuple[np.ndarray, np.ndarray]:
    X = rng.standard_normal((m, 2))
    X *= (10.0 ** rng.uniform(-1, 1.6, m) / np.linalg.norm(X, axis=1))[:, None]
    return X, 30 * rng.standard_normal(m)


@pytest.mark.thin
@pytest.mark.parametrize(("surrogate", "name"), QUICK)
@pytest.mark.dear("fixed_steps-polytope")
def test_t34_points_of_neighbors_are_within_the_planned_sensitivity(monkeypatch, surrogate, name) -> None:
    """T34: every surrogate over every set, one record of two opposite extremes."""
    for kind, most in ((FixedSteps, 1.2e3), (Joint, 1e6)):
        monkeypatch.setattr(kind, "most", most)
    constraint = None if name is None else SETS[name]
    n = SIZES.get(surrogate, 8)
    found = planned(surrogate, constraint=constraint, n=n, epsilon=60.0 if n < 4 else 8.0)
    phase, rng = found.phases[0], np.random.default_rng(0)
    radius, part, start = phase.stages[0].radius, found.part(phase), found.domain.project(np.zeros(2))
    reach = sensitivity(phase.truncation.level, phase.l2, phase.m, radius)
    assert found.noises[0][0].scale >= reach / found.privacy.epsilon
    X, y = 1e-3 * rng.standard_normal((phase.m, 2)), np.zeros(phase.m)
    if surrogate in ("truncated", "extension"):
        X, y = at_the_cap(found, rng, phase.m)
    points = []
    for direction in (np.array([40.0, 1.0]), np.array([-40.0, 1.0])):
        X[0], y[0] = direction, 1e3
        records = Records.clipped(X.copy(), found.problem.domain)
        near = (found.domain, radius, start)
        points.append(found.method.minimize(part, (records, y.copy()), start, near))
        assert found.domain.contains(points[-1], 1e-9)
    worst = float(np.linalg.norm(points[0] - points[1]))
    assert worst <= reach


@pytest.mark.gate
def test_the_minimizers_of_all_ways_agree() -> None:
    """The extension's ridge risk has one minimizer; five ways, three of which share no code, come within their tau."""
    points = {}
    X, y = np.array([[3.0, 1.0], [-0.5, 0.2], [0.1, -2.0]]), np.array([1.0, 0.3, -0.4])
    for name in ("extension", "structured", "fixed_steps", "joint", "printed_steps"):
        found = planned(name, n=3, epsilon=60.0)
        phase = replace(found.phases[0], l2=2.0, truncation=replace(found.phases[0].truncation, level=1.0))
        part, start = found.part(phase), np.zeros(2)
        data = (Records.clipped(X, found.problem.domain), y)
        tau = {"joint": 0.7, "printed_steps": 1.2, "fixed_steps": 0.3}.get(name, 0.02)
        points[name] = (found.method.minimize(part, data, start, (found.domain, tau, start)), tau)
    exact, slack = points["extension"]
    for name, (point, tau) in points.items():
        assert np.linalg.norm(point - exact) <= tau + slack, name


@pytest.mark.slow  # seconds each; steps grow with the inverse fourth power of tau
@pytest.mark.parametrize("bias", [0.0, 1.0])
def test_t39_fixed_steps_meet_their_gap_with_the_worst_bias(bias) -> None:
    """T39: ``C |x - a| + l2/2 x^2`` with subgradients off by the whole bias B = alpha / 4, chosen against us."""
    C, l2, tau, rng = 1.0, 0.7, 0.45, np.random.default_rng(0)
    alpha = l2 / 2 * tau**2
    B = alpha / 4
    for _ in range(2):
        a = rng.uniform(-1, 1)

        def value(x, a=a):
            return C * abs(x) + C * abs(x - a) / 2 + l2 / 2 * x**2

        def slope(w, a=a):
            x = float(w[0])
            away = bias * B / 2 / C  # a subgradient from up to B / (2 C) away is a B-subgradient here
            place = x + rng.choice([-away, away])
            return np.array([C * np.sign(place) + C / 2 * np.sign(place - a) + l2 * x])

        grid = np.linspace(-1, 1, 20001)
        least = min(value(x) for x in grid)

        def project(w, _=0.0):
            return np.clip(w, -1.0, 1.0)

        steps = ridge_subgradient_steps(3 * C, l2, alpha)
        strong = ridge_subgradient(slope, project, np.zeros(1), l2, steps)
        assert value(float(strong[0])) - least <= alpha
        literal = biased_subgradient(slope, project, np.zeros(1), 2.0, alpha, 3 * C)
        assert value(float(literal[0])) - least <= alpha


def test_printed_step_counts_of_theorem_d4() -> None:
    """``1024 m^4`` and ``64/3 (m/kappa)^2`` at ``tau = kappa C / (lambda m)``, D = 2C/lambda (section 8.4)."""
    found = planned("fixed_steps", n=4)
    phase = replace(found.phases[0], l2=1e3)
    part = found.part(phase)
    unit = part.level / (part.l2 * part.m)
    assert surrogate_named("printed_steps").steps(part, unit) == pytest.approx(1024 * part.m**4, rel=1e-3)
    assert surrogate_named("fixed_steps").steps(part, unit / 2) == pytest.approx(64 / 3 * (2 * part.m) ** 2, rel=1e-3)


def test_plans_that_take_too_long_are_refused_on_public_numbers() -> None:
    for name in ("joint", "printed_steps", "fixed_steps"):
        with pytest.raises(InvalidParameterError, match="passes for parts of"):
            planned(name, n=5000)
    with pytest.raises(InvalidParameterError, match="piecewise linear"):
        planned("structured", HuberLoss(1.0, 10.0))
    with pytest.raises(InvalidParameterError, match="must be one of"):
        planned("extended")


@pytest.mark.parametrize("loss", LOSSES[:3], ids=lambda loss: loss.name)
def test_planned_radii_leave_room_for_tolerance_and_rounding(loss) -> None:
    """``4 B <= alpha`` for every phase, or a data set could end without a certificate; wide records, many of them."""
    public = LinearModelProblem(loss, DataDomain.l2_ball(2, 1e6), 10**6, 1.0)
    found = plan(public, PrivacyParams(1.0), Moments(2.0, 5.0), surrogate="extension")
    binding = 0
    for phase in found.phases:
        part, tau = found.part(phase), phase.stages[0].radius
        data = (Records.clipped(np.zeros((1, 2)), public.domain), np.zeros(1))
        risk = found.method.risk(part, data, np.zeros(2), tau)
        assert 8 * risk.oracle_error <= part.l2 / 2 * tau**2 * (1 + 1e-9)
        binding += tau > 0.051 * part.level / (part.l2 * part.m)
    assert binding


@pytest.mark.parametrize("content", ["nan", "inf", "huge", "equal", "zero"])
@pytest.mark.parametrize("surrogate", ["extension", "truncated"])
def test_no_content_raises_or_warns(surrogate, content) -> None:
    X, y = np.ones((30, 2)), np.ones(30)
    X[::3] = {"nan": np.nan, "inf": np.inf, "huge": 1e308, "equal": 1.0, "zero": 0.0}[content]
    y[::2] = {"nan": np.nan, "inf": -np.inf, "huge": -1e308, "equal": 1.0, "zero": 0.0}[content]
    found = planned(surrogate, HuberLoss(1.0, 1e3), SETS["box"])
    assert SETS["box"].contains(found.run(X, y, SeededSource(0)).point, 1e-6)


@pytest.mark.gate
def test_runs_stay_in_their_set_and_can_be_verified() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.standard_t(2.5, (150, 2)), rng.standard_t(3, 150)
    for constraint in (Box(0.2, 0.8, dim=2), Simplex(2), SQUARE):
        found = planned("truncated", constraint=constraint, n=150)
        result = found.run(X, y, SystemSource())
        assert constraint.contains(result.point, 1e-6)
        assert verify(result.certificate).passed
    public = planned("extension", constraint=SETS["box"]).describe()
    assert public["surrogate"] == "extension"
    assert "Box" in public["constraint"]


@pytest.mark.gate
def test_the_printed_constants_confine_the_second_stage_within_the_set() -> None:
    found = planned("truncated", HuberLoss(1.0, 1e3), SETS["box"], n=480, constants="paper")
    near = found.near(np.array([0.9, 0.9]), replace(found.phases[0].stages[0], confine=0.1))
    assert isinstance(near, Section)
    rng = np.random.default_rng(0)
    result = found.run(rng.standard_normal((480, 2)), rng.standard_normal(480), SeededSource(0))
    assert SETS["box"].contains(result.point, 1e-6)


def test_the_second_stage_is_around_the_release_and_not_around_the_data(monkeypatch) -> None:
    found = planned("truncated", HuberLoss(1.0, 1e3), SETS["box"], n=480, epsilon=1e3, constants="paper")
    solved, centers = [], []
    minimize, near = type(found.method).minimize, type(found).near
    monkeypatch.setattr(type(found.method), "minimize", lambda *given: solved.append(minimize(*given)) or solved[-1])
    monkeypatch.setattr(type(found), "near", lambda *given: centers.append(given[1]) or near(*given))
    rng = np.random.default_rng(0)
    X = rng.standard_normal((480, 2))
    found.run(X, X @ [0.4, 0.2], SeededSource(0))
    assert len(centers) == len(solved)  # both stages of every part
    assert not any(np.array_equal(a, b) for a in solved for b in centers)


def test_sets_that_do_not_fit_are_refused() -> None:
    for constraint in (Box(0.0, 1.0, dim=3), Box(1.0, 1.0, dim=2)):
        with pytest.raises(InvalidParameterError, match="constraint"):
            planned("truncated", constraint=constraint)
    with pytest.raises(InvalidParameterError, match="radius"):
        plan(problem(HuberLoss(), radius=0.5), PrivacyParams(1.0), Moments(2.0, 2.0), constraint=SETS["box"])


@pytest.mark.gate
def test_weak_duality_bounds_the_model_on_a_section_without_any_accuracy() -> None:
    """8.2: below every member's value, and nearly attained, though projections onto the section are inexact."""
    section, rng = Section(SQUARE, 0.4, [0.4, 0.3]), np.random.default_rng(0)
    members = np.array([section.project(2 * v) for v in rng.standard_normal((100, 2))])
    for _ in range(30):
        g, weight = 10.0 ** rng.uniform(-2, 2) * rng.standard_normal(2), 10.0 ** rng.uniform(-2, 2)
        least, u = section.ridge_minimum(g, weight)
        values = members @ g + weight / 2 * np.square(members).sum(1)
        assert least <= values.min() + 1e-12
        assert weight / 2 * u @ u + g @ u <= least + 1e-9 * (1 + np.abs(g).max() + weight)


@pytest.mark.gate
def test_weights_of_pieces_and_bisection_bracket_the_same_values() -> None:
    X, y = adversaries(AbsoluteLoss(1e3), 10, 4, 1.0)
    some = profiles(AbsoluteLoss(1e3), X, y, 1.0, RecordCap(1e9))
    w = np.array([0.3, 0.4])
    found = lipschitz_extension(some, w, 1.0, L2Ball(1.0), 1e-6)
    assert isinstance(some, Pieces)
    for i, ends in enumerate(np.stack([some.lower, some.upper], axis=1)):
        f = MaxAffine(ends[:, None] * some.slopes[i], ends * some.offsets[i])
        exact = max_affine_extension(f, w, 1.0, L2Ball(1.0), 1e-6)
        assert found.lower[i] <= exact.upper
        assert exact.lower <= found.upper[i]
        assert found.upper[i] - found.lower[i] <= 2e-6


def test_an_extension_beats_no_truncation_on_the_ball_but_bias_is_doubled() -> None:
    """``f_C <= f``, equal where A <= C; the planned bias is that of ``2 A 1(A > C)``."""
    moments = Moments(2.0, 1.0)
    assert SURROGATES["extension"].bias(moments, 4.0) == (2 * moments.tail(4.0), 4 * moments.tail_square(4.0))
    X = np.array([[0.5, 0.2], [5.0, 0.0]])
    risk = ExtensionRisk(
        HingeLoss(), Records.clipped(X, DataDomain.l2_ball(2, 10.0)), np.ones(2), 1.0, 1.0, L2Ball(1.0), 1e-9
    )
    w = np.array([-0.3, 0.4])
    found, plain = risk.extension(w), risk.pieces.values(w)
    assert found.upper[0] == pytest.approx(plain[0], abs=1e-9)
    assert found.upper[1] < plain[1]
    assert math.isfinite(risk.oracle_error)


@pytest.mark.parametrize("loss", [PinballLoss(0.2, 1e3)], ids=repr)
def test_far_kinks_move_to_the_border_and_change_values_by_a_constant(loss) -> None:
    X, y = np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([900.0, 1.5])
    some, (u, v) = profiles(loss, X, y, 1.0, RecordCap(1e9)), (np.array([0.2, 0.0]), np.array([-0.9, 0.3]))
    assert some.values(u) - some.values(v) == pytest.approx(loss.value(X @ u, y) - loss.value(X @ v, y), abs=1e-12)
    assert np.abs(some.offsets).max() <= 1.0


@pytest.mark.parametrize("dim", [1, 10, 100])
def test_cutting_planes_never_stall_without_a_certificate(dim) -> None:
    """They stall at a gap of ``2 (2 B + 1e-14 size)``; with ``B = alpha/16`` that is below alpha where rounding is."""
    for scale in (1e-20, 1e-3, 1.0, 1e3, 1e20):
        for epsilon in (1e-3, 1.0, 1e3):
            domain = DataDomain.l2_ball(dim, 1e3 * scale)
            problem = LinearModelProblem(HuberLoss(1.0, 1e3), domain, 1000, 1 / scale)
            planned = plan(problem, PrivacyParams(epsilon), Moments(2.0, scale), surrogate="extension")
            for phase in planned.phases:
                C, l2, R = phase.truncation.level, phase.l2, problem.radius
                alpha = l2 / 2 * phase.stages[0].radius ** 2
                size = (C + 4 * l2 * R) * R
                assert 2e-14 * size < 0.75 * alpha
