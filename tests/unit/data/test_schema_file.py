"""The schema object and its file: round trip, derived names and domain, and errors a person can act on."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given, strategies as st

from dpconvex import PrivateLogisticRegression
from dpconvex.data import CategoricalColumn, ClassTarget, NumericColumn, NumericTarget, Schema
from dpconvex.errors import InvalidParameterError, SchemaError
from dpconvex.problems import Block

pytestmark = pytest.mark.together

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
CATEGORIES = TEXTS.map(lambda value: value.strip(" \t\n\v\f\r")).filter(bool)
ENDS = st.tuples(st.floats(-1e9, 1e9), st.floats(-1e9, 1e9)).map(sorted).filter(lambda ends: ends[1] > ends[0] + 1e-3)

GOOD = """
confirmed = true
source = "form 12"
user = "person"

[target]
name = "income"
classes = ["<=50K", ">50K"]
rates = [0.76, 0.24]

[columns.age]
lower = 17
upper = 90.5

[columns.gain]
lower = 0
upper = 99999
transform = "log1p"

[columns."eye color"]
categories = ["red", "green", "blue"]
other = true

[columns.sex]
categories = ["Female", "Male"]
"""


@st.composite
def schemas(draw: Any) -> Schema:
    names = draw(st.lists(TEXTS.map(lambda name: f"c {name}"), min_size=1, max_size=4, unique=True))
    columns = []
    for name in names:
        if draw(st.booleans()):
            lower, upper = draw(ENDS)
            columns.append(NumericColumn(name, lower, upper))
        else:
            levels = draw(st.lists(CATEGORIES, min_size=1, max_size=4, unique=True))
            columns.append(CategoricalColumn(name, tuple(levels), draw(st.booleans()) and "(other)" not in levels))
    lower, upper = draw(ENDS)
    classes, rates = ("a", "b\x7f\u00e9", "c"), draw(st.sampled_from([None, (0.1, 0.2, 0.7), (0.33, 0.33, 0.33)]))
    target = draw(st.sampled_from([None, ClassTarget("t", classes, rates), NumericTarget("t", lower, upper)]))
    return Schema(
        tuple(columns), target, draw(st.sampled_from([None, "user"])), draw(st.booleans()), draw(st.just("") | TEXTS)
    )


@given(schemas())
def test_toml_gives_an_equal_schema_back(schema: Schema) -> None:
    assert Schema.from_toml_text(schema.to_toml()) == schema


def test_file_is_read_as_written(tmp_path: Any) -> None:
    path = tmp_path / "good.toml"
    path.write_text(GOOD, encoding="utf-8")
    schema = Schema.from_toml(path)
    assert schema == Schema(
        (
            NumericColumn("age", 17.0, 90.5),
            NumericColumn("gain", 0, 99999, "log1p"),
            CategoricalColumn("eye color", ("red", "green", "blue"), other=True),
            CategoricalColumn("sex", ("Female", "Male")),
        ),
        ClassTarget("income", ("<=50K", ">50K"), (0.76, 0.24)),
        "person",
        True,
        "form 12",
    )
    assert schema.feature_names == (
        "age",
        "gain",
        "eye color=red",
        "eye color=green",
        "eye color=blue",
        "eye color=(other)",
        "sex=Male",
    )
    assert schema.domain().blocks == (
        Block(1, "linf", 0.5, "age"),
        Block(1, "linf", 0.5, "gain"),
        Block(4, "simplex", 1.0, "eye color"),
        Block(1, "linf", 0.5, "sex", "binary"),
    )
    assert schema.domain().intercept == 0
    assert schema.column_names() == ("age", "gain", "eye color", "sex", "income", "person")
    assert schema.column_names(features_only=True) == ("age", "gain", "eye color", "sex")
    assert schema.numeric_names == {"age", "gain"}
    assert schema.classes == ("<=50K", ">50K")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("confirmed = true", "", ["confirmed is missing"]),
        ("confirmed = true", 'confirmed = "yes"', ["confirmed='yes'", "true or false"]),
        (
            "confirmed = true",
            "confirmed = true\nconfirm = 1",
            ["confirm is not a key here", "optional: line_breaks, source, target"],
        ),
        ("upper = 90.5", "uper = 90", ["[columns.age]", "upper is missing", "uper is not a key here", "transform"]),
        ("upper = 90.5", "upper = 17", ["[columns.age]", "upper=17", "> 17"]),
        ("upper = 90.5", "upper = inf", ["[columns.age]", "upper=inf", "finite"]),
        ("upper = 90.5", 'upper = "90"', ["[columns.age]", "upper='90'", "number"]),
        ("lower = 0\n", "lower = -1\n", ["[columns.gain]", "lower=-1", "> -1"]),
        ('"log1p"', '"logarithm"', ["[columns.gain]", "transform='logarithm'", "'none', 'log1p'"]),
        ('["red", "green", "blue"]', '["red", 1]', ['[columns."eye color"]', "categories[1]=1", "quotes"]),
        ('["red", "green", "blue"]', '["red", " red"]', ["categories[1]=' red'", "blanks"]),
        ('["red", "green", "blue"]', '["red", "red"]', ["categories='red'", "twice"]),
        ('["red", "green", "blue"]', "[]", ["categories=[]", "at least 1"]),
        ('["red", "green", "blue"]', '["(other)"]', ["(other)"]),
        ("other = true", "other = 1", ["other=1", "true or false"]),
        ("other = true", "upper = 1", ["upper is not a key here"]),
        ('["<=50K", ">50K"]', '["<=50K"]', ["[target]", "at least 2"]),
        ("[0.76, 0.24]", "[0.76, 0.4]", ["[target]", "rates=", "must add up to 1"]),
        ("[0.76, 0.24]", "[1, 0]", ["[target]", "rates[1]=0", "from public knowledge"]),
        ("[0.76, 0.24]", "[1]", ["[target]", "list of 2 shares"]),
        ('classes = ["<=50K", ">50K"]', "lower = 1", ["[target]", "upper is missing"]),
        ('classes = ["<=50K", ">50K"]', "", ["[target]", "classes is missing", "numeric target"]),
        ('name = "income"', 'name = "age"', ["name='age'", "more than one column"]),
        ("[columns.sex]", "[columns.sex.more]", ["[columns.sex]", "lower is missing", "more is not a key here"]),
        ("[columns.sex]", "[columns.sex", ["no valid TOML", "line"]),
    ],
)
def test_malformed_files_name_file_table_key_and_remedy(old: str, new: str, words: list[str], tmp_path: Any) -> None:
    assert GOOD.count(old) == 1
    path = tmp_path / "bad.toml"
    path.write_text(GOOD.replace(old, new), encoding="utf-8")
    with pytest.raises(SchemaError) as caught:
        Schema.from_toml(path)
    for word in ["bad.toml", *words]:
        assert word in str(caught.value)


def test_columns_that_are_no_tables_are_refused() -> None:
    with pytest.raises(SchemaError, match="columns must be a table"):
        Schema.from_toml_text('confirmed = true\ncolumns = ["age"]')
    with pytest.raises(SchemaError, match=r"\[columns.age\] must be a table"):
        Schema.from_toml_text("confirmed = true\n[columns]\nage = 3")
    with pytest.raises(SchemaError, match="at least one column"):
        Schema.from_toml_text("confirmed = true\n[columns]\n")


def test_unreadable_files(tmp_path: Any) -> None:
    with pytest.raises(SchemaError, match=r"nowhere.toml.*No such file"):
        Schema.from_toml(tmp_path / "nowhere.toml")
    (tmp_path / "latin.toml").write_bytes(b'source = "\xe9"')
    with pytest.raises(SchemaError, match="UTF-8"):
        Schema.from_toml(tmp_path / "latin.toml")


def test_objects_refuse_what_files_refuse() -> None:
    age = NumericColumn("age", 0, 1)
    with pytest.raises(InvalidParameterError, match="finite width"):
        NumericColumn("wide", -1.7e308, 1.7e308)
    with pytest.raises(InvalidParameterError, match="after the transform"):
        NumericColumn("narrow", 1e300, 1.000000000000001e300, "log1p")
    with pytest.raises(InvalidParameterError, match="more than one column"):
        Schema((age, age))
    with pytest.raises(InvalidParameterError, match="more than one feature"):
        Schema((NumericColumn("sex=Male", 0, 1), CategoricalColumn("sex", ("Female", "Male"))))
    with pytest.raises(InvalidParameterError, match="more than one column"):
        Schema((age,), user="age")
    with pytest.raises(InvalidParameterError, match="valid Unicode"):
        CategoricalColumn("bad", ("\ud800",))


def test_unconfirmed_schemas_are_refused_until_confirmed() -> None:
    draft = Schema((NumericColumn("age", 0, 1),), confirmed=False)
    with pytest.raises(SchemaError, match=r"draft.toml: confirmed=False.*set confirmed = true"):
        draft.require_confirmed("draft.toml")
    draft.confirm().require_confirmed()


def test_classes_and_targets_must_be_declared() -> None:
    schema = Schema((NumericColumn("age", 0, 1),))
    with pytest.raises(SchemaError, match="no classes"):
        _ = schema.classes
    with pytest.raises(SchemaError, match="no classes"):
        _ = Schema(schema.columns, NumericTarget("t", 0, 1)).classes
    with pytest.raises(SchemaError, match="no target"):
        schema.encode_target({"age": [1]})  # pyright: ignore[reportArgumentType]


SLOW = {
    "dotted": "a." * 100_000 + "a = 1",
    "table": "[" + "a." * 100_000 + "a]",
    "spaces": "a . " * 50_000 + "a = 1",
    "inline": "x = {" + "a." * 100_000 + "a = 1}",
    "after a text": 'x = {a = """b"""", ' + "a." * 100_000 + "a = 1}",
    "after a literal": "x = {a = '''b'''', " + "a." * 100_000 + "a = 1}",
    "after a comment": 'x = 1 # "\n' + "a." * 100_000 + "a = 1",
    "open texts": '"\\' * 100_000,
    "open quotes": '"a\n' * 100_000,
    "hexadecimal": "confirmed = true\n[columns.a]\nlower = 0x" + "f" * 5000 + "\nupper = 1\n",
    "long": "#" * (2**22 + 1),
    "many keys": "".join(f"k{k} = 1\n" for k in range(20_000)),
}


def test_no_text_takes_long_or_a_long_message() -> None:
    """A dotted key of 200 KB took half a minute."""
    for name, text in SLOW.items():
        start = time.process_time()
        with pytest.raises(SchemaError) as refusal:
            Schema.from_toml_text(text)
        assert time.process_time() - start < 3, name
        assert len(str(refusal.value)) < 5000, name


def test_names_with_dots_in_quotes_are_no_dotted_keys() -> None:
    dotted = "a.b.c.d.e.f.g.h.i.j"
    source = f'source = """{dotted} # \\" {dotted}"""'
    text = f'confirmed = true\n{source}\n[columns."{dotted}"]\ncategories = [\'{dotted}\', "x"]\n'
    assert Schema.from_toml_text(text).columns[0].name == dotted


PIECES = [
    "a.",
    "a",
    '"',
    "'",
    '"""',
    "'''",
    "\\",
    "#",
    "\n",
    " = ",
    "[",
    "]",
    "{",
    "}",
    ",",
    "1",
    "0x",
    "confirmed = true\n",
]


@given(st.lists(st.tuples(st.sampled_from(PIECES), st.sampled_from([1, 2, 3, 3000])), max_size=8))
def test_any_pieces_of_toml_are_refused_in_time(pieces: list[tuple[str, int]]) -> None:
    start = time.process_time()
    with pytest.raises(SchemaError):
        Schema.from_toml_text("".join(piece * count for piece, count in pieces))
    assert time.process_time() - start < 3


def test_an_estimator_shows_its_schema_in_a_line() -> None:
    schema = Schema((NumericColumn("age", 0, 100),), confirmed=True)
    assert repr(schema) == "<Schema: 1 columns, no target, confirmed>"
    assert repr(PrivateLogisticRegression(schema=schema)).count("\n") == 0


def test_a_dictionary_stays_as_it_is() -> None:
    columns = {"a": {"range": "private"}}
    given = {"confirmed": True, "target": {"name": "t", "range": "private"}, "columns": columns}
    assert Schema.from_dict(given) == Schema.from_dict(given)
    assert columns == {"a": {"range": "private"}}
