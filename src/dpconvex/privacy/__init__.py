"""Promises, sensitivities, events and their prices, the ledger, certificates and their verification."""

from dpconvex.privacy.budget import Budget
from dpconvex.privacy.certificate import Assumption, NoiseSource, PrivacyCertificate, certify
from dpconvex.privacy.context import CarriesBudgets, Payment, budget_context, charge
from dpconvex.privacy.events import Event
from dpconvex.privacy.events.basic import (
    BoundedLaplaceNoise, BoundedRange, FailureProbability, GaussianNoise, GuardedGaussianNoise, NormExponentialNoise,
    PureMechanism, VertexDraws,
)  # fmt: skip
from dpconvex.privacy.events.objective import (
    AddedObjectivePerturbation, GaussianObjectivePerturbation, PureObjectivePerturbation,
)  # fmt: skip
from dpconvex.privacy.events.private_selection import RepeatedSelection, WholeRun
from dpconvex.privacy.events.subsampled import PoissonSteps, SampledSteps
from dpconvex.privacy.ledger import Ledger, Release
from dpconvex.privacy.params import Neighboring, PrivacyParams, Sensitivity, Unit
from dpconvex.privacy.verify import Check, Verification, verify

__all__ = [
    "AddedObjectivePerturbation", "Assumption", "BoundedLaplaceNoise", "BoundedRange", "Budget", "CarriesBudgets",
    "Check", "Event", "FailureProbability", "GaussianNoise", "GaussianObjectivePerturbation", "GuardedGaussianNoise",
    "Ledger", "Neighboring", "NoiseSource", "NormExponentialNoise", "Payment", "PoissonSteps", "PrivacyCertificate",
    "PrivacyParams", "PureMechanism", "PureObjectivePerturbation", "Release", "RepeatedSelection", "SampledSteps",
    "Sensitivity", "Unit", "Verification", "VertexDraws", "WholeRun", "budget_context", "certify", "charge", "verify",
]  # fmt: skip
