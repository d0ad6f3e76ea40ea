"""MWEM with replay: select the worst answered queries, measure them, fit a histogram to all measurements."""

from dpconvex.algorithms.queries.mwem.plan import MwemPlan, plan

__all__ = ["MwemPlan", "plan"]
