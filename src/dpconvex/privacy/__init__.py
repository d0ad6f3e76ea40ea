"""Promises, sensitivities, the ledger, certificates. What the mathematics does not know and the faces do not touch."""

from dpconvex.privacy.budget import Budget
from dpconvex.privacy.certificate import Assumption, NoiseSource, PrivacyCertificate, certify
from dpconvex.privacy.context import CarriesBudgets, budget_context, charge
from dpconvex.privacy.events import Event, GaussianNoise, NormExponentialNoise, PureMechanism
from dpconvex.privacy.failure_events import BoundedLaplaceNoise, FailureProbability
from dpconvex.privacy.gaussian_cover import BoundedRange
from dpconvex.privacy.guarded_events import GuardedGaussianNoise
from dpconvex.privacy.ledger import Ledger, Release
from dpconvex.privacy.objective_events import GaussianObjectivePerturbation, PureObjectivePerturbation
from dpconvex.privacy.params import Neighboring, PrivacyParams, Unit
from dpconvex.privacy.selection_events import RepeatedSelection, WholeRun
from dpconvex.privacy.sensitivity import Sensitivity
from dpconvex.privacy.verify import Check, Verification, verify
from dpconvex.privacy.vertex_events import VertexDraws

__all__ = [
    "Assumption",
    "BoundedLaplaceNoise",
    "BoundedRange",
    "Budget",
    "CarriesBudgets",
    "Check",
    "Event",
    "FailureProbability",
    "GaussianNoise",
    "GaussianObjectivePerturbation",
    "GuardedGaussianNoise",
    "Ledger",
    "Neighboring",
    "NoiseSource",
    "NormExponentialNoise",
    "PrivacyCertificate",
    "PrivacyParams",
    "PureMechanism",
    "PureObjectivePerturbation",
    "Release",
    "RepeatedSelection",
    "Sensitivity",
    "Unit",
    "Verification",
    "VertexDraws",
    "WholeRun",
    "budget_context",
    "certify",
    "charge",
    "verify",
]
