"""Public domains of data, clipped records, and the objectives that solvers minimise."""

from __future__ import annotations

from dpconvex.problems.domain import Block, DataDomain
from dpconvex.problems.erm import RegularizedRisk
from dpconvex.problems.records import Records

__all__ = ["Block", "DataDomain", "Records", "RegularizedRisk"]
