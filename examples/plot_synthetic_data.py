"""
Synthetic records of a census
=============================

A table of people cannot be published, but tables of counts can, with noise. ``PrivateSyntheticData`` releases noisy
tables of all columns and all pairs of columns, fits one distribution to them, and draws synthetic people from it.
(Adult, UCI Machine Learning Repository, CC BY 4.0.)
"""

import matplotlib.pyplot as plt
import numpy as np

from dpconvex import PrivateSyntheticData, adult_schema, budget_context, load_adult

# %%
# All columns, all their pairs, pure epsilon
# ------------------------------------------
# Numbers are put into public bins, which are not read off the data. Impossible combinations are declared, never drawn.

people = load_adult()
private = PrivateSyntheticData(
    epsilon=3.0, delta=0.0, schema=adult_schema(), bins=8, impossible=[{"sex": "Male", "relationship": "Wife"}]
).fit(people)

print(f"{len(private.tables_.subsets)} tables of {len(private.cells_.names)} columns, {private.plan_.law} noise")
print(f"largest error of a share: {-private.score(people):.4f} (not private: it looks at the data again)")
print(private.sample(4, random_state=0).to_pandas().T)

# %%
# A table with intervals
# ----------------------
# The intervals are for shares in the data and use the noisy table alone, so they hold even where the model is wrong.

table = private.marginal("marital-status", interval=0.95)
labels = private.cells_.columns[private.cells_.names.index("marital-status")].labels
truth = people["marital-status"].to_pandas().value_counts(normalize=True).reindex(labels)
figure, axes = plt.subplots(figsize=(7, 3), layout="constrained")
axes.hlines(labels, table.low, table.high, lw=6, color="C0", alpha=0.4, label="95 % interval, released")
axes.plot(table.shares, labels, "o", color="C0", label="model, released")
axes.plot(truth, labels, "x", color="C1", label="data")
axes.set(xlabel="share")
axes.legend(fontsize=9)

# %%
# Three columns at once
# ---------------------
# We look at the share of high incomes by age and sex. No table of *three* columns was measured: the model guesses it.


def share_of_high(table):
    """Return the share of the second income class for all values of the first axes."""
    return table[..., 1] / table.sum(axis=-1)


cells, columns = private.cells_, ("age", "sex", "income")
places = [cells.names.index(name) for name in columns]
codes = cells.encode(people)[:, places].T
shape = [cells.shape[place] for place in places]
truth = np.bincount(np.ravel_multi_index(tuple(codes), shape), minlength=np.prod(shape)).reshape(shape)
figure, axes = plt.subplots(figsize=(7, 3.8), layout="constrained")
for k, sex in enumerate(cells.columns[places[1]].labels):
    ages = cells.columns[places[0]].labels
    axes.plot(ages, share_of_high(private.marginal(*columns))[:, k], "o-", color=f"C{k}", label=f"{sex}, synthetic")
    axes.plot(ages, share_of_high(truth)[:, k], "x:", color=f"C{k}", label=f"{sex}, data")
axes.set(xlabel="age", ylabel="share with more than 50,000 dollars")
axes.tick_params(axis="x", rotation=30)
axes.legend(fontsize=9)

# %%
# Does the model fit?
# -------------------
# The misfit of a table, from released numbers alone, is its distance from the model in deviations of its noise. Noise
# alone explains about 1. The trend of a pair is the same in its smoothest relations, as of one number that rises with
# another, which no single cell shows: noise alone explains about 3.

for row in sorted(private.fit_report_, key=lambda row: -row["misfit"])[:4]:
    trend = "" if row["trend"] is None else f", trend {row['trend']:.1f}"
    print(f"{' and '.join(row['columns'])}: misfit {row['misfit']:.2f}{trend}")

# %%
# Where the number of people is private too
# -----------------------------------------
# Neighbors then add or remove one record. Plans need a public guess of the number, here 50,000; only noisy counts tell
# the true one. This epsilon pays for a second release, and as neighbors differ, it does not compare with the one above.

columns = ["age", "hours-per-week", "sex", "income"]
options = {"epsilon": 3.0, "delta": 0.0, "columns": columns}
counted = PrivateSyntheticData(
    **options, schema=adult_schema(), bins=8, neighbors="add_or_remove_one", rows=50_000
).fit(people)
total = counted.tables_.total
print(f"about {total.value:.0f} people, give or take {total.reach(0.05):.0f}; synthetic: {counted.sample().num_rows}")

# %%
# Where no range is public
# ------------------------
# The release then pays for finding ranges and bins out of the same epsilon, and draws numbers inside these bins.

found = PrivateSyntheticData(**options, schema=adult_schema().without_ranges()).fit(people)
synthetic = found.sample(random_state=0)
figure, axes = plt.subplots(1, 2, figsize=(7, 3), layout="constrained")
for axis, (name, one) in zip(axes, found.ranges_.items(), strict=True):
    print(f"{name}: {one.lower:g} to {one.upper:g}")
    for table, label in ((people, "data"), (synthetic, "synthetic")):
        axis.hist(table[name].to_numpy(), bins=np.arange(0, 105, 5), density=True, histtype="step", label=label)
    axis.set(xlabel=name, yticks=[])
axes[0].legend(fontsize=9)

# %%
# Where noise hides pairs of all values
# -------------------------------------
# For small budgets, ``"grouped_tables"`` puts the values of every column into a few groups, which follow from its noisy
# table, and measures pairs of groups. With many columns ``algorithm="auto"`` considers it, too. The picture shows how
# far each pair of columns is from independence: in the data, and in the releases of two methods at epsilon 0.3.


def relations(marginal, count):
    """Return, for all pairs of columns, the total variation between their table and that of independent columns."""
    found = np.zeros((count, count))
    for i, j in np.argwhere(np.triu(np.ones_like(found), 1)):
        both = marginal(i, j)
        found[i, j] = found[j, i] = np.abs(both - np.outer(both.sum(1), both.sum(0))).sum() / 2
    return found


cells = private.cells_
codes, names = cells.encode(people), cells.names


def of_data(i, j):
    """Return the shares of a pair's values in the data; they are not private."""
    return np.histogram2d(*codes[:, [i, j]].T, bins=[np.arange(cells.shape[k] + 1) for k in (i, j)])[0] / len(codes)


with budget_context(epsilon=0.6):
    grouped, forest = (
        PrivateSyntheticData(epsilon=0.3, delta=0.0, schema=adult_schema(), bins=8, algorithm=name).fit(people)
        for name in ("grouped_tables", "noisy_tree")
    )
shown = {
    "data": of_data,
    f"at most {max(grouped.plan_.groups)} groups a column": lambda i, j: grouped.marginal(names[i], names[j]),
    "a chosen forest of pairs": lambda i, j: forest.marginal(names[i], names[j]),
}
figure, axes = plt.subplots(1, 3, figsize=(9, 3.6), layout="constrained")
for axis, (title, marginal) in zip(axes, shown.items(), strict=True):
    image = axis.imshow(relations(marginal, len(names)), vmin=0, vmax=0.5, cmap="Blues")
    axis.set(title=title, xticks=[], yticks=range(len(names)) if axis is axes[0] else [])
axes[0].set_yticklabels(names, fontsize=8)
figure.colorbar(image, ax=axes, shrink=0.8, label="distance from independence")
plt.show()
