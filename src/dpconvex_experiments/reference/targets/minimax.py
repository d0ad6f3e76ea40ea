"""Targets of the audit for saddle points, games, l1 geometry, queries, synthetic data and private evaluation."""

from dataclasses import replace
from typing import Any, cast

import numpy as np

from dpconvex._types import Array, Floats, final_dataclass
from dpconvex.algorithms.erm import output_perturbation
from dpconvex.algorithms.minimax import anytime, bias_reduced, frank_wolfe
from dpconvex.algorithms.minimax.base import SaddlePlan
from dpconvex.algorithms.minimax.gaussian import plan_mirror_descent
from dpconvex.algorithms.minimax.registry import SADDLE_METHODS, SPARSE_METHODS
from dpconvex.algorithms.queries import found_bins, grouped_tables, noisy_tables, noisy_tree, target_model
from dpconvex.algorithms.queries.evaluation import plan as plan_evaluation
from dpconvex.algorithms.queries.registry import QUERY_METHODS, plan_queries
from dpconvex.algorithms.search.plan import Candidate
from dpconvex.algorithms.select import Options
from dpconvex.losses import LogisticLoss, SquaredLoss
from dpconvex.privacy import Ledger, Neighboring, PrivacyParams, Unit
from dpconvex.problems import DataDomain, LinearModelProblem, MatrixGame, PolytopeSaddle, SimplexPoint, l1_ball_loss
from dpconvex.problems.data.users import UserGroups, exact_weights
from dpconvex.problems.minimax.base import SaddleSection
from dpconvex.problems.queries import DenseQueries, Marginals
from dpconvex_experiments.audit.neighbors import FAR, Pair, array_pairs, replaced
from dpconvex_experiments.audit.target import Subject, Use, builder, smallest, targets
from dpconvex_experiments.reference.objectives import QuadraticGame

_KEYS = (71.3, 88.1, 57.9, 63.7)
_SEED = 0
_FEW = 8  #: Number of steps; hundreds would be charged alike, but make runs long.
_ANY_STEP = 1e9  #: A step size so large that privacy alone limits the steps.


@final_dataclass
class _SignTable:
    """Gradients of no function, with signs that a hash fixes: privacy may rest on neither convexity nor smoothness."""

    bound: float

    def gradients(self, u: Floats, v: Floats, records: Array) -> tuple[Array, Array]:
        """Return gradients ``FAR`` times too long, so that missing clipping is noticed."""
        phase = _KEYS[0] * records[:, :1] + _KEYS[1] * u[0] + _KEYS[2] * v[0] + _KEYS[3] * np.arange(2)
        return FAR * self.bound * records[:, 1:] * np.sign(np.sin(phase)), np.zeros((len(records), 1))

    def values(self, u: Floats, v: Floats, records: Array) -> Array:
        """Return values between -1 and 1."""
        return np.sin(_KEYS[0] * records[:, 0] + u[0])


@builder
def _game(privacy: PrivacyParams, bound: float, name: str) -> Subject:
    return smallest(lambda n: Subject(_plan(name, MatrixGame(n, 2, 2, bound), privacy), _game_pairs(n, bound)))


def _plan(name: str, problem: MatrixGame | PolytopeSaddle, privacy: PrivacyParams) -> SaddlePlan:
    """Return a plan as users get it, but with few steps or draws; all draws of sparse methods can be enumerated."""
    if name == "gaussian_mirror_descent":
        return replace(plan_mirror_descent(problem, privacy), iterations=_FEW)
    if isinstance(problem, MatrixGame):
        if name == "bias_reduced_mirror_descent":
            return bias_reduced.plan(problem, privacy, truncation=1, budget=4.0, step=_ANY_STEP)
        return SADDLE_METHODS[name].plans(Options(), problem, privacy)[0]
    if name == "frank_wolfe":
        return frank_wolfe.plan(problem, privacy, steps=6)
    if name == "variance_reduced_frank_wolfe":
        return frank_wolfe.plan_variance_reduced(problem, privacy, phases=2)
    if name == "anytime_mirror_descent":
        return anytime.plan(problem, privacy, iterations=4, samples=2, period=2, output_samples=2, step=_ANY_STEP)
    return SPARSE_METHODS[name].plans(Options(), problem, privacy)[0]


def _game_pairs(n: int, bound: float) -> dict[str, Pair]:
    """Return pairs in which the first or last record, whose payoffs pull one player or both, is turned around."""
    rng = np.random.default_rng(_SEED)
    row, column = np.array([[1.0, 1.0], [-1.0, -1.0]]), np.array([[1.0, -1.0], [1.0, -1.0]])
    both = np.array([[1.0, -1.0], [-1.0, 1.0]])
    found = {}
    for what, matrix in (("row player", row), ("column player", column), ("both players", both)):
        for rest, others in (("idle", 0.0), ("random", rng.choice([-1.0, 1.0], (n, 2, 2)))):
            for place in (0, n - 1):
                name, scale = f"record {place} turned against the {what}, others {rest}", FAR * bound
                found[name] = replaced(scale * (np.zeros((n, 2, 2)) + others), place, scale * matrix, -scale * matrix)
    return array_pairs(found)


@builder
def _sparse(privacy: PrivacyParams, bound: float, name: str) -> Subject:
    table = _SignTable(bound)

    def planned(n: int) -> Subject:
        if name == "constant":
            return _constant(n, privacy, bound)
        functions, constants = (table.gradients, table.values), ((bound, bound), (-1.0, 1.0), bound, bound)
        problem = PolytopeSaddle(n, *functions, np.eye(2), np.zeros((1, 1)), *constants, title="signs")
        return Subject(_plan(name, problem, privacy), _table_pairs(n))

    return smallest(planned)


def _constant(n: int, privacy: PrivacyParams, bound: float) -> Subject:
    """One target, all that matters, is turned around."""
    problem = l1_ball_loss(SquaredLoss(bound, bound), n, 1, bound, intercept=True)
    ends = replaced(np.zeros(n), 0, FAR * bound, -FAR * bound)
    first, second = ((np.ones((n, 1)), y, np.zeros(n, np.int8)) for y in ends)
    plan = SPARSE_METHODS["constant"].plans(Options(), problem, privacy)[0]
    return Subject(plan, array_pairs({"target turned": (first, second)}))


def _smooth(privacy: PrivacyParams, bound: float) -> Subject:
    """One player of quadratic games is audited, where gradients at close points differ by less than clipping allows."""

    def planned(n: int) -> Subject:
        problem = SaddleSection(QuadraticGame(n, 2, 2), 0, n, "x", SimplexPoint.uniform(2))
        found = {}
        for what, row in (("steep", [1.0, -1.0]), ("level", [1.0, 1.0])):
            for place in (0, n // 2, n - 1):
                first = np.zeros((n, 8))
                first[:, :6] = 1.0, -1.0, 0.0, 0.0, 1.0, 1.0
                second = first.copy()
                first[place, :4], second[place, :4] = [*row, 1.0, -1.0], [0.0, 0.0, -1.0, 1.0]
                found[f"record {place} {what}, or turned"] = (FAR * first, FAR * second)
        return Subject(frank_wolfe.plan_variance_reduced(problem, privacy, phases=2), array_pairs(found))

    return smallest(planned)


def _table_pairs(n: int) -> dict[str, Pair]:
    rng = np.random.default_rng(_SEED)
    found = {}
    for trial in range(2):
        first = np.column_stack([rng.uniform(size=n), np.ones(n)])
        for place in (0, n - 1):
            for what, row in (("turned", [first[place, 0], -1.0]), ("replaced", [rng.uniform(), 1.0])):
                found[f"table {trial}, record {place} {what}"] = replaced(first, place, first[place], row)
    return array_pairs(found)


@builder
def _queries(privacy: PrivacyParams, bound: float, name: str) -> Subject:
    queries = DenseQueries(bound * np.array([[0.0, 1.0, 0.5]]), 0.0, bound)

    def planned(n: int) -> Subject:
        plan = QUERY_METHODS[name].plans(Options(), queries, n, privacy)[0]
        rests = {"zeros": np.zeros(n, int), "ones": np.ones(n, int), "mixed": np.arange(n) % 2}
        found = {f"others {what}": replaced(rest, 0, 0, 1) for what, rest in rests.items()}
        return Subject(plan, array_pairs(found))

    return smallest(planned)


@builder
def _tables(privacy: PrivacyParams, bound: float, neighbors: Neighboring, noise: str = "tables") -> Subject:
    """Tables of three columns and of their pairs; a unit may change in all columns, a user in number of records too.

    The run ends with the release: what follows is post-processing.
    """
    privacy, queries = replace(privacy, neighboring=neighbors), Marginals.of_order((2, 3, 2), 2)
    plan = noisy_tables.plan(queries, 8, privacy, relations="all", noise=noise)

    def run(codes: Array, *given: Any) -> Array:
        weights = exact_weights(given[1]) if privacy.unit == Unit.USER else None
        released = plan.release(queries.codes(codes), given[-1], Ledger(privacy, plan.releases), weights)
        times = 1.0 if released.total is None else released.total.value  # with a total, tables hold shares
        return times * np.concatenate([noisy.ravel() for noisy in released.noisy])

    pairs = _users() if privacy.unit == Unit.USER else _far_rows() if neighbors.fixes_size else _added_rows()
    return Subject(Use(privacy, plan.algorithm, plan.releases, run), pairs)


@builder
def _found_bins(privacy: PrivacyParams, bound: float, *within: tuple[float, float]) -> Subject:
    """A column has a range or none. A 0 in it becomes 1, or missing, which changes its cell whatever range is found."""
    declared = tuple((1, *ends, "none", 1.0, 0.0) for ends in within)
    queries, open_ = Marginals.of_order((2, 2), 2), found_bins.Open((1,), (), (1,), declared)
    plan = cast(Any, plan_queries(queries, 8, privacy, "noisy_tables", open=open_)[0])

    def run(records: Array, *given: Any) -> Array:
        ledger = Ledger(privacy, plan.releases)
        begun = plan._begun(records, None, given[-1], ledger)  # what follows is post-processing
        noisy = begun.then.release(begun.binned(records), given[-1], ledger).noisy
        return np.concatenate([*begun.counted, *(8 * each.ravel() for each in noisy)])

    found, rest = {}, np.column_stack([np.arange(8) % 2, 2.0 ** np.arange(8)])
    for what, row in (("far", [1.0, np.nan]), ("near", [0.0, 1.0])):
        for k, others in enumerate((rest, np.zeros((8, 2)))):
            found[f"others {k}, {what}"] = replaced(others, 0, [0.0, 0.0], row)
    return Subject(Use(privacy, plan.algorithm, plan.releases, run), array_pairs(found))


def _grouped(privacy: PrivacyParams, bound: float) -> Subject:
    """Noise puts four ordered values into two groups; the first and the last value are always in different ones."""
    queries = Marginals((2, 4, 2), ((0, 1), (0, 2), (1, 2)), ordered=(1,))
    plan = grouped_tables.plan(queries, 8, privacy, groups=2, share=0.5, noise="tables")

    def run(codes: Array, *given: Any) -> Array:
        found = plan.release(queries.codes(codes), given[-1], Ledger(privacy, plan.releases))
        return np.concatenate([table.ravel() for each in (found.columns, found.pairs) for table in each.noisy])

    rest = np.arange(24).reshape(8, 3) % 4
    pairs = {what: replaced(rest, 0, 0, row) for what, row in (("far", [1, 3, 1]), ("one column", [0, 3, 0]))}
    return Subject(Use(privacy, plan.algorithm, plan.releases, run), array_pairs(pairs))


def _users() -> dict[str, Pair]:
    """Return pairs of tables of 8 users, of whom one gets other records, more or fewer, perhaps under another label."""
    labels = (1, 1, 1, 1, 2, 3, 3, 4, 5, 6, 7, 7, 7)
    found, rest = {}, [(label, [k % 2, k % 3, k // 2 % 2]) for k, label in enumerate(labels)]

    def data(label: int, records: list[list[int]]) -> tuple[object, ...]:
        rows = [*((label, record) for record in records), *rest]
        return np.array([record for _, record in rows]), None, UserGroups.of(np.array([name for name, _ in rows]))

    others = {"one far record": [[1, 2, 1]], "five far records": [[1, 2, 1]] * 5, "two": [[0, 2, 0]] * 2}
    for what, other in others.items():
        found[f"one record, {what}"] = Pair(data(9, [[0, 0, 0]]), data(9, other))
        found[f"three records, {what} under another label"] = Pair(data(0, [[0, 0, 0]] * 3), data(9, other))
    return found


def _added_rows() -> dict[str, Pair]:
    """Return pairs of tables of 3 columns and up to 9 rows, where 8 are declared; one has a row more."""
    found = {}
    for n in (0, 1, 8):
        for what, row in (("of first values", [0, 0, 0]), ("of last values", [1, 2, 1])):
            rest = np.arange(3 * n).reshape(n, 3) % 2
            found[f"record {what} added to {n}"] = (rest, np.vstack([rest, [row]]))
            found[f"record {what} removed from {n + 1}"] = (np.vstack([rest, [row]]), rest)
    return array_pairs(found)


def _tree(privacy: PrivacyParams, bound: float) -> Subject:
    """One of three pairs of columns, all of one size, is chosen; its index stands first in the output."""
    queries = Marginals.of_order((2, 2, 2), 2)
    plan = noisy_tree.plan(queries, 8, privacy, pairs=1)

    def run(codes: Array, *given: Any) -> Array:
        weights = exact_weights(given[1]) if privacy.unit == Unit.USER else None
        released = plan.release(queries.codes(codes), given[-1], Ledger(privacy, plan.releases), weights)
        chosen = queries.subsets.index(released.subsets[-1])
        return np.concatenate([[float(chosen)], *(noisy.ravel() for noisy in released.noisy)])

    pairs = _users() if privacy.unit == Unit.USER else _far_rows()
    return Subject(Use(privacy, plan.algorithm, plan.releases, run), pairs)


def _target_model(privacy: PrivacyParams, bound: float) -> Subject:
    """The output has both the model of the target and the tables, so that they are priced together."""
    half, queries = replace(privacy, epsilon=privacy.epsilon / 2), Marginals.of_order((2, 2), 2)
    problem = LinearModelProblem(LogisticLoss(), DataDomain.box(1, 0.5), 8, 2.0)
    fit = output_perturbation.plan(problem, replace(half, delta=0.0), l2=0.5)[0]
    then = noisy_tables.plan(queries, 8, half, relations="all", noise="tables")
    plan = target_model.plan(then, Candidate({}, fit), privacy)

    def run(codes: Array, *given: Any) -> Array:
        point = fit.run(codes[:, :1] - 0.5, codes[:, 1], given[-1]).point
        released = then.release(codes, given[-1], Ledger(half, then.releases))
        return np.concatenate([point, *(noisy.ravel() for noisy in released.noisy)])

    rests = {"mixed": np.arange(16).reshape(8, 2) % 3 % 2, "alike": np.zeros((8, 2), int)}
    pairs = {f"others {what}": replaced(rest, 0, [0, 0], [1, 0]) for what, rest in rests.items()}
    return Subject(Use(privacy, plan.algorithm, plan.releases, run), array_pairs(pairs))


def _far_rows() -> dict[str, Pair]:
    """Return pairs of tables of 8 rows and 3 columns, which differ in one row."""
    found = {}
    for what, rest in (("alike", np.zeros((8, 3), int)), ("mixed", np.arange(24).reshape(8, 3) % 2)):
        for how, other in (("differs everywhere", [1, 2, 1]), ("differs in one column", [0, 1, 0])):
            found[f"others {what}, {how}"] = replaced(rest, 0, 0, other)
    return array_pairs(found)


@builder
def _evaluation(privacy: PrivacyParams, bound: float, classes: int, groups: int, users: bool) -> Subject:
    """One unit moves from the first cell of every table to the last, so from the first group to the last, too."""
    n = 3
    plan = plan_evaluation(n, privacy, classes=classes, groups=groups)
    owners = [np.array([0, 1, 2]), np.array([0, 1, 2, 2, 2])] if users else [np.arange(3)] * 2

    def data(unit: np.ndarray, end: int) -> tuple[object, ...]:
        mine = np.where(unit == 2, end, 0)
        where = np.column_stack([mine * 10**6] * len(plan.shapes))
        values = None if classes else np.column_stack([mine.astype(np.float64)] * 4)
        return where, values, UserGroups.of(unit) if users else None

    pairs = {"one end, the other": Pair(data(owners[0], 0), data(owners[1], 1))}
    return Subject(plan, pairs, lambda result: result.cells)


_OF_TABLES = {"noisy_tables", "noisy_tree", "grouped_tables"}
_BOTH = {*SADDLE_METHODS, "constant"} & set(SPARSE_METHODS)  # names that are not of sparse methods alone

TARGETS = targets(
    Unit.RECORD,
    {
        **{name: ("approximate", _game(name)) for name in SADDLE_METHODS},
        **{f"{name}/sparse" if name in _BOTH else name: ("approximate", _sparse(name)) for name in SPARSE_METHODS},
        "variance_reduced_frank_wolfe/smooth": ("approximate", _smooth),
        "vertex_mirror_descent/pure": ("pure", _game("vertex_mirror_descent")),
        "frank_wolfe/pure": ("pure", _sparse("frank_wolfe")),
        **{f"queries/{name}": ("approximate", _queries(name)) for name in QUERY_METHODS if name not in _OF_TABLES},
        "queries/noisy_tables": ("approximate", _tables(Neighboring.REPLACE_ONE)),
        "queries/noisy_tables/pure": ("pure", _tables(Neighboring.REPLACE_ONE)),
        "queries/noisy_tables/matrix": ("pure", _tables(Neighboring.REPLACE_ONE, "matrix")),
        "queries/noisy_tables/gaussian_matrix": ("approximate", _tables(Neighboring.REPLACE_ONE, "matrix")),
        "queries/noisy_tables/added": ("approximate", _tables(Neighboring.ADD_OR_REMOVE_ONE)),
        "queries/noisy_tables/added_pure": ("pure", _tables(Neighboring.ADD_OR_REMOVE_ONE)),
        "queries/noisy_tree": ("approximate", _tree),
        "queries/noisy_tree/pure": ("pure", _tree),
        "queries/grouped_tables": ("approximate", _grouped),
        "queries/grouped_tables/pure": ("pure", _grouped),
        "queries/found_bins": ("approximate", _found_bins()),
        "queries/found_bins/pure": ("pure", _found_bins()),
        "queries/found_bins/declared": ("pure", _found_bins((0.0, 1024.0))),
        "queries/target_model": ("approximate", _target_model),
        "queries/target_model/pure": ("pure", _target_model),
        "queries/query_noise/pure": ("pure", _queries("query_noise")),
        "queries/saddle_point/pure": ("pure", _queries("saddle_point")),
        "private_evaluation": ("pure", _evaluation(2, 1, False)),
        "private_evaluation/classes": ("pure", _evaluation(3, 1, False)),
        "private_evaluation/groups": ("pure", _evaluation(2, 3, False)),
        "private_evaluation/numbers": ("pure", _evaluation(0, 1, False)),
    },
) + targets(
    Unit.USER,
    {
        "queries/noisy_tables/users": ("approximate", _tables(Neighboring.REPLACE_ONE)),
        "queries/noisy_tables/users_pure": ("pure", _tables(Neighboring.REPLACE_ONE)),
        "queries/noisy_tree/users": ("pure", _tree),
        "private_evaluation/users": ("pure", _evaluation(2, 1, True)),
        "private_evaluation/numbers_of_users": ("pure", _evaluation(0, 3, True)),
    },
)
