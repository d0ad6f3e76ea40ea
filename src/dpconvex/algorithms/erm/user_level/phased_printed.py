r"""Algorithm 1 of Lowy, Liu and Asi (2024) with its printed constants, real-valued as printed and as it can be run.

With l = floor(log2 n) phases, ``C = 100 log(20 n m e^epsilon / delta) / epsilon``, and for ``i = 1, ..., l``

    n_i = (1 - 2^-q) n 2^(-iq),  eta_i = eta 2^(-pi),  N_i = n_i / C,  T_i = N_i m,
    tau_i = 1000 eta_i L sqrt(T_i) log(ndm),  sigma_i = 100 tau_i log^2(n/delta) / (epsilon C),

``eta = D / (L sqrt(d m n epsilon))``, ``p = J + 3/2`` with ``m <= n^J``, D the diameter. To be run: C is raised to
``150 log(20 e^epsilon / delta) / epsilon`` (erratum E2) and to an even integer (the proof needs it, see
`mechanisms.OutlierRemoval`), the other sizes are rounded down (E19). ``N_l >= 1`` is not implied by the theorem's
condition (E1): checked here, it takes more than 100000 users.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpconvex.algorithms.erm.user_level.aggregates import Guarded
from dpconvex.algorithms.erm.user_level.phased_schedule import Facts, Phase, Schedule
from dpconvex.errors import InvalidParameterError
from dpconvex.mechanisms import OutlierRemoval
from dpconvex.mechanisms.robust_mean import flips


@dataclass(frozen=True)
class PrintedPhase:
    """Real-valued constants of one phase, as printed.

    Parameters
    ----------
    users, group, steps : float
        n_i, N_i and T_i.
    step_size, radius, deviation : float
        eta_i, tau_i and sigma_i.
    """

    users: float
    group: float
    steps: float
    step_size: float
    radius: float
    deviation: float


@dataclass(frozen=True)
class Printed:
    """Real-valued constants of Algorithm 1, as printed.

    Parameters
    ----------
    groups : float
        C.
    step_size : float
        eta.
    phases : tuple of PrintedPhase
    bound : float
        What the proof of Theorem B.1 gives for them, with the constants of its Lemma B.3: telescoped, no logarithm
        dropped.
    """

    groups: float
    step_size: float
    phases: tuple[PrintedPhase, ...]
    bound: float


def printed(
    n: int,
    m: int,
    dim: int,
    epsilon: float,
    delta: float,
    *,
    lipschitz: float = 1.0,
    diameter: float = 1.0,
    q: float | None = None,
    groups: float | None = None,
) -> Printed:
    """Return the printed constants.

    Parameters
    ----------
    n, m, dim : int
        Users, records of each, dimension.
    epsilon, delta : float
        Positive.
    lipschitz, diameter : float
        L and D.
    q : float, optional
        Exponent; default ``1 / log n``, which nearly maximises the last phase.
    groups : float, optional
        Another C.
    """
    q = 1 / math.log(n) if q is None else q
    C = 100 * math.log(20 * n * m * math.exp(epsilon) / delta) / epsilon if groups is None else groups
    p, eta = math.log(m) / math.log(n) + 1.5, diameter / (lipschitz * math.sqrt(dim * m * n * epsilon))
    phases, bound, square = [], 0.0, diameter**2
    for i in range(1, int(math.log2(n)) + 1):
        users = (1 - 2**-q) * n / 2 ** (i * q)
        step, steps = eta * 2 ** (-p * i), users / C * m
        radius = 1000 * step * lipschitz * math.sqrt(steps) * math.log(n * dim * m)
        deviation = 100 * radius * math.log(n / delta) ** 2 / (epsilon * C)
        phases.append(PrintedPhase(users, users / C, steps, step, radius, deviation))
        bound += square / (step * steps) + step * lipschitz**2
        square = dim * deviation**2
    return Printed(C, eta, tuple(phases), bound + lipschitz * math.sqrt(square))


def paper(facts: Facts) -> Schedule:
    """Return the printed algorithm as it can be run.

    Raises
    ------
    InvalidParameterError
        If a group of the last phase would have no user, or the exact cost of the printed noise exceeds the promise.
    """
    privacy, n, m, d = facts.privacy, facts.n, facts.records, facts.dim
    epsilon, delta = privacy.epsilon, privacy.delta
    if epsilon > 10:
        raise InvalidParameterError("epsilon", epsilon, "must be at most 10 with constants='paper'", "Theorem 2.1")
    literal = 100 * math.log(20 * n * m * math.exp(epsilon) / delta) / epsilon
    repaired = 150 / epsilon * math.log(20 * math.exp(epsilon) / delta)
    C = 2 * math.ceil(max(literal, repaired) / 2)
    constants = printed(n, m, d, epsilon, delta, lipschitz=facts.lipschitz, diameter=2 * facts.radius, groups=C)
    if n < 2 or constants.phases[-1].group < 1:
        least = f"too few for the printed C={C} groups in each of {max(1, int(math.log2(n)))} phases"
        raise InvalidParameterError("n", n, f"users are {least}", "Use constants='calibrated'")
    coupling = delta / (10 * math.exp(epsilon))
    sigma = 100 * math.log(n / delta) ** 2 / (6 * epsilon * (flips(C, coupling) + 2))
    mean = OutlierRemoval(C, d, 20 / epsilon, coupling, sigma, privacy.unit)
    if mean.event.delta(epsilon) > delta:
        raise InvalidParameterError("delta", delta, "is exceeded by the printed noise", "Use constants='calibrated'")
    first, phases = 0, []
    for phase in constants.phases:
        N = int(phase.group)
        clip = max(min(2 * facts.radius, phase.step_size * facts.lipschitz * N * m), 1e-90)
        aggregate = Guarded(mean, phase.radius, clip)
        phases.append(Phase(first, C, N, N * m, phase.step_size, aggregate))
        first += C * N
    source = "proof of Theorem B.1 with its constants (Lowy, Liu and Asi 2024); for independent records"
    return Schedule(tuple(phases), constants.bound, source, True)
