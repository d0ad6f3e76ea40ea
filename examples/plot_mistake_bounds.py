"""
Mistake: bounds read off the data
=================================

The range of a target must be public knowledge. Whoever takes it from the data instead publishes the largest value, to
the last digit: the range is part of the model and of every form in which it is exported, and no noise is added to it.
Fits are seeded, so that the picture is reproducible; that makes them *not private*.
"""

# %%
# A firm with 400 employees fits a model of salaries every month. In April a director joins, in September she leaves.

import matplotlib.pyplot as plt
import numpy as np

from dpconvex import PrivateLinearRegression

rng = np.random.default_rng(0)
years = rng.uniform(0, 40, 400)
salaries = np.clip(30_000 + 1_500 * years + rng.normal(0, 12_000, 400), 20_000, 140_000).round(2)
months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct"]


def fit(month: int, target_bounds: tuple[float, float] | None) -> PrivateLinearRegression:
    """The model of a month; without public bounds, the mistake: they are read off the salaries."""
    y = salaries.copy()
    if 3 <= month < 8:
        y[0] = 412_350.75
    bounds = target_bounds or (y.min(), y.max())
    model = PrivateLinearRegression(1.0, feature_bounds=(0, 45), target_bounds=bounds, random_state=month)
    return model.fit(years[:, None], y)


# %%
# Both models were fitted with epsilon 1. What does each say about its range? Take the difference of two months: only
# one record has changed, so the difference is about one person.

read = [fit(month, None).target_bounds[1] for month in range(len(months))]
public = [fit(month, (0, 500_000)).target_bounds[1] for month in range(len(months))]
print(f"March: {read[2]:,.2f}   April: {read[3]:,.2f}   so the new colleague earns {read[3]:,.2f}")

figure, axes = plt.subplots(figsize=(5.6, 4), layout="constrained")
for values, color in ((public, "#0072B2"), (read, "#D55E00")):
    axes.step(range(len(months)), np.array(values) / 1000, where="mid", color=color, linewidth=3)
axes.text(0, 510, "public: 0 to 500,000", color="#0072B2", fontsize=13)
axes.text(0, 130, "read off\nthe data", color="#D55E00", fontsize=13)
axes.annotate("412,350.75:\nthe director's salary", (5, 408), (3.7, 255), fontsize=13, arrowprops={"arrowstyle": "->"})
axes.set(xticks=range(len(months)), xticklabels=months, ylim=(0, 560), ylabel="upper bound in the model, 1,000 euros")
axes.set_title("Bounds read off the data publish a salary", fontsize=14)
axes.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# **Instead**: take bounds from a tariff, a questionnaire, or the meaning of the column, and write down the source.
# Values outside are clipped. On the command line, `dpconvex schema draft` marks every line that it read off the data,
# and `fit` refuses the draft until a person has confirmed it.
