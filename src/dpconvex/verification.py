"""Verify a certificate as a whole: its numbers against one another, and all of it against the plan, made again.

`privacy.verify` does the first from the releases alone. Here the planner that the certificate names is given the public
facts that it states, and what comes out is compared with what it says: every release with its mechanism, event,
sensitivity and lemma, blocks, relation and unit, cost, public facts, assumptions and theorem.
"""

import functools
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from dpconvex import estimators
from dpconvex.algorithms import recipes
from dpconvex.algorithms.erm.registry import plans
from dpconvex.algorithms.queries import evaluation
from dpconvex.errors import CertificateError, InvalidDataError
from dpconvex.estimators._digest import model_digest
from dpconvex.estimators._intervals import MOST_PLANNING
from dpconvex.estimators.base import FittedModel
from dpconvex.estimators.evaluation import PrivateMetrics
from dpconvex.estimators.persistence import CERTIFICATE, MODEL, load_model
from dpconvex.plugins import load
from dpconvex.privacy import Check, PrivacyCertificate, Verification, verify as verify_numbers
from dpconvex.privacy.profiles import limited
from dpconvex.randomness import BitSource, SeededSource, SystemSource

REGISTERED = (estimators, evaluation)  # importing these registers every planner of this package


class UnknownSource(BitSource):
    """A noise source with a name that is not known here, so nothing is known about it."""

    name: ClassVar[str] = "unknown"

    def generator(self) -> np.random.Generator:
        raise AssertionError("plans draw nothing")


SOURCES = {source.name: source for source in (SystemSource, SeededSource)}  # noise sources by name


def verify(
    certificate: PrivacyCertificate | BaseEstimator | PrivateMetrics | str | Path,
    *,
    public_key: str | Path | None = None,
) -> Verification:
    """Recompute what a certificate claims, and compare it with its plan, made again, and with the model beside it.

    Its cost is composed from its releases, priced twice, by this package and by ``dp_accounting``, where both can. Then
    the run is planned again from the public facts it states, and every number and word compared.

    Parameters
    ----------
    certificate : PrivacyCertificate, str, Path, fitted estimator or PrivateMetrics
        The object, its JSON text, the path of its file, or of a folder that holds ``certificate.json``. If the folder
        holds ``model.skops`` too, the certificate must name that model. Or a fitted estimator, or metrics: of their
        own certificate, which must name the model, where they are one.
    public_key : str or Path, optional
        File of an Ed25519 public key: the signature beside the certificate's file must be of its private half
        (`dpconvex sign`).

    Returns
    -------
    Verification
        The result, with one `Check` for each claim; anything malformed is a failed check, not an exception.
    """
    load_plugins()
    asked: Any = getattr(certificate, "best_estimator_", certificate)
    if isinstance(asked, BaseEstimator):
        check_is_fitted(asked)
    if isinstance(asked, FittedModel):
        return verify_numbers(asked.certificate_, planned_again, model=model_digest(asked), public_key=public_key)
    asked = getattr(asked, "certificate_", asked)  # e.g. of synthetic data, a median, metrics
    is_text = isinstance(asked, PrivacyCertificate) or str(asked).lstrip().startswith("{")
    if is_text or not os.path.isdir(str(asked)):
        return verify_numbers(asked, planned_again, public_key=public_key)
    beside, file = (Path(str(asked)) / name for name in (MODEL, CERTIFICATE))
    try:
        kept = load_model(beside) if os.path.lexists(beside) else None
        model = None if kept is None else model_digest(kept)
        found = verify_numbers(file, planned_again, model=model, public_key=public_key)
        inside = dict(found.fields) if kept is None else kept.certificate_.to_dict()
        same = all(inside.get(name) == found.fields.get(name) for name in ("target", "spent", "releases"))
        told = "the certificate in the model file states the same promise, cost and releases"
        return found if kept is None else replace(found, checks=(*found.checks, Check("model file", same, told)))
    except InvalidDataError as error:
        found = verify_numbers(file, planned_again, public_key=public_key)
        return replace(found, checks=(*found.checks, Check("model", False, str(error))))


def load_plugins() -> None:
    """Import the planners and the events of other packages: a certificate may name them."""
    for group in ("algorithms", "reference"):
        load(group)


def planned_again(read: PrivacyCertificate) -> PrivacyCertificate:
    """Make the plan that a certificate names again, and return that plan's certificate; may raise any exception."""
    with np.errstate(all="ignore"):
        return _planned(json.dumps(read.planner, sort_keys=True), read.noise_source.name)


@functools.lru_cache(maxsize=256)
def _planned(recipe: str, source: str) -> PrivacyCertificate:
    kind = SOURCES.get(source, UnknownSource)
    load_plugins()
    with limited(MOST_PLANNING) as work:
        try:
            plan: Any = recipes.again(json.loads(recipe))
            return plan.certificate(kind(0) if kind is SeededSource else kind())
        finally:
            if work.left < 0:  # some planners take another way where a price is refused: nobody else may meet it
                plans.cache_clear()
                raise CertificateError("its inputs would take more computing than a check may")
