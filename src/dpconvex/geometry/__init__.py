"""Geometry: the norms in which noise is measured and drawn."""

from dpconvex.geometry.norms import GroupedNorm, L2Norm, NoiseNorm, StandardNormals, gaussian_block_weights

__all__ = ["GroupedNorm", "L2Norm", "NoiseNorm", "StandardNormals", "gaussian_block_weights"]
