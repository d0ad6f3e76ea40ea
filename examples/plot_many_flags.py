"""
A hundred flags, of which a record has three
============================================

Noise must hide the longest record that the ranges allow. Where nearly all columns are 0, a private bound of their sum
takes its place, and the same promise costs a fraction. Fits here are seeded, so that the picture is reproducible,
which makes them *not private*.
"""

import matplotlib.pyplot as plt
import numpy as np

from dpconvex import PrivateLogisticRegression

rng = np.random.default_rng(0)
n, columns = 24_000, 100
flags = (rng.random((n, columns)) < 0.03) * 1.0
label = (flags @ rng.normal(0, 1.5, columns) > rng.logistic(size=n)).astype(int)
train, test = slice(0, 20_000), slice(20_000, None)

# %%
# The automatic choice finds the bound itself; naming a method leaves the columns as they are.

epsilons = [0.1, 0.3, 1.0, 3.0]
methods = {"auto: one bound for all columns": "auto", "columns bounded one by one": "objective_perturbation"}
losses, found = {}, {}
for name, algorithm in methods.items():
    for epsilon in epsilons:
        model = PrivateLogisticRegression(
            epsilon, feature_bounds=(0, 1), classes=[0, 1], algorithm=algorithm, random_state=0
        ).fit(flags[train], label[train])
        told = model.predict_log_proba(flags[test])
        losses[name, epsilon] = -told[np.arange(len(told)), label[test]].mean()
        found[epsilon] = model.plan_.describe().get("joint_bound", found.get(epsilon))
print({epsilon: each["bound"] for epsilon, each in found.items()})

# %%
# The sum of a record's flags, with the bound that was released at epsilon 1.

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
sums = flags[train].sum(1)
left.hist(sums, bins=np.arange(sums.max() + 2) - 0.5, color="0.8")
left.axvline(found[1.0]["bound"], color="C3", label="released bound")
left.set(xlabel=f"flags that are 1, of {columns}", ylabel="records")
left.legend(frameon=False)
for name in methods:
    right.plot(epsilons, [losses[name, epsilon] for epsilon in epsilons], marker="o", label=name)
share = label[test].mean()
right.axhline(-share * np.log(share) - (1 - share) * np.log(1 - share), color="gray", ls="--", label="a constant")
right.set(xscale="log", xlabel="epsilon", ylabel="held-out log-loss")
right.legend(frameon=False)
plt.show()
