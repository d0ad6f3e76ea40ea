"""
Searching for a range that nobody knows
=======================================

Prices must be clipped to a public range, and the noise grows with its width. What if public knowledge leaves the range
wide open? A private search tries several ranges, and its certificate covers all of them. Fits here are seeded so that
the picture is reproducible, which makes them *not private*: leave ``random_state`` out when the data are sensitive.
"""

import matplotlib.pyplot as plt
import numpy as np

from dpconvex import PrivateHuberRegressor, PrivateSearchCV

# %%
# We make up 20,000 apartments. All that is known of their rents is that none exceeds 100,000 a month.

rng = np.random.default_rng(0)
size = rng.uniform(10, 150, 20_000)
rent = 200 + 11 * size * rng.lognormal(0, 0.25, 20_000)
X = size[:, None]
train, test = slice(0, 15_000), slice(15_000, None)
tops = [100_000.0, 20_000.0, 5_000.0, 1_000.0]
grid = {"target_bounds": [(0.0, top) for top in tops]}


def model(epsilon, seed):
    return PrivateHuberRegressor(
        epsilon, feature_bounds=(0, 200), target_bounds=(0.0, tops[0]), noise="l2", random_state=seed
    )


def error(fitted):
    return np.abs(fitted.predict(X[test]) - rent[test]).mean()


# %%
# The plan says what the search costs before any data are read.

for plan in PrivateSearchCV(model(0.1, 0), grid, score_bound=0.05).plan(15_000, 1):
    print(f"{plan.method:12} price {plan.price:5.2f}   stake {plan.stake:.4f}   each tried with {plan.coverage:.0%}")

# %%
# One promise covers everything: the fits, the choice and the released model.

search = PrivateSearchCV(model(0.1, 0), grid, score_bound=0.05).fit(X[train], rent[train])
print(search.best_params_, search.certificate_.spent_epsilon)

# %%
# We compare the search with a fit on the widest range, and with one on the best range, which only the data can tell.

epsilons = [0.03, 0.1, 0.3, 1.0]
lines = {"widest range, no search": [], "private search": [], "best range in hindsight": []}
for epsilon in epsilons:
    single = np.array(
        [
            [error(model(epsilon, s).set_params(target_bounds=(0.0, top)).fit(X[train], rent[train])) for s in range(3)]
            for top in tops
        ]
    ).mean(axis=1)
    lines["widest range, no search"].append(single[0])
    lines["best range in hindsight"].append(single.min())
    searches = [PrivateSearchCV(model(epsilon, s), grid, score_bound=0.05) for s in range(3)]
    lines["private search"].append(np.mean([error(each.fit(X[train], rent[train])) for each in searches]))

for (name, line), style in zip(lines.items(), ("k-", "C0o-", "k:"), strict=True):
    plt.plot(epsilons, line, style, label=name)
plt.xscale("log")
plt.yscale("log")
plt.xlabel("epsilon of the whole search")
plt.ylabel("mean absolute error of the rent")
plt.legend()
plt.show()
