"""
Which epsilon do I need?
========================

Before anything is fitted, and without reading data: what would a model of Adult's columns lose at each epsilon, and
which epsilon brings it within 0.02 of the log-loss of the best model? The answer is a range. Its ends come from how far
such forecasts were off on 23 public tables that had no part in making them.
"""

# %%
# The model is declared as it would be for a fit; its epsilon does not matter here.

import matplotlib.pyplot as plt

from dpconvex import PrivateLogisticRegression, adult_schema, required_epsilon, required_rows

model = PrivateLogisticRegression(schema=adult_schema())
needed = required_epsilon(model, 45_222, goal=0.02)
print(needed)

# %%
# The answer is read off this curve. On those public tables its band held nine of ten measured values.

at = [each.at for each in needed.curve]
figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
axes.fill_between(at, [e.low for e in needed.curve], [e.high for e in needed.curve], alpha=0.25, color="#0072b2")
axes.plot(at, [e.typical for e in needed.curve], color="#0072b2")
axes.axhline(needed.goal, color="#d55e00")
axes.annotate("goal", (at[0], needed.goal), xytext=(0, 4), textcoords="offset points", color="#d55e00")
axes.annotate("typical", (at[12], needed.curve[12].typical), xytext=(6, 4), textcoords="offset points", color="#0072b2")
axes.axvspan(needed.low, min(needed.high, at[-1]), color="#999999", alpha=0.2)
axes.set(xscale="log", yscale="log", xlabel="epsilon", ylabel="log-loss above the best model's", xlim=(at[0], at[-1]))
axes.text(needed.low, 0.03, " needed: somewhere here", transform=axes.get_xaxis_transform())

# %%
# The question can be turned around: how many records does it take at the epsilon that was approved?

print(required_rows(model.set_params(epsilon=0.5), goal=0.02))
