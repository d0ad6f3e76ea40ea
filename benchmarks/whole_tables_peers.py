"""AIM and MST on the encoded tables of `whole_tables.py`, for the same neighbors: the peers of noisy tables.

    git clone https://github.com/ryan112358/mbi   # Apache 2.0; needs jax, optax, chex, attrs, networkx, pandas
    python benchmarks/whole_tables.py --codes codes.npz
    python benchmarks/whole_tables_peers.py codes.npz --mbi mbi --table adult --epsilon 1 [--method AIM]

Both are run as their repository has them (AIM: 16 rounds a column, 1,000 steps a fit, models of 80 MB, all pairs as its
workload), but their noise is that of neighbors that *replace* a record, as ours: a replaced record moves counts by the
root of 2 in l2 and a selection's score by 2, so the budget rho is halved and scores are divided by the root of 2 again.
AIM's figures are those of its model, MST's those of as many records as the table has. A line a round says how far AIM
is, so that a run that was stopped still says something: with the rest of its budget unspent, and marked as such.
"""

import argparse
import importlib
import itertools
import json
import math
import sys
import time

import numpy as np


def variations(truth, found):
    """Mean and largest total variation over pairs of columns."""
    each = [float(np.abs(truth[pair] - found(pair)).sum()) / 2 for pair in truth]
    return {"mean": float(np.mean(each)), "largest": max(each)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("codes")
    parser.add_argument("--mbi", required=True, help="folder of a clone of the repository")
    parser.add_argument("--table", required=True)
    parser.add_argument("--method", choices=("AIM", "MST"), default="AIM")
    parser.add_argument("--epsilon", type=float, default=1.0)
    parser.add_argument("--delta", type=float, default=1e-6)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=math.inf)
    given = parser.parse_args()
    sys.path[:0] = [f"{given.mbi}/src", f"{given.mbi}/mechanisms"]
    mbi, cdp = importlib.import_module("mbi"), importlib.import_module("cdp2adp")
    exact = cdp.cdp_rho
    stored = np.load(given.codes)
    codes, shape = stored[given.table].astype(np.int64), stored[f"{given.table}_shape"]
    names, n = [f"c{i:03d}" for i in range(len(shape))], len(codes)
    domain = mbi.Domain(tuple(names), tuple(map(int, shape)))
    data = mbi.Dataset(dict(zip(names, codes.T, strict=True)), domain)
    pairs = list(itertools.combinations(names, 2))
    truth = {pair: np.asarray(data.project(pair).datavector()) / n for pair in pairs}
    facts = {"table": given.table, "method": given.method, "epsilon": given.epsilon, "delta": given.delta}
    facts["seed"], start = given.seed, time.monotonic()

    def report(found, **more):
        print(json.dumps(facts | more | {"seconds": time.monotonic() - start} | variations(truth, found)), flush=True)

    np.random.seed(given.seed)  # noqa: NPY002 - theirs draws from it
    if given.method == "MST":
        mst = importlib.import_module("mst")
        chosen = mst.exponential_mechanism
        mst.cdp_rho = lambda epsilon, delta: exact(epsilon, delta) / 2
        mst.exponential_mechanism = lambda q, eps, sensitivity, **own: chosen(q, eps, sensitivity * math.sqrt(2), **own)
        drawn = mst.MST(data, given.epsilon, given.delta)
        report(lambda pair: np.asarray(drawn.project(pair).datavector()) / drawn.project(pair).datavector().sum())
        return
    aim = importlib.import_module("aim")

    class ReplaceOne(aim.AIM):
        rounds_done = 0

        def exponential_mechanism(self, qualities, epsilon, sensitivity=1.0, base_measure=None):
            return super().exponential_mechanism(qualities, epsilon, sensitivity * math.sqrt(2), base_measure)

        def worst_approximated(self, candidates, answers, model, eps, sigma):
            self.rounds_done += 1
            if self.rounds_done % 5 == 1:
                report(
                    lambda pair: np.asarray(model.project(pair).datavector()) / n, rounds=self.rounds_done, ended=False
                )
            if time.monotonic() - start > given.seconds:
                sys.exit(0)
            return super().worst_approximated(candidates, answers, model, eps, sigma)

    method = ReplaceOne(given.epsilon, given.delta)
    method.rho = exact(given.epsilon, given.delta) / 2
    model, _ = method.run(data, [(pair, 1.0) for pair in pairs])
    report(lambda pair: np.asarray(model.project(pair).datavector()) / n, rounds=method.rounds_done, ended=True)


if __name__ == "__main__":
    main()
