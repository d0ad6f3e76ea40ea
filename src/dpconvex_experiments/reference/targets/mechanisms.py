"""Targets of the audit for mechanisms: one use of each, on two values that are as far apart as neighbors allow."""

from collections.abc import Callable
from typing import Any

import numpy as np

from dpconvex import mechanisms
from dpconvex.geometry import L2Norm
from dpconvex.mechanisms.robust_mean import budget
from dpconvex.privacy import Ledger, PrivacyParams, Sensitivity, Unit
from dpconvex.randomness import BitSource
from dpconvex_experiments.audit.neighbors import array_pairs, replaced
from dpconvex_experiments.audit.target import Pair, Pairs, Subject, Use, builder, targets
from dpconvex_experiments.reference.location import MedianMechanism
from dpconvex_experiments.reference.printed_median import BoundedLaplaceMechanism

_LEMMA = "values given by the audit"
_LABEL = "value"
_LOOSE = 1e5


def _one_use(
    mechanism: mechanisms.Planned, privacy: PrivacyParams, pairs: Pairs, use: Callable[[Any, BitSource, Ledger], Any]
) -> Subject:
    """Return one use of a mechanism, ``use(value, source, ledger)``, and what it is claimed to cost."""
    releases = (mechanism.planned(_LABEL),)

    def run(value: Any, source: BitSource) -> Any:
        return use(value, source, Ledger(PrivacyParams(_LOOSE, 0.4, unit=mechanism.sensitivity.unit), releases))

    return Subject(Use(privacy, mechanism.name, releases, run), pairs)


def _use(mechanism: mechanisms.Mechanism[Any], privacy: PrivacyParams, values: dict[str, tuple[Any, Any]]) -> Subject:
    pairs = array_pairs({name: (np.array(a, float), np.array(b, float)) for name, (a, b) in values.items()})
    return _one_use(mechanism, privacy, pairs, lambda v, source, ledger: mechanism.release(v, _LABEL, source, ledger))


def _laplace(privacy: PrivacyParams, bound: float) -> Subject:
    mechanism = mechanisms.LaplaceMechanism.calibrate(Sensitivity(bound, "l1", _LEMMA), privacy.epsilon, 2)
    return _use(mechanism, privacy, {"corner": ([0, 0], [bound, 0]), "shared": ([0, 0], [bound / 2, -bound / 2])})


def _gaussian(privacy: PrivacyParams, bound: float) -> Subject:
    mechanism = mechanisms.GaussianMechanism.calibrate(
        Sensitivity(bound, "l2", _LEMMA), privacy.epsilon, privacy.delta, 2
    )
    return _use(mechanism, privacy, {"axis": ([0, 0], [bound, 0]), "slanted": ([0, 0], [0.6 * bound, 0.8 * bound])})


def _norm(privacy: PrivacyParams, bound: float) -> Subject:
    mechanism = mechanisms.NormNoiseMechanism(L2Norm(1), Sensitivity(bound, "l2", _LEMMA), privacy.epsilon)
    return _use(mechanism, privacy, {"ends": ([0.3 * bound], [-0.7 * bound])})


def _matrix(privacy: PrivacyParams, bound: float) -> Subject:
    """The entry off the diagonal, of a constant and a column of two values, changes sign; or the diagonal grows."""
    mechanism = mechanisms.MatrixNoiseMechanism(2, Sensitivity(bound, "nuclear", _LEMMA), privacy.epsilon)
    ends = {"record": ([0.5, 0.25, 0.5], [0.5, -0.25, 0.5]), "length": ([0.0, 0.0, 0.0], [0.5, 0.0, 0.5])}
    return _use(mechanism, privacy, {name: (bound * np.array(a), bound * np.array(b)) for name, (a, b) in ends.items()})


def _bounded(privacy: PrivacyParams, bound: float) -> Subject:
    sensitivity = Sensitivity(bound, "absolute", _LEMMA)
    mechanism = BoundedLaplaceMechanism.calibrate(sensitivity, privacy.epsilon, privacy.delta)
    return _use(mechanism, privacy, {"ends": ([0.0], [bound])})


def _noisy_max(privacy: PrivacyParams, bound: float) -> Subject:
    mechanism = mechanisms.ReportNoisyMax(Sensitivity(bound, "linf", _LEMMA), privacy.epsilon)
    ends = [bound, -bound, -bound, -bound]
    return _use(mechanism, privacy, {"one against all": (np.zeros(4), ends), "turned": (ends, np.zeros(4))})


def _exponential(privacy: PrivacyParams, bound: float) -> Subject:
    """One score of forty moves against the others, so its outcome has a loss of nearly epsilon if that is small."""
    mechanism = mechanisms.ExponentialMechanism(Sensitivity(bound, "linf", _LEMMA), privacy.epsilon)
    ends = np.append(bound, np.full(39, -bound))
    return _use(mechanism, privacy, {"one against all": (np.zeros(40), ends), "turned": (ends, np.zeros(40))})


def _above(privacy: PrivacyParams, bound: float) -> Subject:
    mechanism = mechanisms.AboveThreshold(Sensitivity(bound, "absolute", _LEMMA), privacy.epsilon, 0.0)
    values = {}
    for base in (-4.0, -2.0, 0.0):
        first = np.full(6, base * bound / privacy.epsilon)
        second = first + bound
        first[-1], second[-1] = first[-1] + bound, second[-1] - bound
        values[f"six queries at {base:g}"] = (first, second)
    return _use(mechanism, privacy, values)


def _median(privacy: PrivacyParams, bound: float) -> Subject:
    """A value changes ends: most of the interval leaves the middle rank and the rest reaches it, or the reverse."""
    mechanism = MedianMechanism(privacy.epsilon, -bound, bound, 4)
    first, second = bound * np.array([1, -1, 0.8, 1]), bound * np.array([-1, -1, 0.8, 1])
    return _use(mechanism, privacy, {"crosses upwards": (second, first), "crosses downwards": (first, second)})


def _histogram(privacy: PrivacyParams, bound: float) -> Subject:
    """Each record has a cell in both of two columns, which have two cells each; one record changes both."""
    mechanism = mechanisms.JointHistogram((2, 2), privacy.epsilon)
    rest = np.tile([[0.0, 1.0], [1.0, 1.0]], (20, 1))
    moves = {"the same way": ([0, 0], [1, 1]), "crosswise": ([0, 1], [1, 0])}
    pairs = array_pairs({name: (np.vstack([a, rest]), np.vstack([b, rest])) for name, (a, b) in moves.items()})

    def released(records: Any, source: Any, ledger: Any) -> Any:
        ones = records.sum(0)
        return mechanism.release(np.column_stack([len(records) - ones, ones]).ravel(), _LABEL, source, ledger)

    return _one_use(mechanism, privacy, pairs, released)


def _vertices(privacy: PrivacyParams, bound: float) -> Subject:
    """Each of three draws has scores that move by the largest range; together the ranges use up a pure epsilon."""
    draws = 3
    span = privacy.epsilon / draws / (1 + 2.0**-17)
    mechanism = mechanisms.VertexSampling(
        Sensitivity(span, "range", _LEMMA), draws, draws * span**2, draws, range_sum=draws * span
    )

    def use(value: Any, source: BitSource, ledger: Ledger) -> Any:
        return mechanism.start(_LABEL, source, ledger).draw(value, draws)

    half = span / 4 * np.array([1.0, -1.0, -1.0])  # the difference of the two has range span
    pairs = {"opposed": Pair((half,), (-half,)), "far apart": Pair((half - [5, 0, 0],), (-half - [5, 0, 0],))}
    return _one_use(mechanism, privacy, pairs, use)


@builder
def _robust(privacy: PrivacyParams, bound: float, cohorts: int) -> Subject:
    """One point of a crowd crosses or leaves it; all points are in the crowd, or only `passing` of them."""
    mu, wrong = budget(privacy.epsilon, privacy.delta)
    sizes = (26, 60, 200, 800, 3000, 12_000)
    plans = (mechanisms.plan_cohorts(size * cohorts, cohorts, 1, mu, wrong) for size in sizes)
    mean: Any = next(plan for plan in plans if plan is not None)

    def use(value: Any, source: BitSource, ledger: Ledger) -> Any:
        return mean.release(value, bound, 100 * bound, _LABEL, source, ledger)

    crowd = np.zeros((mean.count, 1))
    away = mean.count - mean.passing
    edge = np.concatenate([np.zeros(mean.passing), 10 * np.arange(5, 5 + away)])[:, None] * bound
    found = {}
    for name, points in (("a crowd", crowd), ("a crowd at the threshold", edge)):
        for what, ends in (("moves across", (-bound, bound)), ("leaves", (0.0, 30 * bound))):
            found[f"{name}, one {what}"] = replaced(points, 0, *ends)
    return _one_use(mean, privacy, array_pairs(found), use)


TARGETS = (
    *targets(
        Unit.RECORD,
        {
            "mechanism/laplace": ("pure", _laplace),
            "mechanism/gaussian": ("approximate", _gaussian),
            "mechanism/norm_noise": ("pure", _norm),
            "mechanism/bounded_laplace": ("approximate", _bounded),
            "mechanism/noisy_max": ("pure", _noisy_max),
            "mechanism/exponential": ("pure", _exponential),
            "mechanism/above_threshold": ("pure", _above),
            "mechanism/median": ("pure", _median),
            "mechanism/joint_histogram": ("pure", _histogram),
            "mechanism/matrix_noise": ("pure", _matrix),
            "mechanism/vertex_sampling": ("pure", _vertices),
        },
    ),
    *targets(
        Unit.USER,
        {
            "mechanism/robust_mean": ("approximate", _robust(1)),
            "mechanism/robust_mean/cohorts": ("approximate", _robust(3)),
        },
    ),
)
