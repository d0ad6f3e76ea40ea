"""What certificates say about output perturbation: lemmas, theorems and assumptions, by aggregation."""

from __future__ import annotations

from dpconvex.privacy import Assumption

_K = "K the largest distance of two records' gradients at a minimiser, 2L in general"

LEMMAS = {
    "average": f"strong convexity (Proposition 2.2): K/(l2 n), {_K}, plus 2r for the certified solver accuracy",
    "tilted": (
        f"strong convexity and the largest weight of one record (Lemma 5.2, repaired): K/l2 C/(C+n-1), {_K}, plus 2r "
        "for the certified solver accuracy; at most twice the radius of the ball"
    ),
    "whole": (
        "strong convexity (Proposition 2.2): K/l2, K the largest distance of two neighbours' gradients, 2L in general, "
        "plus 2r for the certified solver accuracy"
    ),
}
THEOREMS = {
    "average": (
        "Output perturbation (Lowy and Razaviyayn, Propositions 2.2 and 3.1 with a sure accuracy): the certified "
        f"minimiser moves by at most K/(l2 n) + 2r between neighbours, {_K}; noise covers that distance."
    ),
    "tilted": (
        "Output perturbation of a tilted risk (Lowy and Razaviyayn, Lemma 5.2 with a repaired proof, "
        "Proposition 3.1 with a sure accuracy): the certified minimiser moves by at most K/l2 C/(C+n-1) + 2r "
        f"between neighbours, {_K}, C = exp(tilt times the range of the loss in the ball), and by at most twice "
        "the ball's radius; noise covers the smaller distance."
    ),
    "whole": (
        "Output perturbation of an objective that is no average (Lowy and Razaviyayn, Propositions 2.2 and 3.1 with a "
        "sure accuracy): the certified minimiser moves by at most K/l2 + 2r between neighbours, K the largest distance "
        "of two neighbours' gradients, 2L in general; noise covers that."
    ),
}
DIAMETER_LEMMA = "points of a ball are at most twice its radius apart"
DIAMETER_THEOREM = (
    "Whatever the solver returns is projected to a public ball, whose points are at most 2R apart; noise covers that "
    "distance. Privacy rests on no constant of the objective, nor on convexity, nor on the solver's accuracy."
)
DIAMETER_ASSUMPTIONS = (Assumption("what is released before noise lies in the ball", "it is projected there"),)
ACCURACY_ASSUMPTIONS = (
    Assumption("the objective is l2-strongly convex", "the regulariser is part of the objective"),
    Assumption(
        "the solver's point is within r of the exact minimiser for every data set",
        "a certificate (gradient norm, gap, or a step count proven for every data set) is checked before the release",
    ),
)
TILT_ASSUMPTIONS = (
    Assumption(
        "the minimiser lies in the ball", "the regulariser keeps it there for every data set, or a constraint does"
    ),
    Assumption(
        "C bounds the ratio of two records' weights everywhere in the ball",
        "computed from the loss's values at the largest predictions and targets that the clipped records allow",
    ),
)
RETURNS = Assumption(
    "the caller's function returns for every data set: it neither raises nor runs forever nor shows records elsewhere",
    "written by the caller, not enforced",
)
DECLARED = "declared by the caller, not enforced"
