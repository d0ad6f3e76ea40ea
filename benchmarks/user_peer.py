"""Measure DP-SGD with whole users as samples, with the best of six settings, for either relation of neighbors.

    python benchmarks/user_peer.py [--tables grades care] [--seeds 5]      # half a minute for each table

This is the peer of `benchmarks/user_level.py` written anew, so that it can be run on the terms of this library: Poisson
samples of about a fortieth of the users (16 at least), clipped gradients of users, Gaussian noise. The noise multiplier
makes epsilon hold at delta 1e-6 for users that are replaced (`PoissonSteps`) or for users that are added or removed
(privacy loss distributions of dp-accounting). Fits are seeded: this measures accuracy on public data.
"""

from __future__ import annotations

import argparse
import math
from functools import cache

import numba
import numpy as np
from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism
from scipy.optimize import brentq

from dpconvex.privacy.events.subsampled import poisson_delta
from dpconvex.problems import UserGroups
from user_level import DELTA, OPACUS_GRID, TABLES, Split

EPSILONS = (0.1, 0.3, 1.0, 3.0)
RELATIONS = ("replaced", "added")


@numba.njit(cache=True)
def descend(X, y, starts, number, clip, step, count, rate, sigma, batch, rng):
    w, g = np.zeros(X.shape[1]), np.zeros(X.shape[1])
    for _ in range(count):
        total, taken = np.zeros(len(w)), 0
        for u in range(len(starts) - 1):
            if rng.random() >= rate:
                continue
            taken += 1
            g[:] = 0
            for i in range(starts[u], starts[u + 1]):
                z = X[i] @ w
                g += (z - y[i] if number else -y[i] / (1 + np.exp(y[i] * z))) * X[i]
            g /= starts[u + 1] - starts[u]
            total += g * min(1.0, clip / (np.sqrt(g @ g) + 1e-6))
        if taken:  # as in the benchmark with Opacus
            w -= step * (total + sigma * clip * rng.normal(0, 1, len(w))) / batch
    return w


@cache
def multiplier(relation: str, epsilon: float, rate: float, steps: int) -> float:
    def delta(mu: float) -> float:
        if relation == "replaced":
            return poisson_delta(epsilon, rate, mu, steps)
        one = from_gaussian_mechanism(1 / mu, sampling_prob=rate, value_discretization_interval=1e-4 * max(1, epsilon))
        return one.self_compose(steps).get_delta_for_epsilon(epsilon)

    def excess(log_mu: float) -> float:
        return math.log(max(delta(math.exp(log_mu)), 1e-300) / DELTA)

    return math.exp(-brentq(excess, math.log(1e-3), math.log(3.0), xtol=1e-3))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=TABLES)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--relations", nargs="+", default=list(RELATIONS), choices=RELATIONS)
    arguments = parser.parse_args()
    for name in arguments.tables:
        table, found = TABLES[name](), {}
        for seed in range(arguments.seeds):
            split = Split(table, seed)
            groups = UserGroups.of(split.users)
            order = slice(None) if groups.order is None else groups.order
            X = np.column_stack([split.X, np.ones(len(split.X))])[order]
            y, starts = (2.0 * split.y - 1)[order], groups.starts.astype(np.int64)
            per_epoch = math.ceil(groups.n_users / max(16, groups.n_users // 40))
            for epsilon in EPSILONS:
                for relation in arguments.relations:
                    for clip, step, epochs in OPACUS_GRID:
                        count, rate = epochs * per_epoch, 1 / per_epoch
                        sigma = multiplier(relation, epsilon, rate, count)
                        batch = int(groups.n_users * rate)
                        rng = np.random.default_rng(100 * seed + 7)
                        w = descend(X, y, starts, False, clip, step, count, rate, sigma, batch, rng)
                        lost = split.loss(w[:-1], w[-1]) - split.best
                        found.setdefault((epsilon, relation), {}).setdefault((clip, step, epochs), []).append(lost)
        for (epsilon, relation), settings in found.items():
            best = min(settings.values(), key=np.mean)
            error = np.std(best) / math.sqrt(len(best))
            print(f"{name} {epsilon:g} {relation}: {np.mean(best):.4f} ({error:.4f})", flush=True)


if __name__ == "__main__":
    main()
