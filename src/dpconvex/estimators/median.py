"""`PrivateGeometricMedian`: a robust private center of points, as a scikit-learn estimator."""

from dataclasses import KW_ONLY, field
from typing import Any, Self

from dpconvex import _progress, _validate
from dpconvex._types import Floats
from dpconvex.algorithms import begin
from dpconvex.algorithms.location.base import LocationPlan
from dpconvex.algorithms.location.registry import plan_location
from dpconvex.algorithms.select import CONSTANTS, needs_records
from dpconvex.errors import InvalidParameterError
from dpconvex.estimators._descriptions import RELEASED, SEED, final_estimator
from dpconvex.estimators._matrices import fitted_columns, learned_matrix, same_length, user_labels
from dpconvex.estimators._private import PrivateEstimator
from dpconvex.estimators._streams import open_points, refuse_with_portions
from dpconvex.privacy import PrivacyParams, Unit
from dpconvex.problems import PointDomain
from dpconvex.problems.data.points import user_points
from dpconvex.randomness import BitSource, source_from

FINEST = 1e-6
"""Default of `min_radius`, as a share of `radius_bound`; a finer grid costs no privacy and hardly any accuracy."""


@final_estimator(released=RELEASED, seed=SEED)
class PrivateGeometricMedian(PrivateEstimator):
    r"""Geometric median of points under differential privacy: a center that a corrupted minority cannot move far.

    The geometric median minimizes the mean Euclidean distance to the points. All that must be known in advance is a
    crude ball that holds the data: the error grows with the spread of the bulk of the points, not with the ball.
    First a radius is found that holds most of the points, then a center among them, then noisy gradient descent from
    there finds the median. `algorithm` selects other published methods, for comparison.

    Guarantee: everything that `fit` learns from data is (epsilon, delta)-differentially private for neighbors that
    replace one record, with a public number of records; nothing else depends on the data.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy budget of one `fit`, positive; smaller is more private.
    delta : float, default=1e-6
        In (0, 1/2) and far below 1/n. Only ``algorithm="coordinate_median"`` allows 0; all others need Gaussian noise.
    radius_bound : float
        Required: public radius of a ball around the origin, in the unit of the points. Points outside are moved onto
        it. Subtract a public guess of the center first, if there is one. The radius must not be read off the data.
    min_radius : float, optional
        Public, in the unit of the points; smaller radii are not told apart. Default: a millionth of `radius_bound`.
    algorithm : str, default="geometric_median"
        ``"geometric_median"``: radius, center, noisy gradient descent. ``"stable_sgd"``, ``"fixed_order"``: stable
        stochastic gradients, in random or fixed order, instead of descent. ``"center_only"``: without the last stage.
        Other published methods: ``"halving"`` (RadiusFinder and descent in halving balls, up to 50,000 records),
        ``"origin_descent"`` (DP-GD), ``"coordinate_median"``, ``"clipped_mean"`` (not robust).
    constants : {"calibrated", "paper"}
        Tight constants, or the paper's (repaired) ones, which need hundreds of thousands of records: for
        ``"stable_sgd"``, ``"fixed_order"`` and ``"center_only"``.
    level : float, optional
        In [0.6, 0.95], by default 0.65, for the first four algorithms: share of the points that must be near each
        other, on average, for a radius to be found. A level of 0.65 tolerates 19 % of outliers anywhere, 0.775 (the
        paper's) 12 %, and 0.6 (slower) 22 %. With more outliers the radius reaches them, and the status may say so.
    {seed}

    Attributes
    ----------
    location_ : array of shape (n_features,)
        The released median; the origin if no center was found and no other stage is run.
    radius_ : float or None
        Released radius around some point that holds about the share `level` of the points, within a factor of four.
        None if the algorithm looks for none.
    center_ : array of shape (n_features,) or None
        Released center from which the last stage started; None if the algorithm looks for none.
    status_ : {"ok", "radius_at_top", "radius_too_large", "no_center", "unsettled", "center_failed"}
        Whether the stages found what they looked for; computed from released values.
    {released}

    References
    ----------
    Kumar, Liu, Tian and Yang (2025), Private Geometric Median in Nearly-Linear Time. Repaired proofs: "Algorithms" in
    the docs.

    Examples
    --------
    >>> import numpy as np
    >>> from dpconvex import PrivateGeometricMedian
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal([3.0, -2.0], 0.1, size=(5000, 2))
    >>> X[:500] = 1000.0  # a corrupted minority
    >>> median = PrivateGeometricMedian(epsilon=1.0, delta=1e-6, radius_bound=1e4).fit(X)
    >>> bool(np.linalg.norm(median.location_ - [3.0, -2.0]) < 0.1)
    True
    """

    epsilon: float = 1.0
    delta: float = 1e-6
    _: KW_ONLY
    radius_bound: float | None = None
    min_radius: float | None = None
    algorithm: str = "geometric_median"
    constants: str = "calibrated"
    level: float | None = None
    random_state: int | BitSource | None = None
    verbose: bool = False
    location_: Floats = field(init=False)
    radius_: float | None = field(init=False)
    center_: Floats | None = field(init=False)
    status_: str = field(init=False)
    plan_: LocationPlan = field(init=False)

    def plan(self, n: int, n_features: int, unit: str = "record") -> LocationPlan:
        """Return the plan for data of this size, or raise what `fit` would for parameters. Sees no data.

        The `unit`, "record" or "user", is what is protected: a row, or all rows of a user, which `n` then counts.
        """
        _validate.choice("unit", unit, tuple(Unit))
        privacy = PrivacyParams(self.epsilon, self.delta, unit=Unit(unit))
        _validate.choice("constants", self.constants, CONSTANTS)
        constants = None if self.constants == CONSTANTS[0] else self.constants
        domain = self._domain(n_features)
        return plan_location(domain, n, privacy, self.algorithm, constants=constants, level=self.level)

    def fit(self, X: Any, y: Any = None, *, groups: Any = None) -> Self:
        """Release the median of the rows of `X`.

        Parameters
        ----------
        X : array of shape (n, n_features) or data frame
            One point a row, numbers only. NaN counts as 0 and an infinity as the largest number; then points outside
            the ball are scaled onto it. No row is refused or left out. Or a table that is read portion by portion
            ("Larger than memory" in the docs), of which all columns count.
        y : None
            Ignored; there for scikit-learn's pipelines.
        groups : array of shape (n,), optional
            Whose row it is. Then all rows of a user are protected together: the median is that of the users' means,
            and the number of users counts as public.

        Raises
        ------
        InvalidDataError
            If `X` is no numeric table: shape and dtypes only, never content.
        InvalidParameterError
            If a parameter is missing or out of range.
        """
        source = source_from(self.random_state)
        rows = open_points(X)
        points: Any = learned_matrix(self, X, reset=True) if rows is None else rows
        if rows is not None:
            self.n_features_in_ = rows.n_features
            refuse_with_portions(groups=groups)
        elif groups is not None:
            labels = user_labels(groups)
            same_length(len(points), len(labels), "groups", private=True)
            points = user_points(points, labels, self._domain(points.shape[1]))
        self.plan_ = self.plan(*points.shape, unit="record" if groups is None else "user")
        if rows is not None and not self.plan_.only_sums:
            raise needs_records(self.algorithm)
        paid = begin(self.plan_, type(self).__name__, fitted_columns(self), self.plan_.n, source)
        with _progress.shown(type(self).__name__, self.verbose):
            result = self.plan_.run(points, source)
        self.location_, self.radius_, self.center_ = result.location, result.radius, result.center
        self.status_, self.certificate_ = result.status, paid.named(result.certificate)
        return self

    def _domain(self, n_features: int) -> PointDomain:
        if self.radius_bound is None:
            what = "must be given: the radius of a ball around the origin that holds the data"
            remedy = "It must be public knowledge, and may be crude: noise hardly depends on it"
            raise InvalidParameterError("radius_bound", None, what, remedy)
        bound = _validate.real("radius_bound", self.radius_bound, above=0.0)
        return PointDomain(n_features, bound, FINEST * bound if self.min_radius is None else self.min_radius)
