"""Mechanisms: the only code that draws private randomness. Each records its release, then samples."""

from dpconvex.mechanisms.above_threshold import AboveThreshold, ThresholdSession
from dpconvex.mechanisms.base import Mechanism
from dpconvex.mechanisms.gaussian import GaussianMechanism
from dpconvex.mechanisms.laplace import LaplaceMechanism
from dpconvex.mechanisms.noisy_max import ReportNoisyMax
from dpconvex.mechanisms.norm_noise import NormNoiseMechanism
from dpconvex.mechanisms.objective_noise import GaussianObjectiveNoise, NormObjectiveNoise, ObjectiveNoise

__all__ = [
    "AboveThreshold",
    "GaussianMechanism",
    "GaussianObjectiveNoise",
    "LaplaceMechanism",
    "Mechanism",
    "NormNoiseMechanism",
    "NormObjectiveNoise",
    "ObjectiveNoise",
    "ReportNoisyMax",
    "ThresholdSession",
]
