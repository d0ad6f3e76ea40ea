"""
Far more columns than rows
==========================

With five thousand documents and twenty thousand words, noise in every coefficient would drown a linear model. Under a
bound on the sum of the coefficients' magnitudes, the price of privacy grows with the *logarithm* of the number of
words, and the model names the few that it uses.
"""

# %%
# The data are made up: twelve words tell the topic, all others occur at random. The matrix is sparse and stays so. Fits
# are seeded so that the picture is reproducible, which makes them *not private*.

import matplotlib.pyplot as plt
import numpy as np
from scipy import sparse

from dpconvex import PrivateSparseLogisticRegression

rng = np.random.default_rng(0)
documents, words, telling = 6_000, 20_000, 12
topic = rng.integers(0, 2, documents)
noise = sparse.random(documents, words, density=5e-4, format="lil", random_state=rng)
noise[:, :telling] = rng.random((documents, telling)) < np.where(topic, 0.5, 0.1)[:, None]
counts = (noise.tocsr() > 0).astype(float)
seen, new = np.split(rng.permutation(documents), [5 * documents // 6])

epsilons, accuracy, named = [0.5, 1, 2, 4, 8], [], []
for epsilon in epsilons:
    model = PrivateSparseLogisticRegression(epsilon, feature_bound=1.0, classes=[0, 1], random_state=0)
    model.fit(counts[seen], topic[seen])
    used = np.flatnonzero(np.ravel(model.coef_))
    accuracy.append(model.score(counts[new], topic[new]))
    named.append((np.sum(used < telling), np.sum(used >= telling)))
    print(f"epsilon {epsilon:g}: {named[-1][0]} telling words used, {named[-1][1]} others, accuracy {accuracy[-1]:.2f}")

# %%
# Bars count the words that the model uses; above them is its accuracy on documents that it has not seen.

right, wrong = np.transpose(named)
figure, axes = plt.subplots(figsize=(5.6, 4), layout="constrained")
places = np.arange(len(epsilons))
axes.bar(places, right, color="#0072B2")
axes.bar(places, wrong, bottom=right, color="#D55E00")
axes.text(places[-1] - 0.35, right[-1] / 2, "telling", color="white", fontsize=13)
axes.text(places[1] - 0.3, right[1] + wrong[1] / 2 - 0.2, "others", color="white", fontsize=13)
for place, height, score in zip(places, right + wrong, accuracy, strict=True):
    axes.annotate(f"{score:.0%}", (place, height), (0, 4), textcoords="offset points", ha="center")
axes.set(
    xticks=places, xticklabels=epsilons, xlabel="epsilon", ylabel="words in the model", ylim=(0, max(right + wrong) + 3)
)
axes.set_title("12 of 20,000 words tell; above: accuracy on new documents", fontsize=11)
