"""Priors of shapes (functions of a number, a category or a pair), from public facts. Privacy never rests on them.

Certificates state vertices (knots or levels); all else follows (docs, Additive models, section 4). Places: see `Knots`.
"""

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any, NamedTuple, cast

import numpy as np
from scipy import sparse
from scipy.linalg import block_diag, eigh
from scipy.optimize import lsq_linear
from scipy.special import ndtr

from dpconvex import _validate
from dpconvex._leverage import Contrasts, Part, grid
from dpconvex._types import Floats, final_dataclass
from dpconvex.errors import InvalidParameterError
from dpconvex.losses import LinearModelLoss
from dpconvex.problems.data.factor import Factor, block_diagonal
from dpconvex.problems.linear import expected_risk

LEAST = 1e-9  # curvature of a direction without expected records, over the largest curvature of its block
MOST, CUBES = 2048, 4e10  # most vertices of a block; most sum of cubed sizes, which bounds the time of a plan


@dataclass(frozen=True)
class Guess:
    """Prior variances of shapes, in squared logits (`benchmarks/additive_guess.py`; docs, Additive models)."""

    line: float = 8.0  #: variance of a straight line at the ends of a range
    motion: float = 0.56  #: variance of a Brownian motion over a whole range
    level: float = 0.25  #: variance of the value of one level of a category
    pair: float = 0.05  #: variance of the value at one vertex of a pair
    missing: float = 0.05  #: share of records whose cell is missing
    spread: float = 0.4  #: share of the assumed variety of values that real columns have
    #: factor of these variances in regressions, where a range is about one logit; larger if a look keeps a part of it
    numbers: float = 1 / 16


GUESS = Guess()


class Prior(NamedTuple):
    """The prior of one block; matrices have shape (size, size)."""

    kernel: Floats | None  #: Prior covariance of the values, of any scale; None: independent values
    mass: Floats  #: Expected second moments of the weights; rows sum to the expected weights
    signal: Floats  #: Expected covariance of the values
    misfit: float = 0.0  #: Mean square of the shape's deviation from its interpolant between vertices


@final_dataclass
class Knots:
    """A number's vertices: hats of degree 1 at public places in [0, 1], and `own`, a vertex for missing cells."""

    places: tuple[float, ...]
    own: bool = False

    def __post_init__(self) -> None:
        places = tuple(_validate.real("places", place, at_least=0, at_most=1) for place in self.places)
        if not 2 <= len(places) < MOST or any(a >= b for a, b in pairwise(places)):
            raise InvalidParameterError("places", len(places), f"must be 2 to {MOST} increasing places")
        object.__setattr__(self, "places", places)

    @property
    def size(self) -> int:
        """How many vertices there are."""
        return len(self.places) + self.own

    def write(self, raw: Floats, out: Floats) -> None:
        """Write the weights of places (n,), NaN for missing cells, into zeros of shape (n, size)."""
        places, m = np.array(self.places), len(self.places)
        missing, rows = np.isnan(raw), np.arange(len(raw))
        u = np.clip(np.where(missing, 0.0, raw), 0.0, 1.0)
        left = np.clip(np.searchsorted(places, u, side="right") - 1, 0, m - 2)
        t = np.clip((u - places[left]) / np.diff(places)[left], 0.0, 1.0)
        out[rows, left], out[rows, left + 1] = 1 - t, t
        out[missing] = [0.0] * m + [1.0] if self.own else 1 / m

    @cached_property
    def prior(self) -> Prior:
        """What is expected of the block."""
        places, m = np.array(self.places), len(self.places)
        line, motion = np.outer(places - 0.5, places - 0.5), _centered(np.minimum.outer(places, places))
        parts = [line, motion, _centered(np.eye(m))] if m > 2 else [line]
        smooth = np.sum([part / part.diagonal().max() for part in parts], axis=0)
        # Numbers have a normal law, three deviations to either side, around two places of the range.
        law = np.diff(ndtr((np.arange(601)[:, None] / 600 - np.array([1 / 3, 2 / 3])) * 6), axis=0).sum(1)
        hats = np.zeros((600, self.size))
        self.write((np.arange(600) + 0.5) / 600, hats)
        mass = (hats[:, :m] * (law / law.sum())[:, None]).T @ hats[:, :m]
        return Prior(
            self._beside(smooth / smooth.diagonal().max(), 1.0) if self.size > 2 else None,
            self._beside((1 - GUESS.missing * self.own) * mass, GUESS.missing),
            self._beside(4 * GUESS.line * line + GUESS.motion * motion, GUESS.level),
            # A Brownian motion less its interpolant has mean variance h/6 in a gap h.
            GUESS.motion * float(np.square(np.diff(places)).sum()) / 6,
        )

    def monotone(self, values: Floats, increasing: bool, curvature: Floats) -> tuple[Floats, float]:
        """Return the nearest monotone values (size,), of sum 0, and the expected value by which their mean is lower.

        "Nearest" is in the norm of the objective's `curvature` (size, size); the mean is over expected numbers.
        """
        m, mean = len(self.places), self.prior.mass.sum(1)
        steps = np.eye(self.size)[:, 1:]  # steps from each place to the next; then the value of missing cells
        steps[:m] = np.tri(m, self.size, -1)[:, :-1] * (1 if increasing else -1)
        least = np.where(np.arange(1, self.size) < m, 0.0, -np.inf)
        h, along = eigh(curvature)
        root = np.sqrt(np.maximum(h, LEAST * h[-1]))[:, None] * along.T
        found = steps @ lsq_linear(root @ (steps - steps.mean(0)), root @ values, (least, np.inf), method="bvls").x
        found -= found.mean()
        return found, float(mean @ (values - found))

    def _beside(self, among: Floats, missing: float) -> Floats:
        return cast(Floats, block_diag(among, missing)) if self.own else among


@final_dataclass
class Levels:
    """A category's vertices."""

    size: int

    def __post_init__(self) -> None:
        if _validate.integer("size", self.size, at_least=1) > MOST:
            raise InvalidParameterError("size", self.size, f"must be at most {MOST} levels", "Group rare ones")

    @cached_property
    def prior(self) -> Prior:
        """What is expected of the block."""
        signal = np.eye(self.size) * (1.0 if self.size == 2 else GUESS.level)
        return Prior(None, np.eye(self.size) / self.size, signal)


@final_dataclass
class Pair:
    """Products of the weights of two columns."""

    first: Knots | Levels
    second: Knots | Levels

    def __post_init__(self) -> None:
        if not isinstance(self.first, Knots | Levels) or not isinstance(self.second, Knots | Levels):
            raise InvalidParameterError("pair", type(self.first).__name__, "must be of two columns")
        if self.size > MOST:
            raise InvalidParameterError("size", self.size, f"must be at most {MOST} vertices")

    @property
    def size(self) -> int:
        """How many vertices there are."""
        return self.first.size * self.second.size

    @cached_property
    def prior(self) -> Prior:
        """What is expected of the block."""
        one, two = self.first.prior, self.second.prior
        sides = [np.eye(len(p.mass)) if p.kernel is None else p.kernel for p in (one, two)]
        kernel = cast(Floats, np.kron(_centered(sides[0]), _centered(sides[1])))
        return Prior(kernel, cast(Floats, np.kron(one.mass, two.mass)), GUESS.pair * kernel / kernel.diagonal().max())


def _centered(kernel: Floats) -> Floats:
    """Return the covariance of the values less their mean."""
    return kernel - kernel.mean(0) - kernel.mean(1)[:, None] + kernel.mean()


def _spread(each: Knots | Levels | Pair, centered: bool) -> Floats:
    """Return the second moments of a block's features, about their mean if `centered`, (d, d)."""
    mass = each.prior.mass
    return GUESS.spread * (mass - np.outer(mass.sum(1), mass.sum(1)) if centered else mass)


@lru_cache(maxsize=32)  # whatever the loss or the number of knots, most blocks are the same
def _directions(each: Knots | Levels | Pair | None, part: Part, intercept: float) -> tuple[Any, ...]:
    """Return curvature and signal (r,) of a block's principal directions, their squared coordinates and values.

    `part` is the block's matrix; None in the place of vertices is the constant feature.
    """
    if isinstance(part, float) and each is None:
        found = [part**2 * intercept**2], [part**-2]
        return *map(np.array, found), np.eye(1), np.array([[part**2]])
    assert each is not None
    root = part * sparse.eye_array(each.size) if isinstance(part, float) else grid(part).matrix
    if isinstance(each, Levels) and isinstance(part, float | Contrasts):  # all directions are alike
        square, ones, prior = root.power(2).sum() / root.shape[1], np.ones(root.shape[1]), each.prior
        found = GUESS.spread * square / each.size * ones, prior.signal[0, 0] / square * ones
        return *found, sparse.eye_array(root.shape[1]), root.power(2)
    root = root.toarray()
    h, along = eigh(root.T @ _spread(each, bool(intercept)) @ root)
    back = along.T @ np.linalg.pinv(root)
    found = np.maximum(h, LEAST * max(h[-1], LEAST)), np.einsum("ij,ij->i", back @ each.prior.signal, back)
    return *found, np.square(along), np.square(root @ along)


@final_dataclass
class ExpectedShapes:
    """The priors of all blocks of a domain, with the constant feature; all of them follow from the vertices."""

    vertices: tuple[Knots | Levels | Pair, ...]
    intercept: float = 0.0  #: The constant feature, 0 for none

    def __post_init__(self) -> None:
        _validate.real("intercept", self.intercept, at_least=0)
        if sum(each.size**3 for each in self.vertices) > CUBES:
            what = "must have fewer vertices in all: about four categories of 2,048 levels"
            raise InvalidParameterError("vertices", len(self.vertices), what, "Group rare levels")

    @cached_property
    def kernels(self) -> tuple[Floats | None, ...]:
        """Prior covariance of the values of each block but the constant."""
        return tuple(each.prior.kernel for each in self.vertices)

    @cached_property
    def moments(self) -> tuple[Floats, ...]:
        """Second moments of each block's features about their mean, (d, d)."""
        spread = [_spread(each, bool(self.intercept)) for each in self.vertices]
        return (*spread, *([np.array([[self.intercept**2]])] if self.intercept else []))

    def curvature(
        self, k: int, loss: LinearModelLoss, factor: Factor, l2: float, residual: float | None = None
    ) -> Floats:
        """Return the expected Hessian of the ridge objective in the values of shape k, (d, d)."""
        root = factor.matrices[k].toarray()
        kappa = expected_risk.curvature_and_worth(loss, residual)[0]
        return kappa * self.moments[k] + l2 * np.linalg.pinv(root @ root.T)

    @property
    def misfit(self) -> float:
        """Mean square of the shapes' deviations from their interpolants between knots, squared logits."""
        return sum(each.prior.misfit for each in self.vertices)

    def typical(
        self, loss: LinearModelLoss, factor: Factor, unit: float, residual: float | None = None
    ) -> "TypicalShapes":
        """Return the quadratic model of the risk; `unit` is the square of the prediction that counts as a logit.

        `residual` is the deviation of residuals in the part of the targets' range that a look keeps; None without one.
        """
        (kappa, worth), contrasts = expected_risk.curvature_and_worth(loss, residual), max(1, loss.n_outputs - 1)
        count = expected_risk.ORDINARY.spectrum_quantiles
        spread = expected_risk.spectrum(factor.domain.dim)
        learned = unit if loss.task == "classification" else unit * GUESS.numbers
        if residual is not None:
            learned *= expected_risk.ORDINARY.explained_in_part / expected_risk.ORDINARY.explained_variance
        lost = expected_risk.typical_curvature(loss.usual) / 2 * self.misfit * learned
        vertices = (*self.vertices, *([None] if self.intercept else []))
        parts = [_directions(*each, self.intercept) for each in zip(vertices, factor.blocks, strict=True)]
        curvature, signal, mixing, lengths = map(list[Any], zip(*parts, strict=True))
        if expected_risk.starts_as_told(loss):  # then parameters 0 predict the mean
            signal[-1] = np.zeros_like(signal[-1])
        units = np.repeat([learned] * len(self.vertices) + [unit] * bool(self.intercept), factor.ranks)
        h, which = np.concatenate(curvature), np.repeat(np.arange(len(curvature)), factor.ranks)
        numbers = np.array(factor.ranks)
        found = TypicalShapes(
            np.full(len(h) * count, contrasts / count), np.outer(spread, kappa * h).ravel(),
            np.tile(np.concatenate(signal) * units / contrasts, count), np.tile(which, count),
            np.cumsum(numbers) - numbers, numbers, block_diagonal(mixing),
            (0.0 if loss.usual == loss else expected_risk.surrogate_excess(loss, loss.usual, residual)) + lost,
            block_diagonal(lengths), worth=worth,
        )  # fmt: skip
        return found.started(loss, np.where(found.block == len(self.vertices), 1.0, 0.0))  # the constant is last


@final_dataclass(eq=False)
class TypicalShapes(expected_risk.TypicalData):
    """Quadratic model whose directions mix the coordinates of a block, (r, r), with one copy for each quantile."""

    mixing: Any  #: Sparse, since there may be many blocks
    lengths: Any  #: Squares of the directions' values at the vertices, sparse, (dim, r)

    def variances(self, deviations: Floats) -> Floats:
        found = np.square(deviations[..., : self.mixing.shape[0]]) @ self.mixing
        return np.concatenate([found] * expected_risk.ORDINARY.spectrum_quantiles, axis=-1)

    def noise_costs(self, l2: float) -> Floats:
        length = np.tile(self.lengths.sum(0), expected_risk.ORDINARY.spectrum_quantiles)
        each = self._weight * length / np.square(self.curvature + l2)
        mean = np.bincount(self.block, length) / np.bincount(self.block)
        return np.bincount(self.block, each) / mean / 2

    def value_deviations(self, l2: float, deviations: Floats, output: float) -> Floats:
        """Return the deviation of each value (dim,), for a linear term of deviations (r,) and output noise."""
        found = self.variances(deviations).reshape(expected_risk.ORDINARY.spectrum_quantiles, -1)
        h = self.curvature.reshape(found.shape)
        return np.sqrt(self.lengths @ ((found / np.square(h + l2)).mean(0) + output**2))

    def degrees_of_freedom(self, l2: float) -> Floats:
        """Return ``sum h / (h + l2)`` of each block, (m,), of one output."""
        each = self.curvature / (self.curvature + l2) / expected_risk.ORDINARY.spectrum_quantiles
        return np.bincount(self.block, each, minlength=len(self.size)).astype(np.float64)
