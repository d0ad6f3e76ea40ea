"""The auditor: neighbouring data sets, exact privacy losses, counted outputs, lower bounds on epsilon."""

from dpconvex.audit.auditor import ERROR, Auditable, AuditReport, Finding, audit
from dpconvex.audit.counting import Counted, prove, proved_epsilon
from dpconvex.audit.laws import log_law
from dpconvex.audit.neighbours import Pair, Pairs, array_pairs, point_pairs, record_pairs, user_pairs
from dpconvex.audit.outputs import released
from dpconvex.audit.replay import Losses, privacy_losses

__all__ = [
    "ERROR",
    "AuditReport",
    "Auditable",
    "Counted",
    "Finding",
    "Losses",
    "Pair",
    "Pairs",
    "array_pairs",
    "audit",
    "log_law",
    "point_pairs",
    "privacy_losses",
    "prove",
    "proved_epsilon",
    "record_pairs",
    "released",
    "user_pairs",
]
