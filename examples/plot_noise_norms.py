"""
Noise that fits the table
=========================

A record of a table with categories lies in a small corner of the l2 ball: one level of each category is on. Noise drawn
in a norm made for that shape has far less energy. Here the norms are compared on growing schemas, from public facts
alone: no data are involved.
"""

import matplotlib.pyplot as plt
import numpy as np

from dpconvex import Block, DataDomain, PrivateLogisticRegression

noises = ["l2", "l1", "block_max", "weighted_l1", "grouped"]
levels = [2, 5, 10, 20, 50]


def domain(size: int) -> DataDomain:
    """Ten numeric columns, five small categories and two large ones."""
    numeric = tuple(Block(1, "linf", 0.5) for _ in range(10))
    small = tuple(Block(4, "l1", 1.0) for _ in range(5))
    large = tuple(Block(size, "l1", 1.0) for _ in range(2))
    return DataDomain(numeric + small + large)


# %%
# The predicted bound on the excess loss at epsilon 1 with 50,000 records.

bounds = np.array(
    [
        [
            PrivateLogisticRegression(
                1.0, domain=domain(size), noise=noise, algorithm="objective_perturbation", classes=[0, 1]
            )
            .plan(50_000)[0]
            .predicted_error.bound
            for size in levels
        ]
        for noise in noises
    ]
)

figure, axes = plt.subplots(figsize=(6, 4), layout="constrained")
for noise, row in zip(noises, bounds, strict=True):
    axes.plot(levels, row, marker="o", label=noise)
axes.set(xscale="log", yscale="log", xlabel="levels of the two large categories", ylabel="bound on excess log-loss")
axes.set_title("epsilon 1, n = 50,000")
axes.legend()
plt.show()
