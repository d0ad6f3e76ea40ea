"""
Synthetic records of a census
=============================

A table of people cannot be published, but tables of counts can, with noise. ``PrivateSyntheticData`` releases a
histogram over all combinations of some columns, such that every table of two of them is near that of the data, and
draws synthetic people from it. (Adult, UCI Machine Learning Repository, CC BY 4.0.)
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

from dpconvex import PrivateSyntheticData, adult_schema, load_adult
from dpconvex.errors import RepeatedFitWarning

# %%
# Five columns, all their pairs
# -----------------------------
# The bins of age are public: they are chosen, not read off the data.

people = load_adult()
private = PrivateSyntheticData(
    epsilon=1.0,
    schema=adult_schema(),
    columns=("age", "education-num", "race", "sex", "income"),
    bins={"age": (17, 25, 35, 45, 55, 65, 90), "education-num": (1, 9, 10, 13, 14, 16)},
    order=2,
).fit(people)

print(f"{private.queries_.count} counts from {private.queries_.cells} combinations, by {private.plan_.algorithm}")
print(f"largest error of a share: {-private.score(people):.4f} (not private: it looks at the data again)")
print(private.sample(4, random_state=0).to_pandas())

# %%
# A table that was not looked at in the data again
# ------------------------------------------------
# The share of high incomes by age and sex. The relation of *three* columns is not among the pairs that were asked for;
# what is shown follows from the pairs.


def share_of_high(table):
    """Share of the second income class along the first axes."""
    return table[..., 1] / table.sum(axis=-1)


truth = np.bincount(private.cells_.encode(people), minlength=private.queries_.cells).reshape(private.cells_.shape)
figure, axes = plt.subplots(figsize=(7, 3.8), layout="constrained")
ages = private.cells_.columns[0].labels
for k, sex in enumerate(private.cells_.columns[3].labels):
    released = share_of_high(private.marginal("age", "sex", "income"))[:, k]
    axes.plot(ages, released, "o-", color=f"C{k}", label=f"{sex}, synthetic")
    axes.plot(ages, share_of_high(truth.sum(axis=(1, 2)))[:, k], "x:", color=f"C{k}", label=f"{sex}, data")
axes.set(xlabel="age", ylabel="share with more than 50,000 dollars")
axes.legend(fontsize=8)

# %%
# More epsilon, smaller errors
# ----------------------------
# These people are public. On private data the four fits would cost the sum of their epsilons, and a warning would say
# so.

budgets = (0.1, 0.3, 1, 3)
with warnings.catch_warnings():
    warnings.simplefilter("ignore", RepeatedFitWarning)
    errors = [-private.set_params(epsilon=epsilon).fit(people).score(people) for epsilon in budgets]
figure, axes = plt.subplots(figsize=(5, 3.2), layout="constrained")
axes.loglog(budgets, errors, "o-")
axes.set(xlabel="epsilon", ylabel="largest error of a share")
plt.show()
