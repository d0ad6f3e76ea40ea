"""Assumptions of the guarantees of all methods, by what they protect, and how each is enforced."""

from dpconvex.privacy import Assumption, Neighboring, Unit

DATA_ASSUMPTIONS = (
    Assumption("every record lies in the declared domain", "records are clipped into it before anything is computed"),
    Assumption("the number of records is public", "neighbors replace one record, so both data sets have it"),
    Assumption("the declared bounds, categories and classes are public knowledge", "declared"),
)
USER_ASSUMPTIONS = (
    DATA_ASSUMPTIONS[0],
    Assumption(
        "the number of users is public; who they are and how many records each has is not",
        "neighbors replace everything that one user has, by any number of records, so both data sets have it",
    ),
    Assumption("all records of a person bear the same user label", "declared; whoever has k labels has k units"),
    DATA_ASSUMPTIONS[2],
)
ADDED_ASSUMPTIONS = (
    DATA_ASSUMPTIONS[0],
    Assumption(
        "the number of records is not public; the plan is for a declared number",
        "neighbors add or remove one record; sums are exact integers, and no divisor, size, option or message is "
        "computed from the true number. The declared one is a public guess, and privacy does not rest on it",
    ),
    DATA_ASSUMPTIONS[2],
)
ADDED_USER_ASSUMPTIONS = (
    DATA_ASSUMPTIONS[0],
    Assumption(
        "neither who the users are, nor how many, nor how many records each has is public",
        "neighbors add or remove everything that one user has; sums are divided by a declared number, a public guess "
        "on which privacy does not rest",
    ),
    *USER_ASSUMPTIONS[2:],
)
ASSUMPTIONS = {
    (Neighboring.REPLACE_ONE, Unit.RECORD): DATA_ASSUMPTIONS,
    (Neighboring.REPLACE_ONE, Unit.USER): USER_ASSUMPTIONS,
    (Neighboring.ADD_OR_REMOVE_ONE, Unit.RECORD): ADDED_ASSUMPTIONS,
    (Neighboring.ADD_OR_REMOVE_ONE, Unit.USER): ADDED_USER_ASSUMPTIONS,
}  #: Assumptions of all methods by relation and protected unit; a promise that is not listed has no certificate.
USER_LOSS = Assumption(
    "a user's part of the objective has the slope and curvature bounds of one record's loss",
    "it is a weighted sum of them; the weights add up to at most 1 and depend on the user's own number of records and "
    "a public number only",
)
