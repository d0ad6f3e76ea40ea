r"""Accounts of a process: budgets that pay every fit inside a ``with`` block, and counts of the fits outside.

A fit is charged its whole promise, before its data are read, with every budget that is open in the process, whichever
thread it runs in; a budget is a `Budget` file, so all guarantees of files hold. A forked process has the budgets of its
parent; a child that was started anew (joblib's) learns of them from the estimators that its parent pickled, the last of
which counts. Not charged: processes that this one did not start, and functions sent to a worker without an estimator.

Without a budget, fits of the same public form (names or number of columns, number of units, unit) are counted, and a
`RepeatedFitWarning` at the second, fourth, eighth and so on says what they cost together, whatever the data hold.
"""

import os
import tempfile
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from decimal import Decimal
from multiprocessing import parent_process
from pathlib import Path
from typing import Any

from dpconvex._files import AnyPath
from dpconvex._types import final_dataclass
from dpconvex.errors import DpconvexError, DpconvexWarning, InvalidParameterError, RepeatedFitWarning, warn
from dpconvex.privacy.budget import MOST_TEXT, Budget, exact_text
from dpconvex.privacy.certificate import PrivacyCertificate
from dpconvex.privacy.params import PrivacyParams

FILE = "budget_context"  #: File name of a temporary budget, which error messages show.
MOST_FORMS = 1000  #: Number of public forms whose fits are counted; beyond, the form fitted longest ago is forgotten.
_open: list[Budget] = []  #: Budgets of all blocks that this process, or the one it was forked from, is inside of.
_sent: list[Budget] = []
"""Budgets that were open in the parent process when it pickled the last of the estimators that arrived here."""
_since = [time.time_ns(), 0]
"""When the budgets of this process changed last, and those of the parent by the estimators that arrived, nanoseconds.

A model that was stored before a block has no say in it; and an estimator is pickled the same twice, for its hashes.
"""
_counts: OrderedDict[tuple[Any, ...], tuple[int, Decimal, Decimal]] = OrderedDict()  #: Fits, epsilon, delta by form
_lock = threading.Lock()


@contextmanager
def budget_context(
    epsilon: float | None = None, delta: float = 0.0,
    *, unit: str = "record", neighboring: str = "replace_one", budget: Budget | AnyPath | None = None,
) -> Iterator[Budget]:  # fmt: skip
    """Pay every fit inside the block from one budget, before it reads its data.

    Guarantee: everything that the fits inside release is together (epsilon, delta)-differentially private, however each
    was chosen after seeing the others, if they all read the same data. A fit that would exceed the budget raises
    `BudgetExceededError` and has read nothing. A fit with a seed, which keeps no promise, is refused.

    Parameters
    ----------
    epsilon, delta : float
        The budget's totals; to be left out if `budget` is given.
    unit, neighboring : str
        What the fits protect, as in `Budget.create`, ``"user"`` where they are given groups; any other fit is refused.
    budget : Budget or path, optional
        An existing budget file to pay from, instead of totals.

    Yields
    ------
    Budget
        The budget that pays for the fits; ``account()`` says what is left. It ends with the block, unless it was given.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.model_selection import cross_val_score
    >>> from dpconvex import PrivateLogisticRegression, budget_context
    >>> X = np.random.default_rng(0).uniform(-1, 1, (2000, 2))
    >>> y = X[:, 0] > 0
    >>> with budget_context(epsilon=5) as budget:
    ...     scores = cross_val_score(PrivateLogisticRegression(epsilon=0.5, feature_bounds=(-1, 1)), X, y, cv=5)
    ...     print(budget.account().left[0])
    2.5
    """
    if (epsilon is None) == (budget is None):
        remedy = "Give the total, or the file of a budget"
        raise InvalidParameterError("epsilon", epsilon, "must be given, or else budget, not both", remedy)
    with ExitStack() as stack:
        if epsilon is not None:
            folder = Path(tempfile.mkdtemp(prefix="dpconvex-budget-"))
            stack.callback(_remove, folder, os.getpid())
            opened = Budget.create(folder / FILE, epsilon, delta, unit=unit, neighboring=neighboring, data=FILE)
        else:
            opened = Budget.open(budget.path if isinstance(budget, Budget) else Path(budget or ""))
        opened = Budget(opened.path.resolve())
        _change(_open.append, opened)
        stack.callback(_change, _open.remove, opened)
        yield opened


def _change(how: Callable[[Budget], None], budget: Budget) -> None:
    how(budget)
    _since[0] = max(time.time_ns(), _since[0] + 1)


@final_dataclass
class Payment:
    """The lines of budgets that paid for a release; there are none where no budget is open."""

    lines: tuple[tuple[Budget, int], ...] = ()  #: each budget, and the number of its line, counted from 1

    def stated(self, certificate: PrivacyCertificate) -> PrivacyCertificate:
        """Return a copy of a certificate that names these lines."""
        names = "; ".join(f"line {line} of {budget.path.name}" for budget, line in self.lines)
        return replace(certificate, budget=names) if names else certificate

    def note(self, certificate: PrivacyCertificate) -> None:
        """Note the digests of a certificate, and of its model, in the budgets beside the lines that it names."""
        for budget, line in self.lines:
            try:
                budget.released(line, certificate.to_dict()["digest"], certificate.model)
            except (DpconvexError, OSError):
                # The release is already paid for, so a budget that cannot note it does not stop it.
                where = f"{budget.path.name} took no note of the certificate of line {line}"
                warn(DpconvexWarning, f"{where}. Payment and release stand")

    def named(self, certificate: PrivacyCertificate) -> PrivacyCertificate:
        """Return a certificate that names these lines, and note its digest beside the lines."""
        stated = self.stated(certificate)
        self.note(stated)
        return stated


def charge(promise: PrivacyParams, what: str, columns: int | Sequence[str], n: int, *, private: bool) -> Payment:
    """Pay a fit from all open budgets, or count it if none is open; this is the last step before its data are read.

    A fit with a seed promises nothing, as its certificate says. So it is not counted, and no budget may cover it.
    `what` names the estimator in words, `n` is the number of units, `private` says whether the fit has no seed.
    """
    budgets = list(dict.fromkeys((*_open, *_sent)))
    if not private:
        if budgets:
            text = "makes a fit not private, so no budget covers it"
            raise InvalidParameterError("random_state", "a seed", text, "Leave it out inside of budget_context")
        return Payment()
    for budget in budgets:  # all budgets are checked before any of them is charged
        budget.account().require(promise, budget.path.name)
    lines = tuple((budget, budget.spend(promise, what[:MOST_TEXT])) for budget in budgets)
    if not budgets:
        _count(promise, columns, n)
    return Payment(lines)


def _count(promise: PrivacyParams, columns: int | Sequence[str], n: int) -> None:
    form = columns if isinstance(columns, int) else (len(columns), hash(tuple(columns)))
    key = (form, n, str(promise.unit), str(promise.neighboring))
    with _lock:
        count, epsilon, delta = _counts.pop(key, (0, Decimal(0), Decimal(0)))
        found = count + 1, epsilon + Decimal(repr(promise.epsilon)), delta + Decimal(repr(promise.delta))
        _counts[key] = found
        while len(_counts) > MOST_FORMS:
            _counts.popitem(last=False)
    if count & (count + 1) == 0 < count:  # the second fit, the fourth, the eighth, ...
        width = columns if isinstance(columns, int) else len(columns)
        spent = f"epsilon={exact_text(found[1])}" + (f", delta={exact_text(found[2])}" if found[2] else "")
        fits = f"fit number {found[0]} of {width} columns and {n} {promise.unit}s in this process"
        cost = f"If they are the same data, these fits cost {spent} together, not what one certificate says"
        remedy = "Search with PrivateSearchCV, set a total with dpconvex.budget_context, or keep a budget file"
        warn(RepeatedFitWarning, f"{fits}. {cost}. {remedy}")


class CarriesBudgets:
    """Base class of estimators that tell the process in which they are unpickled which budgets are open."""

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickle as usual, together with the paths of the open budgets."""
        make, arguments, *state = super().__reduce_ex__(protocol)
        files = tuple(str(budget.path) for budget in dict.fromkeys((*_open, *_sent)))
        return _arrived, (os.getpid(), files, make, arguments, _since[0]), *state


def _arrived(process: int, files: tuple[str, ...], make: Any, arguments: tuple[Any, ...], when: int = 0) -> Any:
    """Rebuild an estimator; if the parent process sent it last, its budgets become `_sent`: others may have ended."""
    parents = os.getppid(), getattr(parent_process(), "pid", None)  # a fork server is not the process that sends
    if process in parents and when >= _since[1]:
        _sent[:] = [budget for budget in (Budget(Path(file)) for file in files) if budget not in _open]
        _since[:] = max(time.time_ns(), _since[0] + 1), when
    return make(*arguments)


def _remove(folder: Path, process: int) -> None:
    """Delete a temporary budget, but only in the process that made it: a forked process leaves the block too."""
    if os.getpid() == process:
        (folder / FILE).unlink(missing_ok=True)
        folder.rmdir()
