"""
A private model that can be read
================================

`PrivateAdditiveClassifier` predicts from one shape a column: a broken line for a number, a value a level for a
category. The score of a record is their sum, so a model is as many pictures as there are columns. Here it learns who
earned more than 50,000 dollars in the US census of 1994, with pure privacy at epsilon 1, and we read what it says.
"""

# %%
# The data and a schema: ranges and categories that are public knowledge. Nothing else is declared.

import matplotlib.pyplot as plt
import numpy as np

from dpconvex import PrivateAdditiveClassifier, PrivateLogisticRegression, adult_schema, load_adult

schema, table = adult_schema(), load_adult()
order = np.random.default_rng(0).permutation(len(table))
test, train = (table.take(part) for part in np.split(order, [len(table) // 5]))

# %%
# Before any record is read: how many knots, how much noise in each column's shape, all from public facts.

model = PrivateAdditiveClassifier(epsilon=1.0, schema=schema, random_state=0)  # a seed is for tests: leave it out
plan = model.plan(len(train))[0]
print({block.name: block.size for block in plan.problem.domain.blocks})

# %%
# The fit, beside the linear model.

model.fit(train)
linear = PrivateLogisticRegression(epsilon=1.0, schema=schema, random_state=0).fit(train)
truth = schema.encode_target(test)


def log_loss(fitted) -> float:
    return float(-fitted.predict_log_proba(test)[np.arange(len(truth)), truth].mean())


print(f"log-loss: additive {log_loss(model):.4f}, linear {log_loss(linear):.4f}")
print(f"epsilon spent: {model.certificate_.spent_epsilon:.3f}")

# %%
# The shapes of the numbers. Bands are two planned deviations of the noise to either side; shrinkage and sampling are
# not in them.

shapes = [shape for shape in model.shapes_ if shape.kind == "numeric"]
figure, axes = plt.subplots(1, len(shapes), figsize=(11, 2.8), sharey=True, layout="constrained")
for ax, shape in zip(axes, shapes, strict=True):
    m = sum(isinstance(vertex, float) for vertex in shape.vertices)
    at, values, band = np.array(shape.vertices[:m]), shape.values[:m], 2 * shape.deviation[:m]
    ax.fill_between(at, values - band, values + band, alpha=0.25, linewidth=0)
    ax.plot(at, values, marker=".")
    ax.axhline(0, color="gray", linewidth=0.7)
    ax.set_title(shape.name)
    if at[-1] > 1000:
        ax.set_xscale("symlog", linthresh=100)
axes[0].set_ylabel("log-odds")

# %%
# Why does one person have this score? The contributions of all columns add up to it.

person = test.slice(0, 1)
parts = model.contributions(person)[0]
for shape, part in sorted(zip(model.shapes_, parts, strict=True), key=lambda each: -abs(each[1]))[:5]:
    print(f"{shape.name:16} {part:+.2f}")
print(f"{'everyone':16} {model.intercept_[0]:+.2f}")
print(f"{'score':16} {model.decision_function(person)[0]:+.2f}")

# %%
# Shapes may be made monotone after the fit: that is post-processing of what was released and costs nothing.

rising = PrivateAdditiveClassifier(
    epsilon=1.0, schema=schema, random_state=0, monotone={"education-num": "increasing"}
).fit(train)
print(np.round(next(shape.values for shape in rising.shapes_ if shape.name == "education-num"), 2))
print(f"log-loss: {log_loss(rising):.4f}")

# %%
# The model as plain tables, which 20 lines of any language score; and as a query, `dpconvex export model --format sql`.

print(model.to_json()[:200])
