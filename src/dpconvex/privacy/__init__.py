"""Promises, sensitivities, events and their prices, the ledger, certificates and their verification."""

from dpconvex.privacy.budget import Budget
from dpconvex.privacy.certificate import Assumption, NoiseSource, PrivacyCertificate, certify
from dpconvex.privacy.context import CarriesBudgets, budget_context, charge
from dpconvex.privacy.events import (
    BoundedLaplaceNoise,
    BoundedRange,
    Event,
    FailureProbability,
    GaussianNoise,
    GaussianObjectivePerturbation,
    GroupPrivacy,
    GuardedGaussianNoise,
    NormExponentialNoise,
    PoissonSteps,
    PureMechanism,
    PureObjectivePerturbation,
    RepeatedSelection,
    SampledSteps,
    VertexDraws,
    WholeRun,
)
from dpconvex.privacy.ledger import Ledger, Release
from dpconvex.privacy.params import Neighboring, PrivacyParams, Sensitivity, Unit
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
    "GroupPrivacy",
    "GuardedGaussianNoise",
    "Ledger",
    "Neighboring",
    "NoiseSource",
    "NormExponentialNoise",
    "PoissonSteps",
    "PrivacyCertificate",
    "PrivacyParams",
    "PureMechanism",
    "PureObjectivePerturbation",
    "Release",
    "RepeatedSelection",
    "SampledSteps",
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
