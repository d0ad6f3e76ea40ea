"""
Protecting users, not rows
==========================

In this table one person has many rows. A record-level promise hides a row; a user-level promise hides the person. It
costs more noise, for there are fewer persons than rows, and it also makes the model robust against whoever has most
of the rows.
"""

# %%
# 400 users have between 1 and 60 rows each. One more user has 8,000 rows that say the opposite of all others.

import matplotlib.pyplot as plt
import numpy as np

from dpconvex import PrivateLogisticRegression

rng = np.random.default_rng(0)
sizes = np.append(np.minimum(rng.geometric(0.1, 400), 60), 8_000)
users = np.repeat(np.arange(401), sizes)
X = rng.uniform(-1, 1, (len(users), 3))
y = (X @ [2.0, -1.0, 0.5] + rng.logistic(size=len(users)) > 0).astype(int)
y[users == 400] = 1 - y[users == 400]

# %%
# ``groups`` says which user a row belongs to. The certificate says what is protected. (A seeded fit is *not private*.)

facts = {"feature_bounds": (-1, 1), "classes": [0, 1], "coefficient_norm": 4.0, "random_state": 0}
by_user = PrivateLogisticRegression(2.0, **facts).fit(X, y, groups=users)
by_record = PrivateLogisticRegression(2.0, **facts).fit(X, y)
print(by_user.certificate_.explain().splitlines()[0])
print(by_record.certificate_.explain().splitlines()[0])
print("users:", by_user.coef_.round(2), " rows:", by_record.coef_.round(2))

# %%
# The user with 8,000 rows turns the record-level model around; at the user level they are one of 401.
#
# What the promise costs can be planned without data: the error falls with the number of users, not of rows.

counts = np.geomspace(100, 100_000, 7).astype(int)
model = PrivateLogisticRegression(2.0, **facts)
bounds = [model.plan(int(n), 3, unit="user")[0].predicted_error.bound for n in counts]

fig, axes = plt.subplots(1, 2, figsize=(8, 3.6), layout="constrained")
width = 0.38
for shift, fit, label in ((-width / 2, by_user, "users protected"), (width / 2, by_record, "rows protected")):
    axes[0].bar(np.arange(3) + shift, fit.coef_[0], width, label=label)
axes[0].scatter(np.arange(3), [2.0, -1.0, 0.5], color="black", zorder=3, label="400 of the 401 users")
axes[0].set(xticks=range(3), xticklabels=["a", "b", "c"], xlabel="feature", ylabel="coefficient")
axes[0].legend(fontsize=9)
axes[1].loglog(counts, bounds, marker="o")
axes[1].set(xlabel="users", ylabel="bound on the expected excess loss")
plt.show()
