"""
Mistake: rows of one person counted as persons
==============================================

A promise about records hides one row. Whoever has 200 rows is not hidden: for them epsilon 1 is epsilon 200. Say
whose row it is, and the promise is about the person. Fits are seeded, so that the picture is reproducible; that makes
them *not private*.
"""

# %%
# 300 people have six visits each. One of them is then replaced by somebody who has 200 visits, of another kind.

import matplotlib.pyplot as plt
import numpy as np

from dpconvex import PrivateLogisticRegression


def table(visits: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Features, labels and persons; the last one has this many visits, and labels of her own."""
    rng = np.random.default_rng(0)
    person = np.repeat(np.arange(300), 299 * [6] + [visits])
    X = rng.uniform(-1, 1, (len(person), 2))
    y = X[:, 0] + 0.3 * np.sin(np.arange(len(person))) > 0
    X[person == 299, 0], y[person == 299] = 1.0, False
    return X, y, person


def coefficients(visits: int, by_person: bool) -> list[float]:
    """The first coefficient, released 25 times."""
    X, y, person = table(visits)
    facts = {"feature_bounds": (-1, 1), "classes": [False, True], "coefficient_norm": 4.0}
    models = [PrivateLogisticRegression(1.0, **facts, random_state=visits + k) for k in range(25)]
    return [model.fit(X, y, groups=person if by_person else None).coef_[0, 0] for model in models]


# %%
# Can an observer tell which of the two tables was fitted? With a threshold on the released coefficient that is chosen
# on the same runs, which flatters the observer (the promise about persons allows 73 % at most):

figure, axes = plt.subplots(figsize=(5.6, 4), layout="constrained")
for place, by_person in enumerate((True, False)):
    without, with_her = np.array(coefficients(6, by_person)), np.array(coefficients(200, by_person))
    right = max(np.mean(np.r_[without > t, with_her <= t]) for t in np.r_[without, with_her])
    print(f"{'persons' if by_person else 'rows'} protected: right in {right:.0%} of 50 runs")
    for shift, values, color in ((0.13, without, "#0072B2"), (-0.13, with_her, "#D55E00")):
        axes.plot(values, np.full(25, place + shift), "o", color=color, alpha=0.6, markersize=8)
    unit = "persons protected" if by_person else "rows protected"
    axes.text(
        0.01, place + 0.36, f"{unit}: observer right {right:.0%}", fontsize=13, transform=axes.get_yaxis_transform()
    )
axes.set(yticks=[-0.13, 0.13, 0.87, 1.13], yticklabels=["with her", "without"] * 2, ylim=(-0.35, 1.55))
axes.set(xlabel="released coefficient, epsilon 1, 25 runs each")
axes.set_title("A promise about rows hides nobody with 200 rows", fontsize=14)
axes.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# **Instead**: `fit(X, y, groups=person)`, or `user = "patient"` in the schema. A certificate says which of the two
# was protected. `dpconvex schema draft` points at columns that seem to name people.
