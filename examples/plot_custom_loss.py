"""
A loss of your own: a private joint density
===========================================

Any convex function of parameters and a record can be minimized privately. Here: the joint density of age and weekly
hours in the bundled census table, a log-linear model whose parameters multiply waves on a grid. No linear model does
that. The fit is seeded so that the picture is reproducible, which makes it *not private*: leave ``random_state`` out.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import logsumexp, softmax

from dpconvex import DataDomain, RecordLoss, attack_constants, load_adult, plan_minimize, private_minimize

# %%
# Public knowledge, not taken from the data: ages up to 90, hours up to 100. Both are scaled to [-1, 1].

people = load_adult()
age, hours = (people[name].to_numpy().astype(float) for name in ("age", "hours-per-week"))
X = np.column_stack([age / 45 - 1, hours / 50 - 1])

# %%
# The loss of a record is its negative log-likelihood under ``p(x) ~ exp(<w, T(x)>)``. It is convex in w: a log-sum-exp
# less a linear function. With ``|T| <= 1`` gradients (a mean of T less T(x)) are at most 2 long, and Hessians (the
# covariance of T) at most 1. These two numbers are what privacy and solvers rest on, so let a search attack them.


class JointDensity(RecordLoss):
    name, domain, smoothness = "joint density", DataDomain.box(2, 1.0), 1.0 + 1e-9

    def __init__(self, waves: int, points: int):
        self.points, axis = points, np.linspace(-1, 1, points)
        self.value_at_zero = 2 * np.log(points)  # the loss of the uniform density
        wave = np.cos(np.pi * np.outer(axis + 1, np.arange(waves + 1)) / 2)
        T = np.einsum("ai,bj->abij", wave, wave).reshape(points**2, -1)[:, 1:]  # without the constant function
        self.dim = T.shape[1]
        self.T = T / np.sqrt(self.dim)

    def lipschitz(self, radius):
        return 2.0 + 1e-9

    def cells(self, records):
        a, b = np.rint((records + 1) / 2 * (self.points - 1)).astype(int).T
        return a * self.points + b

    def value(self, w, records):
        return logsumexp(self.T @ w) - self.T[self.cells(records)] @ w

    def gradient(self, w, records):
        return softmax(self.T @ w) @ self.T - self.T[self.cells(records)]


loss = JointDensity(waves=5, points=61)
print(attack_constants(loss, radius=30.0, trials=100))

# %%
# A plan needs no data. The bound is in nats of log-likelihood; the uniform density may lose up to 8.2.

plan = plan_minimize(loss, len(X), epsilon=1.0, radius=30.0)
print(f"noise {plan.deviation:.2f} in each of {loss.dim} parameters, excess at most {plan.predicted_error.bound:.2f}")

result = private_minimize(loss, X, epsilon=1.0, radius=30.0, random_state=0)
density = softmax(loss.T @ result.point).reshape(loss.points, loss.points)

# %%
# The records, and the density that is released; anybody may draw as many people from it as they like.

counts, _, _ = np.histogram2d(X[:, 0], X[:, 1], loss.points, [[-1, 1], [-1, 1]])
draws = np.random.default_rng(0).choice(density.size, 2000, p=density.ravel())
figure, panels = plt.subplots(1, 3, figsize=(10, 3.4), sharey=True, layout="constrained")
view = {"origin": "lower", "extent": (0, 90, 0, 100), "aspect": "auto", "cmap": "magma_r"}
panels[0].imshow((counts.T / counts.sum()) ** 0.5, **view)
panels[1].imshow(density.T**0.5, **view)
panels[2].plot(90 * (draws // loss.points) / 60, 100 * (draws % loss.points) / 60, ".", markersize=2)
for panel, title in zip(panels, ("private records", "released density, epsilon 1", "2000 made-up people"), strict=True):
    panel.set(title=title, xlabel="age", xlim=(0, 90), ylim=(0, 100))
panels[0].set_ylabel("hours a week")
plt.show()
