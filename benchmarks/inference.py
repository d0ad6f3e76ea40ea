"""Measure private evaluation: root mean squared errors of its metrics, and coverage of their 95 % intervals.

    python benchmarks/inference.py evaluation --runs 400          # Adult; docs, Private evaluation

A logistic model is fitted to 19,700 records of Adult without privacy, and then fixed; test records are drawn with
replacement from the other 25,522. Errors are deviations from the metrics of the drawn records; coverage is of the
metrics of all 25,522.
"""

from __future__ import annotations

import argparse
import math

import numpy as np
from scipy.special import expit
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score

from dpconvex import adult_schema, load_adult
from dpconvex.algorithms.queries import metrics
from dpconvex.algorithms.queries.evaluation import plan
from dpconvex.privacy import PrivacyParams
from dpconvex.randomness import SeededSource

NAMES = ("accuracy", "auc", "log_loss", "rate")
CELLS = ((1000, 0.3), (1000, 1.0), (10_000, 0.1), (10_000, 0.3), (10_000, 1.0), (1000, 0.1))


def measured(scores, labels) -> np.ndarray:
    """Return the metrics of these records, computed without privacy."""
    chances = expit(np.clip(scores, -4, 4))
    values = np.mean((scores > 0) == labels), roc_auc_score(labels, scores), log_loss(labels, chances), labels.mean()
    return np.array(values)


def evaluation(runs: int) -> None:
    schema, table = adult_schema(), load_adult()
    X, y = schema.encode(table), schema.encode_target(table)
    order = np.random.default_rng(0).permutation(len(y))
    train, test = order[:-25_522], order[-25_522:]
    model = LogisticRegression(max_iter=2000).fit(X[train], y[train])
    scores, labels = model.decision_function(X[test]), y[test]
    truth = measured(scores, labels)
    names = "error of accuracy, AUC, log-loss, rate | coverage | half-width of accuracy, AUC | AUC known"
    print(f"| n, epsilon, bins | {names} |\n|---|---|---|---|---|")
    for n, epsilon in CELLS:
        rng, errors, covered, widths, known = np.random.default_rng(1), [], [], [], []
        made = plan(n, PrivacyParams(epsilon))
        for seed in range(runs):
            picked = rng.integers(0, len(scores), n)
            bins = np.searchsorted(metrics.grid(made.bins).cuts, scores[picked])
            released = made.run((bins * 2 + labels[picked])[:, None], None, None, SeededSource(seed))
            found = [metrics.of_scores(released, lambda c: c).whole[name] for name in NAMES]
            own = measured(scores[picked], labels[picked])
            errors.append([each.value - value for each, value in zip(found, own, strict=True)])
            known.append([each.known for each in found])
            covered.append([each.lower <= value <= each.upper for each, value in zip(found, truth, strict=True)])
            widths.append([(each.upper - each.lower) / 2 for each in found[:2]])
        rms, share = np.sqrt(np.nanmean(np.square(errors), 0)), np.sum(covered, 0) / np.sum(known, 0)
        cells = [" ".join(f"{v:.4f}" for v in rms), " ".join(f"{v:.3f}" for v in share)]
        cells += [" ".join(f"{v:.4f}" for v in np.nanmean(widths, 0)), f"{np.mean(known, 0)[1]:.2f}"]
        print(f"| {n:,}, {epsilon}, {made.bins} | {' | '.join(cells)} |", flush=True)
    errors = f"of a coverage {math.sqrt(0.05 * 0.95 / runs):.3f}, of an error {1 / math.sqrt(2 * runs):.0%}"
    print(f"\n{runs} runs; standard error {errors}; coverage among runs in which the metric is known")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("evaluation",))
    parser.add_argument("--runs", type=int, default=400)
    given = parser.parse_args()
    evaluation(given.runs)
