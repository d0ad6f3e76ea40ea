"""
Amounts without a largest one: regression with a private moment bound
=====================================================================

Account balances, claims and turnovers have no honest largest value. A bound that is too low changes the records, one
that is too high buries the model in noise, and the data must not be looked at to choose. ``heavy_tailed=2`` needs a
wide bound only: it spends a tenth of epsilon on a private bound of a *moment*, and the noise follows that. Data are
generated; fits are seeded so that the picture is reproducible, which makes them *not private*.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np

from dpconvex import DataDomain, PrivateQuantileRegressor, verify
from dpconvex.errors import HopelessPlanWarning

# %%
# Four amounts with a Pareto tail, in units of a typical one, and a target with heavy noise. Nearly all amounts are
# below 10, one is above 150, and what the next data set holds is anybody's guess.

rng = np.random.default_rng(0)
slopes = np.array([0.3, 0.2, 0.1, 0.0])


def draw(n):
    amounts = rng.pareto(2.3, (n, 4))
    return amounts, 1 + amounts @ slopes


X, right = draw(40_000)
y = right + 0.3 * rng.standard_t(2.3, len(right))
print(f"amounts: median {np.median(X):.2f}, 99 % below {np.quantile(X, 0.99):.1f}, largest {X.max():.0f}")
fresh, wanted = draw(20_000)

# %%
# Predictions may lie between 0 and 5. Without ``heavy_tailed`` records longer than the bound are shortened to it. The
# error is that of the conditional median on fresh records. Where the bound is wide, such a plan is hopeless and says so
# in a warning, from public facts alone; here it is fitted all the same.


def error(bound, **options):
    """Mean absolute error of the median over three seeds."""
    domain = DataDomain.l2_ball(4, bound).with_intercept(1.0)
    found = []
    for seed in range(3):
        model = PrivateQuantileRegressor(
            1.0, domain=domain, target_bounds=(0, 5), coefficient_norm=1.0, random_state=seed, **options
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", HopelessPlanWarning)
            model.fit(X, y)
        found.append(np.abs(fresh @ model.coef_ + model.intercept_ - wanted).mean())
    return np.mean(found)


bounds = [1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0]
clipped = [error(bound) for bound in bounds]
wide = [100.0, 300.0, 1000.0]
free = [error(bound, heavy_tailed=2) for bound in wide]
for name, where, errors in (("shortened", bounds, clipped), ("heavy_tailed=2", wide, free)):
    print(f"{name:>15}: " + ", ".join(f"{e:.3f} at {b:g}" for b, e in zip(where, errors, strict=True)))

# %%
# A good guess of the bound, about 10, is better than the moment. Whoever guesses too low or too high by a factor of
# three is worse off, and nothing but the private data tells which. With ``heavy_tailed`` a bound that is never reached
# costs nothing.

figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
axes.plot(bounds, clipped, "o-", label="records shortened to the bound")
axes.plot(wide, free, "s-", label="heavy_tailed=2")
axes.axhline(np.abs(wanted - np.median(wanted)).mean(), color="#444444", linewidth=1, linestyle=":")
axes.set(xscale="log", yscale="log", xlabel="declared bound on a record's length", ylabel="error of the median")
axes.legend()
plt.show()

# %%
# One certificate covers all that was released and says what it cost.

model = PrivateQuantileRegressor(
    1.0,
    domain=DataDomain.l2_ball(4, 1000.0).with_intercept(1.0),
    target_bounds=(0, 5),
    coefficient_norm=1.0,
    heavy_tailed=2,
).fit(X, y)
print([release.label for release in model.certificate_.releases][:2])
print("epsilon", round(model.certificate_.spent_epsilon, 6), "verified:", verify(model.certificate_).passed)
