"""What the experiments share: noise through mechanisms, slopes of power laws, figures on logarithmic axes."""

from collections.abc import Sequence
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from dpconvex._types import Floats
from dpconvex.algorithms.erm.output_perturbation.schedules import privacy_ratio
from dpconvex.geometry import L2Norm
from dpconvex.losses import LinearModelLoss
from dpconvex.mechanisms import GaussianMechanism, NormNoiseMechanism
from dpconvex.privacy import Ledger, PrivacyParams, Sensitivity
from dpconvex.problems import DataDomain, LinearModelProblem, Records
from dpconvex.randomness import BitSource
from dpconvex_experiments.shared import logistic_labels, unit_vectors

Noise: TypeAlias = NormNoiseMechanism | GaussianMechanism
LABEL = "minimizer"


def laplace(dim: int, sensitivity: float, epsilon: float) -> NormNoiseMechanism:
    """Return the pure mechanism for a point that neighbors move by at most `sensitivity` (l2)."""
    return NormNoiseMechanism(L2Norm(dim), _given(sensitivity), epsilon)


def gaussian(dim: int, sensitivity: float, epsilon: float, delta: float, method: str = "zwb") -> GaussianMechanism:
    """Return the Gaussian mechanism for such a point, by the paper's formula or the exact calibration."""
    return GaussianMechanism.calibrate(_given(sensitivity), epsilon, delta, dim, method)


def noise(dim: int, sensitivity: float, epsilon: float, delta: float) -> Noise:
    """Return the paper's mechanism: pure for ``delta = 0``, else Gaussian."""
    return laplace(dim, sensitivity, epsilon) if delta == 0 else gaussian(dim, sensitivity, epsilon, delta)


def energy(dim: int, epsilon: float, delta: float) -> float:
    """Return ``E|z|^2`` of the paper's noise for sensitivity 1."""
    return dim * (dim + 1) / epsilon**2 if delta == 0 else privacy_ratio(dim, epsilon, delta) ** 2 / 2


def _given(sensitivity: float) -> Sensitivity:
    return Sensitivity(sensitivity, "l2", "given by the experiment")


def releases(mechanism: Noise, value: Floats, privacy: PrivacyParams, count: int, source: BitSource) -> Floats:
    """Release one value `count` times, shape (count, dim); every release is in a ledger first.

    Pure releases share a ledger with `count` times the budget, as they would have to; others have one each.
    """
    planned = mechanism.planned(LABEL)
    if privacy.pure:
        shared = Ledger(PrivacyParams(count * privacy.epsilon * (1 + 1e-9)), (replace(planned, times=count),))
        return np.array([mechanism.release(value, LABEL, source, shared) for _ in range(count)])
    ledgers = (Ledger(privacy, (planned,)) for _ in range(count))
    return np.array([mechanism.release(value, LABEL, source, ledger) for ledger in ledgers])


def counted(
    mechanism: Noise, privacy: PrivacyParams, centers: Sequence[float], threshold: float, count: int, source: BitSource
) -> tuple[int, int]:
    """Return how many of `count` releases of the upper of two centers, and of the lower, lie above `threshold`."""
    low, high = (releases(mechanism, np.array([center]), privacy, count, source) for center in centers)
    return int((high > threshold).sum()), int((low > threshold).sum())


def logistic_records(rng: np.random.Generator, n: int, truth: Floats) -> tuple[Floats, Floats]:
    """Return unit features (n, dim) and labels of a logistic model with coefficients `truth`."""
    X = unit_vectors(rng, n, len(truth))
    return X, logistic_labels(rng, X @ truth)


def balanced(loss: LinearModelLoss, n: int, dim: int) -> tuple[Floats, Floats]:
    """Return records whose minimizer is 0 for every ridge: unit vectors in turn, both labels for each, or targets 0."""
    X = np.eye(dim)[np.arange(n) // 2 % dim]
    return X, np.where(np.arange(n) % 2, 1.0, -1.0) if loss.task == "classification" else np.zeros(n)


class Risk:
    """Mean loss of unit vectors or shorter ones, without any regularizer, and its minimum."""

    def __init__(self, loss: LinearModelLoss, X: Floats, y: Floats) -> None:
        domain = DataDomain.l2_ball(X.shape[1], 1.0)
        self.problem = LinearModelProblem(loss, domain, len(X), 1.0)
        self._records, self._y = Records.clipped(X, domain), y
        self._mean = self.problem.on(self._records, y, 0.0)

    def __call__(self, w: Floats) -> float:
        """Return the mean loss at `w`."""
        return self._mean.value(w)

    def minimum(self, l2: float = 1e-7) -> float:
        """Return the least mean loss, at most ``l2/2 |w*|^2`` too large: a ridge makes the minimizer certifiable."""
        from dpconvex.solvers import default_solver

        ridge = self.problem.on(self._records, self._y, l2)
        return self(default_solver(self.problem.loss, None, self.problem.dim).solve(ridge, 1e-4).point)
