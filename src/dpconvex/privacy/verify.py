"""Check a certificate without the data: its numbers against one another, and all it says against a plan made again.

All checks are pure functions of the certificate, so it can be asked of every number whether a change of it would be
found (`unconfirmed`). No algorithm is known here by name: releases are priced by their events, and planning again is
the caller's (`dpconvex.verification`).
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache, cached_property
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from dpconvex import _leverage, _rounding
from dpconvex._files import read_text
from dpconvex.errors import CertificateError, DpconvexError, UnsupportedEventError
from dpconvex.privacy import accounting, ledger as _ledger
from dpconvex.privacy.certificate import COURSE, PrivacyCertificate, current_versions, digest, parse, signature_fault
from dpconvex.privacy.events.base import Event
from dpconvex.privacy.events.basic import PureMechanism
from dpconvex.privacy.events.private_selection import RepeatedSelection
from dpconvex.privacy.ledger import Release
from dpconvex.privacy.profiles import charge, limited

SAME = 1e-9  #: Largest relative difference at which two numbers computed by the same program count as equal.
ROUNDING_SHARE = 1e-4
"""Most that an event's sensitivity may exceed its lemma's, relative to it: the allowance for the samplers' grids."""
SECOND = 1e-3  #: Largest relative difference at which two accountants agree, besides what `GRID` allows.
GRID = 1e-4
"""Largest step of the second accountant's grid: it rounds each pure loss, and the Gaussian one, up to a grid point."""
PLANNED = "planned again"  #: Name of the checks of `plan_checks`.
ABSENT = "nothing"  #: What messages print for a field that one of two compared certificates lacks.
UNREADABLE = (DpconvexError, LookupError, TypeError, ValueError, ArithmeticError, AttributeError)
"""The errors that reading a certificate's fields may raise, as a field of a forged file may hold anything."""
MOST_PRICING, MOST_TRYING = 6e6, 6e6
"""Most computing, about microseconds, that pricing may take, and that the search for unconfirmed numbers may take."""

NOT_CHECKED = (
    "what the planner was given: sizes, bounds, losses, options, constants that a caller declared, values released "
    "between two steps. They are taken as stated; all else is compared with the plan that follows from them",
    "that the program that ran is the one named, that random bits came from the named source, and that the run made "
    "the model beside it: its digest is compared, but whoever writes both files can write any (a signature says who)",
    "that releases on separate blocks of records really read disjoint records",
    "that no other release was made from the same data; a budget file keeps account of several",
    "that the declared bounds and classes were chosen without looking at the data, and that no assumption was removed "
    "that a caller's choice adds to the planned ones: classes='infer' adds one",
    "that lemmas hold and failure probabilities are what they say: proved in the documentation, attacked by the tests",
)  #: What no certificate can show, or this verifier does not recompute; printed by the command line beside the result.

Keys = tuple[str | int, ...]  #: Path of a value in nested fields: names of fields and positions in lists


@dataclass(frozen=True)
class Check:
    """One comparison: what was compared, whether it held, and the numbers."""

    name: str
    passed: bool
    detail: str


@dataclass(frozen=True)
class Verification:
    """Result of `verify`."""

    checks: tuple[Check, ...]  #: the checks, in the order in which they were made
    epsilon: float  #: epsilon of the recomputed cost; NaN if the certificate could not be read
    delta: float  #: delta of the recomputed cost
    unknown: tuple[str, ...] = ()  #: fields that this version does not know; they do not enter any check
    fields: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)  # the certificate's, if readable
    planned: bool = False  #: whether the whole certificate was compared with a plan made again

    @property
    def passed(self) -> bool:
        """Whether every check held."""
        return all(check.passed for check in self.checks)

    @cached_property
    def unconfirmed(self) -> tuple[str, ...]:
        """Numbers that nothing else in the certificate confirms, as ``public.radius``: a change would not be found.

        Numbers of target, cost, releases and public facts are looked at. None is named if a plan made again has all of
        them. Otherwise each is made a thousandth larger and smaller, and is named unless a check fails both times.
        """
        return () if self.planned or not self.fields else unconfirmed(self.fields, pricing())


def verify(
    certificate: PrivacyCertificate | str | Path,
    again: Callable[[PrivacyCertificate], PrivacyCertificate] | None = None,
    *, model: str | None = None, public_key: str | Path | None = None,
) -> Verification:  # fmt: skip
    """Recompute what a certificate claims from its releases, and compare it with the plan if that can be made again.

    Every list of releases that add up is priced twice, by this package and by ``dp_accounting``, where both can.
    ``dpconvex.verify`` calls this function with the planners of this package as `again`, which makes the plan that a
    certificate names anew and returns its certificate (None: nothing is planned again). `model` is the digest of the
    model shown with the certificate, `public_key` the file of the key whose private half must have signed it.

    A malformed certificate, of a later schema, or with an unknown event, gives one failed check that says so.
    """
    try:
        fields = certificate.to_dict() if isinstance(certificate, PrivacyCertificate) else parse(_text(certificate))
        read = PrivacyCertificate.from_dict(fields)
    except CertificateError as error:
        return Verification((Check("well formed", False, str(error)),), float("nan"), float("nan"))
    checks, epsilon, delta = _document_checks(fields, read), float("nan"), float("nan")
    if model is not None:
        named = "no model" if read.model is None else "another model"
        detail = "the certificate names this model" if read.model == model else f"the certificate names {named}"
        checks.append(Check("model", read.model == model, detail))
    if public_key is not None:
        checks.append(_signature(certificate, public_key))
    try:
        price = pricing()
        with limited(MOST_PRICING):
            compared = number_checks(read, price)
            if all(check.name != "cost" for check in compared):
                epsilon, delta = recompute(read, price)
                compared += second_opinions(read, delta)
    except UNREADABLE as error:
        compared = [Check("numbers", False, f"some are not what their names say ({type(error).__name__})")]
    plan = [] if again is None else plan_checks(read, again)
    planned = len(plan) > 1 and all(check.passed for check in plan)
    unknown = tuple(map(dotted, _extra(fields, json.loads(json.dumps(read.to_dict())), ())))
    return Verification((*checks, *compared, *plan), epsilon, delta, unknown, fields, planned)


def _text(certificate: str | Path) -> str:
    if isinstance(certificate, str) and certificate.lstrip().startswith("{"):
        return certificate
    try:
        return read_text(certificate)
    except OSError as error:
        raise CertificateError(f"cannot read certificate {str(certificate)!r}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise CertificateError(f"certificate {str(certificate)!r} is no UTF-8 text") from None


def _signature(certificate: PrivacyCertificate | str | Path, public_key: str | Path) -> Check:
    if isinstance(certificate, PrivacyCertificate) or str(certificate).lstrip().startswith("{"):
        return Check("signature", False, "lies beside a certificate's file, and no file was given")
    fault = signature_fault(Path(certificate), Path(public_key))
    return Check("signature", fault is None, fault or f"made with the private half of {Path(public_key).name}")


def _document_checks(fields: dict[str, Any], read: PrivacyCertificate) -> list[Check]:
    stated, computed = fields.get("digest"), digest(fields)
    source, flag = read.noise_source, fields.get("private")
    unchanged = "content is unchanged" if stated == computed else "content was changed"
    return [
        Check("well formed", True, f"schema version {fields['schema_version']}"),
        Check("digest", stated == computed, unchanged),
        Check("noise is not seeded", source.private, source.name),
        Check("private flag", flag == source.private, f"stated {flag}, noise source says {source.private}"),
        Check("something was released", bool(read.releases), f"{len(read.releases)} releases"),
    ]


def _extra(given: Any, known: Any, path: Keys) -> list[Keys]:
    """Return the paths of the fields in `given` that `known`, the certificate as it was read, lacks."""
    if isinstance(given, Mapping) and isinstance(known, Mapping):
        new = [(*path, key) for key in given if key not in known]
        return new + [p for key in known if key in given for p in _extra(given[key], known[key], (*path, key))]
    if isinstance(given, list | tuple) and isinstance(known, list):
        return [p for k, (a, b) in enumerate(zip(given, known, strict=False)) for p in _extra(a, b, (*path, k))]
    return []


Price = Callable[[Iterable[Release], float], float]  #: Returns the epsilon of all releases at a delta (`total_epsilon`)


def pricing() -> Price:
    """Return a `Price` that remembers the cost of each list of events."""
    once = cache(accounting.spent_epsilon)
    return lambda releases, delta: max(once(tuple(events), delta) for events in _ledger.charged(releases))


def recompute(read: PrivacyCertificate, price: Price) -> tuple[float, float]:
    """Return the releases' epsilon and delta, computed as `certify` does; raise if a release cannot be priced."""
    pure = price(read.releases, 0.0)
    delta = 0.0 if pure <= read.target.epsilon else read.target.delta
    return (pure if delta == 0 else price(read.releases, delta)), delta


def number_checks(read: PrivacyCertificate, price: Price) -> list[Check]:
    """Compare every number that can be compared with the releases or with the promise."""
    try:
        with np.errstate(all="ignore"):  # a forger's numbers may be as large as they like
            epsilon, delta = recompute(read, price)
    except (DpconvexError, ArithmeticError) as error:
        return [Check("cost", False, f"the releases cannot be priced: {error}")]
    return [*_cost_checks(read, epsilon, delta), *_release_checks(read), *_price_checks(read), *_leverage_checks(read)]


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
    no_more = not exact or stated <= certified * (1 + SAME)
    compared = detail if exact else "not compared: another version of the accountants made it"
    within = epsilon <= target.epsilon * (1 + SAME) and delta <= target.delta
    promised = f"epsilon {epsilon:.9g} <= {target.epsilon:.9g}, delta {delta:.3g} <= {target.delta:.3g}"
    accountant = _ledger.accountants(read.releases)
    named = f"stated {read.accountant}, used here {accountant}"
    return [
        *whole,
        Check("spent epsilon", stated >= certified * (1 - SAME), detail),
        Check("spent epsilon is no more than that", no_more, compared),
        Check("spent delta", stated_delta == delta, f"stated {stated_delta:.9g}, recomputed {delta:.9g}"),
        Check("within the promise", within, promised),
        Check("accountant", read.accountant == accountant or not exact, named),
    ]


def _release_checks(read: PrivacyCertificate) -> list[Check]:
    checks, target = [], read.target
    for release in read.releases:
        stated = release.sensitivity
        same = stated.neighboring == target.neighboring and stated.unit == target.unit
        same &= release.event.neighboring in (None, target.neighboring)
        checks.append(Check(f"relation of {release.label!r}", same, f"{target.neighboring}, {target.unit}"))
        if (claimed := release.event.claimed_sensitivity) is not None:
            holds = stated.value <= claimed <= stated.value * (1 + ROUNDING_SHARE)
            detail = f"mechanism covers {claimed:.9g}, lemma needs {stated.value:.9g}"
            checks.append(Check(f"sensitivity of {release.label!r}", holds, detail))
    return checks


def _price_checks(read: PrivacyCertificate) -> list[Check]:
    """Compare pure epsilons computed in closed form with the maximum that a search finds."""
    checks = []
    for release in read.releases:
        if (found := release.event.searched_epsilon) is not None:
            priced = _rounding.float_up(release.event.pure_epsilon or Fraction(0))
            holds = found * (1 - SAME) <= priced <= found * (1 + SECOND)
            checks.append(Check(f"price of {release.label!r}", holds, f"{priced:.9g}, largest found {found:.9g}"))
    return checks


def _leverage_checks(read: PrivacyCertificate) -> list[Check]:
    """Recompute ``feature_l2`` (a record's largest length) and tau, which follows from it, from the coordinates F."""
    checks = []
    for name, facts, events in _factored(read):
        charge(sum(abs(block["size"]) for block in facts["blocks"]))
        leaves = [leaf for event in events for leaf in _leaves(event)]
        taus = {tau for leaf in leaves if (tau := getattr(leaf, "tau", None)) is not None}
        if not taus and any(isinstance(leaf, PureMechanism) for leaf in leaves):
            taus = {None}  # the event of a plan inside that goes on from its releases is the worst of its promise
        wrong = _leverage.faults(facts, *taus) if len(taus) == 1 else "there must be one tau"
        checks.append(Check(name, not wrong, wrong or "feature_l2 and tau follow from the coordinates F"))
    return checks


def _factored(read: PrivacyCertificate) -> list[tuple[str, Mapping[str, Any], tuple[Event, ...]]]:
    """Return the public facts that state coordinates F, of the plan and of plans inside it, with that plan's events."""
    events, public = tuple(release.event for release in read.releases), read.public
    inside = [("target_model", public["target_model"])] if "target_model" in public else []
    if isinstance(candidates := public.get("candidates"), list | tuple):  # elsewhere it is a number
        inside += [(f"candidates[{k}]", each) for k, each in enumerate(candidates)]
    runs = [run for event in events for run in (event.inner if isinstance(event, RepeatedSelection) else (event,))]
    found = [("leverage", public, events)]  # events of plans inside come first, in their order
    for (name, each), run in zip_longest(inside, runs[: len(inside)]):
        found.append((f"leverage of {name}", each["constants"], () if run is None else (run,)))
    return [each for each in found if "factor" in each[1]]


def _leaves(event: Event) -> list[Event]:
    """Return the events that an event is made of, and that are made of no others; or the event itself."""
    return [leaf for each in event.inner for leaf in _leaves(each)] if event.inner else [event]


def plan_checks(read: PrivacyCertificate, again: Callable[[PrivacyCertificate], PrivacyCertificate]) -> list[Check]:
    """Compare all but the planner's inputs with the certificate that `again` returns; it may raise any exception."""
    here, made = current_versions(), read.versions.get("dpconvex")
    # A forger may also forge the version: another version may explain a failed check, but does not excuse it.
    same, differs = made == here["dpconvex"], f". Made by dpconvex {made}, whose plans may differ"
    other = "" if same else f"{differs}: verify with that version"
    if read.planner is None:
        return [Check(PLANNED, False, "the certificate lacks the planner's inputs, or they cannot be stored" + other)]
    try:
        planned = again(read)
    except Exception as error:  # any exception that a forger's inputs cause in a planner is a failed check
        return [Check(PLANNED, False, f"there is no such plan: {type(error).__name__}: {str(error)[:200]}{other}")]
    others = sorted(name for name, version in here.items() if read.versions.get(name) != version)
    stated, expected = (json.loads(json.dumps(each.to_dict())) for each in (read, planned))
    for each in (stated, expected):
        each["method"] = {name: each[name] for name in ("algorithm", "constants", "theorem")}
        each["assumptions"] = [text for text in each["assumptions"] if text in expected["assumptions"]]
    checks = []  # of a noise source that is not known here nothing is known, so it is no planned one
    for name in ("target", "spent", "releases", "public", "method", "assumptions", "noise_source"):
        slack = SECOND if {"numpy", "scipy", "dp-accounting"} & {*others} and name != "target" else SAME
        found = next(_differences(stated[name], expected[name], (name,), slack), None)
        if name == "spent" and stated[name]["epsilon"] < expected[name]["epsilon"] * (1 - SAME):
            found = ("spent", "epsilon"), stated[name]["epsilon"], expected[name]["epsilon"]  # no version excuses less
        detail = "as planned"
        if found is not None:
            where, is_now, was = found
            detail = f"{dotted(where)} is {_brief(is_now)}, planned {_brief(was)}"
            detail += other or (f". Made with other versions of {', '.join(others)}" if others else "")
        checks.append(Check(f"{PLANNED}: {name.replace('_', ' ')}", found is None, detail))
    return checks


def _brief(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}..."


def _differences(stated: Any, planned: Any, path: Keys, slack: float) -> Iterator[tuple[Keys, Any, Any]]:
    """Yield where two JSON values differ: floats by more than `slack`, relatively; others in any way, but 1 and 1.0."""
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
    elif stated != planned or isinstance(stated, bool) != isinstance(planned, bool):
        yield path, stated, planned


def numbers(value: Any, path: Keys = ()) -> Iterator[tuple[Keys, float]]:
    """Yield every number of a JSON-ready value with its path; booleans are no numbers."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from numbers(item, (*path, key))
    elif isinstance(value, list | tuple):
        for k, item in enumerate(value):
            yield from numbers(item, (*path, k))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield path, value


def dotted(path: Keys) -> str:
    """Return a path as text, ``releases[0].event.scale``."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path).lstrip(".")


def unconfirmed(fields: Mapping[str, Any], price: Price) -> tuple[str, ...]:
    """As `Verification.unconfirmed`; numbers left untried when `MOST_TRYING` is used up are named as well."""
    # The digest confirms no number: whoever changes a number can compute the digest again.
    stated = {key: fields[key] for key in ("target", "spent", "releases", "public")}
    every, named, read = list(numbers(stated)), list[str](), PrivacyCertificate.from_dict(dict(fields))
    with limited(MOST_TRYING) as work:
        for path, value in every:
            try:
                charge(200 + (10 if path[0] == "public" else 100) * len(every))
                found = _found(read, fields, path, value, price) and work.left >= 0
            except UnsupportedEventError:
                found = False
            if not found:
                named.append(dotted(path))
    return tuple(named)


def _found(read: PrivacyCertificate, fields: Mapping[str, Any], path: Keys, value: float, price: Price) -> bool:
    moved: tuple[float, ...] = (value + 1, value - 1) if isinstance(value, int) else (value * 1.001, value * 0.999)
    if value == 0:
        moved = (1, -1) if isinstance(value, int) else (1e-3, -1e-3)
    if path[0] == "public" and path[1] != COURSE and not _factored(read):
        return False  # no check reads this number
    return all(_refused(fields, path, other, price) for other in moved)


def _refused(fields: Mapping[str, Any], path: Keys, new: float, price: Price) -> bool:
    try:
        checks = number_checks(PrivacyCertificate.from_dict(_with(fields, path, new)), price)
    except UNREADABLE:
        return True
    return not all(check.passed for check in checks)


def _with(value: Any, path: Keys, new: float) -> Any:
    """Return a copy of nested fields in which the entry at `path` is `new`."""
    if not path:
        return new
    copy = list(value) if isinstance(value, list | tuple) else dict(value)
    copy[path[0]] = _with(value[path[0]], path[1:], new)  # pyright: ignore[reportArgumentType, reportCallIssue]
    return copy


def second_opinions(read: PrivacyCertificate, delta: float) -> list[Check]:
    """Price every list of releases whose costs add up with another library's accountant, where it can price them."""
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
    if (second := accounting.second_opinion(events, delta)) is None:
        return Check("one accountant", True, f"{name}: {own:.6g}; no other one prices such releases")
    other, epsilon = second
    detail = f"{name}: {own:.6g}, {other}: {epsilon:.6g}"
    pure = sum(times for event, times in events if event.parts is not None and event.parts.pure)
    if _has_finer_profile(events, name) and epsilon > own * (1 + SECOND):
        confirms = epsilon <= promised * (1 + SECOND)
        return Check("second accountant" if confirms else "one accountant", True, f"{detail}, of a coarser bound")
    # The second accountant prices pure events at a delta of 1e-12, where many of them cost less than their sum.
    agree = epsilon <= own * (1 + SECOND) + GRID * (1 + pure) and (name == "exact sum" or own <= epsilon * (1 + SECOND))
    return Check("two accountants agree", agree, detail)


def _has_finer_profile(events: tuple[accounting.Counted, ...], name: str) -> bool:
    """Whether our own price may be below the price of the events' `parts`, which is all the second accountant sees."""
    if (event := accounting.impure(events)) is not None and not event.finest:
        return True
    return name == "zCDP" and any(event.parts is not None and event.parts.pure for event, _ in events)
