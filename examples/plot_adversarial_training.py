"""
Training against an adversary
=============================

``adversarial_radius`` trains for the worst case: every record counts with its largest loss while somebody moves its
features by up to that length. For two classes the worst move has a closed form, so the problem stays convex and the
privacy cost stays what it was. Here: accuracy under attack, what privacy adds, and what both cost in computing time.
Fits are seeded so that the picture is reproducible, which makes them *not private*: leave ``random_state`` out when the
data are sensitive.
"""

import time
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np

from dpconvex import PrivateLogisticRegression, adult_schema, load_adult

# %%
# Adult census data, as many people with an income above 50,000 dollars as below. Four numeric columns and the marital
# status. The attack moves *encoded* features: a numeric column is 1 wide, so a radius of 0.1 is a tenth of its range; a
# change of marital status would have length 1.4.

table, full = load_adult(), adult_schema()
names = ("age", "education-num", "hours-per-week", "capital-gain", "marital-status")
schema = replace(full, columns=tuple(column for column in full.columns if column.name in names))
index, rng = schema.encode_target(table), np.random.default_rng(0)
high = np.flatnonzero(index == 1)
rows = rng.permutation(np.concatenate([high, rng.choice(np.flatnonzero(index == 0), len(high), replace=False)]))
train, test = table.take(rows[:17_932]), table.take(rows[17_932:])
X_test, sign = schema.encode(test), 2.0 * schema.encode_target(test) - 1

radii, epsilons = [0.0, 0.1, 0.2], [0.5, 1.0, 4.0, np.inf]


def fit(epsilon, radius, seed=0):
    """Infinite epsilon: a budget so large that hardly any noise is left."""
    budget = {"epsilon": 1e6, "l2": 1e-5} if np.isinf(epsilon) else {"epsilon": epsilon}
    return PrivateLogisticRegression(
        **budget,
        schema=schema,
        algorithm="output_perturbation",
        coefficient_norm=4.0,
        adversarial_radius=radius,
        random_state=seed,
    ).fit(train)


def robust_accuracy(model, attack):
    """Share of test records that no attack of that radius turns."""
    w = model.encoded_coef_[0]
    margin = sign * (X_test @ w + model.encoded_intercept_[0])
    return np.mean(margin > attack * np.linalg.norm(w))


# %%
# One fit for every radius and budget, three seeds, and the time of each.

seconds, models = {}, {}
for epsilon in epsilons:
    for radius in radii:
        start = time.perf_counter()
        models[epsilon, radius] = [fit(epsilon, radius, seed) for seed in range(3)]
        seconds[epsilon, radius] = (time.perf_counter() - start) / 3

attacks = np.linspace(0, 0.25, 26)
figure, axes = plt.subplots(1, 2, figsize=(8.4, 3.8), sharey=True, layout="constrained")
for axis, epsilon in zip(axes, (1.0, np.inf), strict=True):
    for radius in radii:
        curve = [np.mean([robust_accuracy(model, a) for model in models[epsilon, radius]]) for a in attacks]
        axis.plot(attacks, curve, label=f"trained for {radius:g}")
    axis.set(xlabel="attack radius", title="not private" if np.isinf(epsilon) else f"epsilon {epsilon:g}")
axes[0].set_ylabel("accuracy under attack")
axes[0].legend()
plt.show()

# %%
# Without an attack the model of radius 0 is best, under attack it falls fastest. Its private version falls more slowly:
# the regularization that privacy asks for keeps coefficients small, which is a defence too. The models trained for an
# attack lose next to nothing to the noise while there is none; to hold against the largest one takes a larger epsilon.
#
# Clean and robust accuracy over the budget, and what they cost: seconds of a fit, and its solver's passes over the
# data. Where the noise is to be small (large epsilon) the solver works longer: it must know the minimizer more exactly.
# An adversary makes every fit dearer, as second-order solvers do not apply to the worst-case loss, which has kinks.
# Fitted models do not tell how long the solver worked, since that depends on the data: we ask the solver.


def passes(model):
    """Passes until the certificate reached the planned accuracy. Not private."""
    plan = model.plan_
    objective = plan.problem.objective(schema.encode(train), 2.0 * schema.encode_target(train) - 1, plan.l2)
    return plan.solver.solve(objective, plan.solver_radius, plan.constraint).gradient_calls


figure, axes = plt.subplots(2, 2, figsize=(9.5, 6.5), layout="constrained")
ticks = range(len(epsilons))
for radius in radii:
    for axis, attack in zip(axes[0], (0.0, 0.2), strict=True):
        line = [np.mean([robust_accuracy(model, attack) for model in models[e, radius]]) for e in epsilons]
        axis.plot(ticks, line, marker="o", label=f"trained for {radius:g}")
    axes[1, 0].plot(ticks, [seconds[e, radius] for e in epsilons], marker="o")
    axes[1, 1].plot(ticks, [passes(models[e, radius][0]) for e in epsilons], marker="o")
axes[0, 0].set(title="clean", ylabel="test accuracy")
axes[0, 1].set(title="under attacks of 0.2", ylabel="test accuracy")
axes[1, 0].set(title="time", ylabel="seconds a fit", yscale="log")
axes[1, 1].set(title="solver", ylabel="passes over the data", yscale="log")
for axis in axes.flat:
    axis.set_xticks(ticks, [f"{e:g}" if np.isfinite(e) else "not private" for e in epsilons])
    axis.set_xlabel("epsilon")
axes[0, 1].legend(loc="lower left")
plt.show()

for radius in radii:
    for epsilon in epsilons:
        clean, robust = (np.mean([robust_accuracy(m, a) for m in models[epsilon, radius]]) for a in (0.0, 0.2))
        print(f"trained for {radius:4.2f}, epsilon {epsilon:3g}: clean {clean:.3f}, robust at 0.2 {robust:.3f}")
