"""Mechanisms: the only code that draws private randomness. Each records its release, then samples."""

from dpconvex.mechanisms.base import FailureAllowance, Mechanism, Planned
from dpconvex.mechanisms.cohorts import CohortMean, Cohorts, cohort_ramps, crowded, plan_cohorts
from dpconvex.mechanisms.gaussian import (
    GaussianBudget, GaussianMechanism, GaussianSession, SampledGaussian, SampledSession,
)  # fmt: skip
from dpconvex.mechanisms.k_norm import JointHistogram, LaplaceMechanism, MatrixNoiseMechanism, NormNoiseMechanism
from dpconvex.mechanisms.objective_noise import GaussianObjectiveNoise, NormObjectiveNoise, ObjectiveNoise
from dpconvex.mechanisms.robust_mean import GuardedMean, OneTest, RobustMean
from dpconvex.mechanisms.selection import (
    AboveThreshold, BestOfRepeats, ExponentialMechanism, ReportNoisyMax, ThresholdSession, VertexSampling,
    VertexSession,
)  # fmt: skip

__all__ = [
    "AboveThreshold", "BestOfRepeats", "CohortMean", "Cohorts", "ExponentialMechanism", "FailureAllowance",
    "GaussianBudget", "GaussianMechanism", "GaussianObjectiveNoise", "GaussianSession", "GuardedMean", "JointHistogram",
    "LaplaceMechanism", "MatrixNoiseMechanism", "Mechanism", "NormNoiseMechanism", "NormObjectiveNoise",
    "ObjectiveNoise", "OneTest", "Planned", "ReportNoisyMax", "RobustMean", "SampledGaussian", "SampledSession",
    "ThresholdSession", "VertexSampling", "VertexSession", "cohort_ramps", "crowded", "plan_cohorts",
]  # fmt: skip
