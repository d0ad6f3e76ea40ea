"""Methods that others published and nobody needs here but to compare with; small plans for the audit to attack.

Importing this enters the constants that papers print: `dpconvex.plugins.of_paper` finds them by name.
"""

from dpconvex_experiments.reference import group_privacy, objectives, printed_constants, printed_median

__all__ = ["group_privacy", "objectives", "printed_constants", "printed_median"]
