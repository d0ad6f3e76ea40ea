"""The auditor: neighboring data sets, exact privacy losses, counted outputs, lower bounds on epsilon."""

from dpconvex_experiments.audit.auditor import ERROR, audit
from dpconvex_experiments.audit.bounds import Counted, Losses, prove, proved_epsilon
from dpconvex_experiments.audit.constants import ConstantsAttack, attack_constants
from dpconvex_experiments.audit.exact import EnumeratedPair, enumerated_pair
from dpconvex_experiments.audit.laws import finite_law, log_law
from dpconvex_experiments.audit.neighbors import array_pairs, point_pairs, record_pairs, user_pairs
from dpconvex_experiments.audit.replay import privacy_losses
from dpconvex_experiments.audit.report import AuditReport, Finding
from dpconvex_experiments.audit.target import Auditable, Builder, Pair, Pairs, Subject, Target, released

__all__ = [
    "ERROR", "AuditReport", "Auditable", "Builder", "ConstantsAttack", "Counted", "EnumeratedPair", "Finding", "Losses",
    "Pair", "Pairs", "Subject", "Target", "array_pairs", "attack_constants", "audit", "enumerated_pair", "finite_law",
    "log_law", "point_pairs", "privacy_losses", "prove", "proved_epsilon", "record_pairs", "released", "user_pairs",
]  # fmt: skip
