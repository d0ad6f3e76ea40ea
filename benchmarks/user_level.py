"""Compare user-level fits of this library with what is used today, by excess log-loss on held-out users.

    python benchmarks/user_level.py [--tables batting films planes] [--methods auto noisy_gradient Opacus]
        [--seeds 5] [--epsilons 0.1 0.3 1 3] [--neighbors add_or_remove_one] [--json FILE]

Everything that a user contributed is protected, at delta 1e-6. A fifth of the users is held out. The loss is averaged
over the held-out users (each user's mean), above that of the best model without privacy, which is fitted to the
training users with the same weights. Neighbors replace a user, or, with ``--neighbors``, add or remove one; then the
true number of users is declared.

- ``auto`` is what the library chooses; beside it stands every algorithm that it can plan for users. Fits are by schema.
- ``group privacy`` is a pure record-level fit at ``epsilon / m`` after each user is cut down to m random records, with
  the m of 1, 2, 4, 8, 16 that is best on the held-out users, which favors it.
- ``Opacus`` is DP-SGD whose samples are whole users (each user's mean loss), with Poisson batches, for added or removed
  users by its own accountant: a weaker promise, with about half the noise. It has the best of six settings on the
  held-out users, which favors it. It needs ``pip install opacus``, and is left out without it.

Fits are seeded, hence not private: this measures accuracy on public data.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
import time

import numpy as np
from rich.console import Console
from rich.table import Table as RichTable

from dpconvex import PrivateLogisticRegression
from dpconvex.algorithms.erm.registry import ERM_METHODS
from dpconvex.errors import DpconvexError
from dpconvex.losses import LogisticLoss
from dpconvex.problems import Records, RegularizedRisk, UserGroups
from dpconvex.problems.data.users import record_weights
from dpconvex.solvers import NewtonCholesky
from user_tables import FRESH, OTHERS, USER_TABLES, UserTable

DELTA = 1e-6
TABLES = {**USER_TABLES, **OTHERS, **FRESH}
CUTS = (1, 2, 4, 8, 16)
OPACUS_GRID = ((0.05, 0.5, 5), (0.05, 2.0, 5), (0.05, 2.0, 20), (0.3, 0.5, 5), (0.3, 2.0, 20), (0.3, 8.0, 20))
"""The settings that are tried: clipping norm, learning rate and epochs."""
METHODS = ("auto", *ERM_METHODS, "group privacy", "Opacus")


class Split:
    """A table's training users and held-out users."""

    def __init__(self, table: UserTable, seed: int) -> None:
        n = int(table.users.max()) + 1
        held = np.zeros(n, dtype=bool)
        held[np.random.default_rng(seed).permutation(n)[: n // 5]] = True
        test = held[table.users]
        self.table, self.domain = table, table.schema.domain()
        self.frame, self.test_frame = table.frame.iloc[~test], table.frame.iloc[test]
        self.X, self.y, self.users = table.X[~test], table.y[~test], table.users[~test]
        self.test_X, self.test_y = table.X[test], table.y[test]
        groups = UserGroups.of(table.users[test])
        self.test_weights = record_weights(groups) / groups.n_users
        groups = UserGroups.of(self.users)
        self.n_users = groups.n_users
        domain = self.domain.with_intercept(1.0)
        weights = record_weights(groups) / groups.n_users
        records = Records.clipped(self.X, domain)
        risk = RegularizedRisk(LogisticLoss(), records, 2.0 * self.y - 1, 1e-7, weights=weights)
        w = NewtonCholesky().solve(risk, 1e-2).point
        self.best = self.loss(w[:-1], w[-1])
        share = float(weights @ self.y)
        self.constant = self.loss(np.zeros(len(w) - 1), np.log(share / (1 - share))) - self.best

    def loss(self, coef: np.ndarray, intercept: float) -> float:
        return self.loss_at(self.test_X @ coef + intercept)

    def loss_at(self, z: np.ndarray) -> float:
        return float(self.test_weights @ np.logaddexp(0.0, np.where(self.test_y == 1, -z, z)))


def fitted(
    split: Split, epsilon: float, algorithm: str, seed: int, records_per_user: int, neighbors: str
) -> tuple[float, str]:
    model = PrivateLogisticRegression(
        epsilon,
        DELTA,
        schema=split.table.schema,
        algorithm=algorithm,
        records_per_user=records_per_user,
        neighbors=neighbors,
        rows=None if neighbors == "replace_one" else split.n_users,
        random_state=seed,
    )
    model.fit(split.frame, groups=split.users)
    return split.loss_at(model.decision_function(split.test_frame)) - split.best, model.plan_.algorithm


def group_privacy(split: Split, epsilon: float, cut: int, seed: int) -> float:
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(split.users))
    order = order[np.argsort(split.users[order], kind="stable")]
    groups = UserGroups.of(split.users[order])
    place = np.arange(len(order)) - np.repeat(groups.starts[:-1], groups.sizes)
    rows = order[place < cut]
    # Pure record-level epsilon / m is pure user-level epsilon.
    model = PrivateLogisticRegression(epsilon / cut, domain=split.domain, random_state=seed, classes=[0, 1])
    model.fit(split.X[rows], split.y[rows])
    return split.loss(model.coef_[0], model.intercept_[0]) - split.best


class PerUser:
    """Users as padded samples for Opacus: each sample's loss is the mean over its records."""

    def __init__(self, split: Split) -> None:
        import torch

        groups = UserGroups.of(split.users)
        order = np.arange(len(split.users)) if groups.order is None else groups.order
        longest, user = int(groups.sizes.max()), np.repeat(np.arange(groups.n_users), groups.sizes)
        place = np.arange(len(order)) - np.repeat(groups.starts[:-1], groups.sizes)
        X = np.zeros((groups.n_users, longest, split.X.shape[1]), dtype=np.float32)
        y, weight = np.zeros((2, groups.n_users, longest), dtype=np.float32)
        X[user, place] = split.X[order]
        y[user, place], weight[user, place] = split.y[order], record_weights(groups)[order]
        self.tensors = torch.utils.data.TensorDataset(*map(torch.from_numpy, (X, y, weight)))
        self.split = split

    def fit(self, epsilon: float, clip: float, rate: float, epochs: int, seed: int) -> float:
        import logging
        import warnings

        import torch
        from opacus import PrivacyEngine

        logging.disable(logging.WARNING)
        torch.manual_seed(seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            size = max(16, self.split.n_users // 40)
            model = torch.nn.Linear(self.split.X.shape[1], 1)
            torch.nn.init.zeros_(model.weight)
            torch.nn.init.zeros_(model.bias)
            loader = torch.utils.data.DataLoader(self.tensors, batch_size=size)
            private, optimizer, loader = PrivacyEngine().make_private_with_epsilon(
                module=model, optimizer=torch.optim.SGD(model.parameters(), lr=rate), data_loader=loader,
                target_epsilon=epsilon, target_delta=DELTA, epochs=epochs, max_grad_norm=clip,
            )  # fmt: skip
            for _ in range(epochs):
                for X, y, weight in loader:
                    if len(X) == 0:
                        continue
                    optimizer.zero_grad()
                    losses = torch.nn.functional.binary_cross_entropy_with_logits(
                        private(X)[..., 0], y, weight=weight, reduction="none"
                    )
                    losses.sum(1).mean().backward()
                    optimizer.step()
        coef, intercept = model.weight.detach().numpy()[0].astype(float), float(model.bias.detach())
        return self.split.loss(coef, intercept) - self.split.best


def measure(name: str, seeds: int, epsilons: list[float], methods: list[str], neighbors: str) -> dict:
    table = TABLES[name]()
    rows: dict[str, dict[str, list[float]]] = {}
    constants, chosen, sizes = [], {}, []
    seconds: dict[str, float] = {}

    def note(row: str, epsilon: float, value: float, start: float) -> None:
        print(f"{name} {epsilon:g} {row}: {value:.4f}", file=sys.stderr, flush=True)
        rows.setdefault(row, {}).setdefault(f"{epsilon:g}", []).append(value)
        seconds[row] = seconds.get(row, 0.0) + time.perf_counter() - start

    for seed in range(seeds):
        split = Split(table, seed)
        constants.append(split.constant)
        sizes.append(split.n_users)
        users = PerUser(split) if "Opacus" in methods else None
        for epsilon in epsilons:
            for algorithm in [name for name in methods if name in ("auto", *ERM_METHODS)]:
                start = time.perf_counter()
                try:
                    value, used = fitted(split, epsilon, algorithm, seed, table.records_per_user, neighbors)
                except DpconvexError:
                    continue  # refused for users, or too few of them
                note(algorithm, epsilon, value, start)
                if algorithm == "auto":
                    chosen[f"{epsilon:g}"] = used
            for cut in CUTS if "group privacy" in methods else ():
                start = time.perf_counter()
                note(f"group privacy, m={cut}", epsilon, group_privacy(split, epsilon, cut, seed), start)
            if users is not None:
                for clip, rate, epochs in OPACUS_GRID:
                    start = time.perf_counter()
                    row = f"Opacus, clip {clip:g}, rate {rate:g}, {epochs} epochs"
                    note(row, epsilon, users.fit(epsilon, clip, rate, epochs, seed), start)
    means = {row: {e: (float(np.mean(v)), float(np.std(v))) for e, v in by.items()} for row, by in rows.items()}
    return {"table": name, "users": sizes[0], "records": len(table.y), "dim": table.X.shape[1] + 1,
            "constant": float(np.mean(constants)), "chosen": chosen, "excess": means, "seconds": seconds}  # fmt: skip


def best_of(excess: dict, prefix: str, epsilon: str) -> tuple[float, float] | None:
    return min((by[epsilon] for row, by in excess.items() if row.startswith(prefix) and epsilon in by), default=None)


def show(result: dict, epsilons: list[float]) -> None:
    title = (
        f"{result['table']}: {result['users']:,} users, d={result['dim']}, constant +{result['constant']:.4f}; "
        "mean excess log-loss on held-out users (s.d.)"
    )
    table = RichTable(title=title)
    table.add_column("method")
    for epsilon in epsilons:
        table.add_column(f"epsilon {epsilon:g}", justify="right")
    for name in METHODS:
        cells = [best_of(result["excess"], name, f"{epsilon:g}") for epsilon in epsilons]
        if any(cells):
            table.add_row(name, *("-" if cell is None else f"{cell[0]:.4f} ({cell[1]:.4f})" for cell in cells))
    Console().print(table)
    print("auto chose", result["chosen"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=list(USER_TABLES), choices=TABLES)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.1, 0.3, 1.0, 3.0])
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=METHODS)
    parser.add_argument("--neighbors", default="replace_one", choices=("replace_one", "add_or_remove_one"))
    parser.add_argument("--json")
    arguments = parser.parse_args()
    absent = importlib.util.find_spec("opacus") is None
    methods = [name for name in arguments.methods if name != "Opacus" or not absent]
    results = []
    for name in arguments.tables:
        results.append(measure(name, arguments.seeds, arguments.epsilons, methods, arguments.neighbors))
        show(results[-1], arguments.epsilons)
        if arguments.json:
            with open(arguments.json, "w") as file:
                json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
