"""
Attack your own mechanism
=========================

Code that looks private and is not gives no sign of it: its answers are as noisy as they should be. An audit runs it on
two tables that differ in one record, and says which epsilon an observer of the answers can *prove*. Here it attacks a
mean with Laplace noise, as somebody might write it, and three ordinary slips.
"""

# %%
# Whatever has a promise, ``privacy``, and a method ``run(*data, source)`` can be audited. Values belong into [-1, 1],
# so one record moves the mean of n by at most 2/n.

from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np

from dpconvex.audit import Pair, audit
from dpconvex.privacy import PrivacyParams


@dataclass(frozen=True)
class NoisyMean:
    """A mean with Laplace noise; `slip` tells what its author got wrong."""

    privacy: PrivacyParams
    slip: str = ""

    def run(self, values: np.ndarray, source) -> np.ndarray:
        if self.slip != "values not clipped":
            values = np.clip(values, -1, 1)
        sensitivity = (1 if self.slip == "1/n for 2/n" else 2) / len(values)
        generator = np.random.default_rng(0) if self.slip == "noise with a seed" else source.generator()
        return np.mean(values) + generator.laplace(0, sensitivity / self.privacy.epsilon, 1)


# %%
# The worst neighbors: all records at one end, or one of them beyond the other end. 2,000 runs on each table; a bound
# is wrong with probability 0.001.

pair = {"one end or the other": Pair((np.full(20, 3.0),), (np.append(np.full(19, 3.0), -3.0),))}
proved = {}
for slip in ("", "1/n for 2/n", "values not clipped", "noise with a seed"):
    report = audit(NoisyMean(PrivacyParams(1.0), slip), pair, runs=2000)
    proved[slip or "no slip"] = report.proved_at_least
    print(f"{slip or 'no slip':20s} proved {report.proved_at_least:.2f}: {'passed' if report.passed else 'REFUTED'}")

figure, axes = plt.subplots(figsize=(5.6, 4), layout="constrained")
for k, (slip, epsilon) in enumerate(proved.items()):
    color = "#0072B2" if epsilon <= 1 else "#D55E00"
    axes.barh(k, epsilon, color=color, height=0.6)
    place, shade = (1.1, "white") if epsilon > 3 else (max(1, epsilon) + 0.1, color)
    axes.text(place, k, f"{slip}: {epsilon:.1f}", color=shade, fontsize=13, va="center")
axes.axvline(1, color="black", linewidth=2)
axes.text(1.1, -0.62, "promised: 1", fontsize=13, va="center")
axes.set(yticks=[], ylim=(3.5, -0.85), xlabel="epsilon that the audit can prove")
axes.set_title("An audit refutes what looks private", fontsize=14)
axes.spines[["top", "right", "left"]].set_visible(False)
plt.show()

# %%
# Nothing is proved by a pass: an audit finds mistakes, theorems exclude them. `dpconvex audit all` attacks every method
# of the library in this way, and a run whose noise comes from `dpconvex.mechanisms` is attacked with its exact privacy
# losses besides, which see a wrong factor at every epsilon.
