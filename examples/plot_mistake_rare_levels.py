"""
Mistake: rare levels, and lists of levels read off the data
===========================================================

Two things go wrong with categories. A list of levels that was read off the data tells that somebody has each of them.
And the log-odds of a level with a handful of records are noise. Fits are seeded, so that the picture is reproducible;
that makes them *not private*.
"""

# %%
# 3,000 stays with a diagnosis. No diagnosis has an effect: the log-odds of all are 0.

import matplotlib.pyplot as plt
import numpy as np
import polars as pl

from dpconvex import PrivateLogisticRegression, Schema

counts = {"fracture": 1400, "asthma": 900, "stroke": 500, "sepsis": 150, "gout": 40, "Fabry disease": 9, "Wilson": 1}
names = list(counts)
stays = pl.DataFrame({"diagnosis": np.repeat(names, list(counts.values())), "long": np.arange(3000) % 2})


def log_odds(levels: list[str]) -> np.ndarray:
    """Of all levels and of (other), which takes what is not listed: 20 runs at epsilon 1."""
    target, column = {"name": "long", "classes": ["0", "1"]}, {"categories": levels, "other": True}
    content = {"confirmed": True, "target": target, "columns": {"diagnosis": column}}
    models = [PrivateLogisticRegression(1.0, schema=Schema.from_dict(content), random_state=k) for k in range(20)]
    return np.array([model.fit(stays).coef_[0] + model.intercept_ for model in models])


# %%
# The leak needs no fit. A list of the levels *that occur* differs between two tables of which one has the patient:

print("levels with him:   ", sorted(set(stays["diagnosis"])))
print("levels without him:", sorted(set(stays[:-1]["diagnosis"])))

# %%
# The noise, level by level, and with the three rare ones left to ``other``:

alone, together = log_odds(names), log_odds(names[:4])
figure, axes = plt.subplots(figsize=(5.6, 4), layout="constrained")
for place, values in enumerate([*alone[:, :7].T, together[:, 4]]):
    color = "#009E73" if place == 7 else "#D55E00" if place > 3 else "#0072B2"
    axes.plot(values, np.full(20, place), "o", color=color, alpha=0.6, markersize=7)
labels = [f"{name}: {count:,}" for name, count in counts.items()] + ["(other), the three: 50"]
axes.axvline(0, color="#888888", zorder=0)
axes.set(yticks=range(8), ylim=(7.5, -0.5), xlabel="released log-odds, epsilon 1, 20 runs; truth: 0")
axes.set_yticks(range(8), labels, fontsize=13)
figure.suptitle("What is released about rare levels is noise", fontsize=14)
axes.spines[["top", "right"]].set_visible(False)
plt.show()
print("standard deviations:", {name: round(float(s), 2) for name, s in zip(names, alone.std(0), strict=False)})
print("(other):", together[:, 4].std().round(2))

# %%
# **Instead**: list the levels of the form or of the code book, not those that occur; list the few that matter, and
# set ``other = true``. Unlisted and misspelt values then share a level of their own. Without it they count as
# missing.
