"""Checks of a certificate: of its numbers against one another, and of all it says against a plan made again.

All are pure functions of the certificate, so it can be asked of every number whether a change of it would be found
(`unconfirmed`). No algorithm is known here by name; planning again is the caller's.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpconvex import _rounding
from dpconvex.errors import DpconvexError, UnsupportedEventError
from dpconvex.privacy import accounting, ledger as _ledger
from dpconvex.privacy.certificate import COURSE, PrivacyCertificate, current_versions
from dpconvex.privacy.events.basic import GaussianNoise
from dpconvex.privacy.events.objective import PureObjectivePerturbation
from dpconvex.privacy.events.subsampled import PoissonSteps
from dpconvex.privacy.ledger import Release
from dpconvex.privacy.profiles import charge, limited


@dataclass(frozen=True)
class Check:
    """One comparison.

    Parameters
    ----------
    name : str
        What was compared.
    passed : bool
        Whether it held.
    detail : str
        The numbers.
    """

    name: str
    passed: bool
    detail: str


SAME = 1e-9
"""Relative difference up to which two numbers computed by the same program count as equal."""

ROUNDING_SHARE = 1e-4
"""Most that an event's sensitivity may exceed its lemma's, relative to it: the allowance for the samplers' grids."""

SECOND = 1e-3
"""Relative difference up to which two accountants agree, beside what rounding to a grid of losses adds."""

GRID = 1e-4
"""Largest step of the second accountant's grid of losses; it rounds every pure loss up to it, and the Gaussian one."""

PLANNED = "planned again"
"""Name of what `plan_checks` compares."""

ABSENT = "nothing"
"""Stands for a field that one side lacks, in words."""

UNREADABLE = (DpconvexError, LookupError, TypeError, ValueError, ArithmeticError, AttributeError)
"""What reading a certificate's fields may raise: each may be anything."""

MOST_TRYING = 6e6
"""Computing, about microseconds, that goes into finding numbers that nothing confirms."""

Path = tuple[str | int, ...]


class Pricing:
    """Costs of lists of events, each computed once."""

    def __init__(self) -> None:
        self._known: dict[Any, float] = {}

    def epsilon(self, releases: tuple[Release, ...], delta: float) -> float:
        """Epsilon of all releases together at `delta`, as `ledger.total_epsilon`."""
        return max(self._once(tuple(events), delta) for events in _ledger.charged(releases))

    def _once(self, events: tuple[accounting.Counted, ...], delta: float) -> float:
        key = (events, delta)
        if key not in self._known:
            self._known[key] = accounting.spent_epsilon(events, delta)
        return self._known[key]


def recompute(read: PrivacyCertificate, pricing: Pricing) -> tuple[float, float]:
    """Return epsilon and delta that the releases cost, as `certify` computes them.

    Raises
    ------
    DpconvexError, ArithmeticError
        If a release cannot be priced.
    """
    pure = pricing.epsilon(read.releases, 0.0)
    delta = 0.0 if pure <= read.target.epsilon else read.target.delta
    return (pure if delta == 0 else pricing.epsilon(read.releases, delta)), delta


def number_checks(read: PrivacyCertificate, pricing: Pricing) -> list[Check]:
    """Compare every number that can be compared with the releases or with the promise."""
    try:
        with np.errstate(all="ignore"):  # a forger's numbers may be as large as they like
            epsilon, delta = recompute(read, pricing)
    except (DpconvexError, ArithmeticError) as error:
        return [Check("cost", False, f"the releases cannot be priced: {error}")]
    return [*_cost_checks(read, epsilon, delta), *_release_checks(read), *price_checks(read)]


def _cost_checks(read: PrivacyCertificate, epsilon: float, delta: float) -> list[Check]:
    target, stated, stated_delta, whole = read.target, read.spent_epsilon, read.spent_delta, []
    if COURSE in read.public:  # other courses of the run may cost more than this one
        holds = (stated, stated_delta) == (target.epsilon, target.delta)
        whole = [Check("all of the promise is spent", holds, f"stated {stated:.9g}, promised {target.epsilon:.9g}")]
        stated, stated_delta = (float(read.public[COURSE][name]) for name in ("epsilon", "delta"))
    detail = f"stated {stated:.9g}, recomputed {epsilon:.9g}"
    certified = min(epsilon, target.epsilon) if delta else epsilon  # the profile at the target is the finer statement
    same = {name: read.versions.get(name) == version for name, version in current_versions().items()}
    exact = all(same[name] for name in ("dpconvex", "scipy", "dp-accounting"))
    within = epsilon <= target.epsilon * (1 + SAME) and delta <= target.delta
    return [
        *whole,
        Check("spent epsilon", stated >= certified * (1 - SAME), detail),
        Check(
            "spent epsilon is no more than that",
            not exact or stated <= certified * (1 + SAME),
            detail if exact else "not compared: another version of the accountants made it",
        ),
        Check("spent delta", stated_delta == delta, f"stated {stated_delta:.9g}, recomputed {delta:.9g}"),
        Check(
            "within the promise",
            within,
            f"epsilon {epsilon:.9g} <= {target.epsilon:.9g}, delta {delta:.3g} <= {target.delta:.3g}",
        ),
        Check(
            "accountant",
            read.accountant == _ledger.accountants(read.releases) or not exact,
            f"stated {read.accountant}, used here {_ledger.accountants(read.releases)}",
        ),
    ]


def _release_checks(read: PrivacyCertificate) -> list[Check]:
    checks, target = [], read.target
    for release in read.releases:
        stated = release.sensitivity
        same = stated.neighboring == target.neighboring and stated.unit == target.unit
        checks.append(Check(f"relation of {release.label!r}", same, f"{target.neighboring}, {target.unit}"))
        claimed = release.event.claimed_sensitivity
        if claimed is not None:
            holds = stated.value <= claimed <= stated.value * (1 + ROUNDING_SHARE)
            detail = f"mechanism covers {claimed:.9g}, lemma needs {stated.value:.9g}"
            checks.append(Check(f"sensitivity of {release.label!r}", holds, detail))
    return checks


def price_checks(read: PrivacyCertificate) -> list[Check]:
    """Compare closed forms of prices with what they are the closed forms of."""
    return [
        _maximised(release.label, release.event)
        for release in read.releases
        if isinstance(release.event, PureObjectivePerturbation) and release.event.rule == "logistic"
    ]


def _maximised(label: str, event: PureObjectivePerturbation) -> Check:
    """Compare the closed form of the logistic rule with the maximum over a grid of slopes."""
    e, cap, r, slopes = _rounding.float_up(event.noise_epsilon), event.curvature, event.rank, np.linspace(0, 1, 2001)
    bends = cap * slopes * (1 - cap * slopes)
    largest = float(np.max(e / 2 * (1 + slopes) + r * np.log1p(event.tau / r * bends)))
    priced = event.pure_epsilon
    holds = largest * (1 - SAME) <= priced <= largest * (1 + SECOND)
    return Check(f"price of {label!r}", holds, f"{_rounding.float_up(priced):.9g}, largest found {largest:.9g}")


def plan_checks(read: PrivacyCertificate, again: Callable[[PrivacyCertificate], PrivacyCertificate]) -> list[Check]:
    """Compare everything but the inputs of the planner with the certificate of the plan, made again from them.

    Parameters
    ----------
    read : PrivacyCertificate
    again : callable
        Returns that certificate; may raise anything.
    """
    here, made = current_versions(), read.versions.get("dpconvex")
    # Whoever forges a certificate may also forge its version, so another version is a reason and no excuse.
    other = (
        ""
        if made == here["dpconvex"]
        else f". Made by dpconvex {made}, whose plans may differ: verify with that version"
    )
    if read.planner is None:
        return [Check(PLANNED, False, f"the certificate lacks the planner's inputs, or they cannot be stored{other}")]
    try:
        planned = again(read)
    except Exception as error:  # whatever a planner makes of a forger's inputs, it is a failed check
        return [Check(PLANNED, False, f"there is no such plan: {type(error).__name__}: {str(error)[:200]}{other}")]
    others = sorted(name for name, version in here.items() if read.versions.get(name) != version)
    slack = SECOND if others else SAME
    stated, expected = (json.loads(json.dumps(each.to_dict())) for each in (read, planned))
    for each in (stated, expected):
        each["method"] = {name: each[name] for name in ("algorithm", "constants", "theorem")}
        each["assumptions"] = [text for text in each["assumptions"] if text in expected["assumptions"]]
    # Of a source that is not known here, nothing follows.
    known = ("noise_source",) if planned.noise_source.name == read.noise_source.name else ()
    checks = []
    for name in ("target", "spent", "releases", "public", "method", "assumptions", *known):
        found = next(_differences(stated[name], expected[name], (name,), slack), None)
        detail = (
            "as planned" if found is None else f"{dotted(found[0])} is {_brief(found[1])}, planned {_brief(found[2])}"
        )
        if found is not None and others:
            detail += other or f". Made with other versions of {', '.join(others)}"
        checks.append(Check(f"{PLANNED}: {name.replace('_', ' ')}", found is None, detail))
    return checks


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}..."


def _differences(stated: Any, planned: Any, path: Path, slack: float) -> Iterator[tuple[Path, Any, Any]]:
    """Yield where two JSON values differ: floats by more than `slack`, relative, all else at all."""
    if isinstance(stated, dict) and isinstance(planned, dict):
        for key in {**planned, **stated}:
            yield from _differences(stated.get(key, ABSENT), planned.get(key, ABSENT), (*path, key), slack)
    elif isinstance(stated, list) and isinstance(planned, list) and len(stated) == len(planned):
        for k, (a, b) in enumerate(zip(stated, planned, strict=True)):
            yield from _differences(a, b, (*path, k), slack)
    elif isinstance(stated, list) and isinstance(planned, list):
        yield path, f"{len(stated)} entries", f"{len(planned)} entries"
    elif type(stated) is float and type(planned) is float:
        if not abs(stated - planned) <= slack * abs(planned):
            yield path, stated, planned
    elif type(stated) is not type(planned) or stated != planned:
        yield path, stated, planned


def numbers(value: Any, path: Path = ()) -> Iterator[tuple[Path, float]]:
    """Yield every number of a JSON-ready value with its path; booleans are no numbers."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from numbers(item, (*path, key))
    elif isinstance(value, list | tuple):
        for k, item in enumerate(value):
            yield from numbers(item, (*path, k))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, value


def dotted(path: Path) -> str:
    """Return a path as text, ``releases[0].event.scale``."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path).lstrip(".")


def unconfirmed(fields: Mapping[str, Any], pricing: Pricing) -> tuple[str, ...]:
    """Return the paths of all numbers that could be a thousandth larger or smaller without a check of them failing.

    A certificate whose other numbers were changed fails. The digest is left aside: whoever changes a number can
    compute it again. Trying stops after `MOST_TRYING` of computing; what was not tried by then is named as well.
    """
    stated = {key: fields[key] for key in ("target", "spent", "releases", "public")}
    every, named, read = list(numbers(stated)), list[str](), PrivacyCertificate.from_dict(dict(fields))
    with limited(MOST_TRYING) as work:
        for path, value in every:
            try:
                charge(200 + (10 if path[0] == "public" else 100) * len(every))
                found = _found(read, fields, path, value, pricing) and work.left >= 0
            except UnsupportedEventError:
                found = False
            if not found:
                named.append(dotted(path))
    return tuple(named)


def _found(read: PrivacyCertificate, fields: Mapping[str, Any], path: Path, value: float, pricing: Pricing) -> bool:
    moved: tuple[float, ...] = (value + 1, value - 1) if isinstance(value, int) else (value * 1.001, value * 0.999)
    if value == 0:
        moved = (1, -1) if isinstance(value, int) else (1e-3, -1e-3)
    if path[0] == "public" and path[1] != COURSE:
        return False  # no check reads it
    return all(_refused(fields, path, other, pricing) for other in moved)


def _refused(fields: Mapping[str, Any], path: Path, new: float, pricing: Pricing) -> bool:
    try:
        checks = number_checks(PrivacyCertificate.from_dict(_with(fields, path, new)), pricing)
    except UNREADABLE:
        return True
    return not all(check.passed for check in checks)


def _with(value: Any, path: Path, new: float) -> Any:
    """Return a copy of nested fields with one entry changed."""
    if not path:
        return new
    copy = list(value) if isinstance(value, list | tuple) else dict(value)
    copy[path[0]] = _with(value[path[0]], path[1:], new)  # pyright: ignore[reportArgumentType, reportCallIssue]
    return copy


def second_opinions(read: PrivacyCertificate, delta: float) -> list[Check]:
    """Price every list of releases that add up with an accountant of another library, where it can."""
    checks: dict[tuple[accounting.Counted, ...], Check] = {}
    for events in map(tuple, _ledger.charged(read.releases)):
        if events not in checks:
            try:
                charge(10 * len(events))
                checks[events] = _second_opinion(events, delta, read.target.epsilon)
            except UnsupportedEventError:
                checks[events] = Check("one accountant", True, "the second would take too much computing from here on")
                break
    return list(dict.fromkeys(checks.values()))


def _second_opinion(events: tuple[accounting.Counted, ...], delta: float, promised: float) -> Check:
    own, name = accounting.spent_epsilon(events, delta), accounting.accountant_name(events)
    second = accounting.second_opinion(events, delta)
    if second is None:
        return Check("one accountant", True, f"{name}: {own:.6g}; no other one prices such releases")
    other, epsilon = second
    detail = f"{name}: {own:.6g}, {other}: {epsilon:.6g}"
    pure = sum(times for event, times in events if event.parts is not None and event.parts.pure)
    if _has_finer_profile(events, name) and epsilon > own * (1 + SECOND):
        confirms = epsilon <= promised * (1 + SECOND)
        return Check("second accountant" if confirms else "one accountant", True, f"{detail}, of a coarser bound")
    # Many pure events cost less than their sum at a delta of 1e-12, which is all that the second one can say of them.
    agree = epsilon <= own * (1 + SECOND) + GRID * (1 + pure) and (name == "exact sum" or own <= epsilon * (1 + SECOND))
    return Check("two accountants agree", agree, detail)


def _has_finer_profile(events: tuple[accounting.Counted, ...], name: str) -> bool:
    """Whether our own price may be below that of the parts, all that the second accountant knows of these events."""
    if len(events) == 1 and events[0][1] == 1:
        return events[0][0].pure_epsilon is None and not isinstance(events[0][0], GaussianNoise | PoissonSteps)
    return name == "zCDP" and any(event.parts is not None and event.parts.pure for event, _ in events)
