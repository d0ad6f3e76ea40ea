"""Constants of methods for users as Lowy, Liu and Asi 2024 print them, in the place of those that are calibrated here.

None of them carries privacy: plans price what they are given by its own event, and refuse what the promise does not
cover. Algorithm 1 (phased SGD) is run with C raised to ``150 log(20 e^epsilon / delta) / epsilon`` (erratum E2) and to
an even integer (the proof needs it, see `outlier_removal`), the other sizes rounded down (E19). ``N_l >= 1``
is not implied by the theorem's condition (E1): checked here, it takes more than 100000 users. Algorithm 3 (accelerated)
is never run: a minibatch needs ``K_i <= n_i``, and the proof's conditions do not ensure it (E8); for ``K_i < n_i`` the
proof of privacy has a gap (E6).
"""

import math
from typing import NamedTuple

from dpconvex.algorithms.erm.user_level.aggregates import Guarded
from dpconvex.algorithms.erm.user_level.phased import Facts, Phase, Schedule
from dpconvex.errors import InvalidParameterError
from dpconvex.plugins import printed
from dpconvex_experiments.reference.outlier_removal import OutlierRemoval, flips


class OnePass(NamedTuple):
    """Real-valued constants of one phase of Algorithm 1."""

    users: float  #: n_i
    group: float  #: N_i
    steps: float  #: T_i
    step_size: float  #: eta_i
    radius: float  #: tau_i
    deviation: float  #: sigma_i


class Phased(NamedTuple):
    """Constants of Algorithm 1; bound by Theorem B.1's proof with Lemma B.3's constants."""

    groups: float  #: C
    step_size: float  #: eta
    phases: tuple[OnePass, ...]
    bound: float


def phased(
    n: int, m: int, dim: int, epsilon: float, delta: float,
    *, lipschitz: float = 1.0, diameter: float = 1.0, q: float | None = None, groups: float | None = None,
) -> Phased:  # fmt: skip
    """Return the constants of Algorithm 1, or with another C; ``q = 1 / log n`` nearly maximizes the last phase."""
    q = 1 / math.log(n) if q is None else q
    C = 100 * math.log(20 * n * m * math.exp(epsilon) / delta) / epsilon if groups is None else groups
    p, eta = math.log(m) / math.log(n) + 1.5, diameter / (lipschitz * math.sqrt(dim * m * n * epsilon))
    phases, bound, square = [], 0.0, diameter**2
    for i in range(1, int(math.log2(n)) + 1):
        users = (1 - 2**-q) * n / 2 ** (i * q)
        step, steps = eta * 2 ** (-p * i), users / C * m
        radius = 1000 * step * lipschitz * math.sqrt(steps) * math.log(n * dim * m)
        deviation = 100 * radius * math.log(n / delta) ** 2 / (epsilon * C)
        phases.append(OnePass(users, users / C, steps, step, radius, deviation))
        bound += square / (step * steps) + step * lipschitz**2
        square = dim * deviation**2
    return Phased(C, eta, tuple(phases), bound + lipschitz * math.sqrt(square))


@printed("phased_sgd")
def phased_schedule(facts: Facts) -> Schedule:
    """Return Algorithm 1 as it can be run; raise for an empty group and for a cost above the promise."""
    privacy, problem, m = facts.privacy, facts.problem, facts.records
    n, d, L, R = problem.n, problem.dim, problem.lipschitz, problem.radius
    epsilon, delta = privacy.epsilon, privacy.delta
    if epsilon > 10:
        raise InvalidParameterError("epsilon", epsilon, "must be at most 10 with constants='paper'", "Theorem 2.1")
    literal = 100 * math.log(20 * n * m * math.exp(epsilon) / delta) / epsilon
    repaired = 150 / epsilon * math.log(20 * math.exp(epsilon) / delta)
    C = 2 * math.ceil(max(literal, repaired) / 2)
    constants = phased(n, m, d, epsilon, delta, lipschitz=L, diameter=2 * R, groups=C)
    if n < 2 or constants.phases[-1].group < 1:  # erratum E1
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
        clip = max(min(2 * R, phase.step_size * L * N * m), 1e-90)
        phases.append(Phase(first, C, N, N * m, phase.step_size, Guarded(mean, phase.radius, clip)))
        first += C * N
    source = "proof of Theorem B.1 with its constants (Lowy, Liu and Asi 2024); for independent records"
    return Schedule(tuple(phases), constants.bound, source, True)


class Batched(NamedTuple):
    """Real-valued constants of one phase of Algorithm 3."""

    users: float  #: n_i
    batch: float  #: K_i
    steps: float  #: T_i
    l2: float  #: lambda_i
    deviation: float  #: sigma_i


class Accelerated(NamedTuple):
    """Constants of Algorithm 3; bound by (15) to (18), hidden constants 1, ``K_i`` capped at ``n_i``."""

    growth: float  #: p
    l2: float  #: lambda
    radius: float  #: tau
    phases: tuple[Batched, ...]
    bound: float
    gradients: float  #: sum_i T_i K_i m, with K_i capped at n_i


def accelerated(
    n: float, m: float, dim: float, epsilon: float, delta: float,
    *, smoothness: float = 1.0, q: float | None = None, logarithms: bool = True,
) -> Accelerated:  # fmt: skip
    """Return those of Algorithm 3, L = D = 1; without `logarithms` by powers, ``K_i >= n_i/T_i`` enforced (E9)."""
    q = 1 / math.log(n) if q is None else q
    big = math.log(n * dim * m) if logarithms else 1.0
    tau, p = big / math.sqrt(m), 3 * q + 2.5 + math.log(math.sqrt(m)) / math.log(n)
    l2 = 1 / math.sqrt(n * m) + math.sqrt(dim) / (epsilon * n * math.sqrt(m))
    phases: list[Batched] = []
    for i in range(1, int(math.log2(n)) + 1):
        users, weight = (1 - 2**-q) * n / 2 ** (i * q), l2 * 2 ** (p * i)
        steps = (1 + math.sqrt(smoothness / weight)) * big
        if logarithms:
            scale = 500 * (2 * math.log(users * m) + epsilon - math.log(delta))
            batch = scale * (1 / epsilon + users * epsilon / math.sqrt(steps * math.log(1 / delta)))
            noise = 1000 * (math.log(n * dim) + epsilon - math.log(delta))
        else:
            batch, noise = max(1 / epsilon + users * epsilon / math.sqrt(steps), users / steps), 1.0
        phases.append(Batched(users, batch, steps, weight, noise * tau * math.sqrt(steps) / (epsilon * users)))
    gradients = sum(phase.steps * min(phase.batch, phase.users) * m for phase in phases)
    bound, square = 0.0, 1.0
    for phase in phases:
        variance = dim * phase.deviation**2 + big / (min(phase.batch, phase.users) * m)
        bound += 1 / (phase.l2 * phase.users * m) + phase.l2 * square
        square = 2 * variance / (phase.l2**2 * phase.steps)
    return Accelerated(p, l2, tau, tuple(phases), bound + math.sqrt(square), gradients)


@printed("accelerated_user")
def refusal(n: int, m: int, dim: int, epsilon: float, delta: float, smoothness: float) -> InvalidParameterError:
    """Return the error that says what the constants of Algorithm 3 would need."""
    found = accelerated(n, m, dim, epsilon, delta, smoothness=smoothness)
    worst = max(phase.batch / phase.users for phase in found.phases)
    needs = f"a minibatch would need {worst:.3g} times the users of its phase"
    gap = "where it fits the proof of privacy has a gap (Errata)"
    what = f"cannot be run: {needs}, and {gap}; the printed proof bounds the excess by {found.bound:.3g} L D"
    return InvalidParameterError("constants", "paper", what, "Use constants='calibrated', or algorithm='phased_sgd'")
