"""Mechanisms: the only code that draws private randomness. Each records its release, then samples."""

from dpconvex.mechanisms.above_threshold import AboveThreshold, ThresholdSession
from dpconvex.mechanisms.base import Mechanism
from dpconvex.mechanisms.bounded_laplace import BoundedLaplaceMechanism
from dpconvex.mechanisms.failure_probability import FailureAllowance
from dpconvex.mechanisms.gaussian import GaussianMechanism
from dpconvex.mechanisms.k_norm import NormNoiseMechanism
from dpconvex.mechanisms.laplace import LaplaceMechanism
from dpconvex.mechanisms.noisy_max import ReportNoisyMax
from dpconvex.mechanisms.objective_noise import GaussianObjectiveNoise, NormObjectiveNoise, ObjectiveNoise
from dpconvex.mechanisms.printed_mean import OutlierRemoval, plan_outlier_removal
from dpconvex.mechanisms.quantile import MedianMechanism
from dpconvex.mechanisms.repeats import BestOfRepeats
from dpconvex.mechanisms.robust_mean import RobustMean, plan_robust_mean
from dpconvex.mechanisms.sampled_gaussian import SampledGaussian, SampledSession
from dpconvex.mechanisms.test_and_release import GuardedMean
from dpconvex.mechanisms.vertex_sampling import VertexSampling, VertexSession

__all__ = [
    "AboveThreshold",
    "BestOfRepeats",
    "BoundedLaplaceMechanism",
    "FailureAllowance",
    "GaussianMechanism",
    "GaussianObjectiveNoise",
    "GuardedMean",
    "LaplaceMechanism",
    "Mechanism",
    "MedianMechanism",
    "NormNoiseMechanism",
    "NormObjectiveNoise",
    "ObjectiveNoise",
    "OutlierRemoval",
    "ReportNoisyMax",
    "RobustMean",
    "SampledGaussian",
    "SampledSession",
    "ThresholdSession",
    "VertexSampling",
    "VertexSession",
    "plan_outlier_removal",
    "plan_robust_mean",
]
