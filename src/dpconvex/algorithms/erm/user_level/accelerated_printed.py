r"""Algorithm 3 of Lowy, Liu and Asi (2024) with its printed constants, real-valued; and why it is never run with them.

With ``l = floor(log2 n)`` phases, for ``i = 1, ..., l``

    n_i = (1 - 2^-q) n 2^(-iq),  lambda_i = lambda 2^(pi),  T_i = (1 + sqrt(beta/lambda_i)) log(ndm),
    K_i = 500 log(n_i^2 m^2 e^epsilon/delta) (1/epsilon + n_i epsilon / sqrt(T_i log(1/delta))),
    sigma_i = 1000 tau sqrt(T_i) log(n d e^epsilon/delta) / (epsilon n_i),

``tau = L log(ndm)/sqrt(m)`` (the paper gives no constant), ``lambda = L/D (1/sqrt(nm) + sqrt(d)/(epsilon n sqrt(m)))``,
``p = 3q + 2.5 + log_n sqrt(m)``, D the diameter. A minibatch needs ``K_i <= n_i``. The proof says that its conditions
ensure that; they do not (erratum E8): ``T_i`` tends to ``log(ndm)``, so that in late phases ``K_i`` exceeds ``n_i`` for
every n and every epsilon above about a tenth. And for ``K_i < n_i`` the proof of privacy has a gap (E6).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from dpconvex.errors import InvalidParameterError


@dataclass(frozen=True)
class PrintedPhase:
    """Real-valued constants of one phase, as printed.

    Parameters
    ----------
    users, batch, steps : float
        n_i, K_i and T_i.
    l2, deviation : float
        lambda_i and sigma_i.
    """

    users: float
    batch: float
    steps: float
    l2: float
    deviation: float


@dataclass(frozen=True)
class Printed:
    """Real-valued constants of Algorithm 3, as printed.

    Parameters
    ----------
    growth, l2, radius : float
        p, lambda and tau.
    phases : tuple of PrintedPhase
    bound : float
        Formulas (15) to (18) of the proof with every hidden constant 1 and ``K_i`` capped at ``n_i``.
    gradients : float
        ``sum_i T_i K_i m``, K_i capped at ``n_i``.
    """

    growth: float
    l2: float
    radius: float
    phases: tuple[PrintedPhase, ...]
    bound: float
    gradients: float

    @property
    def feasible(self) -> bool:
        """Whether every minibatch fits into its phase."""
        return all(phase.batch <= phase.users for phase in self.phases)


def printed(
    n: float,
    m: float,
    dim: float,
    epsilon: float,
    delta: float,
    *,
    smoothness: float = 1.0,
    lipschitz: float = 1.0,
    diameter: float = 1.0,
    q: float | None = None,
    logarithms: bool = True,
) -> Printed:
    """Return the printed constants.

    Parameters
    ----------
    n, m, dim : float
        Users, records of each, dimension.
    epsilon, delta : float
        Positive.
    smoothness, lipschitz, diameter : float
        beta, L and D.
    q : float, optional
        Exponent; default ``1 / log n``, which nearly maximises the last phase.
    logarithms : bool
        False: without logarithmic factors and the 500, to see the powers in the number of gradients; ``K_i >= n_i/T_i``
        is then enforced (E9).
    """
    q = 1 / math.log(n) if q is None else q
    big = math.log(n * dim * m) if logarithms else 1.0
    tau, p = lipschitz * big / math.sqrt(m), 3 * q + 2.5 + math.log(math.sqrt(m)) / math.log(n)
    l2 = lipschitz / diameter * (1 / math.sqrt(n * m) + math.sqrt(dim) / (epsilon * n * math.sqrt(m)))
    phases: list[PrintedPhase] = []
    for i in range(1, int(math.log2(n)) + 1):
        users, weight = (1 - 2**-q) * n / 2 ** (i * q), l2 * 2 ** (p * i)
        steps = (1 + math.sqrt(smoothness / weight)) * big
        if logarithms:
            scale = 500 * (2 * math.log(users * m) + epsilon - math.log(delta))
            batch = scale * (1 / epsilon + users * epsilon / math.sqrt(steps * math.log(1 / delta)))
            noise = 1000 * (math.log(n * dim) + epsilon - math.log(delta))
        else:
            batch, noise = max(1 / epsilon + users * epsilon / math.sqrt(steps), users / steps), 1.0
        deviation = noise * tau * math.sqrt(steps) / (epsilon * users)
        phases.append(PrintedPhase(users, batch, steps, weight, deviation))
    gradients = sum(phase.steps * min(phase.batch, phase.users) * m for phase in phases)
    return Printed(p, l2, tau, tuple(phases), _bound(phases, m, dim, lipschitz, diameter, big), gradients)


def _bound(phases: list[PrintedPhase], m: float, dim: float, lipschitz: float, diameter: float, big: float) -> float:
    bound, square = 0.0, diameter**2
    for phase in phases:
        variance = dim * phase.deviation**2 + lipschitz**2 * big / (min(phase.batch, phase.users) * m)
        bound += lipschitz**2 / (phase.l2 * phase.users * m) + phase.l2 * square
        square = 2 * variance / (phase.l2**2 * phase.steps)
    return bound + lipschitz * math.sqrt(square)


def refusal(n: int, m: int, dim: int, epsilon: float, delta: float, smoothness: float) -> InvalidParameterError:
    """Return the error that says what the printed constants would need."""
    found = printed(n, m, dim, epsilon, delta, smoothness=smoothness)
    worst = max(phase.batch / phase.users for phase in found.phases)
    what = (
        f"cannot be run: a minibatch would need {worst:.3g} times the users of its phase, and where it fits the proof "
        f"of privacy has a gap (Errata); the printed proof bounds the excess by {found.bound:.3g} L D"
    )
    return InvalidParameterError("constants", "paper", what, "Use constants='calibrated', or algorithm='phased_sgd'")
