"""Mechanisms: the only code that draws private randomness. Each records its release, then samples."""

from dpconvex.mechanisms.above_threshold import AboveThreshold, ThresholdSession
from dpconvex.mechanisms.base import Mechanism
from dpconvex.mechanisms.bounded_laplace import BoundedLaplaceMechanism
from dpconvex.mechanisms.failure import FailureAllowance
from dpconvex.mechanisms.gaussian import GaussianMechanism
from dpconvex.mechanisms.laplace import LaplaceMechanism
from dpconvex.mechanisms.noisy_max import ReportNoisyMax
from dpconvex.mechanisms.norm_noise import NormNoiseMechanism
from dpconvex.mechanisms.objective_noise import GaussianObjectiveNoise, NormObjectiveNoise, ObjectiveNoise
from dpconvex.mechanisms.quantile import MedianMechanism

__all__ = [
    "AboveThreshold",
    "BoundedLaplaceMechanism",
    "FailureAllowance",
    "GaussianMechanism",
    "GaussianObjectiveNoise",
    "LaplaceMechanism",
    "Mechanism",
    "MedianMechanism",
    "NormNoiseMechanism",
    "NormObjectiveNoise",
    "ObjectiveNoise",
    "ReportNoisyMax",
    "ThresholdSession",
]
