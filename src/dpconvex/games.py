"""Private zero-sum games: strategies learned from private payoffs, in one call."""

from dataclasses import replace
from typing import Any

import numpy as np

from dpconvex import _validate
from dpconvex.algorithms import begin
from dpconvex.algorithms.minimax.base import SaddlePlan, SaddleResult
from dpconvex.algorithms.minimax.registry import plan_saddle
from dpconvex.errors import InvalidDataError
from dpconvex.privacy import PrivacyParams
from dpconvex.problems import MatrixGame, PlayLog, RankOneGame, SimplexSaddle
from dpconvex.randomness import RandomState, source_from

FORMS = ("matrices", "rank_one", "plays")  #: Values of the parameter `form`


def private_game(
    records: Any, *, epsilon: float, delta: float = 1e-6, bound: float = 1.0,
    form: str = "matrices", shape: tuple[int, int] | None = None, algorithm: str = "auto",
    constants: str = "calibrated", random_state: RandomState = None,
) -> SaddleResult:  # fmt: skip
    r"""Find mixed strategies of a zero-sum game whose payoff matrix is the mean over private records.

    The row player picks x to make ``x^T A y`` small, the column player picks y to make it large, where A is the mean of
    the records' matrices. Both strategies are released; the duality gap is the most that either could gain.

    Guarantee: (epsilon, delta)-differential privacy for neighbors that replace one record, n public.

    Parameters
    ----------
    records : array
        ``form="matrices"``: (n, rows, columns), one payoff matrix each. ``"rank_one"``: (n, rows + columns), vectors a
        and b of the matrix ``a b^T``, within [-1, 1]. ``"plays"``: (n, 3), row, column and payoff of an observed play.
    epsilon, delta : float
        The promise.
    bound : float
        Public bound on the magnitude of payoffs, to which they are clipped; 1 for rank one.
    form : {"matrices", "rank_one", "plays"}
        What a record is.
    shape : (rows, columns), optional
        Numbers of rows and columns of the game; needed for ``"rank_one"`` and ``"plays"``.
    algorithm : str
        ``"auto"`` takes the algorithm with the smallest predicted gap, from public facts.
    constants : {"calibrated", "paper"}
        Tight constants, or the paper's (repaired) ones.
    random_state : int or BitSource, optional
        Leave it out: a seed makes the release *not private*, and the certificate says so.

    Returns
    -------
    SaddleResult
        ``x`` (rows,), ``y`` (columns,), ``certificate`` and ``plan``.

    Raises
    ------
    InvalidParameterError, InvalidDataError
        From public facts: parameters, shape, dtype.

    Examples
    --------
    Two lines, for rock, paper, scissors with noisy payoffs:

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> rules = np.array([[0, 1, -1], [-1, 0, 1], [1, -1, 0]])
    >>> payoffs = rng.random((4000, 3, 3)) < (1 + rules) / 2
    >>> from dpconvex import private_game
    >>> result = private_game(2.0 * payoffs - 1, epsilon=2.0)
    >>> bool(np.abs(rules @ result.y).max() < 0.25)
    True
    """
    _validate.choice("form", form, FORMS)
    wanted = "(n, rows, columns)" if form == "matrices" else "(n, columns)"
    if not isinstance(records, np.ndarray):
        found = type(records).__name__
        raise InvalidDataError(f"records are a {found}; a NumPy array {wanted} is needed, as np.asarray makes it")
    if records.ndim != (3 if form == "matrices" else 2) or not len(records):
        raise InvalidDataError(f"records have shape {records.shape}; {wanted} with n >= 1 is needed")
    rows, columns = records.shape[1:] if form == "matrices" else _sides(shape)
    promise = PrivacyParams(epsilon, delta)
    chosen = plan_game(len(records), (rows, columns), promise, bound, form, algorithm, constants)[0]
    chosen.problem.check(records)
    source = source_from(random_state)
    paid = begin(chosen, "private_game", rows + columns, len(records), source)
    order = source.generator().permutation(len(records))  # one-pass methods need an order without information
    result = chosen.run(records[order], source)
    return replace(result, certificate=paid.named(result.certificate))


def plan_game(
    n: int, shape: tuple[int, int], privacy: PrivacyParams, bound: float = 1.0,
    form: str = "matrices", algorithm: str = "auto", constants: str = "calibrated",
) -> tuple[SaddlePlan, ...]:  # fmt: skip
    """Return all plans for `n` records; the first is the plan that `private_game` takes. Sees no data."""
    _validate.choice("form", form, FORMS)
    rows, columns = _sides(shape)
    if form == "rank_one":
        problem: SimplexSaddle = RankOneGame(n, rows, columns)
    else:
        problem = (PlayLog if form == "plays" else MatrixGame)(n, rows, columns, bound)
    return plan_saddle(problem, privacy, algorithm, constants=constants)


def _sides(shape: Any) -> tuple[int, int]:
    try:
        rows, columns = shape
    except (TypeError, ValueError):
        rows = columns = 0
    remedy = "Give the numbers of rows and columns of the game, as in shape=(10, 5)"
    return _validate.integer("shape", rows, at_least=2, remedy=remedy), _validate.integer("shape", columns, at_least=2)
