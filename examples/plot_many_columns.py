"""
Far more columns, hardly more noise
===================================

Noise of a private linear model grows with the number of its columns. ``PrivateSparseLogisticRegression`` picks a column
a step, and what a pick costs grows with the *logarithm* of their number only. Here census records get more and more
columns that say nothing, as rare words and codes do. Fits are seeded, so that the picture is reproducible; that makes
them *not private*.
"""

# %%
# 10,000 people; a column that says nothing is 1 for one person in a hundred, who is drawn at random.

import matplotlib.pyplot as plt
import numpy as np
from scipy import sparse
from sklearn.metrics import roc_auc_score

from dpconvex import PrivateLogisticRegression, PrivateSparseLogisticRegression, adult_schema, load_adult

schema, table = adult_schema(), load_adult()
chosen = np.random.default_rng(0).permutation(table.num_rows)[:20_000]
people = sparse.csr_array(schema.encode(table)[chosen])
rich = schema.encode_target(table)[chosen]
train, test = slice(0, 10_000), slice(10_000, None)

sparse_model = PrivateSparseLogisticRegression(1.0, feature_bound=1, radius=10, classes=[0, 1], random_state=0)
dense_model = PrivateLogisticRegression(1.0, feature_norm=3.5, classes=[0, 1], random_state=0)  # longer rows are clipped

# %%
# Both promise epsilon 1. What is the chance that a rich person gets a larger score than one who is not?

added = [0, 100, 1000]
auc = {}
for columns in added:
    empty = sparse.random_array((people.shape[0], columns), density=0.01, rng=np.random.default_rng(1))
    X = sparse.hstack([people, empty.astype(bool)]).tocsr()
    for name, model in (("sparse", sparse_model), ("dense", dense_model)):
        scores = model.fit(X[train], rich[train]).decision_function(X[test])
        auc[name, columns] = roc_auc_score(rich[test], scores)
        print(f"{X.shape[1]:5d} columns, {name:6s}: AUC {auc[name, columns]:.3f}")
