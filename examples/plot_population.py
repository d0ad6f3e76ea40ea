"""
A bound for people who are not in the table
===========================================

Before any data are read, a plan bounds how much a private model loses beyond the best one. By default the loss is the
mean over the records at hand. With ``risk="population"`` it is the expected loss of new people from the distribution of
the records: the plan then regularizes more, and promises less.
"""

# %%
# What do plans promise for more and more records of four features? No data are needed: plans rest on public facts.

import matplotlib.pyplot as plt
import numpy as np

from dpconvex import PrivateLogisticRegression

sizes = [1_000, 3_000, 10_000, 30_000, 100_000]
bounds, ridges = {}, {}
for risk in ("empirical", "population"):
    model = PrivateLogisticRegression(1.0, feature_norm=1.0, algorithm="output_perturbation", risk=risk)
    plans = [model.plan(n, 4)[0] for n in sizes]
    bounds[risk] = [plan.predicted_error.bound for plan in plans]
    ridges[risk] = [plan.l2 for plan in plans]
    print(f"{risk}: bounds {np.round(bounds[risk], 3)}, l2 {np.round(ridges[risk], 4)}")

# %%
# From which number of records on does the plan promise an excess loss of at most 0.1? A model that always answers 1/2
# has a loss of 0.69.

figure, axes = plt.subplots(figsize=(5.6, 4), layout="constrained")
for risk, color, label in (("empirical", "#0072B2", "these records"), ("population", "#D55E00", "new people")):
    axes.loglog(sizes, bounds[risk], "o-", color=color, linewidth=3)
    enough = np.exp(np.interp(-np.log(0.1), -np.log(bounds[risk]), np.log(sizes)))
    axes.plot([enough, enough], [0.01, 0.1], ":", color=color, linewidth=2)
    axes.text(enough * 1.06, 0.0108, f"{round(enough, -2):,.0f}", color=color, fontsize=13)
    print(f"{label}: about {round(enough, -2):,.0f} records")
axes.axhline(0.1, color="black", linewidth=1)
axes.text(1_700, 0.095, "these\nrecords", color="#0072B2", fontsize=13, ha="right", va="top")
axes.text(4_500, 0.26, "new people", color="#D55E00", fontsize=13)
axes.set(ylim=(0.01, 0.7), xlabel="records", ylabel="bound on the excess loss")
axes.set(yticks=[0.01, 0.1, 0.5], yticklabels=["0.01", "0.1", "0.5"])
axes.minorticks_off()
axes.set_title("New people need more records", fontsize=14)
axes.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# Both have the same promise of privacy, which does not depend on where the records come from. The bound for new people
# does: it assumes that they are drawn independently.
