"""
A private model inside a database
=================================

A released model is public: it may leave for any other tool at no further cost. ``to_sql`` writes it as one query, so
that the table need not leave the database in order to be scored, and nobody there installs anything.
"""

# %%
# A model of income on the census records (Adult), for epsilon 1. Its query in SQLite, and its own scores of the same
# people.

import sqlite3
from contextlib import closing

import matplotlib.pyplot as plt
import numpy as np

from dpconvex import PrivateLogisticRegression, adult_schema, load_adult

people = load_adult()
model = PrivateLogisticRegression(epsilon=1.0, schema=adult_schema()).fit(people)
query = model.to_sql("people")
print(query[:400], "...")

some = people.slice(0, 3000)
with closing(sqlite3.connect(":memory:")) as base:
    some.to_pandas().to_sql("people", base, index=False)
    found = np.array([row[-1] for row in base.execute(query)])
scores = model.decision_function(some)
print(f"largest difference of {len(found)} scores: {np.abs(found - scores).max():.1e}")

# %%
# Who scores above 0 is predicted to earn more than 50,000 dollars.

figure, axes = plt.subplots(figsize=(5.6, 4), layout="constrained")
axes.axhspan(0, scores.max() + 0.5, color="#EEEEEE")
axes.plot(scores, found, "o", color="#0072B2", markersize=5, alpha=0.15, markeredgewidth=0)
words = "SELECT *, ...\n  AS score_0\nFROM people"
axes.text(0.03, 0.95, words, family="monospace", fontsize=13, va="top", transform=axes.transAxes)
axes.text(0.74, 0.25, "same score,\n3,000 people", color="#0072B2", fontsize=13, ha="center", transform=axes.transAxes)
axes.text(scores.max(), 0.25, "over 50K", fontsize=13, ha="right")
axes.set(xlabel="score in Python", ylabel="score in SQLite")
axes.margins(0)
axes.set_title("The model is one query", fontsize=14)
axes.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# On the command line: `dpconvex export model --format sql --table people`. The forms for scikit-learn, ONNX and JSON
# agree in the same way. Keep the certificate with the query: it states what the numbers in it cost.
