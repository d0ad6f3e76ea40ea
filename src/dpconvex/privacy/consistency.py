"""Checks of a certificate's numbers against one another: cost, noise against sensitivity, public facts against noise.

All are pure functions of the certificate, so it can be asked of every number whether a change of it would be found
(`unconfirmed`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpconvex import _rounding
from dpconvex.errors import DpconvexError, UnsupportedEventError
from dpconvex.privacy import accounting, ledger as _ledger
from dpconvex.privacy.certificate import COURSE, PrivacyCertificate, current_versions
from dpconvex.privacy.events import GaussianNoise
from dpconvex.privacy.ledger import Release
from dpconvex.privacy.objective_events import GaussianObjectivePerturbation, PureObjectivePerturbation
from dpconvex.privacy.params import Unit
from dpconvex.privacy.profiles import charge, limited
from dpconvex.privacy.sampled_steps import PoissonSteps
from dpconvex.privacy.selection_events import RepeatedSelection, WholeRun


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

COPIES: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "clipped_gradient": {"steps": ("times",)},
    "clipped_mean": {"sigma": ("event.sigma",)},
    "coordinate_median": {"dim": ("times",), "epsilon_of_a_coordinate": ("event.epsilon",)},
    "frank_wolfe": {"steps": ("event.draws",)},
    "gaussian_mirror_descent": {"sigma": ("event.sigma",), "iterations": ("times",)},
    "geometric_median": {"radius_epsilon": ("event.epsilon",), "steps": ("times",)},
    "heavy_tailed": {"phases.*.noise_scale.*": ("event.scale", "event.sigma")},
    "multiplicative_weights": {"sigma": ("event.sigma",), "rounds": ("event.draws",)},
    "mwem": {"sigma": ("event.sigma",), "rounds": ("event.draws",)},
    "noisy_gradient": {"steps": ("all.times", "event.steps"), "rate": ("event.rate",)},
    "origin_descent": {"steps": ("times",)},
    "query_noise": {"sigma": ("event.sigma",)},
    "sgda": {"sigma": ("event.sigma",)},
    "sufficient_statistics": {"rounds.*": ("times",)},
}
"""Public constants that a plan copies out of its releases, by algorithm: each must be such a number of some release.

A single ``sigma`` must be that of every release that has one; ``all.times`` are those of all releases
together. Constants that releases hold only rescaled (deviations inside a guarded mean) are not listed: they are named
as unconfirmed.
"""

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
    return [*_cost_checks(read, epsilon, delta), *_release_checks(read), *public_checks(read)]


def _cost_checks(read: PrivacyCertificate, epsilon: float, delta: float) -> list[Check]:
    target, stated, stated_delta, whole = read.target, read.spent_epsilon, read.spent_delta, []
    if {COURSE, "recentred"} & read.public.keys():  # other courses of the run may cost more than this one
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


def public_checks(read: PrivacyCertificate) -> list[Check]:
    """Compare the public facts with the releases, as far as these follow from them."""
    checks = _unit(read)
    for release in read.releases:
        if isinstance(release.event, PureObjectivePerturbation | GaussianObjectivePerturbation):
            checks.append(_curvature(release, read))
        if isinstance(release.event, PureObjectivePerturbation) and release.event.rule == "logistic":
            checks.append(_maximised(release.label, release.event))
    if read.algorithm == "output_perturbation" and len(read.releases) == 1 and not read.public.get("tilt"):
        checks += _minimiser(read.releases[0], read.public)
    if read.algorithm == "private_search":
        checks += _candidates(read)
    copied = COPIES.get(read.algorithm, {})
    values = {field for fields in copied.values() for field in fields}
    found: dict[str, set[Any]] = {name: {_at(release.to_dict(), name) for release in read.releases} for name in values}
    found["all.times"] = {sum(release.times for release in read.releases)}
    for path, value in numbers(dict(read.public)) if copied else ():
        pattern = ".".join("*" if isinstance(key, int) else key for key in path)
        if pattern in copied:
            one_sigma = copied[pattern] == ("event.sigma",) and "*" not in pattern
            holds = any(value in found[name] for name in copied[pattern])
            holds = holds and (not one_sigma or found["event.sigma"] <= {value, None})
            detail = f"{value!r} {'is' if holds else 'is not'} a {' or '.join(copied[pattern])} of a release"
            checks.append(Check(f"public {dotted(path)}", holds, detail))
    return checks


def _unit(read: PrivacyCertificate) -> list[Check]:
    """Compare the unit with the public facts of a linear model: those of a plan for users count them."""
    public, user = read.public, read.target.unit == Unit.USER
    if "loss" not in public or "n" not in public:
        return []
    holds = user == ("users" in public) and public.get("users", public["n"]) == public["n"]
    return [Check("unit", holds, f"{read.target.unit}, n={public['n']}, users={public.get('users', 'not counted')}")]


def _curvature(release: Release, read: PrivacyCertificate) -> Check:
    """Compare an objective-perturbation event with the sizes and the regularisation the certificate states."""
    event: Any = release.event
    public, name = read.public, f"curvature of {release.label!r}"
    try:
        least = float(public["feature_l2"]) ** 2 / (float(public["n"]) * float(public["l2"]))
        law, dim = str(public.get("curvature_law", public["loss"])), int(public["outputs"]) * int(public["dim"])
        cap = float(public.get("slope_cap", 1.0))
    except (KeyError, TypeError, ValueError, ArithmeticError):
        return Check(name, False, "the certificate lacks n, l2, feature_l2, outputs, dim or curvature_law")
    # A cap leaves curvature at the largest slope, so no other rule knows what it costs.
    rule_fits = law == "logistic" and event.curvature == cap if event.rule == "logistic" else cap == 1
    if read.target.unit == Unit.USER:  # a user's Hessian may have any rank, and there is no union over its vertices
        rule_fits = event.rule == "free" or (isinstance(event, PureObjectivePerturbation) and event.rank >= dim)
    sizes = min(public["feature_l2"], public["n"], public["l2"]) > 0
    holds = sizes and least * (1 - SAME) <= event.tau <= least * (1 + SAME) and rule_fits
    return Check(name, holds, f"tau {event.tau:.9g} for {least:.9g}; rule {event.rule}, curvature law {law}")


def _maximised(label: str, event: PureObjectivePerturbation) -> Check:
    """Compare the closed form of the logistic rule with the maximum over a grid of slopes."""
    e, cap, r, slopes = _rounding.float_up(event.noise_epsilon), event.curvature, event.rank, np.linspace(0, 1, 2001)
    bends = cap * slopes * (1 - cap * slopes)
    largest = float(np.max(e / 2 * (1 + slopes) + r * np.log1p(event.tau / r * bends)))
    priced = event.pure_epsilon
    holds = largest * (1 - SAME) <= priced <= largest * (1 + SECOND)
    return Check(f"price of {label!r}", holds, f"{_rounding.float_up(priced):.9g}, largest found {largest:.9g}")


def _candidates(read: PrivacyCertificate) -> list[Check]:
    """Compare the candidates of a search with their fits: budgets, and constants as in a certificate of one fit."""
    fits: list[Any] = [release.event for release in read.releases if isinstance(release.event, WholeRun)]
    for release in read.releases:
        if isinstance(release.event, RepeatedSelection):
            fits += [event for run in release.event.runs if isinstance(run, WholeRun) for _, _, event in run.uses[:1]]
    stated = read.public.get("candidates")
    if not isinstance(stated, list | tuple) or len(stated) != len(fits):
        return [Check("candidates", False, f"{len(fits)} fits, and not a list of as many candidates")]
    try:
        each, moved = (
            float(read.public["score_bound"]) / int(read.public["held_out"]),
            read.releases[-1].sensitivity.value,
        )
        holds = each <= moved <= each * (1 + ROUNDING_SHARE)
        checks = [
            Check("sensitivity of scores", holds, f"one of {read.public['held_out']} moves a mean by {moved:.9g}")
        ]
    except (KeyError, TypeError, ValueError, ArithmeticError):
        return [Check("sensitivity of scores", False, "the certificate lacks score_bound or held_out")]
    for k, (candidate, fit) in enumerate(zip(stated, fits, strict=True), 1):
        try:
            epsilon, delta = float(candidate["epsilon"]), float(candidate["delta"])
            spent = fit.delta(epsilon * (1 + SAME))
            holds = spent <= delta and (delta > 0 or float(fit.pure_epsilon) >= epsilon * (1 - ROUNDING_SHARE))
            checks.append(Check(f"budget of candidate {k}", holds, f"epsilon {epsilon:.9g}, delta {delta:.3g}"))
            own: dict[Any, Any] = {event: event.claimed_sensitivity or 1.0 for _, _, event in fit.uses}
            needed = {event: replace(read.releases[0].sensitivity, value=value) for event, value in own.items()}
            alone = tuple(Release(f"candidate {k}", "", event, needed[event]) for event in own)
            checks += public_checks(replace(read, algorithm="", public=candidate["constants"], releases=alone))
        except (DpconvexError, KeyError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
            return [*checks, Check(f"candidate {k}", False, f"cannot be read: {type(error).__name__}")]
    return checks


def _minimiser(release: Release, public: Mapping[str, Any]) -> list[Check]:
    """Compare the sensitivity of output perturbation with that of the minimiser and twice the solver's radius."""
    try:
        needed = float(public["minimiser_sensitivity"]) + 2 * float(public["solver_radius"])
    except (KeyError, TypeError, ValueError):
        return [Check("solver's radius", False, "the certificate lacks minimiser_sensitivity or solver_radius")]
    value = release.sensitivity.value
    holds = needed * (1 - SAME) <= value <= needed * (1 + ROUNDING_SHARE)
    return [Check("solver's radius", holds, f"sensitivity {value:.9g} for {needed:.9g}")]


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


def _at(value: Any, name: str) -> Any:
    """Return the entry of nested mappings at a dotted name, None if there is none."""
    for key in name.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


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
    return all(_refused(read, fields, path, other, pricing) for other in moved)


def _refused(read: PrivacyCertificate, fields: Mapping[str, Any], path: Path, new: float, pricing: Pricing) -> bool:
    try:
        if path[0] == "public" and path[1] != COURSE:
            checks = public_checks(replace(read, public=_with(read.public, path[1:], new)))
        else:
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
