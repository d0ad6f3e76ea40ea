"""What families share: random numbers, synthetic data, exponents, figures on logarithmic axes. No private data here."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np

from dpconvex import _validate
from dpconvex._types import Array, Floats
from dpconvex.losses import LinearModelLoss
from dpconvex.problems import Attack, DataDomain
from dpconvex.problems.queries import LinearQueries
from dpconvex.randomness import SeededSource
from dpconvex_experiments.base import Figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINE_STYLES = ("o-", "s-", "^-", "D-", "v-", "P-", "X-")


def streams(*key: int) -> tuple[np.random.Generator, SeededSource]:
    """Return the random numbers of the data and, independent of them, of the noise; each key has its own."""
    data, noise = np.random.SeedSequence(key).spawn(2)
    return np.random.default_rng(data), SeededSource(int(noise.generate_state(1, np.uint64)[0]))


def mean_distance(X: Floats, z: Floats) -> float:
    """Return ``(1/n) sum_i ||x_i - z||``, the objective of the geometric median, for finite `X` of shape (n, d)."""
    return float(np.linalg.norm(X - z, axis=1).mean())


def largest_error(queries: LinearQueries, records: Array, histogram: Floats) -> float:
    """Return the largest error of a histogram (cells,) on the queries about records (n,). *Not private.*"""
    truth = queries.record_sums(queries.clip_records(records)) / len(records)
    return float(np.abs(truth - queries.answers(histogram)).max())


def worst_losses(attack: Attack, loss: LinearModelLoss, z: Floats, y: Floats, w: Floats, domain: DataDomain) -> Floats:
    """Return every record's largest loss under an attack, shape (n,), for a loss of one prediction.

    `z` are the predictions (n,) of the parameters `w` without the attack, `y` the targets (n,).
    """
    rho = attack.radius * float(np.linalg.norm(w[: domain.n_features], 2 if attack.norm == "l2" else 1))  # dual norm
    return np.maximum(loss.value(z - rho, y), loss.value(z + rho, y))


def unit_vectors(rng: np.random.Generator, n: int, dim: int) -> Floats:
    """Return `n` independent uniform unit vectors, shape (n, dim)."""
    X = rng.standard_normal((n, dim))
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def logistic_labels(rng: np.random.Generator, scores: Floats) -> Floats:
    """Return labels -1 and 1 with these log-odds, shape (n,)."""
    return np.where(rng.random(len(scores)) < 1 / (1 + np.exp(-scores)), 1.0, -1.0)


def gaussian_cluster(
    R: float, n: int, d: int, sigma: float, inside: float, rng: np.random.Generator
) -> tuple[Floats, Floats]:
    """Draw a tight cluster among points spread over a ball (Haghifam, Steinke and Ullman 2024, Appendix H).

    Return n points (n, d) of the ball of radius `R` in random order, and the cluster's mean (d,), uniform on the sphere
    of radius ``R / 2``. A share `inside` of them, in whole points, is in the cluster, with standard deviation `sigma`
    in each coordinate; they may lie outside the ball where it is not much larger than sigma.
    """
    _validate.real("R", R, above=0.0)
    _validate.real("sigma", sigma, above=0.0)
    crowd = round(_validate.real("inside", inside, at_least=0.0, at_most=1.0) * _validate.integer("n", n, at_least=1))
    center = R / 2 * unit_vectors(rng, 1, d)[0]
    spread = R * rng.random((n - crowd, 1)) ** (1 / d) * unit_vectors(rng, n - crowd, d)
    X = np.concatenate([center + sigma * rng.standard_normal((crowd, d)), spread])
    return X[rng.permutation(n)], center


def student_t(nu: float, n: int, d: int, rng: np.random.Generator) -> Floats:
    """Draw from the multivariate t distribution with median 0 and identity scale, shape (n, d).

    The mean exists for more than one degree of freedom `nu`, the variance for more than two.
    """
    _validate.real("nu", nu, above=0.0)
    return rng.standard_normal((n, d)) / np.sqrt(rng.chisquare(nu, (n, 1)) / nu)


def slope(x: Sequence[float], y: Sequence[float]) -> float:
    """Return the exponent of the power law that fits best (least squares of logarithms)."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def logarithmic(axes: "Axes", labels: tuple[str, str], log: str = "xy") -> None:
    """Give the axes their labels, and make those named in `log` logarithmic."""
    axes.set(xlabel=labels[0], ylabel=labels[1], **{f"{axis}scale": "log" for axis in log})


def lines(
    axes: "Axes", x: Sequence[float], curves: Mapping[str, Sequence[float]], labels: tuple[str, str],
    *, dashed: Mapping[str, Sequence[float]] | None = None,
    legend: Literal["best", "upper left", "lower left"] = "best", fontsize: float | None = None,
) -> None:  # fmt: skip
    """Draw curves over logarithmic axes; `dashed` ones (bounds, claims) take the colors in the same order."""
    for k, (name, y) in enumerate(curves.items()):
        axes.plot(x, y, LINE_STYLES[k % len(LINE_STYLES)], color=f"C{k}", label=name)
    for k, (name, y) in enumerate((dashed or {}).items()):
        axes.plot(x, y, "--", color=f"C{k}", label=name, linewidth=1.2)
    logarithmic(axes, labels)
    axes.legend(loc=legend, fontsize=fontsize)


def panels(figure: Figure, count: int) -> "list[Axes]":
    """Return `count` plots side by side."""
    return list(np.atleast_1d(figure.subplots(1, count)))
