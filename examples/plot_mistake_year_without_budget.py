"""
Mistake: a year without a budget
================================

A model is fitted anew every month, each time at epsilon 1, on the records of the same people. Every certificate says
1. By December the year has cost 12. A budget file counts, and makes the team decide beforehand how to spread what may
be spent.
"""

# %%
# A budget of 3 for the year, and somebody who fits every month. No records are needed to see what happens.

import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from dpconvex import Budget, PrivacyParams, PrivateLogisticRegression
from dpconvex.errors import BudgetExceededError

months = np.arange(1, 13)
with tempfile.TemporaryDirectory() as folder:
    budget = Budget.create(Path(folder) / "2026.budget.json", epsilon=3.0, data="patients of 2026")
    for month in months:
        try:
            budget.spend(PrivacyParams(1.0), f"model of month {month}")
        except BudgetExceededError:
            print(f"month {month}: refused")
            break
        print(f"month {month}: paid 1")

# %%
# How to spread it is a question that plans answer, without data: one fit a year at 3, four at 0.75, or twelve at
# 0.25?

model = PrivateLogisticRegression(1.0, feature_bounds=(0, 1), classes=[0, 1])
for fits in (1, 4, 12):
    error = model.set_params(epsilon=3 / fits).plan(5_000, 8)[0].predicted_error
    print(f"{fits:>2} fits at epsilon {3 / fits:g}: expected excess loss {error.expected:.4f} each")

figure, axes = plt.subplots(figsize=(5.6, 4), layout="constrained")
axes.axhline(3, color="#888888", linestyle="--")
axes.step(months, months, where="post", color="#D55E00", linewidth=3)
axes.step(months, 0.75 * ((months - 1) // 3 + 1), where="post", color="#0072B2", linewidth=3)
axes.plot(12, 12, "o", color="#D55E00", markersize=9)
worst = [np.exp(epsilon) / (1 + np.exp(epsilon)) for epsilon in (3, 12)]
axes.text(1, 9.5, f"every month at 1:\nan observer may be\n{100 * worst[1]:.4f} % sure", color="#D55E00", fontsize=13)
axes.text(7.7, 0.1, f"every quarter at 0.75:\n{100 * worst[0]:.1f} % sure", color="#0072B2", fontsize=13)
axes.text(1, 3.15, "budget", color="#666666", fontsize=13)
axes.set(xticks=months, xlim=(0.8, 12.4), ylim=(0, 13), xlabel="month", ylabel="epsilon spent so far")
axes.set_title("Twelve fits at epsilon 1 cost 12 by December", fontsize=14)
axes.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# The percentages say how surely somebody who knows everything else can tell which of two values a person's record
# had, at worst, from even odds. **Instead**: `dpconvex budget create` once, and `--budget` with every command.
