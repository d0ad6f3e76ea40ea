"""Private minimization of any convex function of your own: the functional core, without an estimator around it."""

from dataclasses import replace

import numpy as np

from dpconvex._types import Array
from dpconvex.algorithms import ConvexPlan, PrivateResult, begin
from dpconvex.algorithms.erm.heavy_tailed.registry import CUSTOM_METHODS, custom_plan
from dpconvex.algorithms.erm.output_perturbation import plan
from dpconvex.algorithms.select import Options
from dpconvex.errors import InvalidDataError, InvalidParameterError
from dpconvex.privacy import PrivacyParams
from dpconvex.problems import ConvexFunction, CustomProblem
from dpconvex.randomness import RandomState, source_from


def plan_minimize(
    function: ConvexFunction, n: int,
    *, epsilon: float, delta: float = 0.0, radius: float, l2: float | None = None, noise: str = "auto",
    constants: str = "calibrated", target: str = "empirical", trusted: bool = True, max_steps: int = 100_000,
    heavy_tailed: tuple[float, float] | None = None, algorithm: str = "auto", solver: str = "auto",
) -> ConvexPlan[CustomProblem]:  # fmt: skip
    """Return what `private_minimize` would do with `n` records, before any data are read.

    Parameters
    ----------
    function : ConvexFunction
        A `RecordLoss` (averaged over the records), a `WholeObjective`, or what `jax_loss` returns.
    n : int
        Number of records; public.
    epsilon, delta : float
        The promise, for neighbors that replace one record. ``delta = 0``: pure differential privacy.
    radius : float
        l2 norm of the largest parameters to compete with, a public choice; the minimization stays inside.
    l2 : float, optional
        Ridge weight, when the objective with its ridge is itself the target. Default: chosen from public facts.
    noise : {"auto", "l2", "gaussian"}
        Kind of noise; ``"auto"``: the one with the smaller predicted error.
    constants : {"calibrated", "paper"}
        Constant set.
    target : {"empirical", "population"}
        What the regularization is chosen for.
    trusted : bool
        True: privacy rests on the function's declared constants, which the certificate says. False: on none of them;
        noise covers the whole ball and does not shrink with n. Either way the function must return for every data set.
    max_steps : int
        See `CustomProblem`.
    heavy_tailed : (float, float), optional
        ``(k, G_k)``: order, at least 2, and bound of a moment ``(E A^k)^(1/k)`` of the largest slope A of a record's
        loss over the ball; public numbers. Noise then follows ``G_k`` and not the declared Lipschitz constant, which
        may be far larger, and the error is on new records. Privacy is pure and holds whatever the moments are; it needs
        a trusted `RecordLoss`. Leave out `l2`, `noise` and `target`.
    algorithm : {"auto", "heavy_tailed", "localized_exponential_mechanism"}
        With `heavy_tailed`: localized output perturbation, which ``"auto"`` stands for, or the exponential mechanism
        around each release, for one or two parameters.
    solver : str
        ``"auto"``, or a method of `dpconvex.solvers.NAMED_SOLVERS`, with the usual guaranteed one behind it.

    Returns
    -------
    ConvexPlan
        With ``predicted_error``, ``coefficient_deviation`` (of the noise in each parameter), ``l2`` and ``run``.

    Raises
    ------
    InvalidParameterError
        If a parameter is out of range, or the theory has no such combination.
    """
    problem = CustomProblem(function, n, radius, trusted, max_steps)
    privacy = PrivacyParams(epsilon, delta)
    if heavy_tailed is not None:
        options = Options(constants, noise, l2, target, solver=solver)
        return custom_plan(problem, privacy, heavy_tailed, algorithm, options)
    if algorithm != "auto":
        what = f"must be 'auto', or with heavy_tailed=(k, G_k) one of {', '.join(map(repr, CUSTOM_METHODS))}"
        raise InvalidParameterError("algorithm", algorithm, what)
    plans = plan(problem, privacy, constants=constants, l2=l2, noise=noise, target=target, solver=solver)
    return min(plans, key=lambda one: one.predicted_error.bound)


def private_minimize(
    function: ConvexFunction, X: Array, *, epsilon: float, delta: float = 0.0, radius: float,
    l2: float | None = None, noise: str = "auto", constants: str = "calibrated", target: str = "empirical",
    trusted: bool = True, max_steps: int = 100_000, heavy_tailed: tuple[float, float] | None = None,
    algorithm: str = "auto", solver: str = "auto", random_state: RandomState = None,
) -> PrivateResult:  # fmt: skip
    """Minimize a convex function of parameters and private records, and release the minimizer with noise.

    Output perturbation (Lowy and Razaviyayn, Algorithms 1 and 6, repaired): the ridge objective is minimized in the
    ball to a certified accuracy, and noise covers how far the result can move when one record is replaced. With
    `heavy_tailed` the objective is made of the losses' Lipschitz extensions (Lowy 2026).

    Parameters
    ----------
    function : ConvexFunction
        A `RecordLoss`, a `WholeObjective`, or what `jax_loss` returns.
    X : array of shape (n, n_features)
        Private records, any numeric dtype; clipped into ``function.domain``. An array: what becomes of a list or a
        frame with a missing cell would depend on its content.
    epsilon, delta, radius, l2, noise, constants, target, trusted, max_steps, heavy_tailed, algorithm, solver
        As in `plan_minimize`.
    random_state : int or BitSource, optional
        Leave it out: a seed makes the release *not private*, and the certificate says so.

    Returns
    -------
    PrivateResult
        ``point`` (dim,), ``certificate`` and ``plan``.

    Raises
    ------
    InvalidParameterError, InvalidDataError
        From public facts: parameters, shape, dtype.

    Examples
    --------
    A robust center of 1000 points in the plane, each known to lie in the unit disc:

    >>> import numpy as np
    >>> from dpconvex import DataDomain, private_minimize
    >>> from dpconvex.problems import LocationLoss
    >>> X = np.random.default_rng(0).normal([0.3, -0.2], 0.1, (1000, 2))
    >>> loss = LocationLoss(DataDomain.l2_ball(2, 1.0), width=0.2)
    >>> result = private_minimize(loss, X, epsilon=2.0, radius=1.0, random_state=3)
    >>> result.point.round(1)
    array([ 0.3, -0.2])
    """
    if not isinstance(X, np.ndarray):
        raise InvalidDataError(f"X is a {type(X).__name__}; must be a NumPy array, whose dtype is no private fact")
    X = np.asarray(X)  # a masked array or a matrix becomes a plain array
    if X.ndim != 2 or len(X) == 0:
        raise InvalidDataError(f"X has shape {X.shape}; records need (n, n_features) with n >= 1")
    chosen = plan_minimize(
        function, len(X), epsilon=epsilon, delta=delta, radius=radius, l2=l2, noise=noise, constants=constants,
        target=target, trusted=trusted, max_steps=max_steps, heavy_tailed=heavy_tailed, algorithm=algorithm,
        solver=solver,
    )  # fmt: skip
    chosen.problem.domain.check_columns(X)
    source = source_from(random_state)
    paid = begin(chosen, "private_minimize", X.shape[1], len(X), source)
    result = chosen.run(X, np.zeros(len(X)), source)
    return replace(result, certificate=paid.named(result.certificate))
