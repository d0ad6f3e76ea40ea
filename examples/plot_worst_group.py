"""
A model for the group that fares worst
======================================

A fifth of the people follow another rule than the rest. A model with a small mean loss serves the majority and fails
the minority; ``PrivateWorstGroupClassifier`` minimizes the larger of the two groups' losses instead. Who belongs to
which group is private.
"""

import matplotlib.pyplot as plt
import numpy as np

from dpconvex import PrivateSparseLogisticRegression, PrivateWorstGroupClassifier, budget_context

rng = np.random.default_rng(0)
n = 40_000
X = rng.uniform(-1, 1, size=(n, 10))
group = (rng.random(n) < 0.2).astype(int)
y = (np.where(group, X[:, 1], X[:, 0]) > 0).astype(int)  # the first feature decides for most, the second for the rest
train, test = slice(0, n // 2), slice(n // 2, n)


def accuracies(model):
    """Return the shares of right answers in the two groups of the test set."""
    right = model.predict(X[test]) == y[test]
    return [right[group[test] == k].mean() for k in (0, 1)]


# %%
# Average or worst group
# ----------------------
# Two fits on the same people cost the sum of their epsilons: one budget pays for both.

average = PrivateSparseLogisticRegression(epsilon=2.0, feature_bound=1.0, classes=[0, 1])
worst = PrivateWorstGroupClassifier(
    epsilon=2.0, feature_bound=1.0, groups=[0, 1], algorithm="vertex_mirror_descent", classes=[0, 1]
)
with budget_context(epsilon=4.0, delta=2e-6):
    average.fit(X[train], y[train])
    worst.fit(X[train], y[train], groups=group[train])

print("released shares of the groups:", worst.group_shares_.round(3))
print("weights of the opponent:", worst.group_weights_.round(2))

figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
for k, (name, model) in enumerate({"average loss": average, "worst group": worst}.items()):
    axes.bar(np.arange(2) + 0.4 * k, accuracies(model), width=0.38, label=f"trained for the {name}")
axes.set(xticks=np.arange(2) + 0.2, ylabel="accuracy on new people", ylim=(0.4, 1))
axes.set_xticklabels(["majority, 80 %", "minority, 20 %"])
axes.legend(fontsize=9, loc="lower left")
plt.show()
