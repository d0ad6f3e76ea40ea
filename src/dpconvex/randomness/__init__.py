"""Random bits: sources, and exact integer samplers."""

from dpconvex.randomness.source import BitSource, RandomState, SeededSource, SystemSource, source_from

__all__ = ["BitSource", "RandomState", "SeededSource", "SystemSource", "source_from"]
