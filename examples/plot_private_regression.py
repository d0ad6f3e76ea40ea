"""
Private regression and quantiles
================================

Three private models of a skewed outcome predict its mean, its center and a quantile. Fits here are seeded so that the
picture is reproducible, which makes them *not private*: leave ``random_state`` out when the data are sensitive.
"""

import matplotlib.pyplot as plt
import numpy as np

from dpconvex import PrivateHuberRegressor, PrivateLinearRegression, PrivateQuantileRegressor

# %%
# We make up waiting times of 20,000 patients. It is public that nobody is over 100 years old or waits over four hours.

rng = np.random.default_rng(0)
age = rng.uniform(0, 100, 20_000)
minutes = 20 + 0.6 * age + rng.gamma(1.0, 10 + 0.3 * age)
X = age[:, None]
public = {"feature_bounds": (0, 100), "target_bounds": (0, 240), "random_state": 0}

# %%
# The left picture is for epsilon 1. The right one shows R² for growing budgets: mean and deviation over five seeds.

models = {
    "mean (least squares)": PrivateLinearRegression(1.0, **public),
    "center (pseudo-Huber)": PrivateHuberRegressor(1.0, **public),
    "upper decile (quantile 0.9)": PrivateQuantileRegressor(1.0, quantile=0.9, **public),
}
grid = np.linspace(0, 100, 50)[:, None]
epsilons = [0.01, 0.03, 0.1, 0.3, 1.0]

figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
left.plot(age[:2000], minutes[:2000], ".", color="lightgray", markersize=2)
for name, model in models.items():
    left.plot(grid[:, 0], model.fit(X, minutes).predict(grid), label=name)
left.set(xlabel="age in years", ylabel="waiting time in minutes", ylim=(0, 200), title="epsilon 1")
left.legend()

for regressor in (PrivateLinearRegression, PrivateHuberRegressor):
    scores = [
        [regressor(e, **public).set_params(random_state=seed).fit(X, minutes).score(X, minutes) for seed in range(5)]
        for e in epsilons
    ]
    right.errorbar(epsilons, np.mean(scores, 1), np.std(scores, 1), marker="o", capsize=3, label=regressor.__name__)
slope, start = np.polyfit(age, minutes, 1)
best = 1 - np.var(minutes - slope * age - start) / np.var(minutes)
right.axhline(best, color="gray", linestyle="--", label="not private")
right.set(xscale="log", xlabel="epsilon", ylabel="R\u00b2", title="accuracy over the budget")
right.legend(loc="lower right")
plt.show()
