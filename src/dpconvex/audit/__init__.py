"""The auditor: neighbouring data sets, exact privacy losses, counted outputs, lower bounds on epsilon."""

from dpconvex.audit.auditor import ERROR, Auditable, audit
from dpconvex.audit.bounds import Losses
from dpconvex.audit.counting import Counted, prove, proved_epsilon
from dpconvex.audit.enumeration import EnumeratedPair, enumerated_pair
from dpconvex.audit.laws import finite_law, log_law
from dpconvex.audit.neighbours import Pair, Pairs, array_pairs, point_pairs, record_pairs, user_pairs
from dpconvex.audit.outputs import released
from dpconvex.audit.replay import privacy_losses
from dpconvex.audit.report import AuditReport, Finding

__all__ = [
    "ERROR",
    "AuditReport",
    "Auditable",
    "Counted",
    "EnumeratedPair",
    "Finding",
    "Losses",
    "Pair",
    "Pairs",
    "array_pairs",
    "audit",
    "enumerated_pair",
    "finite_law",
    "log_law",
    "point_pairs",
    "privacy_losses",
    "prove",
    "proved_epsilon",
    "record_pairs",
    "released",
    "user_pairs",
]
