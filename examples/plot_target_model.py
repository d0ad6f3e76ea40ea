"""
Synthetic records to train models on
====================================

Records drawn from noisy tables of pairs keep each relation between two columns a little too weak, and a model that is
trained on them adds up what is left of all of them. With ``target_share`` a part of epsilon pays for one private model
of the target, and the target of drawn records follows it. (Adult, UCI Machine Learning Repository, CC BY 4.0.)
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score

from dpconvex import PrivateSyntheticData, adult_schema, load_adult

schema, people = adult_schema(), load_adult()
order = np.random.default_rng(0).permutation(len(people))
private_rows, test = people.take(order[:20_000]), people.take(order[-5_000:])


def learned(records):
    """Return the area under the curve, on real people, of a model that is trained on these records."""
    model = LogisticRegression(C=10, max_iter=300).fit(schema.encode(records), schema.encode_target(records))
    return roc_auc_score(schema.encode_target(test), model.decision_function(schema.encode(test)))


# %%
# The same promise, with and without a model of the target
# --------------------------------------------------------
# Noise is seeded here, so that the page is the same whenever it is made: it is then not private.

epsilons = (0.1, 0.3, 1.0, 3.0)
found = {share: [] for share in (0.0, 0.3)}
for epsilon in epsilons:
    for share, areas in found.items():
        private = PrivateSyntheticData(epsilon, delta=0.0, schema=schema, target_share=share, random_state=0)
        areas.append(learned(private.fit(private_rows).sample(random_state=1)))

figure, axes = plt.subplots(figsize=(6, 3.6), layout="constrained")
axes.axhline(learned(private_rows), color="0.6", label="real records")
axes.semilogx(epsilons, found[0.3], "o-", label="records whose target follows a model")
axes.semilogx(epsilons, found[0.0], "x:", label="records from tables alone")
axes.axhline(0.5, color="0.6", lw=0.8, ls="--")
axes.set(xlabel="epsilon (delta = 0)", ylabel="area under the curve, real people")
axes.legend(fontsize=9)

# %%
# Both releases are one promise
# -----------------------------
# The model itself is released, too, and costs nothing more. One certificate covers it and the tables.

print(f"the model: epsilon {private.target_model_.certificate_.spent_epsilon:.2f}")
print(f"all of it: epsilon {private.certificate_.spent_epsilon:.2f}")
weights = dict(zip(schema.feature_names, private.target_model_.coef_[0], strict=True))
for name in sorted(weights, key=lambda name: -abs(weights[name]))[:5]:
    print(f"{name}: {weights[name]:+.2f}")
