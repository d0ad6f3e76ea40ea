"""
What privacy costs in accuracy
==============================

Private logistic regression on the Adult census data, over epsilon. The schema gives public bounds and categories;
nothing is tuned. Fits here are seeded so that the picture is reproducible, which makes them *not private*: leave
``random_state`` out when the data are sensitive.
"""

import matplotlib.pyplot as plt
import numpy as np

from dpconvex import PrivateLogisticRegression, adult_schema, load_adult

table, schema = load_adult(), adult_schema()
rows = np.random.default_rng(0).permutation(table.num_rows)
train, test = table.take(rows[:36_186]), table.take(rows[36_186:])
labels = np.asarray(schema.classes)[schema.encode_target(test)]

# %%
# One fit for each budget, three seeds.

epsilons = [0.03, 0.1, 0.3, 1.0, 3.0]
scores = np.array(
    [
        [
            PrivateLogisticRegression(epsilon, schema=schema, random_state=seed).fit(train).score(test, labels)
            for seed in range(3)
        ]
        for epsilon in epsilons
    ]
)

# %%
# The plan knows the noise before it sees the data: the predicted bound needs the number of records only.

bounds = [
    PrivateLogisticRegression(epsilon, schema=schema).plan(train.num_rows)[0].predicted_error.bound
    for epsilon in epsilons
]

figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
left.errorbar(epsilons, scores.mean(1), scores.std(1), marker="o", capsize=3)
left.axhline(np.mean(labels == schema.classes[0]), color="gray", linestyle="--", label="larger class only")
left.set(xscale="log", xlabel="epsilon", ylabel="test accuracy", title="measured")
left.legend()
right.plot(epsilons, bounds, marker="o")
right.axhline(np.log(2), color="gray", linestyle="--", label="predicting nothing")
right.set(
    xscale="log", yscale="log", xlabel="epsilon", ylabel="bound on excess log-loss", title="planned, without data"
)
right.legend()
plt.show()
