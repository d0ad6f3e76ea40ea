"""
No ranges to declare
====================

Ranges that nobody knows beforehand are found privately, and the fit pays for them out of its own epsilon.
"""

import matplotlib.pyplot as plt
import numpy as np

from dpconvex import PrivateLogisticRegression
from dpconvex.mechanisms import JointHistogram
from dpconvex.problems.data import ranges

rng = np.random.default_rng(0)
n = 20_000
age = rng.normal(45, 15, n).clip(17, 90)
income = np.exp(rng.normal(10, 0.8, n))
X, y = np.column_stack([age, income]), (age / 15 + np.log(income) + rng.logistic(size=n) > 13).astype(int)

model = PrivateLogisticRegression(epsilon=1.0, feature_bounds="private", classes=[0, 1], random_state=0).fit(X, y)
for name, found in zip(("age", "income"), model.ranges_, strict=True):
    print(f"{name}: {found.lower:g} to {found.upper:g}")
print(f"accuracy {model.score(X, y):.3f}, epsilon {model.certificate_.spent_epsilon:.3f} for ranges and model")

# %%
# A noisy histogram of octaves finds outer ranges, of which a second release keeps parts. The histogram's noise is the
# same however many cells there are. The picture adds new noise to the true counts; dashed lines are at two deviations.

mechanism: JointHistogram = model.plan_.first
noise = mechanism.simulate(1, np.random.default_rng(1))[0].reshape(2, -1)
figure, axes = plt.subplots(2, 1, sharex=True, figsize=(7, 5))
for axis, name, values, errors in zip(axes, ("age", "income"), X.T, noise, strict=True):
    counts = np.bincount(ranges.cells(values), minlength=ranges.CELLS) + errors
    exponents = np.arange(-10, 26)
    axis.bar(exponents, counts[ranges.END + exponents + 31], width=0.9)
    axis.axhline(2 * mechanism.deviations[0], color="gray", linestyle="--", linewidth=1)
    axis.set_ylabel(f"{name}: noisy count")
axes[1].set_xlabel("octave: values from $2^e$ to $2^{e+1}$")
plt.tight_layout()
plt.show()
