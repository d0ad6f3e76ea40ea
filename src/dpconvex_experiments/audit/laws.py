"""Log-densities of what mechanisms release, written down again from their docstrings, not from their samplers.

`log_law` gives the logarithm of the probability (or density) of an outcome given the private value, up to a constant
that is the same for all values. Mechanisms that have none here say their own
(`dpconvex.mechanisms.base.Planned.log_density`); one without either can be audited by counting only.
"""

from functools import singledispatch
from typing import Any

import numpy as np
from scipy.special import gamma, gammainc, log_ndtr

from dpconvex import mechanisms
from dpconvex._types import Floats, IntArray
from dpconvex.errors import UnsupportedEventError

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(200)
_FLOOR = 700.0


@singledispatch
def log_law(mechanism: Any, value: Any, outcome: Any) -> float:
    """Return the log-probability of an outcome, given the private value, up to a constant; raise if no law is known."""
    raise UnsupportedEventError(f"no law is known for {type(mechanism).__name__}: register one, or audit by counting")


@log_law.register
def _(mechanism: mechanisms.Planned, value: Any, outcome: Any) -> float:
    return mechanism.log_density(value, outcome)  # its own, where no law is registered here


@log_law.register
def _(mechanism: mechanisms.LaplaceMechanism, value: Floats, outcome: Floats) -> float:
    return float(-np.abs(outcome - _clean(value)).sum() / mechanism.scale - mechanism.dim * np.log(mechanism.scale))


@log_law.register
def _(mechanism: mechanisms.GaussianMechanism, value: Floats, outcome: Floats) -> float:
    away = (outcome - _clean(value)) / mechanism.sigma
    return float(-(away @ away) / 2 - mechanism.dim * np.log(mechanism.sigma))


@log_law.register
def _(mechanism: mechanisms.NormNoiseMechanism, value: Floats, outcome: Floats) -> float:
    away = float(mechanism.norm(outcome - _clean(value)))
    return -away / mechanism.scale - mechanism.norm.dim * float(np.log(mechanism.scale))


@log_law.register
def _(mechanism: mechanisms.JointHistogram, value: Floats, outcome: Floats) -> float:
    """Lemma F: ``exp(-epsilon ||b||_K / (2 X_K))`` of what is added to each column's counts, up to constants."""
    columns = np.split(outcome - _clean(value), np.cumsum(mechanism.cells)[:-1])
    lengths = np.array([np.abs(b - np.median(b)).sum() for b in columns])
    groups, weights = mechanism.norm.groups, mechanism.norm.weights
    longest = [lengths[groups == g].max() for g in range(len(weights))]
    return float(-mechanism.epsilon * (weights @ longest) / (2 * weights.sum()))


@log_law.register
def _(mechanism: mechanisms.MatrixNoiseMechanism, value: Floats, outcome: Floats) -> float:
    """For one or two rows: by two integrals over s, as r^2, where the cone's boundary bends."""
    if mechanism.size > 2:
        raise UnsupportedEventError(f"no law is known for {mechanism.size} rows: audit by counting")
    away = np.zeros((mechanism.size, mechanism.size))
    away[np.triu_indices(mechanism.size)] = 2 * (outcome - _clean(value)) / mechanism.scale
    ends = np.linalg.eigvalsh(away, "U")
    found = float(-np.abs(ends).sum() / 2)
    if ends[0] >= 0 or ends[-1] <= 0:
        return found
    r, sizes = 4 * (_NODES + 1), np.abs(ends)
    inner = [
        (4 * _WEIGHTS * 2 * r * np.exp(-(r**2)) * np.sqrt(a + r**2)) @ gammainc(1.5, r**2 * b / a)
        for a, b in (sizes, sizes[::-1])
    ]
    return found + float(np.log(sum(inner) / gamma(1.5)))


@singledispatch
def finite_law(mechanism: Any, value: Any) -> Floats:
    """Return the log-probabilities of the outcomes 0, 1, ... of one draw by scores; raise for other outcomes."""
    raise UnsupportedEventError(f"{type(mechanism).__name__} does not draw from finitely many outcomes")


@finite_law.register
def _(mechanism: mechanisms.ReportNoisyMax, value: Floats) -> Floats:
    return selection_law(_clean(value), mechanism.scale)


@finite_law.register
def _(mechanism: mechanisms.VertexSampling, value: Floats) -> Floats:
    scores = mechanism.on_grid(value)
    scores = np.maximum(scores - scores.max(), -_FLOOR)
    return scores - np.logaddexp.reduce(scores)


@finite_law.register
def _(mechanism: mechanisms.ExponentialMechanism, value: Floats) -> Floats:
    return finite_law(mechanism.inner, _clean(value) * mechanism.factor)


@log_law.register
def _(mechanism: mechanisms.ExponentialMechanism, value: Floats, outcome: int) -> float:
    return float(finite_law(mechanism, value)[outcome])


@log_law.register
def _(mechanism: mechanisms.VertexSampling, value: Floats, outcome: Any) -> float:
    return float(finite_law(mechanism, value)[outcome].sum())


@log_law.register
def _(mechanism: mechanisms.ReportNoisyMax, value: Floats, outcome: int) -> float:
    return float(_selected(_clean(value), mechanism.scale, np.array([outcome]))[0])


@log_law.register
def _(mechanism: mechanisms.AboveThreshold, value: Floats, outcome: int) -> float:
    return float(halting_law(mechanism, np.asarray(value, dtype=np.float64), outcome))


@log_law.register
def _(mechanism: mechanisms.RobustMean, value: tuple[float, Floats, float], outcome: Floats | None) -> float:
    score, mean, length = value
    gap = (score - mechanism.threshold) / mechanism.score_sigma
    if outcome is None:
        return float(log_ndtr(-gap))
    away = (outcome - mean) / (length * mechanism.noise.sigma)
    return float(log_ndtr(gap) - (away @ away) / 2 - mechanism.dim * np.log(length))


@log_law.register
def _(mechanism: mechanisms.CohortMean, value: tuple[Floats, Floats, float], outcome: Any) -> float:
    (excesses, means, length), (bits, released) = value, outcome
    gaps = (excesses - mechanism.threshold) / mechanism.score_sigma
    mean = (mechanism.cohorts.shares * bits) @ means
    away = (released - mean) / (length * mechanism.noise.sigma)
    return float(log_ndtr(np.where(bits, gaps, -gaps)).sum() - (away @ away) / 2 - mechanism.dim * np.log(length))


def selection_law(scores: Floats, scale: float) -> Floats:
    """Return the log-probability of every index under report-noisy-max with exponential noise, exactly enumerated.

    With ``a_j = exp((s_j - max s)/scale)`` index i has ``a_i`` times the integral over u in (0, 1) of the product of
    ``1 - u a_j`` over the others.
    """
    found = _selected(scores, scale, np.arange(len(scores)))
    return found - np.logaddexp.reduce(found)


def _selected(scores: Floats, scale: float, picks: IntArray) -> Floats:
    """Log-probabilities of some of the indices."""
    shifted = (scores - scores.max()) / scale
    a = np.exp(np.maximum(shifted, -_FLOOR))
    # Many good candidates crowd the mass at small u, so nodes are laid out on both scales.
    cut = min(1.0, 60 / a.sum())
    pieces = [(0.0, cut)] if cut == 1 else [(0.0, cut), (cut, 1.0)]
    total = np.full(len(picks), -np.inf)
    for low, high in pieces:
        u = low + (high - low) * (_NODES + 1) / 2
        each = np.log1p(-u[:, None] * a)
        rest = each.sum(1)[:, None] - each[:, picks] + np.log(_WEIGHTS * (high - low) / 2)[:, None]
        total = np.logaddexp(total, np.logaddexp.reduce(rest, axis=0))
    return np.maximum(shifted[picks], -_FLOOR) + total


def halting_law(mechanism: mechanisms.AboveThreshold, queries: Floats, outcome: int) -> float:
    """Return the log-probability that the first "above" is query `outcome`, `len(queries)` for none; by quadrature."""
    grid = np.linspace(-45, 45, 9001)
    threshold = mechanism.threshold + mechanism.threshold_scale * grid
    gaps = (threshold[None, :] - queries[: outcome + 1, None]) / mechanism.query_scale
    above = np.where(gaps > 0, -np.abs(gaps) - np.log(2), np.log1p(-np.exp(-np.abs(gaps)) / 2))
    below = np.where(gaps > 0, np.log1p(-np.exp(-np.abs(gaps)) / 2), -np.abs(gaps) - np.log(2))
    joint = below[:outcome].sum(0) - np.abs(grid)
    if outcome < len(queries):
        joint = joint + above[outcome]
    return float(np.logaddexp.reduce(joint))


def _clean(value: Floats) -> Floats:
    return np.nan_to_num(np.asarray(value, dtype=np.float64), nan=0.0)
