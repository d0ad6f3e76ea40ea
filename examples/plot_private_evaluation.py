"""
Evaluating a model on private records
=====================================

A model of income is fitted on most of the census records (Adult) and measured on the others, for one epsilon: nobody is
in both parts, so the evaluation costs nothing more. A secret random order decides who is held out.
"""

import matplotlib.pyplot as plt

from dpconvex import PrivateLogisticRegression, adult_schema, fit_and_evaluate, load_adult

model = PrivateLogisticRegression(epsilon=1.0, schema=adult_schema())
found = fit_and_evaluate(model, load_adult(), epsilon=1.0, holdout=0.2, by="sex")
print(found)
print(found.promise_)

# %%
# Two pictures
# ------------
# On the left is the receiver operating characteristic, on the right how often people with a given predicted probability
# really have a high income. The error bars cover both the sampling of the test records and the noise.

figure, (left, right) = plt.subplots(1, 2, figsize=(8, 4), layout="constrained")
left.plot(*found.roc.T, marker="o", markersize=3)
left.plot([0, 1], [0, 1], color="gray", linewidth=0.8)
left.set(xlabel="false positives", ylabel="true positives", title=f"AUC {found['auc']}")
predicted, share, lower, upper, _ = found.calibration.T
right.errorbar(predicted, share, yerr=(share - lower, upper - share), fmt="o", markersize=4)
right.plot([0, 1], [0, 1], color="gray", linewidth=0.8)
right.set(xlabel="predicted probability", ylabel="share above 50K", title="Calibration")
plt.show()

# %%
# Groups
# ------
# The metrics of groups cost nothing more, and differences between groups have separate intervals.

for name in ("accuracy", "recall", "rate"):
    print(name, {group: str(each[name]) for group, each in found.groups.items()})
print("recall, men less women:", found.differences["sex=Male"]["recall"])
