"""Run AIM and MST, the peers of noisy tables, on the encoded tables of `whole_tables.py`, for the same neighbors.

    git clone https://github.com/ryan112358/mbi   # Apache 2.0; needs jax, optax, chex, attrs, networkx, pandas
    python benchmarks/whole_tables.py --codes codes.npz
    python benchmarks/whole_tables_peers.py codes.npz --mbi mbi --table adult --epsilon 1 [--method AIM]

Both are run as their repository has them (AIM: 16 rounds per column, 1,000 steps per fit, models of 80 MB, all pairs as
its workload), but with noise for neighbors that *replace* a record, like ours: a replaced record moves counts by the
root of 2 in l2 and a selection's score by 2, so the budget rho is halved and scores are divided by the root of 2 again.
AIM's figures are those of its model, MST's those of as many records as the table has. Every five rounds AIM prints a
line with what it has reached, so that a run that is stopped (``--seconds``) tells something, too: such lines are marked
as not ended, and the rest of the budget is unspent.

AIM ends sooner here than by its own script, with the same selections and fits, in double precision (the repository says
that single precision stalls at 100,000 records). First, measurements of one table are pooled by their variances, which
changes the loss only by a constant, so that no round compiles a fit to tables that were all measured before. Second,
candidates are scored by tables that the model does not hold; these come from the repository's elimination of columns in
eager mode (PyTorch on an accelerator if there is one, else NumPy), which compiles nothing.
"""

import argparse
import importlib
import importlib.util
import itertools
import json
import math
import sys
import time

import numpy as np


def variations(truth, found):
    """Return the mean and the largest total variation over pairs of columns."""
    each = [float(np.abs(truth[pair] - found(pair)).sum()) / 2 for pair in truth]
    return {"mean": float(np.mean(each)), "largest": max(each)}


class Eager:
    """Arrays for the elimination of columns: of PyTorch on an accelerator, else of NumPy."""

    def __init__(self):
        found = importlib.util.find_spec("torch") and importlib.import_module("torch")
        self.torch = found if found and found.cuda.is_available() else None

    def array(self, values):
        values = np.array(values, dtype=np.float64)
        return self.torch.as_tensor(values, device="cuda") if self.torch else values

    def without(self, values, axis):
        if self.torch:
            return self.torch.logsumexp(values, axis)
        top = values.max(axis=axis, keepdims=True)
        return np.squeeze(np.log(np.exp(values - top).sum(axis=axis, keepdims=True)) + top, axis)

    def aligned(self, names, values, wanted, sizes):
        """Return values over `names` as an array over `wanted`, with sides of 1 for what it does not have."""
        order = sorted(range(len(names)), key=lambda k: wanted.index(names[k]))
        values = values.permute(order) if self.torch else values.transpose(order)
        return values.reshape([sizes[name] if name in names else 1 for name in wanted])


def quicken(mbi, names, sizes):
    """Make `mbi` compile less, with the same results (see above)."""
    estimation, tree, eager = mbi.estimation, mbi.junction_tree, Eager()
    estimate, project = estimation.MirrorDescent.estimate, mbi.MarkovRandomField.project

    def pooled(self, domain, measurements, **more):
        each, total = {}, estimation.minimum_variance_unbiased_total(measurements)
        for one in measurements:
            each.setdefault(one.clique, []).append(one)
        found = []
        for clique in sorted(each, key=lambda clique: (len(clique), clique)):
            weights = np.array([one.stddev**-2.0 for one in each[clique]])
            values = weights @ np.stack([np.asarray(one.noisy_measurement) for one in each[clique]]) / weights.sum()
            found.append(mbi.LinearMeasurement(values, clique, stddev=float(weights.sum() ** -0.5)))
        return estimate(self, domain, found, known_total=total, **more)

    def summed(factors, wanted):
        own = [name for name in names if any(name in held for held, _ in factors)] if wanted is None else wanted
        return own, sum(eager.aligned(held, values, own, sizes) for held, values in factors)

    def eliminated(self, clique):
        clique = (clique,) if isinstance(clique, str) else tuple(clique)
        if self.marginals.supports(clique):
            return project(self, clique)
        held = self.__dict__.get("eager")
        if held is None:
            tables = self.potentials.tables.values()
            held = [(each.domain.attributes, eager.array(each.values)) for each in tables]
            object.__setattr__(self, "eager", held)
        domain = self.potentials.active_domain
        for name in tree.greedy_order(domain, [each[0] for each in held] + [clique], elim=domain.invert(clique))[0]:
            used, held = [f for f in held if name in f[0]], [f for f in held if name not in f[0]]
            if used:
                own, values = summed(used, None)
                held.append(([each for each in own if each != name], eager.without(values, own.index(name))))
        empty = (clique, eager.array(np.zeros([sizes[name] for name in clique])))
        values = summed([empty, *held], list(clique))[1]
        values = np.asarray(values.cpu() if eager.torch else values)
        values = np.exp(values - values.max())
        return mbi.Factor(self.domain.project(clique), values * float(self.total) / values.sum())

    estimation.MirrorDescent.estimate, mbi.MarkovRandomField.project = pooled, eliminated
    mbi.MarkovRandomField.synthetic_data = lambda self, rows=None: None  # not used, and fails in double precision


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
    # MST draws records in place, which fails for arrays of double precision.
    importlib.import_module("jax").config.update("jax_enable_x64", given.method == "AIM")
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

    np.random.seed(given.seed)  # noqa: NPY002 - the peers draw from the global state
    if given.method == "MST":
        mst = importlib.import_module("mst")
        chosen = mst.exponential_mechanism
        mst.cdp_rho = lambda epsilon, delta: exact(epsilon, delta) / 2
        mst.exponential_mechanism = lambda q, eps, sensitivity, **own: chosen(q, eps, sensitivity * math.sqrt(2), **own)
        drawn = mst.MST(data, given.epsilon, given.delta)
        report(lambda pair: np.asarray(drawn.project(pair).datavector()) / drawn.project(pair).datavector().sum())
        return
    aim = importlib.import_module("aim")
    quicken(mbi, names, dict(zip(names, map(int, shape), strict=True)))

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
