"""A hospital's messy table of 40 columns, made up: nobody in it exists.

``python tests/journeys/hospital.py FILE`` writes it.

3,000 stays of 1,200 patients. What is messy, on purpose:

- numbers among words: one "sixty" in `age`; 1 % of "?" or "NA" in laboratory values, -999 for a value not taken;
- identifiers that look like numbers (`stay_id`, `patient_id`), patients with several rows;
- dates in two formats; a German export: semicolons, decimal commas in `temperature`;
- misspelt labels ("femal"), mixed case, a column that is constant, one of free text, one that is empty.

`readmitted` depends on age, number of drugs, creatinine, length of stay and earlier admissions (logistic, share of yes
about a quarter). Everything is drawn with the seed 24, so the file is the same wherever it is made.
"""

from __future__ import annotations

import csv
import gzip
import io
import sys
from pathlib import Path

import numpy as np

ROWS, PATIENTS, SEED = 3000, 1200, 24
LABS = {
    "creatinine": (1.1, 0.4), "sodium": (139, 4), "potassium": (4.2, 0.5), "glucose": (120, 35), "hemoglobin": (13, 2),
    "leukocytes": (8, 3), "platelets": (250, 70), "albumin": (4, 0.5), "bilirubin": (0.8, 0.4), "crp": (12, 9),
    "lactate": (1.4, 0.6), "calcium": (9.3, 0.5), "urea": (38, 15), "ph": (7.4, 0.05), "inr": (1.1, 0.2),
    "troponin": (12, 8), "ferritin": (150, 80), "tsh": (2.1, 0.9),
}  # fmt: skip
"""Means and deviations of laboratory values, units as usual."""


def columns() -> dict[str, list[str]]:
    """Return the table's columns as texts, as the file has them."""
    rng = np.random.default_rng(SEED)
    patient = rng.integers(0, PATIENTS, ROWS)
    age = np.clip(rng.normal(62, 17, PATIENTS), 18, 99).astype(int)[patient]
    stay = rng.geometric(0.2, ROWS)
    drugs, earlier = rng.poisson(5, ROWS), rng.poisson(0.8, ROWS)
    admitted = np.datetime64("2022-01-01") + rng.integers(0, 730, ROWS)
    born = np.datetime64("2024-01-01") - (age * 365.25 + rng.integers(0, 365, ROWS)).astype(int)
    labs = {name: mean + deviation * rng.standard_normal(ROWS) for name, (mean, deviation) in LABS.items()}
    score = 0.04 * (age - 62) + 0.25 * (drugs - 5) + 1.5 * (labs["creatinine"] - 1.1) + 0.1 * (stay - 5) + 0.8 * earlier
    yes = rng.random(ROWS) < 1 / (1 + np.exp(2.1 - score))

    def pick(*values: str, p: list[float] | None = None) -> list[str]:
        return [str(value) for value in rng.choice(values, ROWS, p=p)]

    def spoilt(cells: list[str], *words: str, share: float = 0.01) -> list[str]:
        return [str(rng.choice(words)) if rng.random() < share else cell for cell in cells]

    table = {
        "stay_id": [str(500_000 + i) for i in range(ROWS)],
        "patient_id": [str(70_000 + 3 * i) for i in patient],
        "age": [str(a) for a in age],
        "sex": spoilt(pick("female", "male"), "femal", "Male", "", share=0.02),
        "born": [f"{str(day)[8:]}.{str(day)[5:7]}.{str(day)[:4]}" for day in born],
        "admitted": spoilt([str(day) for day in admitted], "unknown", ""),
        "discharged": [str(day) for day in admitted + stay],
        "ward": pick("cardiology", "surgery", "internal medicine", "neurology"),
        "insurance": pick("public", "private", "none", p=[0.85, 0.12, 0.03]),
        "smoker": spoilt(pick("yes", "no"), "?", share=0.05),
        "drugs": [str(k) for k in drugs],
        "earlier_admissions": [str(k) for k in earlier],
        "weight": spoilt([f"{w:.0f}" for w in rng.normal(78, 15, ROWS)], "-999", share=0.03),
        "height": spoilt([f"{h:.0f}" for h in rng.normal(171, 9, ROWS)], "-999", share=0.03),
        "temperature": [f"{t:.1f}".replace(".", ",") for t in rng.normal(37, 0.6, ROWS)],
        "pulse": spoilt([f"{p:.0f}" for p in rng.normal(80, 12, ROWS)], "999"),
        "pain": [str(k) for k in rng.integers(0, 11, ROWS)],
        "device": ["A"] * ROWS,
        "remark": [f"see letter {k}" for k in rng.integers(0, 10**6, ROWS)],
        "reserved": [""] * ROWS,
        "cost": [f"{c:.2f}" for c in rng.lognormal(8, 1, ROWS)],
    }
    table["age"][17] = "sixty"
    table |= {name: spoilt([f"{v:.2f}" for v in values], "?", "NA", "-999") for name, values in labs.items()}
    return {**table, "readmitted": ["yes" if each else "no" for each in yes]}


def text() -> str:
    """Return the file: semicolons, quotes where needed, line feeds."""
    table, out = columns(), io.StringIO()
    writer = csv.writer(out, delimiter=";", lineterminator="\n")
    writer.writerow(table)
    writer.writerows(zip(*table.values(), strict=True))
    return out.getvalue()


def write(path: Path) -> None:
    """Write the table, compressed if the name ends in ``.gz``."""
    content = text().encode()
    path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
