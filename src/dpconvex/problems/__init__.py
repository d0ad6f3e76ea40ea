"""Public domains of data, clipped records, and the objectives that solvers minimise."""

from __future__ import annotations

from dpconvex.problems.domain import Block, DataDomain
from dpconvex.problems.erm import RegularizedRisk
from dpconvex.problems.objective import Objective
from dpconvex.problems.records import Records
from dpconvex.problems.tilted import TiltedRisk

__all__ = ["Block", "DataDomain", "Objective", "Records", "RegularizedRisk", "TiltedRisk"]
