"""
Tilts and outliers
==================

A positive tilt gives more weight to the largest losses, so also to mistakes in the data. For outliers one would want a
*negative* tilt. It is refused: the tilted risk is then not convex, its minimizer may jump between far apart points when
one record changes, and no sensitivity bound holds. Use a loss with a bounded slope instead. Fits are seeded so that the
picture is reproducible, which makes them *not private*.
"""

import warnings
from dataclasses import replace

import matplotlib.pyplot as plt
import numpy as np

from dpconvex import PrivateHuberRegressor, PrivateLinearRegression, PrivateQuantileRegressor, adult_schema, load_adult
from dpconvex.data import NumericTarget
from dpconvex.errors import HopelessPlanWarning

# %%
# We predict weekly working hours from age, education and sex (Adult census data), and put outliers into the training
# data: a growing share of people is entered as working 99 hours a week. The test data stay as they are.

table, full = load_adult(), adult_schema()
columns = tuple(column for column in full.columns if column.name in ("age", "education-num", "sex"))
schema = replace(full, columns=columns, target=NumericTarget("hours-per-week", 1, 99))
rows = np.random.default_rng(0).permutation(table.num_rows)
train, test = table.take(rows[:36_186]), table.take(rows[36_186:])
hours, truth = (np.asarray(part["hours-per-week"], dtype=float) for part in (train, test))


def with_outliers(share):
    wrong = np.random.default_rng(1).random(len(hours)) < share
    return np.where(wrong, 99.0, hours)


# %%
# Solid lines are for fits at epsilon 1, dashed ones for a budget so large that hardly any noise is left. Of tilted
# plans only a bound is known, which is huge for a ridge as small as that of the dashed lines: we silence its warning.

models = {
    "least squares": (PrivateLinearRegression, {"tilt": 0.0}),
    "least squares, tilt 2": (PrivateLinearRegression, {"tilt": 2.0}),
    "least squares, tilt 5": (PrivateLinearRegression, {"tilt": 5.0}),
    "pseudo-Huber": (PrivateHuberRegressor, {"width": 5.0}),
    "median": (PrivateQuantileRegressor, {}),
}
shares = [0.0, 0.01, 0.02, 0.05, 0.1]
figure, axes = plt.subplots(figsize=(6.5, 4), layout="constrained")
for name, (regressor, options) in models.items():
    errors = {}
    for epsilon, more in ((1.0, {}), (1e6, {"l2": 1e-4})):
        model = regressor(epsilon, schema=schema, coefficient_norm=0.5, random_state=0, **options, **more)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", HopelessPlanWarning)
            errors[epsilon] = [
                np.abs(model.fit(train, with_outliers(share)).predict(test) - truth).mean() for share in shares
            ]
    (line,) = axes.plot(shares, errors[1.0], marker="o", label=name)
    axes.plot(shares, errors[1e6], linestyle="--", color=line.get_color())
    print(
        f"{name:>22}: "
        + ", ".join(f"{error:.2f} h at {100 * s:g} %" for s, error in zip(shares, errors[1.0], strict=True))
    )
axes.set(xlabel="share of outliers among the training records", ylabel="mean absolute test error in hours")
axes.set_title("epsilon 1 (solid), hardly any noise (dashed)")
axes.legend()
plt.show()

# %%
# The larger the tilt, the more harm outliers do; the pseudo-Huber loss and the median hardly notice them. The slopes of
# these two are bounded by less than the range of the target, so they also need less noise.
#
# A negative tilt is refused with this message:

try:
    PrivateLinearRegression(1.0, schema=schema, tilt=-1.0).plan(len(hours))
except ValueError as error:
    print(error)
