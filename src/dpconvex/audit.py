"""The auditor: neighboring data sets, exact privacy losses, counted outputs, lower bounds on epsilon.

This is the auditor's public address. Its code is in `dpconvex_experiments.audit`, beside its targets and tables.
"""

from dpconvex_experiments.audit import *  # noqa: F403
from dpconvex_experiments.audit import __all__ as __all__
