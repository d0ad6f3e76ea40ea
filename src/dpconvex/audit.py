"""The auditor: neighboring data sets, exact privacy losses, counted outputs, lower bounds on epsilon.

This is its public address. It stands in `dpconvex_experiments.audit`, beside what it attacks and what draws its tables.
"""

from dpconvex_experiments.audit import *  # noqa: F403
from dpconvex_experiments.audit import __all__ as __all__
