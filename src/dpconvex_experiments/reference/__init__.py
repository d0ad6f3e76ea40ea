"""Methods that others published and nobody needs here but to compare with; small plans for the audit to attack.

Importing this enters constants and methods as papers print them: `dpconvex.plugins.of_paper` finds them by name.
"""

from dpconvex_experiments.reference import (
    adassp,
    extensions,
    gradient_score,
    group_privacy,
    localized_mechanism,
    objectives,
    printed_constants,
    printed_median,
    printed_users,
)

__all__ = [
    "adassp", "extensions", "gradient_score", "group_privacy", "localized_mechanism", "objectives",
    "printed_constants", "printed_median", "printed_users",
]  # fmt: skip
