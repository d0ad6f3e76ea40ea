"""Point clouds of known shape, for experiments with robust location: public data, nothing private is drawn here."""

from __future__ import annotations

import numpy as np

from dpconvex import _validate
from dpconvex._types import FloatArray


def gaussian_cluster(
    R: float, n: int, d: int, sigma: float, inside: float, rng: np.random.Generator
) -> tuple[FloatArray, FloatArray]:
    """Draw a tight cluster among points spread over a ball (Haghifam, Steinke and Ullman 2024, Appendix H).

    Parameters
    ----------
    R : float
        Radius of the ball, positive.
    n, d : int
        Numbers of points and coordinates.
    sigma : float
        Standard deviation of a coordinate within the cluster, positive.
    inside : float
        Share of the points in the cluster, in [0, 1]; rounded to whole points.
    rng : numpy.random.Generator

    Returns
    -------
    X : array of shape (n, d)
        In random order. Points of the cluster may lie outside the ball where it is not much larger than sigma.
    centre : array of shape (d,)
        Mean of the cluster, uniform on the sphere of radius ``R / 2``.
    """
    _validate.real("R", R, above=0.0)
    _validate.real("sigma", sigma, above=0.0)
    crowd = round(_validate.real("inside", inside, at_least=0.0, at_most=1.0) * _validate.integer("n", n, at_least=1))
    centre = R / 2 * _directions(1, d, rng)[0]
    spread = R * rng.random((n - crowd, 1)) ** (1 / d) * _directions(n - crowd, d, rng)
    X = np.concatenate([centre + sigma * rng.standard_normal((crowd, d)), spread])
    return X[rng.permutation(n)], centre


def student_t(nu: float, n: int, d: int, rng: np.random.Generator) -> FloatArray:
    """Draw from the multivariate t distribution with median 0 and identity scale, shape (n, d).

    Parameters
    ----------
    nu : float
        Degrees of freedom, positive; the mean exists above 1, the variance above 2.
    n, d : int
    rng : numpy.random.Generator
    """
    _validate.real("nu", nu, above=0.0)
    return rng.standard_normal((n, d)) / np.sqrt(rng.chisquare(nu, (n, 1)) / nu)


def skewed(n: int, d: int, rng: np.random.Generator) -> FloatArray:
    """Draw independent exponential(1) coordinates, shape (n, d): the coordinate-wise median is not the geometric one.

    Parameters
    ----------
    n, d : int
    rng : numpy.random.Generator
    """
    return rng.exponential(size=(n, d))


def _directions(n: int, d: int, rng: np.random.Generator) -> FloatArray:
    z = rng.standard_normal((n, d))
    return z / np.linalg.norm(z, axis=1, keepdims=True)
