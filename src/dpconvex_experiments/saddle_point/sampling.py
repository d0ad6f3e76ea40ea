"""Averages of sampled vertices: function values and gradients converge, the points do not; how bias is reduced."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dpconvex._types import Floats
from dpconvex.algorithms.minimax.bias_reduced import bias_reduced_sums
from dpconvex.losses import LogisticLoss
from dpconvex.problems import SimplexPoint, WorstGroupLoss
from dpconvex_experiments import checks
from dpconvex_experiments.base import Figure, Outcome, Setting, experiment
from dpconvex_experiments.checks import Anchors, Estimate, exponent
from dpconvex_experiments.saddle_point.games import PAPER
from dpconvex_experiments.shared import lines

Function = Callable[[Floats], tuple[Floats, Floats]]


def functions(rng: np.random.Generator, d: int) -> Mapping[str, Function]:
    """Return functions on the simplex: points (m, d) to values (m,) and gradients (m, d)."""
    A = rng.choice([-1.0, 1.0], (40, d))

    def of_rows(value: Callable[[Floats], Floats], slope_of: Callable[[Floats], Floats]) -> Function:
        def function(x: Floats) -> tuple[Floats, Floats]:
            z = x @ A.T
            return value(z).mean(1), slope_of(z) @ A / len(A)

        return function

    def soft_max(x: Floats) -> tuple[Floats, Floats]:
        z = 2 * x @ A.T
        top = z.max(1, keepdims=True)
        p = np.exp(z - top)
        return (np.log(p.sum(1)) + top[:, 0]) / 2, p / p.sum(1, keepdims=True) @ A

    return {
        "quadratic": of_rows(lambda z: z**2 / 2, lambda z: z),
        "cubic": of_rows(lambda z: (1 + z) ** 3 / 6, lambda z: (1 + z) ** 2 / 2),
        "logistic": of_rows(lambda z: np.logaddexp(0, 3 * z), lambda z: 3 / (1 + np.exp(-3 * z))),
        "soft-max": soft_max,
    }


@experiment("saddle-point/sparsification", f"{PAPER}, Corollaries 2.3, 2.4 and 2.12")
def sparsification(setting: Setting, anchors: Anchors) -> Outcome:
    """How well do averages of sampled vertices stand in for a point?

    Values, gradients and points of averages of K vertices against the mean point.
    """
    d, repeats = (50, 4_000) if setting.quick else (500, 20_000)
    samples = (1, 4, 16, 64) if setting.quick else (1, 4, 16, 64, 256)
    rng = np.random.default_rng(setting.seed)
    x = rng.dirichlet(np.ones(d))
    rows: list[tuple[Any, ...]] = []
    slopes: dict[str, tuple[Estimate, Estimate]] = {}
    near: dict[str, Estimate] = {}
    far: dict[int, Estimate] = {}
    for name, function in setting.track(list(functions(rng, d).items()), "Functions"):
        value, gradient = function(x[None])
        biases, squares = [], []
        for K in samples:
            parts = [rng.multinomial(K, x, repeats // 4) / K for _ in range(4)]
            found = [function(part) for part in parts]
            bias = Estimate.of(np.concatenate([v for v, _ in found]) - value[0])
            square = Estimate.of(np.concatenate([np.abs(g - gradient).max(1) ** 2 for _, g in found]))
            far[K] = Estimate.of(np.concatenate([np.abs(part - x).sum(1) for part in parts]))
            rows.append((name, K, *bias[:2], *square[:2], *far[K][:2]))
            biases.append(bias)
            squares.append(square)
            near[f"gradient error squared, {name}, K = {K}"] = square
        slopes[name] = exponent(samples, biases), exponent(samples, squares)
    near |= {f"l1 distance, K = {K}": found for K, found in far.items()}

    def draw(figure: Figure) -> None:
        for axes, column, label in zip(
            figure.subplots(1, 3), (2, 4, 6), ("bias", "gradient^2", "l1 distance"), strict=True
        ):
            series = {n: [row[column] for row in rows if row[0] == n] for n in slopes}
            lines(axes, samples, series, ("vertices K", label), fontsize=7)

    return Outcome(
        ("function", "K", "bias", "s.e.", "gradient error^2", "s.e. 2", "l1 distance", "s.e. 3"),
        tuple(rows),
        "bias and squared gradient error fall with exponents of -0.7 to -1.4 in K; the l1 distance of the points stays "
        "above 0.3 at 16 vertices; squared errors and distances are near their anchors",
        (
            *(
                anchors.within(f"exponent of {what}, {name}", found, -1.4, -0.7, linear=True)
                for name, pair in slopes.items()
                for what, found in zip(("bias", "squared gradient error"), pair, strict=True)
            ),
            *(checks.mean(f"l1 distance, K = {K}: far", found, 0.3, 2.0) for K, found in far.items() if K <= 16),
            *anchors.near(near),
        ),
        draw,
        f"d = {d}, {repeats:,} averages each. Corollary 2.3: bias at most 2 L1/K; Corollary 2.12: squared "
        "errors of order log d/K. Slopes (bias, gradient): "
        + "; ".join(f"{name} {a.value:.2f}, {b.value:.2f}" for name, (a, b) in slopes.items())
        + ".",
    )


@experiment("saddle-point/bias-reduction", f"{PAPER}, Algorithm 2 and Lemma 3.15")
def bias_reduction(setting: Setting, anchors: Anchors) -> Outcome:
    """What does the bias-reduced gradient cost in variance?

    Bias and second moment of Algorithm 2's estimator, printed and antithetic, against M.
    """
    p, repeats = (10, 600) if setting.quick else (50, 6_000)
    levels = (1, 4) if setting.quick else (1, 2, 4, 6)
    n = 60
    rng = np.random.default_rng(setting.seed)
    problem = WorstGroupLoss(LogisticLoss(), n, p, 2.0, 1.0, (3.0, 3.0, 3.0), False, 1 / (6 * 3**0.5))
    records = (rng.choice([-1.0, 1.0], (n, p)), rng.choice([-1.0, 1.0], n), rng.integers(0, 3, n))
    x, y = rng.dirichlet(np.ones(2 * p)), rng.dirichlet(np.ones(3))
    rows_all = slice(0, n)
    exact = problem.gradient_sums(records, rows_all, SimplexPoint.full(x), SimplexPoint.full(y))[0] / n
    rows: list[tuple[Any, ...]] = []
    found_checks: list[checks.Check] = []
    moments: dict[str, Estimate] = {}
    for M in setting.track(levels, "Levels"):
        weights = 0.5 ** np.arange(M + 1)
        found: dict[bool, list[Floats]] = {False: [], True: []}
        for _ in range(repeats):
            N = int(rng.choice(M + 1, p=weights / weights.sum()))
            draws = rng.choice(2 * p, 2 ** (N + 1), p=x), rng.choice(3, 2 ** (N + 1), p=y)
            for antithetic, gradients in found.items():
                gradients.append(bias_reduced_sums(problem, records, rows_all, draws, M, antithetic)[0] / n)
        row: list[Any] = [M]
        for antithetic, gradients in found.items():
            stack, name = np.stack(gradients), f"{'antithetic' if antithetic else 'printed'}, M = {M}"
            error, off = stack.std(0, ddof=1) / len(stack) ** 0.5, stack.mean(0) - exact
            moment = Estimate.of(np.abs(stack).max(1) ** 2)
            row += [float(np.abs(off).max()), float(error.max()), *moment[:2]]
            moments[f"second moment, {name}"] = moment
            found_checks.append(checks.largest_t(f"bias over its error, {name}", off / error, len(stack) - 1))
            apart = _apart(problem, records, (x, y), M, antithetic, rng)
            found_checks.append(checks.exact(f"telescoping sum's error, {name}", apart, 0.0, 1e-9))
        rows.append(tuple(row))
    last = [moments[f"second moment, {name}, M = {levels[-1]}"] for name in ("antithetic", "printed")]

    def draw(figure: Figure) -> None:
        axes = figure.subplots()
        axes.plot(levels, [row[3] for row in rows], "o-", label="printed")
        axes.plot(levels, [row[7] for row in rows], "s-", label="antithetic")
        axes.set(xlabel="truncation M", ylabel="second moment, maximum norm")
        axes.legend()

    return Outcome(
        ("M", "bias", "s.e.", "moment", "s.e. m.", "bias anti.", "s.e. a.", "mom. anti.", "s.e. m.a."),
        tuple(rows),
        "weighted by the probabilities of their levels, estimates from the same draws add up to the gradient at the "
        "average of all draws (erratum E2); no bias is seen; the antithetic form has the smaller second moment at the "
        "largest M; moments are near their anchors",
        (
            *found_checks,
            anchors.within("moment, antithetic over printed, largest M", last[0].over(last[1]), 0.0, 1.0),
            *anchors.near(moments),
        ),
        draw,
        "Worst of 3 groups, logistic loss, R = 2, at a random interior point; gradient in x. The printed form's "
        "second moment grows with M, the antithetic one's does not (specification, section 5.4).",
    )


def _apart(
    problem: WorstGroupLoss, records: tuple[Any, ...], at: tuple[Floats, Floats], M: int, antithetic: bool,
    rng: np.random.Generator,
) -> float:  # fmt: skip
    """Return how far the levels' estimates, weighted by their probabilities, are from what they must add up to.

    Printed: levels read the first ``2^(N+1)`` of the same draws, and what is left of the sum is the gradient at the
    average of all. Antithetic: the mean over all blocks of that many draws; first draws are no part of a sum of halves.
    """
    rows, sizes = slice(0, len(records[0])), [len(part) for part in at]
    draws = [rng.choice(size, 2 ** (M + 1), p=part) for size, part in zip(sizes, at, strict=True)]

    def gradient(part: slice) -> Floats:
        x, y = (SimplexPoint.average(v[part], size) for v, size in zip(draws, sizes, strict=True))
        return problem.gradient_sums(records, rows, x, y)[0]

    weights = 0.5 ** np.arange(M + 1)
    singles = [gradient(slice(k, k + 1)) for k in range(2 ** (M + 1))]
    found, wanted = np.zeros(sizes[0]), gradient(slice(None))
    wanted = wanted - np.mean(singles, axis=0) if antithetic else wanted
    for N, weight in enumerate(weights / weights.sum()):
        length = 2 ** (N + 1)
        starts = range(0, 2 ** (M + 1), length) if antithetic else (0,)
        for start in starts:
            block = (draws[0][start : start + length], draws[1][start : start + length])
            found += weight / len(starts) * bias_reduced_sums(problem, records, rows, block, M, antithetic)[0]
            wanted = wanted + weight / len(starts) * singles[start] if antithetic else wanted
    return float(np.abs(found - wanted).max() / np.abs(wanted).max())
