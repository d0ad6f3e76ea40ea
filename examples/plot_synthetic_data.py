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
# Numbers are in bins that are public: chosen, not read off the data. What cannot be is declared, and never drawn.

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
# They are for the shares of the data, from the noisy table alone: they hold whatever the model does.

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
# The share of high incomes by age and sex. The relation of *three* columns was not measured: the model has a guess.


def share_of_high(table):
    """Share of the second income class along the first axes."""
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
# From released numbers: how many deviations of its noise a table is away from the model. Noise explains about 1.

for row in sorted(private.fit_report_, key=lambda row: -row["misfit"])[:4]:
    print(" and ".join(row["columns"]), round(row["misfit"], 2))

# %%
# Where the number of people is private too
# -----------------------------------------
# Neighbors then add or remove one record. Plans need a public guess of the number, here 50,000, and nothing that is
# released tells it but noisy counts. This epsilon does not compare with the one above: it is a second release, of four
# columns.

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
# The release then finds ranges and bins itself, out of the same epsilon, and draws numbers inside these bins.

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
# At small budgets the values of every column are put into a few groups, which follow from its noisy table, and pairs of
# groups are measured. With many columns ``algorithm="auto"`` does so itself. The picture shows how far each pair of
# columns is from independence: in the data, and in what two designs release at epsilon 0.3.


def relations(marginal, count):
    """Total variation between the table of a pair of columns and that of independent columns, for all pairs."""
    found = np.zeros((count, count))
    for i, j in np.argwhere(np.triu(np.ones_like(found), 1)):
        both = marginal(i, j)
        found[i, j] = found[j, i] = np.abs(both - np.outer(both.sum(1), both.sum(0))).sum() / 2
    return found


cells = private.cells_
codes, names = cells.encode(people), cells.names


def of_data(i, j):
    """Shares of a pair's values in the data; not private."""
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
