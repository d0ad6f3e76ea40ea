r"""Estimates, intervals and tests for contrasts of the coefficients, with quantiles simulated from the exact laws.

Their pivot is the population's parameter less the perturbed minimizer; its covariance follows from released numbers.

Theorem
    With ``b`` the linear term, ``w*`` the exact minimizer, theta the population's parameter, ``r = theta - w*`` and S
    the sum of the records' gradients at theta, ``n H r - n l2 w* = b + S`` for every data set and every ``b``, H a mean
    Hessian between the two (docs, Intervals, Lemma 1). So the *gradient* at the minimizer is released for free, with
    noise of known law; only a noisy curvature costs privacy. Its noise E multiplies r, not theta: a second-order term.
    Coverage is a statement for many records (Theorem 1 there); nothing is exact at finite n but Lemma 1.
Guarantee
    All of this is post-processing: functions of released and public numbers.

Coordinates of the ridge: v in ``w = F v``. Curvature matrices are sums of released entries times *patterns*, (d, d).
"""

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple, cast, final

import numpy as np

from dpconvex._types import Floats, final_dataclass


@final_dataclass
class Tuning:
    """Constants chosen by ``benchmarks/intervals.py`` so that intervals cover in its settings S1 to S5."""

    resolved: float = 4.0  #: Least curvature that counts as different from 0, in standard deviations of its noise
    #: Largest coefficient assumed, per unit of an encoded column, where the data do not tell: in logits, or in
    #: multiples of half the target's range. It limits the effect of unresolved directions on the others.
    coefficient_bound: float = 10.0
    rounds: int = 3  #: Number of rounds in which weak directions are lifted
    steps: int = 60  #: Number of steps of the fixed-point iteration for the covariance
    diverged: float = 1e4  #: Growth of the covariance's trace from which on nothing counts as known
    dispersion: tuple[float, float] = (1e-4, 4.0)  #: Limits to which the ratio of score to curvature is clipped
    trusted: float = 0.25  #: Largest relative noise of a robust variance that is used unchanged; others are lifted
    lifted: float = 0.5  #: Largest lift, in standard deviations of the noise; never above the model's variance


TUNING = Tuning()


@final_dataclass(eq=False)
class Released:
    """Released values and public facts of a fit; d columns with the constant last, p coordinates, D entries."""

    n: int  #: Number of units
    l2: float  #: Ridge weight
    w: Floats  #: (d,), the released parameters
    factor: Floats  #: the factor F, (d, p), of full rank
    linear: Floats  #: Covariance of the linear term, (p, p)
    output: float  #: Standard deviation of the output noise in every coordinate
    curvature: Floats  #: (D,), noisy mean entries of the curvature
    dispersion: float  #: Noisy mean of squared slopes
    deviations: Floats  #: (D,), standard deviations of the noise in `curvature`
    patterns: Floats  #: (D, d, d), patterns of the entries in `curvature`
    levels: tuple[list[int], ...]  #: Columns of each one-hot block
    half_widths: Floats  #: (d,): largest magnitudes of the columns
    scores: Floats  #: (S,), noisy mean entries of the second moments of gradients; S = 0 without any
    score_deviations: Floats  #: (S,), standard deviations of the noise in them
    score_patterns: Floats  #: (S, d, d), patterns of the entries in `scores`

    @cached_property
    def v(self) -> Floats:
        """The released parameters in the coordinates of the ridge, (p,)."""
        return cast(Floats, np.linalg.pinv(self.factor) @ self.w)


class Repaired(NamedTuple):
    """A curvature matrix of the columns, in which rare levels have the largest curvature they may have."""

    matrix: Floats  #: The curvature matrix, (d, d)
    patterns: Floats  #: (m, d, d), patterns of its noise: of released entries, then of what is unknown of rare levels
    deviations: Floats  #: (m,), standard deviations of the noise, one for each pattern
    unresolved: Any  #: (d,), whether the column is a rare level: one whose curvature is hidden by noise


def repaired(given: Released) -> Repaired:
    """Return the curvature with other rows for levels that noise hides: the largest curvature such a level can have.

    A rare level gets curvature h, and is assumed to go with other columns' values as records do on average: entries
    have mean ``h x_j`` and variance ``h^2 v_j`` (docs, Intervals, Rare levels). It is proved that the true entries are
    within ``s_j h``; this mean and variance are a model, checked by simulation.
    """
    H, A = np.tensordot(given.curvature, given.patterns, 1), given.patterns
    own, d, last = np.sqrt(np.square(given.deviations) @ np.square(np.einsum("fkk->fk", A))), len(H), len(H) - 1
    s0, columns = given.half_widths[last], np.arange(d)
    sums = [s0**2 * (H[k, last] / s0).sum() for k in given.levels]
    H[last, last] = max(H[last, last], own[last], *sums)
    inside = np.isin(columns, [k for block in given.levels for k in block])
    unresolved = inside & (H[columns, columns] < TUNING.resolved * own)
    mean = np.clip(s0 * H[:, last] / H[last, last], np.where(inside, 0.0, -given.half_widths), given.half_widths)
    mean[unresolved], mean[last] = 0.0, s0
    for block in given.levels:
        mean[block] /= max(mean[block].sum(), 1e-9)
    variance = np.where(inside, mean * (1 - mean), given.half_widths**2 / 4)
    variance[last] = 0.0
    A, added, sizes = A.copy(), [], []
    for block in given.levels:
        for k in columns[block][unresolved[block]]:
            h = max(H[k, k], own[k])
            A[:, k, :] = A[:, :, k] = 0.0
            row = h * mean
            row[block] = 0.0
            H[k, :] = H[:, k] = row
            H[k, k] = h
            for j in np.flatnonzero((variance > 0) & ~np.isin(columns, block)):
                one = np.outer(columns == k, columns == j)
                added.append((one | one.T).astype(np.float64))
                sizes.append(h * np.sqrt(variance[j]))
    patterns = np.concatenate([A, np.array(added).reshape(-1, d, d)])
    return Repaired(H, patterns, np.concatenate([given.deviations, sizes]), unresolved)


def lifted(H: Floats, B: Floats, deviations: Floats) -> Floats:
    """Return H made positive definite: directions whose curvature noise hides get about the size of the noise."""
    for _ in range(TUNING.rounds):
        scale = np.sqrt(np.maximum(H.diagonal(), np.sqrt(np.square(deviations) @ np.square(np.einsum("fkk->fk", B)))))
        values, vectors = np.linalg.eigh(H / np.outer(scale, scale))
        sizes = noise_along(vectors / scale[:, None], B, deviations)
        values = np.where(values < TUNING.resolved * sizes, np.maximum(values, sizes), values)
        H = (vectors * values) @ vectors.T * np.outer(scale, scale)
        H = (H + H.T) / 2
    return H


def noise_along(g: Floats, B: Floats, deviations: Floats) -> Floats:
    """Return the standard deviation of ``g^T E g`` for each column of `g` (p, m)."""
    return np.sqrt(np.square(deviations) @ np.square(np.einsum("km,fkl,lm->fm", g, B, g, optimize=True)))


def robust(scores: Floats, model: Floats, H: Floats, B: Floats, deviations: Floats) -> Floats:
    """Return the noisy second moments of gradients (p, p), lifted towards the `model` in directions that noise hides.

    Noise errs to both sides, and a variance that is too small loses more coverage than one too large gains. The model
    may be far too large, though (heavy tails, users), so at most a share of the noise is added.
    """
    values, vectors = np.linalg.eigh(H)
    root, inverse = (vectors * np.power(values, power) @ vectors.T for power in (0.5, -0.5))
    values, vectors = np.linalg.eigh(_symmetric(inverse @ scores @ inverse))
    directions = inverse @ vectors
    noise, seen = noise_along(directions, B, deviations), np.maximum(values, 0.0)
    least = np.minimum(np.einsum("km,kl,lm->m", directions, model, directions), seen + TUNING.lifted * noise)
    values = np.maximum(values, np.where(noise > TUNING.trusted * values, least, 0.0))
    return _symmetric(root @ (vectors * values) @ vectors.T @ root)


@final_dataclass(eq=False)
class Spread:
    """Estimate and covariance in the coordinates of the ridge."""

    inverse: Floats  #: (p, p), inverse of the curvature H
    shift: Floats  #: (p,), shrinkage by the ridge, to first order
    covariance: Floats  #: (p, p), covariance of r
    shrunk: Floats  #: (d,), factors on r in the curvature's noise; below 1 where the coefficient bound was active
    converged: bool  #: whether the covariance is known; if it is not, no contrast is known

    def visible(self, c: Floats, B: Floats, deviations: Floats) -> Any:
        """Return for each contrast, a row of `c` (m, p), whether its own curvature can be told from noise."""
        solved = self.inverse @ c.T
        partial = 1 / np.maximum((c.T * solved).sum(0), 1e-300)
        return self.converged & (partial >= TUNING.resolved * noise_along(partial * solved, B, deviations))


def spread(H: Floats, center: Floats, F: Floats, v: Floats, l2: float, A: Floats, deviations: Floats) -> Spread:
    """Solve formula (2.2) of the docs, Intervals: the covariance of r, of which E r is a part.

    `H` (p, p) is positive definite, `center` (p, p) the covariance of everything but ``E r``, `A` (m, d, d) are the
    patterns of noise in the curvature; `deviations` are the standard deviations of this noise.
    """
    inverse = cast(Floats, np.linalg.inv(H))
    shift = l2 * (inverse @ v)
    first = covariance = _symmetric(inverse @ center @ inverse)
    largest = (np.abs(F @ v) + TUNING.coefficient_bound) / 2
    weighted, shrunk, converged = np.square(deviations)[:, None, None] * A, np.ones(len(F)), True
    for _ in range(TUNING.steps):
        R = F @ (np.outer(shift, shift) + covariance) @ F.T
        shrunk = np.minimum(1.0, largest / np.sqrt(np.maximum(R.diagonal(), 1e-300)))
        R *= np.outer(shrunk, shrunk)
        Q = np.einsum("fij,fjk->ik", weighted, np.einsum("jl,flk->fjk", R, A, optimize=True), optimize=True)
        before, covariance = covariance, _symmetric(inverse @ (center + F.T @ Q @ F) @ inverse)
        if not np.trace(covariance) <= TUNING.diverged * np.trace(first):
            converged = False
            break
        if np.abs(covariance - before).max() <= 1e-10 * np.abs(covariance).max():
            break
    return Spread(inverse, shift, covariance, shrunk, converged)


def _symmetric(matrix: Floats) -> Floats:
    return (matrix + matrix.T) / 2


DRAWS, AT_ONCE = 10_000, 500  #: Number of simulated pivots; how many of them (or rows of `c`) a step works on
UNKNOWN = "the data do not say, at this epsilon"  #: Reason given for infinite intervals
Draws = Callable[[int, np.random.Generator], tuple[Floats, Floats]]
"""Simulates the linear term (size, p) and the noise of the curvature's entries (size, D), independent of any fit."""


@final_dataclass
class Estimates:
    """Estimates of m contrasts, as arrays (m,); where `finite` is False, intervals are infinite and p-values NaN."""

    estimate: Floats
    std_err: Floats
    lower: Floats
    upper: Floats
    p_value: Floats
    finite: Any

    def scaled(self, size: float) -> "Estimates":
        """Return the estimates in another unit: multiplied by `size`."""
        estimate, std_err, lower, upper = size * np.array([self.estimate, self.std_err, self.lower, self.upper])
        return Estimates(estimate, std_err, lower, upper, self.p_value, self.finite)


@final
class Intervals:
    """Inference on any contrast ``<c, theta>`` from one fit's released numbers; `draws` simulates the fit's noise."""

    def __init__(self, given: Released, draws: Draws) -> None:
        F, n = given.factor, given.n
        self._given, self._draws = given, draws
        self._repaired = repaired(given)
        A, self._deviations = self._repaired.patterns, self._repaired.deviations
        self._B = np.einsum("ik,fij,jl->fkl", F, A, F, optimize=True)
        H = lifted(F.T @ self._repaired.matrix @ F, self._B, self._deviations)
        s0, bend = given.half_widths[-1], float(self._repaired.matrix[-1, -1])
        ratio = s0**2 * given.dispersion / bend if bend > 0 else np.inf
        self._scores = float(np.clip(ratio, *TUNING.dispersion)) * H
        if len(given.scores):
            seen = F.T @ np.tensordot(given.scores, given.score_patterns, 1) @ F
            own = np.einsum("ik,fij,jl->fkl", F, given.score_patterns, F, optimize=True)
            self._scores = robust(seen, self._scores, H, own, given.score_deviations)
        ridge = H + given.l2 * np.eye(len(H))
        center = given.linear / n**2 + self._scores / n + given.output**2 * ridge @ ridge
        self._ridge = ridge
        self.spread = spread(H, center, F, given.v, given.l2, A, self._deviations)
        self.theta = given.w + F @ self.spread.shift

    def most_seen(self, columns: Sequence[int]) -> int:
        """Return the position in a block of the level with the largest released curvature."""
        return int(np.argmax(self._repaired.matrix.diagonal()[list(columns)]))

    @cached_property
    def _pivots(self) -> Floats:
        """Draws of ``H^-1 (b/n + s + E r + (H + l2) z)``, (draws, p); the seed is a function of what was released."""
        given, F, found = self._given, self._given.factor, self.spread
        seed = np.ascontiguousarray(given.curvature).view(np.uint64) ^ np.uint64(given.n)
        generator, p = np.random.default_rng(seed), F.shape[1]
        b, e = self._draws(DRAWS, generator)
        extra = self._deviations[len(given.deviations) :]  # for what is unknown of rare levels
        e = np.hstack([e, extra * generator.standard_normal((DRAWS, len(extra)))])
        r = found.shift + generator.standard_normal((DRAWS, p)) @ _root(found.covariance).T
        seen = np.linalg.lstsq(F, found.shrunk[:, None] * F, rcond=None)[0]
        total = b / given.n + generator.standard_normal((DRAWS, p)) @ _root(self._scores / given.n).T
        total += given.output * generator.standard_normal((DRAWS, p)) @ self._ridge
        flat = self._B.reshape(len(self._B), -1)
        for rows in (slice(k, k + AT_ONCE) for k in range(0, DRAWS, AT_ONCE)):
            total[rows] += np.einsum("sij,sj->si", (e[rows] @ flat).reshape(-1, p, p), r[rows] @ seen.T)
        return total @ found.inverse

    def estimates(self, c: Floats, level: float, joint: bool = False, starts: Floats | float = 0.0) -> Estimates:
        """Return estimates of ``starts + c theta``, `c` (m, d); each interval has the level alone, or all `joint`ly."""
        inner, finite = c @ self._given.factor, self.known(c)
        estimate, own = starts + c @ self.theta, np.sqrt(((inner @ self.spread.covariance) * inner).sum(1))
        missed = np.empty((len(c), 2))
        most = np.zeros(DRAWS)
        for rows in (slice(k, k + AT_ONCE) for k in range(0, len(c), AT_ONCE)):
            t = np.abs(self._pivots @ inner[rows].T) / np.maximum(own[rows], 1e-300)
            missed[rows, 0] = np.quantile(t, level, axis=0)
            z = np.abs(estimate[rows]) / np.maximum(own[rows], 1e-300)
            missed[rows, 1] = (1 + (t >= z).sum(0)) / (DRAWS + 1)
            if joint and finite[rows].any():
                most = np.maximum(most, t[:, finite[rows]].max(1))
        reach = np.where(finite, own * (np.quantile(most, level) if joint else missed[:, 0]), np.inf)
        known = np.where(finite, 1.0, np.nan)
        return Estimates(estimate, known * own, estimate - reach, estimate + reach, known * missed[:, 1], finite)

    def covariance(self, c: Floats) -> Floats:
        """Return the covariance of the contrasts in the rows of `c` (m, d); NaN for unknown contrasts."""
        inner, known = c @ self._given.factor, np.where(self.known(c), 1.0, np.nan)
        return inner @ self.spread.covariance @ inner.T * np.outer(known, known)

    def known(self, c: Floats) -> Any:
        """Return for each contrast whether its partial curvature exceeds noise, and it involves no rare level."""
        seen = self.spread.visible(c @ self._given.factor, self._B, self._deviations)
        return seen & ~(c[:, self._repaired.unresolved] != 0).any(1)


def _root(covariance: Floats) -> Floats:
    values, vectors = np.linalg.eigh(covariance)
    return vectors * np.sqrt(np.maximum(values, 0.0))


WIDTH = 80  #: Most characters of a line of a summary, but for long names.


@final_dataclass
class Summary:
    """A table of estimates; its `str` looks as statistics packages print such tables."""

    title: str  #: The estimated quantity and its source, in words
    names: tuple[str, ...]  #: Names of the rows
    found: Estimates
    level: float  #: Confidence level of the intervals
    notes: tuple[str, ...] = ()  #: Lines printed below the table

    def __str__(self) -> str:
        f, tail = self.found, (1 - self.level) / 2
        rows: list[Sequence[str]] = [("", "coef", "std err", "z", "P>|z|", f"[{tail:.4g}", f"{1 - tail:.4g}]")]
        columns = (f.estimate, f.std_err, f.estimate / f.std_err, f.p_value, f.lower, f.upper)
        for name, *numbers in zip(self.names, *columns, strict=True):
            cells = ["-" if np.isnan(x) else f"{x:.4g}" for x in numbers]
            rows.append((name, *cells[:3], "<1e-4" if numbers[3] < 1e-4 else cells[3], *cells[4:]))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        room = max(16, WIDTH - sum(widths[1:]) - 2 * len(widths[1:]))  # longer names have a line of their own
        table = []
        for name, *cells in rows:
            table += [name] if len(name) > room else []
            first = ("" if len(name) > room else name).ljust(min(room, widths[0]))
            table.append("  ".join([first, *map(str.rjust, cells, widths[1:])]))
        unknown = [] if f.finite.all() else [f"Infinite intervals: {UNKNOWN}."]
        law = "P: share of simulated draws, without an effect, whose z is as large; noise is not normal."
        return "\n".join([self.title, "", *table, "", *self.notes, law, *unknown])

    def to_dict(self) -> dict[str, Any]:
        """Return a dict of fields for each coefficient's name; whoever writes JSON replaces infinities and NaN."""
        columns = {key: each.tolist() for key, each in vars(self.found).items()}
        columns["why"] = ["" if finite else UNKNOWN for finite in columns["finite"]]
        rows = (dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True))
        found = dict(zip(self.names, rows, strict=True))
        return {"title": self.title, "level": self.level, "notes": [*self.notes], "rows": found}
