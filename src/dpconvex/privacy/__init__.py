"""Promises, sensitivities, the ledger, certificates. What the mathematics does not know and the faces do not touch."""

from dpconvex.privacy.budget import Budget
from dpconvex.privacy.certificate import Assumption, NoiseSource, PrivacyCertificate, certify
from dpconvex.privacy.context import CarriesBudgets, budget_context, charge
from dpconvex.privacy.events.basic import Event, GaussianNoise, NormExponentialNoise, PureMechanism
from dpconvex.privacy.events.failure import BoundedLaplaceNoise, FailureProbability
from dpconvex.privacy.events.gaussian_cover import BoundedRange
from dpconvex.privacy.events.objective import GaussianObjectivePerturbation, PureObjectivePerturbation
from dpconvex.privacy.events.private_selection import RepeatedSelection, WholeRun
from dpconvex.privacy.events.test_and_release import GuardedGaussianNoise
from dpconvex.privacy.events.vertex_sampling import VertexDraws
from dpconvex.privacy.ledger import Ledger, Release
from dpconvex.privacy.params import Neighboring, PrivacyParams, Unit
from dpconvex.privacy.sensitivity import Sensitivity
from dpconvex.privacy.verify import Check, Verification, verify

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
