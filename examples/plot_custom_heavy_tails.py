"""
A loss of your own with heavy tails: where to put a depot
=========================================================

A depot is to be near its customers, and a customer counts by the freight that he orders. Freight is heavy-tailed: most
order little, some a thousand times as much. Noise for the largest order that is possible drowns the answer;
``heavy_tailed=(k, G)`` needs a moment of the orders instead. The fit is seeded so that the picture is reproducible,
which makes it *not private*: leave ``random_state`` out.
"""

import matplotlib.pyplot as plt
import numpy as np

from dpconvex import DataDomain, RecordLoss, attack_constants, plan_minimize, private_minimize

# %%
# The loss of a customer at x who orders a is ``a |w - x|`` for a depot at w: convex, with a kink at x, and as steep as
# the order is large. Orders above 1,000 are clipped; that is a limit for the arithmetic, and no noise is in
# proportion to it. ``each`` tells the library how to move the parameters of single records, without a loop.


class Depot(RecordLoss):
    name, dim = "freight times distance", 2
    domain = DataDomain.box(3, 1000.0)

    def lipschitz(self, radius):
        return 1000.0 * (1 + 1e-12)

    def value(self, w, records):
        return np.abs(records[:, 2]) * np.linalg.norm(w - records[:, :2], axis=1)

    def gradient(self, w, records):
        return self.each(np.broadcast_to(w, (len(records), 2)), records)[1]

    def each(self, points, records):
        away, freight = points - records[:, :2], np.abs(records[:, 2])
        lengths = np.linalg.norm(away, axis=1)
        return freight * lengths, (freight / np.maximum(lengths, 1e-300))[:, None] * away


loss = Depot()
print(attack_constants(loss, radius=1.0, trials=100))

# %%
# Made-up customers in two towns on a map of radius 1; orders follow a Pareto law whose second moment is finite and no
# more. ``G = 3.5`` is public knowledge: the root mean square order of such a trade.

rng = np.random.default_rng(0)
n = 3000
towns = np.where(rng.random((n, 1)) < 0.7, [[0.35, 0.25]], [[-0.35, -0.3]])
X = np.c_[towns + 0.12 * rng.standard_normal((n, 2)), 1 + rng.pareto(2.2, n)]
common = {"epsilon": 2.0, "radius": 1.0}
print("bound with a moment:", plan_minimize(loss, n, heavy_tailed=(2, 3.5), **common).predicted_error.bound)
print("bound with the largest slope:", plan_minimize(loss, n, **common).predicted_error.bound)

# %%
# Three releases of each kind. The best place is found without privacy, for comparison.

heavy = [private_minimize(loss, X, heavy_tailed=(2, 3.5), random_state=seed, **common) for seed in range(3)]
plain = [private_minimize(loss, X, max_steps=2000, random_state=seed, **common) for seed in range(3)]
grid = np.stack(np.meshgrid(np.linspace(-0.6, 0.6, 61), np.linspace(-0.6, 0.6, 61)), axis=-1).reshape(-1, 2)
costs = np.array([loss.value(w, X).mean() for w in grid])
best = grid[costs.argmin()]
for name, found in (("moment", heavy), ("largest slope", plain)):
    excess = [loss.value(one.point, X).mean() / costs.min() - 1 for one in found]
    print(f"{name}: {100 * np.mean(excess):.0f} % more freight-distance than the best place")
print(heavy[0].certificate.explain())

# %%
# The towns, the best place, and where the releases would put the depot.

figure, axes = plt.subplots(figsize=(6, 6), layout="constrained")
axes.scatter(
    *X[:, :2].T, s=np.minimum(X[:, 2], 40), alpha=0.15, color="#888888", linewidth=0, label="customers, by freight"
)
axes.scatter(*best, marker="*", s=200, color="#222222", label="best place")
for found, color, name in ((heavy, "#1f77b4", "with a moment"), (plain, "#d62728", "with the largest slope")):
    points = np.array([one.point for one in found])
    axes.scatter(*points.T, marker="D", color=color, label=f"released {name}")
axes.add_patch(plt.Circle((0, 0), 1, fill=False, linestyle=":"))
axes.set(xlim=(-1.05, 1.05), ylim=(-1.05, 1.05), aspect="equal", title="Depots, epsilon = 2")
axes.legend(loc="upper left")
plt.show()
