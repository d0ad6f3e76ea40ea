"""The auditor: neighboring data sets, exact privacy losses, counted outputs, lower bounds on epsilon."""

from dpconvex.audit.auditor import ERROR, audit
from dpconvex.audit.bounds import Counted, Losses, prove, proved_epsilon
from dpconvex.audit.exact import EnumeratedPair, enumerated_pair
from dpconvex.audit.laws import finite_law, log_law
from dpconvex.audit.neighbors import array_pairs, point_pairs, record_pairs, user_pairs
from dpconvex.audit.replay import privacy_losses
from dpconvex.audit.report import AuditReport, Finding
from dpconvex.audit.target import Auditable, Builder, Pair, Pairs, Subject, Target, released

__all__ = [
    "ERROR",
    "AuditReport",
    "Auditable",
    "Builder",
    "Counted",
    "EnumeratedPair",
    "Finding",
    "Losses",
    "Pair",
    "Pairs",
    "Subject",
    "Target",
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
