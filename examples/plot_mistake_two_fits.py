"""
Mistake: two fits for the price of one
======================================

Every fit draws fresh noise. Whoever sees several fits of the same records takes their mean, and the noise averages
out. So promises add up: two fits at epsilon 0.5 cost 1. A `budget_context` counts, and refuses the fit that would
exceed the total.
"""

# %%
# 500 records. How far is the mean of k released models from the model without noise? The fits of the picture are
# seeded, so that it is reproducible; that makes them *not private*.

import matplotlib.pyplot as plt
import numpy as np

from dpconvex import PrivateLogisticRegression, budget_context
from dpconvex.errors import BudgetExceededError

rng = np.random.default_rng(0)
X = rng.uniform(-1, 1, (500, 4))
y = (X @ [2, -1, 1, 0] + rng.logistic(size=500) > 0).astype(int)
facts = {"feature_bounds": (-1, 1), "classes": [0, 1], "l2": 0.05}

exact = PrivateLogisticRegression(1e6, **facts, random_state=0).fit(X, y).coef_[0]
fits = np.array([PrivateLogisticRegression(0.5, **facts, random_state=k).fit(X, y).coef_[0] for k in range(96)])
counts = np.array([1, 2, 4, 8, 16, 32])
error = [np.sqrt(np.mean((fits.reshape(-1, k, 4).mean(1) - exact) ** 2)) for k in counts]
print("error of the mean of k fits:", dict(zip(counts.tolist(), np.round(error, 2).tolist(), strict=True)))

# %%
# With a budget, and real noise, the fourth fit is refused before it reads a record.

with budget_context(epsilon=1.5):
    for k in range(1, 5):
        try:
            PrivateLogisticRegression(0.5, **facts).fit(X, y)
            print(f"fit {k}: paid")
        except BudgetExceededError as refusal:
            print(f"fit {k}: {refusal}")

figure, axes = plt.subplots(figsize=(5.6, 4), layout="constrained")
axes.axvspan(3.5, 40, color="#EEEEEE")
axes.semilogx(counts, error, "o-", color="#0072B2", linewidth=3)
axes.text(3.8, 0.095, "a budget of 1.5\nrefuses these", fontsize=13, va="top")
for k, distance in zip(counts[::2], error[::2], strict=True):
    axes.text(0.96 * k, distance - 0.002, f"cost {k * 0.5:g}", color="#D55E00", fontsize=13, ha="right", va="top")
axes.set(xticks=counts, xticklabels=counts, xlim=(0.4, 40), ylim=(0, 0.1))
axes.set(xlabel="fits whose mean is taken, epsilon 0.5 each", ylabel="noise left in a coefficient")
axes.minorticks_off()
axes.set_title("The mean of many fits has little noise left", fontsize=14)
axes.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# **Instead**: decide how much the records may pay in all, and fit inside a `budget_context`, or with a budget file
# (`--budget`) that outlives the process.
