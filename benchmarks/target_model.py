"""What models learn from synthetic records whose target follows a private model, beside those of tables alone.

    python benchmarks/target_model.py learning|held_out|examined|known|users [--shares 0 0.3] [--epsilon 0.3 1 3]
        [--delta 0 1e-6] [--tables NAME ..] [--rows 20000] [--seeds 1] [--json FILE] [--figure FILE]

Tables are a half of the corpus (`corpus.py`), those of ``exam_whole.py``, well-known ones of ``whole_tables.py``, or
those of ``user_tables.py``, whose users are protected, in bins that the default takes. Records are drawn from a release
of four fifths of the rows (or users). A linear model and a boosted one are trained on them, and tested on the other
fifth: area under the curve (mean over classes) or R^2, at least -1. It prints how much less that is than with real
rows, as a mean over tables, how often the linear model is within 0.015 of real rows, and the mean total variation of
pairs (numbers cut at sixteenths of the real ones) relative to the first share. `own` is what the private model of the
target itself reaches. `--figure` draws what is reached on the first table. Neighbors replace one record, or one user.
Noise is seeded, hence not private: the tables are public.
"""

from __future__ import annotations

import argparse
import json
import warnings
from functools import partial
from itertools import product

import numpy as np
from sklearn.metrics import r2_score

import corpus
import exam_whole
import whole_tables
from dpconvex import PrivateSyntheticData
from dpconvex.data.frames import open_table
from dpconvex.errors import DpconvexWarning
from found_bins import Ruler
from many_tables import checksum
from user_tables import FRESH, OTHERS, USER_TABLES

SETS = {half: corpus.HALVES[half] for half in ("learning", "held_out")} | {"examined": tuple(exam_whole.EXAM_WHOLE)}
SETS["known"] = ("adult", "credit", "flights")
USERS = USER_TABLES | OTHERS | FRESH  #: All rows of a user are protected, and users are split
SETS["users"] = tuple(name for name in USERS if name != "batting")


def own(model, schema, test) -> float:
    """Return what a private model of the target reaches on real rows, as `whole_tables.auc` measures it."""
    wanted = np.asarray(schema.encode_target(test))
    if schema.target.numeric:
        return max(r2_score(wanted, model.predict(test)), -1.0)
    return whole_tables.area(schema, wanted, dict(enumerate(model.predict_proba(test).T)))


def measure(name: str, given: argparse.Namespace) -> list[dict]:
    load = USERS.get(name) or (partial(corpus.load, name) if name in corpus.RECIPES else whole_tables.TABLES[name])
    table = load()
    schema, frame, users = table.schema, open_table(table.frame).to_arrow(), getattr(table, "users", None)
    units = np.arange(len(frame)) if users is None else users
    order = np.random.default_rng(checksum(name)).permutation(units.max() + 1)
    order = order[: given.rows] if users is None else order
    fifth = len(order) // 5
    taken, held_out = (np.flatnonzero(np.isin(units, part)) for part in (order[fifth:], order[:fifth]))
    train, test, groups = frame.take(taken), frame.take(held_out), None if users is None else users[taken]
    ruler, rows = Ruler(schema, train, test), []
    kind = "numbers" if schema.target.numeric else "two classes" if len(schema.target.classes) == 2 else "classes"
    real = {"linear": max(whole_tables.auc(schema, train, test), -1.0), "boosted": ruler.learned(ruler.train)}
    for epsilon, delta, share in product(given.epsilon, given.delta, given.shares):
        found = []
        for seed in range(given.seeds):
            coins = checksum(f"{name} {epsilon} {seed}")
            private = PrivateSyntheticData(epsilon, delta, schema=schema, target_share=share, random_state=coins)
            drawn = private.fit(train, groups=groups).sample(random_state=coins + 1)
            values = ruler.values(drawn)
            one = {"linear": max(whole_tables.auc(schema, drawn, test), -1.0), "boosted": ruler.learned(values)}
            one["pairs"] = ruler.near(values)["pairs"]
            one["own"] = np.nan if private.target_model_ is None else own(private.target_model_, schema, test)
            found.append(one)
        row = {"table": name, "kind": kind, "n": len(train), "columns": len(ruler.cells.columns), "real": real}
        row |= {"epsilon": epsilon, "delta": delta, "share": share, "measured": private.plan_.public.get("relations")}
        rows.append(row | {key: float(np.mean([one[key] for one in found])) for key in found[0]})
        print(whole_tables.shown(rows[-1]), flush=True)
    return rows


def summary(rows: list[dict], shares: list[float]) -> None:
    """Print means over tables by promise and kind of target, and the errors of pairs."""
    cells = {(r["table"], r["epsilon"], r["delta"], r["share"]): r for r in rows}
    for delta, epsilon in product(sorted({r["delta"] for r in rows}), sorted({r["epsilon"] for r in rows})):
        for share in shares:
            here = [r for r in rows if (r["epsilon"], r["delta"], r["share"]) == (epsilon, delta, share)]
            first = [cells[r["table"], epsilon, delta, shares[0]]["pairs"] for r in here]
            pairs = np.log([r["pairs"] / one for r, one in zip(here, first, strict=True)])
            parts = [f"pairs {np.exp(pairs.mean()):.3f} ({pairs.std() / len(pairs) ** 0.5:.3f})"]
            for kind in ("two classes", "classes", "numbers"):
                if some := [r for r in here if r["kind"] == kind]:
                    less = {way: [r["real"][way] - r[way] for r in some] for way in ("linear", "boosted")}
                    own = np.mean([r["real"]["linear"] - r["own"] for r in some])
                    near = sum(one <= 0.015 for one in less["linear"])
                    linear, boosted = np.mean(less["linear"]), np.mean(less["boosted"])
                    parts.append(f"{kind} {linear:.3f}, {boosted:.3f}, own {own:.3f}, near {near} of {len(some)}")
            print(f"delta {delta:g}, epsilon {epsilon:g}, share {share:g}: " + "; ".join(parts))


def draw(rows: list[dict], path: str) -> None:
    """Draw what a linear model reaches on the first table, and first delta, over epsilon, for each share."""
    import matplotlib.pyplot as plt

    rows = [r for r in rows if (r["table"], r["delta"]) == (rows[0]["table"], rows[0]["delta"])]
    figure, axes = plt.subplots(figsize=(6, 3.4), layout="constrained")
    axes.axhline(rows[0]["real"]["linear"], color="0.6", label="real records")
    for share, style in zip(sorted({r["share"] for r in rows}, reverse=True), ("o-", "x:"), strict=False):
        found = [r for r in rows if r["share"] == share]
        name = "records whose target follows a private model" if share else "records from tables alone"
        axes.semilogx([r["epsilon"] for r in found], [r["linear"] for r in found], style, label=name)
    what = "R squared" if rows[0]["kind"] == "numbers" else "area under the curve"
    axes.set(xlabel=f"epsilon (delta = {rows[0]['delta']:g})", ylabel=f"{what}, real records")
    axes.legend(fontsize=9)
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("set", choices=tuple(SETS))
    parser.add_argument("--shares", nargs="+", type=float, default=[0.0, 0.3])
    parser.add_argument("--epsilon", nargs="+", type=float, default=[0.3, 1.0, 3.0])
    parser.add_argument("--delta", nargs="+", type=float, default=[0.0, 1e-6])
    parser.add_argument("--tables", nargs="+")
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--json")
    parser.add_argument("--figure")
    given = parser.parse_args()
    warnings.simplefilter("ignore", DpconvexWarning)
    rows = []
    for name in given.tables or SETS[given.set]:
        rows += measure(name, given)
        if given.json:
            with open(given.json, "w", encoding="utf-8") as file:
                json.dump(rows, file, indent=1)
    summary(rows, given.shares)
    if given.figure:
        draw(rows, given.figure)


if __name__ == "__main__":
    main()
