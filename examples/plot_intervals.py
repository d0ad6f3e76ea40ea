"""
Intervals for a private model
=============================

What a private logistic regression says of its coefficients, and what it does not: a level that hardly anybody has gets
no interval at all. Fits here are seeded so that the picture is reproducible, which makes them *not private*: leave
``random_state`` out when the data are sensitive.
"""

import matplotlib.pyplot as plt
import numpy as np
import pyarrow as pa

from dpconvex import CategoricalColumn, NumericColumn, PrivateAdditiveClassifier, PrivateLogisticRegression, Schema
from dpconvex.data import ClassTarget

# %%
# Made-up patients: who comes back within a month? Ranges and wards are public knowledge.

rng = np.random.default_rng(0)
n = 30_000
age, days = rng.uniform(20, 100, n), rng.uniform(0, 30, n)
ward = rng.choice(["medicine", "surgery", "maternity", "burns"], n, p=[0.5, 0.3, 0.197, 0.003])
effect = {"medicine": 0.0, "surgery": -0.4, "maternity": -1.0, "burns": 0.8}
log_odds = -1.0 + 2.0 * (age - 60) / 80 + 1.0 * (days - 15) / 30 + np.array([effect[w] for w in ward])
back = np.where(rng.random(n) < 1 / (1 + np.exp(-log_odds)), "yes", "no")
table = pa.table({"age": age, "days": days, "ward": ward, "back": back})
columns = NumericColumn("age", 20, 100), NumericColumn("days", 0, 30), CategoricalColumn("ward", tuple(effect))
schema = Schema(columns, ClassTarget("back", ("no", "yes")))

# %%
# One certificate, one epsilon: coefficients, standard errors, tests and intervals.

models = {
    e: PrivateLogisticRegression(e, schema=schema, inference=True, random_state=0).fit(table) for e in (0.5, 1, 3)
}
print(models[1].summary(reference={"ward": "medicine"}))

# %%
# Crosses are what the made-up patients follow. Intervals shrink with epsilon; the rare ward is not known, and says so.

truth = [2.0, 1.0, effect["surgery"], effect["maternity"], effect["burns"]]
figure, axes = plt.subplots(figsize=(8, 3.6), layout="constrained")
for k, (epsilon, model) in enumerate(models.items()):
    found = model.summary(reference={"ward": "medicine"}).found
    at, known = np.arange(5) + 0.2 * (k - 1), found.finite[1:]
    axes.vlines(at[known], found.lower[1:][known], found.upper[1:][known], color=f"C{k}", label=f"epsilon {epsilon}")
    axes.plot(at[known], found.estimate[1:][known], "o", color=f"C{k}", markersize=4)
    for place in at[~known]:
        axes.text(place, -2.6, "?", color=f"C{k}", ha="center")
axes.plot(range(5), truth, "kx", label="truth")
axes.axhline(0, color="gray", linewidth=0.8)
axes.set(xticks=range(5), ylabel="log-odds", title="95 % intervals", ylim=(-2.8, 3.2))
axes.set_xticklabels(["age\n(80 years)", "days\n(30 days)", "surgery", "maternity", "burns"])
axes.legend()
plt.show()

# %%
# Shapes have intervals, too: of how much more a value is than that of the knot which is seen most. The bent line of an
# additive model with five knots, of the same patients' days.

bent = np.where(rng.random(n) < 1 / (1 + np.exp(1.5 - np.abs(days - 15) / 5)), "yes", "no")
model = PrivateAdditiveClassifier(1.0, schema=schema, inference=True, knots=5, missing="none", random_state=0)
shape = next(each for each in model.fit(table.set_column(3, "back", [bent])).shapes_ if each.name == "days")
figure, axes = plt.subplots(figsize=(6, 3.2), layout="constrained")
axes.fill_between(shape.vertices, *shape.interval, color="C0", alpha=0.25, label="95 % interval")
axes.plot(shape.vertices, shape.values, "o-", color="C0", label="released")
line = np.abs(np.array(shape.vertices) - 15) / 5
axes.plot(shape.vertices, line + (shape.values - line)[np.ptp(shape.interval, axis=0).argmin()], "kx", label="truth")
axes.set(xlabel="days", ylabel="log-odds", title="A shape with error bars")
axes.legend()
plt.show()
