"""Targets of ``dpconvex audit``: every method and mechanism of the library, and the reference methods.

Each file lists its `Target` objects; the entry point in the group ``dpconvex.audit`` names all of them.
"""

from dpconvex_experiments.reference.targets import erm, location, mechanisms, minimax

TARGETS = (*(*erm.TARGETS, *location.TARGETS, *minimax.TARGETS, *erm.SEARCHES, *mechanisms.TARGETS), *location.COMPARED)
"""All targets, in the order of ``dpconvex audit --list``."""
