"""Losses of classifiers: logistic and softmax, with caps on their slopes."""

import math
from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_expit, logsumexp

from dpconvex import _rounding, _validate
from dpconvex._types import Array, Floats, final_dataclass, forwarded, quiet
from dpconvex.losses import base


class TwoClasses(base.LinearModelLoss):
    """Base of losses of the margin: targets above 0 become +1, all others (0, NaN) become -1."""

    task = "classification"
    sides = 1

    def clip_targets(self, y: Array) -> Floats:
        return np.where(base.numbers(y) > 0, 1.0, -1.0)


RAREST = 1 / 3
"""Smallest share of a class from which predictions start. With a smaller share, capped slopes and the ridge keep the
model from recognizing the rare class: 1.2 to 1.4 times the excess on six learning tables (`benchmarks/rates.py`)."""


def _margin_of(slope: float) -> float:
    """Return the margin at which the logistic loss has this slope."""
    return -math.inf if slope == 1 else math.log1p(-slope) - math.log(slope)


@final_dataclass
class LogisticLoss(TwoClasses, base.SmoothLoss):
    """``log(1 + exp(-m))`` of the margin ``m = y z``, targets -1 and +1, continued by its tangent where it is steep.

    Below the margin at which the slope reaches `cap` the loss is linear: a record that is badly misclassified pulls
    with the slope `cap`, not more. With ``cap = 1`` that never happens: the negative log-likelihood of logistic
    regression. Targets above 0 become +1, all others (0, NaN) become -1.

    Slope at most `cap`; curvature ``a (1 - a)`` at every slope ``a < cap``, 0 at the slope `cap`; q = 1 for
    ``cap = 1``, else none (docs, Objective perturbation, section 1). A `saturating` one leaves the logistic loss where
    the slope is three quarters of the cap, and from there on curvature is ``3 (1 - 3 cap / 4)`` times what is left to
    the cap: q is that times the cap. With a `rate` the margin is ``y (z + offset)``: the graph moves sideways, so all
    this stays true.
    """

    name = "logistic"
    curvature_law = base.CurvatureLaw.LOGISTIC  # at most as without a cap; `self_concordance` says more if it saturates
    cap: float = 1.0  #: largest slope, between 1e-100 and 1
    #: Public share of the class +1, above 0 and below 1. Predictions then start from it, or from `RAREST`: `offset`.
    rate: float | None = None
    saturating: bool = False  #: whether the slope bends before it reaches the cap; without effect if there is no cap
    exact: bool = False  #: whether predictions start from the rate itself, however rare the class is
    slope_bound = forwarded("cap")

    def __post_init__(self) -> None:
        object.__setattr__(self, "cap", _validate.real("cap", self.cap, at_least=_validate.SMALLEST, at_most=1.0))
        if self.rate is not None:
            object.__setattr__(self, "rate", _validate.shares("rate", (1 - self.rate, self.rate), 2)[1])

    @property
    def classes(self) -> Floats:
        """Targets of both classes; none with a cap or a rate."""
        return np.array([-1.0, 1.0] if self.cap == 1 and self.rate is None else [])

    def best_constant(self, shares: Floats) -> Floats:
        return np.log(shares[..., 1:] / shares[..., :1])

    @cached_property
    def _offset(self) -> float:
        return 0.0 if self.rates is None else self._constant(self.rates[1])

    def _constant(self, rate: float) -> float:
        """Return the constant of least mean loss, at which the classes' slopes times their shares are equal."""
        if rate == 0.5:
            return 0.0
        p = min(rate, 1 - rate)
        if self._bends:
            pair, end = np.array([1.0, -1.0]), 60 + max(self._kink, 0.0)  # one slope is the cap, one next to 0
            return brentq(lambda z: float(np.dot((rate, 1 - rate), self._slopes(z * pair) * pair)), -end, end)
        # With the probability s of the rarer class and its share p: p min(cap, 1 - s) = (1 - p) s.
        s = p if 1 - p <= self.cap else self.cap * p / (1 - p)
        return math.copysign(math.log(s) - math.log1p(-s), rate - 0.5)

    @property
    def curvature_bound(self) -> float:
        """``a (1 - a)`` at the slope ``a = 1/2``, or at the cap, or where it bends, if that is smaller."""
        most = self._straight
        return 0.25 if most >= 0.5 else _rounding.product_up(most, math.nextafter(1 - most, 1.0))

    @property
    def self_concordance(self) -> float | None:
        """1 without a cap (``a (1 - a) <= 1 - a``), else None if curvature jumps to 0 at the cap."""
        return 1.0 if self.cap == 1 else _rounding.widen_up(self._rate * self.cap) if self._bends else None

    @property
    def _bends(self) -> bool:
        return self.saturating and self.cap < 1

    @property
    def _straight(self) -> float:
        """The slope up to which the loss is the logistic loss."""
        return 0.75 * self.cap if self._bends else self.cap

    @property
    def _rate(self) -> float:
        """Curvature there over what is left to the cap; below it is less, as ``a (1 - a) / (cap - a)`` grows with a."""
        return 3 * (1 - self._straight)

    @cached_property
    def value_at_zero(self) -> float:
        """Log 2; less if the cap is below 1/2; with a rate, that of the rarer class. Plans ask often."""
        return _rounding.widen_up(float(self.value(np.zeros(2), np.array([-1.0, 1.0])).max()))

    @property
    def usual(self) -> "LogisticLoss":
        return LogisticLoss(rate=self.rate, exact=self.exact)

    @property
    def facts(self) -> Mapping[str, float]:
        rate = {} if self.rate is None else {"rate": self.rate}
        return rate if self.cap == 1 else {"slope_cap": self.cap, **rate}

    @cached_property
    def rates(self) -> tuple[float, ...] | None:
        """Shares that predictions start from: the public ones, the rarer class not below `RAREST`."""
        if self.rate is None or self.exact:
            return self.told
        start = min(max(self.rate, RAREST), 1 - RAREST)
        return 1 - start, start

    @property
    def told(self) -> tuple[float, ...] | None:
        return None if self.rate is None else (1 - self.rate, self.rate)

    @property
    def as_told(self) -> "LogisticLoss":
        return replace(self, exact=True)

    @property
    def trivial(self) -> float:
        """Loss of the best constant; under the public rate its mean (without a cap, the entropy)."""
        if self.told is None:
            return LogisticLoss(self.cap).value_at_zero  # that of caps that end at once serves both
        z = self._constant(self.told[1]) - self._offset
        return float(np.dot(self.told, self.value(np.full(2, z), np.array([-1.0, 1.0]))))

    @property
    def offset(self) -> Floats:
        """The log-odds of `rates`; with a cap, the best constant for capped slopes."""
        return np.array([self._offset])

    @quiet
    def value(self, z: Floats, y: Floats) -> Floats:
        margin = self._shifted(z) * y
        curved = np.maximum(margin, self._kink)
        # Not logaddexp: this form uses vectorized exp and log1p and is three times faster.
        loss = np.maximum(-curved, 0.0) + np.log1p(np.exp(-np.abs(curved)))
        if self.cap == 1:
            return loss
        loss += self.cap * (curved - margin)
        left = (self.cap - self._straight) / self._rate  # 0 where it does not bend
        return loss + left * np.expm1(-self._rate * (curved - margin))

    @quiet
    def derivative(self, z: Floats, y: Floats) -> Floats:
        """Return ``-y min(cap, 1 / (1 + exp(y z)))``, or where that bends, of shape (n,)."""
        return -y * self._slopes(self._shifted(z) * y)

    def _slopes(self, margin: Floats) -> Floats:
        """Return the slopes, positive, at margins (n,)."""
        if not self._bends:
            return np.minimum(self.cap, 1.0 / (1.0 + np.exp(margin)))
        past = np.maximum(self._kink - margin, 0.0)
        bent = self.cap - (self.cap - self._straight) * np.exp(-self._rate * past)
        return np.where(past > 0, bent, 1.0 / (1.0 + np.exp(np.maximum(margin, self._kink))))

    @quiet
    def hessian_weights(self, z: Floats, y: Floats) -> Floats:
        """Return ``p (1 - p)``, ``p = 1 / (1 + exp(-z))``, where the slope is below the cap, else 0, of shape (n,).

        Of a saturating loss: up to the slope where it bends.
        """
        z = self._shifted(z)
        small = np.exp(-np.abs(z))
        curvature = small / np.square(1.0 + small)
        if self.cap == 1:
            return curvature
        past = np.maximum(self._kink - z * y, 0.0)
        beyond = self._rate * (self.cap - self._straight) * np.exp(-self._rate * past)  # 0 where it does not bend
        return np.where(past > 0, beyond, curvature)

    @quiet
    def log_odds(self, z: Floats) -> Floats:
        """Return the log-odds of +1 for which `z` is the best prediction, of shape (n,); without a cap `z` itself.

        ``min(log s(z), log A) - min(log s(-z), log A)`` with ``s`` the logistic function and A the cap: where the
        expected loss of one record is smallest, the slopes of its two halves balance (docs, Objective perturbation).
        Odd, finite, and strictly increasing for ``A >= 1/2``; for smaller A it is 0 where both slopes are capped. Of a
        saturating loss it is that of one that stops at the cap: at most 0.1 away.
        """
        size, kink = np.abs(z), _margin_of(self.cap)
        inside = z if self.cap >= 0.5 else np.zeros_like(z)
        # In this form it is exactly `z`, or exactly 0, where it should be.
        return np.where(size <= abs(kink), inside, np.copysign(math.log(self.cap) - log_expit(-size), z))

    def _shifted(self, z: Floats) -> Floats:
        return z + self._offset if self._offset else z

    @property
    def _kink(self) -> float:
        """The margin below which the loss is linear, or bends; minus infinity without a cap."""
        return _margin_of(self._straight)


@final_dataclass
class SoftmaxLoss(base.SmoothLoss):
    """``logsumexp(z) - z[y]`` with targets 0, ..., n_classes - 1: multinomial logistic regression.

    The derivative is ``p - e_y``, the Hessian ``S = diag(p) - p p^T`` with the probabilities ``p``. Targets
    are rounded to the nearest class; NaN becomes class 0. With ``u = logsumexp(z of the others) - z[y]``, the log-odds
    of the other classes, it is ``log(1 + exp(u))``; where the slope of that exceeds `cap` it is continued by its
    tangent in u, as `LogisticLoss` is. The derivative then is ``a (q - e_y)``, the Hessian ``a' (q - e_y) (q -
    e_y)^T + a (diag(q) - q q^T)``, with ``a = min(cap, 1 - p_y)`` and q the probabilities among the others.

    Constants (proofs: docs, Objective perturbation, Several outputs): ``|p - e_y|_2 <= sqrt 2``,
    ``|p - e_y|_1 <= 2``, ``|S| <= 1/2``, rank ``k - 1``, trace ``<= 1 - 1/k``. With
    ``a = |p - e_y|_2 / sqrt 2``, ``trace S <= 2 (1 - a^2) <= 4 (1 - a)``, so that q = 4 for noise in the Frobenius
    norm; for two classes ``a = 1 - p_y`` and ``trace S = 2 a (1 - a)``, so that q = 2. For l1 noise and three
    classes or more there is no q: at ``p_y = 0`` the slope is saturated and the curvature is not 0. With a cap A slopes
    are A times as large, there is no q, and the trace is at most ``2 A - A^2 k / (k - 1)`` for ``A <= 1 - 1/k``.
    """

    name = "softmax"
    task = "classification"
    curvature_law = base.CurvatureLaw.SOFTMAX  # a (q - e_y) is A times p - e_y for some other probabilities p
    n_classes: int  #: at least 2; public
    #: Public shares of the classes, positive, adding up to 1. Predictions then start from their logarithms: `offset`.
    rates: tuple[float, ...] | None = None
    cap: float = 1.0  #: largest slope in the log-odds of the other classes, between 1e-100 and 1
    n_outputs = forwarded("n_classes")

    def __post_init__(self) -> None:
        _validate.integer("n_classes", self.n_classes, at_least=2)
        object.__setattr__(self, "cap", _validate.real("cap", self.cap, at_least=_validate.SMALLEST, at_most=1.0))
        if self.rates is not None:
            object.__setattr__(self, "rates", _validate.shares("rates", self.rates, self.n_classes))

    @property
    def classes(self) -> Floats:
        """Targets of all classes; none with a cap or rates."""
        return np.arange(float(self.n_classes) if self.cap == 1 and self.rates is None else 0)

    def best_constant(self, shares: Floats) -> Floats:
        logs = np.log(shares)
        return logs - logs.mean(-1, keepdims=True)

    @property
    def slope_bound(self) -> float:
        root = math.sqrt(2.0)  # this float lies above the square root
        return root if self.cap == 1 else _rounding.product_up(root, self.cap)

    @property
    def slope_bound_l1(self) -> float:
        return 2.0 * self.cap

    @property
    def curvature_bound(self) -> float:
        """1/2, attained by two classes of probability 1/2, or the trace."""
        return min(0.5, self.curvature_trace)

    @property
    def usual(self) -> "SoftmaxLoss":
        return SoftmaxLoss(self.n_classes, self.rates)

    @property
    def facts(self) -> Mapping[str, Any]:
        rates = {} if self.rates is None else {"rates": list(self.rates)}
        return rates if self.cap == 1 else {"slope_cap": self.cap, **rates}

    @property
    def offset(self) -> Floats:
        return self.best_constant(np.ones(self.n_classes) if self.rates is None else np.array(self.rates))

    @property
    def curvature_rank(self) -> int:
        return self.n_classes - 1

    @property
    def curvature_trace(self) -> float:
        """``1 - 1 / n_classes``, attained by equal probabilities, or less with a cap."""
        most = _rounding.ratio_up(self.n_classes - 1, self.n_classes)
        if self.cap >= most:
            return most
        A = Fraction(self.cap)
        return min(most, _rounding.float_up(2 * A - A * A * self.n_classes / (self.n_classes - 1)))

    @property
    def frobenius_self_concordance(self) -> float | None:
        return None if self.cap < 1 else 2.0 if self.n_classes == 2 else 4.0

    @cached_property
    def value_at_zero(self) -> float:
        """Loss of the rarest class at the start; without rates and cap the logarithm of the number of classes."""
        rates = self.rates or (1 / self.n_classes,)
        if self.cap == 1:
            return _rounding.widen_up(math.log(max(1.0, math.fsum(rates)) / min(rates)))
        return _rounding.widen_up(float(self._start(np.array([min(rates)]))[0]))

    @property
    def trivial(self) -> float:
        """The entropy of the rates, without a matrix of all classes; with a cap what the start loses."""
        return self.value_at_zero if self.rates is None else float(self.rates @ self._start(np.array(self.rates)))

    @quiet
    def _start(self, rates: Floats) -> Floats:
        """Return the loss of classes of these shares where predictions start."""
        return LogisticLoss(self.cap).value(np.log(rates) - np.log1p(-rates), np.ones(1))  # of log-odds, label +1

    @quiet
    def value(self, z: Floats, y: Floats) -> Floats:
        z = self._shifted(z)
        shifted, label = z - z.max(axis=1, keepdims=True), _column(y)
        own = np.take_along_axis(shifted, label, axis=1)[:, 0]
        if self.cap == 1:
            return np.log(np.exp(shifted).sum(axis=1)) - own
        np.put_along_axis(shifted, label, -np.inf, axis=1)
        margin = np.minimum(own - logsumexp(shifted, axis=1), np.finfo(np.float64).max)
        return LogisticLoss(self.cap).value(margin, np.ones(1))

    @quiet
    def of_labels(self, z: Floats) -> Floats:
        """Return the loss of every label, of shape (n, n_classes)."""
        p = self.probabilities(z)
        odds = np.minimum(np.log(p) - np.log1p(-p), np.finfo(np.float64).max)
        return LogisticLoss(self.cap).value(odds, np.ones(1))

    @quiet
    def derivative(self, z: Floats, y: Floats) -> Floats:
        """Return ``p - e_y``, or ``a (q - e_y)`` at the cap, of shape (n, n_classes); rows sum to 0 up to rounding."""
        out, own = self.probabilities(z), _column(y)
        # 1 - p_y as the sum of the other probabilities: no cancellation when p_y is near 1.
        np.put_along_axis(out, own, 0.0, axis=1)
        if self.cap < 1:
            out *= self.cap / np.maximum(out.sum(axis=1, keepdims=True), self.cap)
        np.put_along_axis(out, own, -out.sum(axis=1, keepdims=True), axis=1)
        return out

    @quiet
    def hessian_weights(self, z: Floats, y: Floats) -> Floats:
        """Return the Hessians, of shape (n, n_classes, n_classes)."""
        p, capped = self.probabilities(z), np.zeros(len(z), dtype=bool)
        if self.cap < 1:
            others = p.copy()
            np.put_along_axis(others, _column(y), 0.0, axis=1)
            total = others.sum(axis=1)
            capped = total > self.cap
            p[capped] = others[capped] / total[capped, None]
        out = -p[:, :, None] * p[:, None, :]
        diagonal = np.arange(self.n_classes)
        out[:, diagonal, diagonal] += p
        out[capped] *= self.cap
        return out

    @quiet
    def probabilities(self, z: Floats) -> Floats:
        """Return the softmax of predictions, (n, n_classes)."""
        z = self._shifted(z)
        out = z - z.max(axis=1, keepdims=True)
        np.exp(out, out=out)
        out /= out.sum(axis=1, keepdims=True)
        return out

    @quiet
    def log_odds(self, z: Floats) -> Floats:
        """Return the scores whose softmax has `z` for its best prediction, (n, n_classes); without a cap `z` itself.

        The class probabilities are in proportion to ``p max(1, (1 - p) / cap)`` with the softmax p of `z`: then the
        pulls of any two classes balance (docs, Objective perturbation). No class overtakes the most probable one.
        """
        return z if self.cap == 1 else z + np.log(np.maximum(1.0, (1 - self.probabilities(z)) / self.cap))

    def clip_targets(self, y: Array) -> Floats:
        return np.clip(np.rint(base.numbers(y)), 0, self.n_classes - 1)

    def _shifted(self, z: Floats) -> Floats:
        return z if self.rates is None else z + self.offset


def _column(y: Floats) -> np.ndarray[tuple[int, int], np.dtype[np.intp]]:
    return y.astype(np.intp)[:, None]
