"""
Hide who is in the table at all
===============================

Usually the number of records is public, and the promise is about what a record says. Where it must stay private even
*whether* somebody is in the table, ask for neighbors that add or remove one record. Then nothing may depend on how many
records there are, and you declare a number from public knowledge. How good must the guess be?
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.metrics import log_loss

from dpconvex import PrivateLogisticRegression, adult_schema, load_adult

schema, table = adult_schema(), load_adult()
train, test = table.slice(0, 9_000), table.slice(30_000, 10_000)
truth = np.array(test["income"].to_pylist()) == ">50K"


def loss(**how) -> float:
    """Log-loss on other people, the mean of four fits. Seeds make the example repeatable: such fits are not private."""
    models = (PrivateLogisticRegression(0.3, schema=schema, random_state=k, **how).fit(train) for k in range(4))
    return float(np.mean([log_loss(truth, model.predict_proba(test)[:, 1]) for model in models]))


# %%
# The table has 9,000 records. Each fit is told another number.

declared = np.array([500, 1_500, 4_500, 9_000, 18_000, 54_000, 180_000])
added = [loss(neighbors="add_or_remove_one", rows=int(n)) for n in declared]
replaced = loss()
constant = log_loss(truth, np.full(len(truth), truth.mean()))

figure, axes = plt.subplots(figsize=(6.5, 4), layout="constrained")
axes.plot(declared, added, marker="o", label="add or remove one")
axes.axhline(replaced, color="tab:orange", label="replace one (9,000 is public)")
axes.axhline(constant, color="gray", ls=":", label="a constant")
axes.axvline(9_000, color="gray", lw=0.8)
axes.set(xscale="log", xlabel="declared number of records (there are 9,000)", ylabel="held-out log-loss")
axes.set_title("epsilon 0.3, delta 0")
axes.legend()
plt.show()

# %%
# The guess matters little: the noise in a sum over records does not depend on how many there are. The declared number
# decides how strong the penalty is, at what slope the loss is capped, and what error is expected. A number that is
# twenty times too large makes the penalty too weak for so few records, and costs about .02.
#
# The two relations' epsilons do not compare. A fit that keeps epsilon 0.3 for added records keeps at most 0.6 for
# replaced ones, which is why its curve lies below the line where the guess is right. Take it where being in the
# table is the secret (patients of one clinic), not because its noise is smaller.

model = PrivateLogisticRegression(0.3, schema=schema, neighbors="add_or_remove_one", rows=10_000).fit(train)
print(model.certificate_.explain())
