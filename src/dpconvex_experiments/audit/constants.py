"""A search that tries to refute what a `ConvexFunction` claims about itself."""

import math
from dataclasses import fields
from typing import final

import numpy as np

from dpconvex import _validate
from dpconvex._types import Floats, final_dataclass
from dpconvex.problems import Block, ConvexFunction, Records

TOLERANCE = 1e-9  #: Relative size up to which a violation may be due to rounding.


@final_dataclass
class ConstantsAttack:
    """The worst that was found, relative to the claims: at most 1, or `TOLERANCE` for convexity and separability.

    Infinite where the function is not finite.
    """

    lipschitz: float  #: largest gradient norm over the claimed one
    contrast: float  #: largest change of the gradient when one record changes, over the claimed one
    smoothness: float  #: largest change of the gradient with w, over the claimed one; 0 if none is claimed
    value_at_zero: float  #: largest ``F(0, X) - F(w, X)`` over the claimed bound; 0 if none is claimed
    #: Largest violation of ``F(u) >= F(w) + <g(w), u - w>``, over ``L |u - w|``. 0 everywhere if and only if F is
    #: convex and g a subgradient of it: a wrong gradient shows here too. In the ball, or, for a function that is
    #: smooth, three times as far out.
    convexity: float
    #: Largest difference between the value or gradient of an average over several records and the average of theirs,
    #: over the sizes of these: a record's loss must not look at other records. 0 where no average is claimed.
    separability: float

    @property
    def holds(self) -> bool:
        """Whether no claim was refuted, which proves none of them."""
        bounds = max(self.lipschitz, self.contrast, self.smoothness, self.value_at_zero)
        return bounds <= 1 + TOLERANCE and max(self.convexity, self.separability) <= TOLERANCE


def attack_constants(
    function: ConvexFunction, radius: float = 1.0, *, trials: int = 400, seed: int = 0
) -> ConstantsAttack:
    """Search parameters and records of the domain for a violation of every claimed constant.

    Random and extreme points first, then small changes of the worst ones found. What it finds proves that a claim is
    false; finding nothing proves nothing, so take the constants from a formula. No private data: records are made up.

    Parameters
    ----------
    function : ConvexFunction
        A loss of records is attacked one record at a time, a whole objective with one to four records.
    radius : float
        Radius of the ball in which the function claims its Lipschitz constant.
    trials : int
        Number of starting points; the time grows in proportion.
    seed : int
        Seed of the search.

    Returns
    -------
    ConstantsAttack

    Examples
    --------
    >>> from dpconvex.problems import DataDomain, LocationLoss
    >>> attack_constants(LocationLoss(DataDomain.l2_ball(2, 1.0), 0.5)).holds
    True
    """
    _validate.real("radius", radius, above=0.0)
    _validate.integer("trials", trials, at_least=1)
    search = _Search(function, radius, np.random.default_rng(seed))
    with np.errstate(all="ignore"):
        population = [search.draw() for _ in range(trials)]
        worst = {}
        for kind in fields(ConstantsAttack):
            scored = sorted(((search.score(kind.name, p), i) for i, p in enumerate(population)), reverse=True)
            best = [(score, population[i]) for score, i in scored[:8]]
            for shrink in 0.5 ** np.arange(2 + trials // 40):
                best = [search.better(kind.name, score, point, float(shrink)) for score, point in best]
            worst[kind.name] = max(score for score, _ in best)
    return ConstantsAttack(**worst)


@final_dataclass(eq=False)
class _Point:
    w: Floats
    u: Floats
    X: Floats
    neighbor: Floats


@final
class _Search:
    def __init__(self, function: ConvexFunction, radius: float, rng: np.random.Generator) -> None:
        self._function, self._radius, self._rng = function, radius, rng
        self._L, self._K = function.lipschitz(radius), function.contrast(radius)
        self._most = 1 if function.aggregation == "average" else 4

    def draw(self) -> _Point:
        """Return two parameter vectors, near or far from one another, and records; half of them extreme."""
        rng, d = self._rng, self._function.dim
        n = int(rng.integers(1, self._most + 1))
        w = self._radius * rng.choice([0.0, 0.1, 1.0]) * _unit(rng.standard_normal(d))
        step = self._radius * 10.0 ** rng.uniform(-5, 0.3)
        X = self._records(n)
        return _Point(w, w + step * _unit(rng.standard_normal(d)), X, self._neighbor(X))

    def better(self, kind: str, score: float, point: _Point, shrink: float) -> tuple[float, _Point]:
        """Return the best of some small changes of a point, or the point."""
        best = (score, point)
        for _ in range(4):
            new = self._change(point, shrink)
            found = self.score(kind, new)
            best = (found, new) if found > best[0] else best
        return best

    def score(self, kind: str, p: _Point) -> float:
        """Return how far a claim is beaten at a point; infinity where the function is not finite."""
        found = self._score(kind, p)
        return math.inf if math.isnan(found) else found

    def _score(self, kind: str, p: _Point) -> float:
        f, radius = self._function, self._radius
        w, u = _into_ball(p.w, radius), p.u
        records = Records.clipped(p.X, f.domain)
        value, g = f.total(w, records)
        if not (math.isfinite(value) and np.all(np.isfinite(g))):
            return math.inf
        if kind == "lipschitz":
            return float(np.linalg.norm(g)) / self._L
        if kind == "contrast":
            return float(np.linalg.norm(f.total(w, Records.clipped(p.neighbor, f.domain))[1] - g)) / self._K
        if kind == "value_at_zero":
            if math.isinf(f.value_at_zero):
                return 0.0
            return _over(f.total(np.zeros(f.dim), records)[0] - value - 1e-14 * abs(value), f.value_at_zero)
        if kind == "separability":
            return self._separability(w, p)
        distance = float(np.linalg.norm(u - w))
        if distance == 0:
            return 0.0
        if kind == "smoothness":  # everywhere, and rounding hides nothing at these distances
            if math.isinf(f.smoothness):
                return 0.0
            change = float(np.linalg.norm(f.total(u, records)[1] - g)) - 1e-13 * self._L
            return _over(change, f.smoothness * distance)
        u = u if math.isfinite(f.smoothness) else _into_ball(u, radius)
        distance = float(np.linalg.norm(u - w))
        if distance == 0:
            return 0.0
        other, slope = f.total(u, records)
        rounding = 1e-14 * (abs(value) + abs(other))
        above = value + float(g @ (u - w)) - other - rounding, other + float(slope @ (w - u)) - value - rounding
        return float(np.max([0.0, *above])) / (self._L * distance)  # NaN passes, unlike through `max`

    def _separability(self, w: Floats, p: _Point) -> float:
        """Compare the mean over three records with the mean of one at a time."""
        f = self._function
        if f.aggregation != "average":
            return 0.0
        rows = np.concatenate([p.X, p.neighbor, np.zeros_like(p.X)])
        value, gradient = f.total(w, Records.clipped(rows, f.domain))
        each = [f.total(w, Records.clipped(row[None], f.domain)) for row in rows]
        values, gradients = np.array([one[0] for one in each]), np.array([one[1] for one in each])
        size = float(np.abs(values).sum()) + self._L * self._radius
        return float(np.max([abs(value - values.mean()) / size, np.abs(gradient - gradients.mean(0)).max() / self._L]))

    def _records(self, n: int) -> Floats:
        rng, domain = self._rng, self._function.domain
        parts = [_block(rng, block, n) for block in domain.blocks]
        return np.concatenate(parts, axis=1) * (1.0 if rng.random() < 0.7 else rng.random())

    def _change(self, p: _Point, shrink: float) -> _Point:
        rng, d = self._rng, self._function.dim
        w = p.w + shrink * self._radius * rng.standard_normal(d) / math.sqrt(d)
        u = (
            w
            + (p.u - p.w) * (1 + shrink * rng.uniform(-0.5, 0.5))
            + shrink * rng.standard_normal(d) * np.abs(p.u - p.w)
        )
        X = p.X if rng.random() < 0.3 else p.X + shrink * self._records(len(p.X))
        return _Point(w, u, X, p.neighbor if len(X) == 1 and rng.random() < 0.5 else self._neighbor(X))

    def _neighbor(self, X: Floats) -> Floats:
        """Return the records with the last one replaced by another one, or by its mirror image."""
        last = -X[-1:] if self._rng.random() < 0.5 else self._records(1)
        return np.concatenate([X[:-1], last])


def _block(rng: np.random.Generator, block: Block, n: int) -> Floats:
    """Return extreme vectors of a block: on its sphere, in its corners, or along one axis."""
    normal = rng.standard_normal((n, block.size))
    if rng.random() < 0.5:
        normal = np.sign(normal)
    if block.norm == "simplex":
        return (
            rng.dirichlet(np.full(block.size, 0.3), n)
            if rng.random() < 0.3
            else np.eye(block.size)[rng.integers(block.size, size=n)]
        )
    if block.largest is not None:  # as many of the largest entries as the sum allows
        few = max(1, min(block.size, int(block.bound / block.largest)))
        return block.largest * np.sign(normal) * (np.argsort(np.argsort(-np.abs(normal))) < few)
    if block.norm == "l1" or rng.random() < 0.2:
        normal = np.where(np.abs(normal) == np.abs(normal).max(1, keepdims=True), normal, 0.0)
    if block.norm == "linf":
        return block.bound * (np.sign(normal) if rng.random() < 0.5 else rng.uniform(-1, 1, normal.shape))
    return block.bound * normal / np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-300)


def _over(found: float, claimed: float) -> float:
    """Return ``found / claimed``; if 0 is claimed, any positive number gives infinity."""
    return found / claimed if claimed else (math.inf if found > 0 else 0.0)


def _unit(v: Floats) -> Floats:
    return v / max(float(np.linalg.norm(v)), 1e-300)


def _into_ball(w: Floats, radius: float) -> Floats:
    norm = float(np.linalg.norm(w))
    return w if norm <= radius else w * (radius / norm)
