"""Geometry: the norms in which noise is measured and drawn."""

from dpconvex.geometry.grouping import centered_lengths, gaussian_block_weights
from dpconvex.geometry.norms import (
    FactoredNoise, GroupedNorm, IndependentNormals, L2Norm, NoiseLaw, NoiseNorm, StandardNormals,
)  # fmt: skip

__all__ = [
    "FactoredNoise", "GroupedNorm", "IndependentNormals", "L2Norm", "NoiseLaw", "NoiseNorm", "StandardNormals",
    "centered_lengths", "gaussian_block_weights",
]  # fmt: skip
