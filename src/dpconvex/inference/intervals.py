"""Estimates, intervals and tests for contrasts of the coefficients, with quantiles simulated from the exact laws."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, final

import numpy as np

from dpconvex._types import Floats
from dpconvex.inference.pivot import TUNING, Released, lifted, repaired, robust, spread

DRAWS, AT_ONCE = 10_000, 500  #: Simulated pivots, and how many (or rows of predictions) are worked on at a time.
UNKNOWN = "the data do not say, at this epsilon"
Draws = Callable[[int, np.random.Generator], tuple[Floats, Floats]]
"""Simulates the linear term (size, p) and the noise of the curvature's entries (size, D), independent of any fit."""


@final
@dataclass(frozen=True)
class Estimates:
    """Estimates of m contrasts, each array (m,); where not `finite`, intervals are infinite and p-values NaN."""

    estimate: Floats
    std_err: Floats
    lower: Floats
    upper: Floats
    p_value: Floats
    finite: Any

    def scaled(self, size: float) -> "Estimates":
        """Return estimates in another unit."""
        estimate, std_err, lower, upper = size * np.array([self.estimate, self.std_err, self.lower, self.upper])
        return Estimates(estimate, std_err, lower, upper, self.p_value, self.finite)


@final
class Intervals:
    """What the released numbers of one fit say of any contrast ``<c, theta>``; `draws` simulates its two noises."""

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

    @property
    def bound_active(self) -> bool:
        """Whether the bound on unresolved coefficients changed anything."""
        return bool((self.spread.shrunk < 1).any())

    def most_seen(self, columns: Sequence[int]) -> int:
        """Return the level of a block with the largest released curvature."""
        return int(np.argmax(self._repaired.matrix.diagonal()[list(columns)]))

    @cached_property
    def _pivots(self) -> Floats:
        """Draws of ``H^-1 (b/n + s + E r + (H + l2) z)``, (draws, p); the seed is a function of what was released."""
        given, F, found = self._given, self._given.factor, self.spread
        seed = np.ascontiguousarray(given.curvature).view(np.uint64) ^ np.uint64(given.n)
        generator, p = np.random.default_rng(seed), F.shape[1]
        b, e = self._draws(DRAWS, generator)
        extra = self._deviations[len(given.deviations) :]  # what rare levels may do
        e = np.hstack([e, extra * generator.standard_normal((DRAWS, len(extra)))])
        r = found.shift + generator.standard_normal((DRAWS, p)) @ _root(found.covariance).T
        seen = np.linalg.lstsq(F, found.shrunk[:, None] * F, rcond=None)[0]
        total = b / given.n + generator.standard_normal((DRAWS, p)) @ _root(self._scores / given.n).T
        total += given.output * generator.standard_normal((DRAWS, p)) @ self._ridge
        flat = self._B.reshape(len(self._B), -1)
        for rows in (slice(k, k + AT_ONCE) for k in range(0, DRAWS, AT_ONCE)):
            E = (e[rows] @ flat).reshape(-1, p, p)
            total[rows] += np.einsum("sij,sj->si", E, r[rows] @ seen.T)
        return total @ found.inverse

    def estimates(self, c: Floats, level: float, joint: bool = False, starts: Floats | float = 0.0) -> Estimates:
        """Return estimates of ``starts + c theta``, rows of `c` (m, d); intervals one by one or `joint`."""
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
        """Return the covariance of contrasts, rows of `c` (m, d); NaN for those that are not known."""
        inner, known = c @ self._given.factor, np.where(self.known(c), 1.0, np.nan)
        return inner @ self.spread.covariance @ inner.T * np.outer(known, known)

    def known(self, c: Floats) -> Any:
        """Return for each contrast whether its curvature, all else free, can be told from noise, as all its levels."""
        seen = self.spread.visible(c @ self._given.factor, self._B, self._deviations)
        return seen & ~(c[:, self._repaired.unresolved] != 0).any(1)


def _root(covariance: Floats) -> Floats:
    values, vectors = np.linalg.eigh(covariance)
    return vectors * np.sqrt(np.maximum(values, 0.0))


@final
@dataclass(frozen=True)
class Summary:
    """The table that statistics packages print, as its `str`."""

    title: str  #: What is estimated, and from what
    names: tuple[str, ...]
    found: Estimates
    level: float
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        f, tail = self.found, (1 - self.level) / 2
        rows: list[Sequence[str]] = [("", "coef", "std err", "z", "P>|z|", f"[{tail:.4g}", f"{1 - tail:.4g}]")]
        columns = (f.estimate, f.std_err, f.estimate / f.std_err, f.p_value, f.lower, f.upper)
        for name, *numbers in zip(self.names, *columns, strict=True):
            rows.append((name, *("-" if np.isnan(x) else f"{x:.4g}" for x in numbers)))
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        table = ["  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows]
        unknown = [] if f.finite.all() else [f"Infinite intervals: {UNKNOWN}."]
        return "\n".join([self.title, "", *table, "", *self.notes, *unknown])

    def to_dict(self) -> dict[str, Any]:
        """Return fields by name of the coefficient; infinite ends and NaN are for the writer to replace."""
        columns = {key: each.tolist() for key, each in vars(self.found).items()}
        columns["why"] = ["" if finite else UNKNOWN for finite in columns["finite"]]
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        return {"title": self.title, "level": self.level, "rows": dict(zip(self.names, rows, strict=True))}
