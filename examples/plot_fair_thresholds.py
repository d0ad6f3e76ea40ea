"""
Fair thresholds: a game over a polytope
=======================================

A bank lends to people by a threshold on their years of schooling, one threshold for women and one for men. Policies may
be mixed, the two thresholds may differ by two years at most, and the larger of the two groups' mean costs is to be
small. The mixed policies are a polytope with a vertex for every allowed pair of thresholds, the opponent weighs the
groups, and each person's record is used once: a saddle point, with census records (Adult) as private data.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.optimize import linprog

from dpconvex import load_adult
from dpconvex.algorithms.minimax.registry import plan_saddle
from dpconvex.privacy import PrivacyParams
from dpconvex.problems import PolytopeSaddle
from dpconvex.randomness import SystemSource

people = load_adult()
woman = np.array([sex == "Female" for sex in people["sex"].to_pylist()], dtype=int)
years = np.array(people["education-num"].to_pylist())
rich = np.array([income.startswith(">50K") for income in people["income"].to_pylist()], dtype=int)
records = np.column_stack([woman, years, rich])
records = records[np.random.default_rng(0).permutation(len(records))]

# %%
# The polytope
# ------------
# A point is a pair of distributions of thresholds, men's first. Costs: 1 for refusing somebody who would pay back
# (here: with a high income), 1/3 for lending to somebody who would not. Two thirds of the records are men's, a public
# number.

levels = np.arange(1, 18)  # threshold 17 lends to nobody
pairs = [(men, women) for men in range(17) for women in range(17) if abs(men - women) <= 2]
V = np.zeros((34, len(pairs)))
for k, (men, women) in enumerate(pairs):
    V[men, k] = V[17 + women, k] = 1
FACTORS = np.array([3 / 2, 3.0])


def costs(z):
    """Cost of each record under each threshold, over its group's share: (m, 34), zeros for the other group."""
    lent = z[:, 1:2] >= levels
    cost = np.where(z[:, 2:] == 1, 1.0 - lent, lent / 3) * FACTORS[z[:, :1]]
    return np.concatenate([cost * (z[:, :1] == 0), cost * (z[:, :1] == 1)], axis=1)


def by_group(u, z):
    each = costs(z) * u
    return np.stack([each[:, :17].sum(1), each[:, 17:].sum(1)], axis=1)


problem = PolytopeSaddle(
    len(records),
    gradients=lambda u, v, z: (costs(z) * np.repeat(v, 17), by_group(u, z)),
    values=lambda u, v, z: by_group(u, z) @ v,
    V=V,
    W=np.eye(2),
    bounds=(3.0, 3.0),
    value_bounds=(0.0, 3.0),
    l1_smoothness=3.0,
    l2_smoothness=0.0,
    is_bilinear=True,
    title="lending thresholds",
)

# %%
# Private against exact
# ---------------------
# These records are public, so the exact solution (a linear program) can be shown beside the private ones.

mean = costs(records).mean(0)
table = np.array([[mean[:17] @ V[:17, k], mean[17:] @ V[17:, k]] for k in range(len(pairs))])
program = linprog(
    np.r_[np.zeros(len(pairs)), 1], np.c_[table.T, -np.ones(2)], np.zeros(2), np.r_[np.ones(len(pairs)), 0][None], [1]
)
epsilons = [0.05, 0.2, 0.5, 2.0]
found = [
    [plan.run(records, SystemSource()).x for _ in range(2)]
    for epsilon in epsilons
    for plan in plan_saddle(problem, PrivacyParams(epsilon, 1e-6), "vertex_mirror_descent")
]
worst = np.array([[(table.T @ x).max() for x in runs] for runs in found])

figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.4), layout="constrained")
left.errorbar(epsilons, worst.mean(1), worst.std(1), fmt="o-", label="private, 2 runs")
left.axhline(program.fun, color="C1", linestyle="--", label="exact, not private")
left.axhline(table.max(1)[pairs.index((0, 0))], color="C2", linestyle=":", label="lend to everybody")
left.set(xscale="log", xlabel="epsilon", ylabel="mean cost of the worse group")
left.legend(fontsize=9)
policy = V @ found[-1][0]
for k, name in enumerate(["men", "women"]):
    right.bar(levels + 0.4 * k - 0.2, policy[17 * k : 17 * (k + 1)], width=0.4, label=name)
right.set(xlabel="threshold (years of schooling, coded)", ylabel=f"probability, epsilon {epsilons[-1]:g}")
right.legend(fontsize=9)
plt.show()
for epsilon, cost in zip(epsilons, worst.mean(1), strict=True):
    print(f"epsilon {epsilon:g}: worse group's cost {cost:.3f}, exact {program.fun:.3f}")
