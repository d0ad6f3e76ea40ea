"""
Federated learning with a corrupted minority
============================================

In federated learning a server never sees records, only updates of a model that many users computed from their own
data. Two things can go wrong: an update reveals what its user's records hold, and a few users, broken or malicious,
can send updates that ruin the model, because a mean follows a single large outlier anywhere.

A private geometric median of the updates solves both problems. In each round, everything that a user sends is protected
at (epsilon, delta); and a minority of users, whatever they send, cannot move the median far.

Here 2,400 users hold the records of 15 people of the Adult census each. A fifth of the users are corrupted: they
subtract five times the mean of the honest users' updates from their own.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import roc_auc_score

from dpconvex import PrivateGeometricMedian, adult_schema, budget_context, load_adult
from dpconvex.errors import RepeatedFitWarning
from dpconvex.solvers import geometric_median

users, held, rounds, epsilon = 2_400, 15, 6, 2.0
table, schema = load_adult(), adult_schema()
features = np.column_stack([schema.encode(table), np.full(table.num_rows, 0.5)])  # the last column: an intercept
signs = 2.0 * schema.encode_target(table) - 1
mine = features[: users * held].reshape(users, held, -1)
targets = signs[: users * held].reshape(users, held)
held_out, truth = features[users * held :], signs[users * held :]
corrupted = np.arange(users) < users // 5


def updates(weights, steps=5):
    """Return what users send: how a few steps of logistic regression on their records change the weights."""
    local = np.repeat(weights[None], users, axis=0)
    for _ in range(steps):
        margin = targets * np.einsum("umd,ud->um", mine, local)
        local += np.einsum("um,umd->ud", targets / (1 + np.exp(margin)), mine) / held
    return local - weights


def train(aggregate, attacked=True):
    """Return the area under the ROC curve for held-out people after every round."""
    weights, scores = np.zeros(features.shape[1]), []
    for _ in range(rounds):
        sent = updates(weights)
        if attacked:
            sent[corrupted] -= 5 * sent[~corrupted].mean(axis=0)
        weights = weights + aggregate(sent)
        scores.append(roc_auc_score(truth, held_out @ weights))
    return scores


def private_median(sent):
    """Return the private median of one round; it is public that honest updates are shorter than 10."""
    return PrivateGeometricMedian(epsilon, delta=1e-6, radius_bound=10.0).fit(sent).location_


# %%
# How each way of aggregating responds to the attack
# --------------------------------------------------
# With the mean, the model ranks people the wrong way round. With the median it learns, with privacy nearly as well as
# without. Every round reads the same users' records, so costs add up: one budget pays for these rounds, and no more.

with budget_context(epsilon=epsilon * rounds, delta=1e-6 * rounds):
    learnt = train(private_median)
curves = {
    "mean, nobody corrupted": train(lambda sent: sent.mean(axis=0), attacked=False),
    "median": train(lambda sent: geometric_median(sent).point),
    f"private median, epsilon {epsilon:g} a round": learnt,
    "mean": train(lambda sent: sent.mean(axis=0)),
}
for name, scores in curves.items():
    print(f"{name}: AUC {scores[-1]:.3f} after {rounds} rounds")

# %%
# How many users may be corrupted
# -------------------------------
# We measure the error of the first round's aggregate, relative to the length of the right update. Each share stands for
# a separate study of this one round, so we silence the warning that repeated fits add up.

sent = updates(np.zeros(features.shape[1]))
right = sent.mean(axis=0)
shares = np.linspace(0, 0.4, 9)
errors = {"mean": [], "median": [], "private median": []}
for share in shares:
    attacked = sent - 5 * right * (np.arange(users) < share * users)[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RepeatedFitWarning)
        answers = (attacked.mean(axis=0), geometric_median(attacked).point, private_median(attacked))
    for name, answer in zip(errors, answers, strict=True):
        errors[name].append(np.linalg.norm(answer - right) / np.linalg.norm(right))

figure, (first, second) = plt.subplots(1, 2, figsize=(8.4, 3.8), layout="constrained")
for (name, scores), style in zip(curves.items(), ("k--", "C0-", "C1-", "C2-"), strict=True):
    first.plot(range(1, rounds + 1), scores, style, marker="o", label=name)
first.set(xlabel="round", ylabel="area under the ROC curve", title="a fifth of the users corrupted", ylim=(0, 1))
first.legend(fontsize=9, loc="center right")
for (name, values), style in zip(errors.items(), ("C2-", "C0-", "C1-"), strict=True):
    second.plot(100 * shares, values, style, marker="o", label=name)
second.set(xlabel="corrupted users, %", ylabel="relative error of the update", title="one round")
second.legend(fontsize=9)
plt.show()
