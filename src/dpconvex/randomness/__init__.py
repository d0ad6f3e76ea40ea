"""Random bits: sources, and exact integer samplers."""

from dpconvex.randomness.source import BitSource, OwnSamplers, RandomState, SeededSource, SystemSource, source_from

__all__ = ["BitSource", "OwnSamplers", "RandomState", "SeededSource", "SystemSource", "source_from"]
