"""Export of fitted linear, additive and sparse models: plain tables (JSON), scikit-learn, ONNX, SQL and a model card.

A model of declared columns sums a broken line per number and a value per level (a column's *rule*; its *vertices* are
the knots or levels, and a missing cell). It uses released numbers and public facts only, so this costs no privacy.
"""

import html
import json
import math
import re
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dpconvex import _validate
from dpconvex._files import write_atomically
from dpconvex._types import Floats
from dpconvex.data.columns import NumericColumn
from dpconvex.data.frames import NUMBER
from dpconvex.errors import InvalidParameterError
from dpconvex.estimators._features import Declared, FeatureMap, FromSchema, Scaled
from dpconvex.estimators._shapes import level_shape, numeric_shape
from dpconvex.estimators._targets import FromLogits
from dpconvex.problems import NumberRange

if TYPE_CHECKING:
    from sklearn.pipeline import Pipeline

VERSION = 1  #: Version of the format of `Exported.to_json`
MOST_METRICS = 20  #: Most rows of the table of metrics in a model card


class Exported:
    """A fitted model that can be exported to other tools."""

    _lists_all: bool = True  #: Whether columns that add nothing are listed, too

    def _terms(self) -> list[dict[str, Any]]:
        """Return each column's rule, with each output's values at its vertices; scores add up values of all columns."""
        model: Any = self
        features = model._fitted_map()
        coef, columns = model.encoded_coef_, _columns(features, self)
        if isinstance(features, Declared):  # encoded as they are
            coef = coef * [column.upper - column.lower for column in columns]
        found, start = list[dict[str, Any]](), 0
        for k, column in enumerate(columns):
            part = coef[:, start : start + column.block.size]
            start += column.block.size
            if column.numeric:  # encoded as -1/2 to 1/2, and 0 where it is missing
                shape = numeric_shape(column, k, (column.lower, column.upper), bool(column.indicator))
                part = np.hstack([-part[:, :1] / 2, part[:, :1] / 2, part[:, 1:] / 2])
            else:
                shape = level_shape(column, k)
                part = np.hstack([-part / 2, part / 2]) if column.binary else part
            found.append({"name": column.name, "values": part.tolist(), **shape.rule})
        used = [rule for rule in found if self._lists_all or np.any(rule["values"])]
        return used or found[:1]

    def to_dict(self) -> dict[str, Any]:
        """Return plain tables of the whole model: a few lines of code in any language can score records with them."""
        check_is_fitted(self)
        model: Any = self
        bounds = None if "classes_" in vars(self) else model._range()
        cap = model._link.cap if "slope_cap_" in vars(self) else 1.0 if isinstance(self, FromLogits) else None
        return {
            "format": "dpconvex-model", "version": VERSION, "estimator": type(self).__name__,
            "intercept": np.atleast_1d(model.encoded_intercept_).tolist(),
            "classes": None if bounds else np.asarray(model.classes_).tolist(),
            "bounds": [bounds.lower, bounds.upper] if bounds else None,
            "slope_cap": cap,
            "probabilities": None if cap is None else "sigmoid" if cap == 1 else "calibrated",
            "model": None if model.certificate_ is None else model.certificate_.model, "shapes": self._terms(),
        }  # fmt: skip

    def to_json(self, path: str | Path | None = None) -> str:
        """Return the model as JSON, and write it to `path` if that is given (format: docs, Models that leave)."""
        text = json.dumps(self.to_dict(), indent=1, default=str)
        if path is not None:
            write_atomically(path, text.encode())
        return text

    def to_sklearn(self) -> "Pipeline":
        """Return a fitted pipeline that makes the same predictions with scikit-learn alone, encoding included.

        It takes clean columns by name: numbers (NaN if missing), texts as the schema or its aliases spell them, and
        columns with a formula or date already computed, under their own names. The pipeline has probabilities only if
        slopes are not capped, or with ``probabilities="sigmoid"``.
        """
        return _pipeline(self)

    def to_sql(self, table: str) -> str:
        """Return a query in the SQL of most databases that scores each row of a table, with one column per output.

        Its comments say what the scores mean, and which columns must hold values derived from other columns.
        """
        model, scores = self.to_dict(), []
        for output, intercept in enumerate(model["intercept"]):
            terms = [_mixture(shape, [*map(repr, shape["values"][output])]) for shape in model["shapes"]]
            scores.append("  " + "\n  + ".join([repr(intercept), *terms]) + f" AS score_{output}")
        classes, bounds = model["classes"], model["bounds"]
        if bounds:
            notes = [f"The prediction is score_0, cut to {bounds[0]!r} to {bounds[1]!r}"]
        elif len(scores) == 1:
            notes = [f"The class is {classes[1]!r} where score_0 is above 0, else {classes[0]!r}"]
        else:
            notes = [f"The class is that of the largest score, of {classes!r}"]
        parts = [part for rule in model["shapes"] for part in (rule.get("first", rule), rule.get("second", rule))]
        for name, part in {part["column"]: part for part in parts}.items():
            if derived := ", ".join(str(part[key]) for key in ("formula", "date", "at") if key in part):
                notes.append(f"{_quoted(name)} must hold what is derived: {derived}")
        text = "".join(f"-- {' '.join(note.split())}\n" for note in notes)  # line breaks in names cannot end a comment
        return text + "SELECT *,\n" + ",\n".join(scores) + f"\nFROM {_quoted(table)};\n"


def _columns(features: FeatureMap, model: Any) -> tuple[Any, ...]:
    """Return a linear model's columns; refuse a model that clips whole rows."""
    if isinstance(features, FromSchema):
        return features.schema.columns
    blocks = features.domain.blocks
    if not isinstance(features, Scaled) and any(block.norm != "linf" for block in blocks):
        what, remedy = "has rows clipped as a whole, for which no other tool has a step", "Fit with feature_bounds"
        raise InvalidParameterError("feature_norm", model.feature_norm, what, remedy)
    upper = np.repeat([block.bound for block in blocks], [block.size for block in blocks])
    lower, upper = (features.lower, features.upper) if isinstance(features, Scaled) else (-upper, upper)
    names = [str(name) for name in vars(model).get("feature_names_in_", range(len(upper)))]
    return tuple(map(NumericColumn, names, lower.tolist(), upper.tolist()))


def _functions(rule: dict[str, Any]) -> tuple[Any, ...]:
    """Return functions of NumPy, of numbers (n, 1), and their arguments, that together are a rule's transform."""
    per = 1 / rule.get("scale", 1.0)  # each sign has a column of its own, and their difference is the transform
    signed = (np.outer, {"b": [-per, per]}), (np.clip, {"a_min": 0.0, "a_max": None}), (np.log1p, {}), (np.diff, {})
    return {"none": (), "log1p": ((np.log1p, {}),), "sqrt": ((np.sqrt, {}),), "signed_log": signed}[rule["transform"]]


def _ends(rule: dict[str, Any]) -> tuple[float, float]:
    """Return the ends of a rule's range after its transform."""
    return NumberRange(rule["lower"], rule["upper"], rule["transform"], rule.get("scale", 1.0)).ends


def jumps(rule: dict[str, Any]) -> tuple[Floats, Floats]:
    """Return what a missing or unlisted cell adds to each output, and how much more each vertex adds, (outputs, m)."""
    values = np.array(rule["values"])
    own = rule.get("missing", rule.get("other"))
    rest = values[:, -1] if own else values.mean(1)
    values = values[:, : values.shape[1] - 1] if own else values
    if "levels" in rule:  # an alias adds what its level adds
        values = values[:, [*range(values.shape[1]), *map(rule["levels"].index, rule.get("aliases", {}).values())]]
    return rest, values - rest[:, None]


def _pipeline(model: Any) -> Any:
    """Return the pipeline: it is fitted on public numbers, then its coefficients are replaced by the released ones."""
    try:
        import pandas as pd
    except ImportError:
        raise InvalidParameterError("format", "sklearn", "needs the package pandas", "pip install pandas") from None
    from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LinearRegression, LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, OneHotEncoder, SplineTransformer
    from sklearn.svm import LinearSVC

    facts = model.to_dict()
    steps, cells, coefs, shift = [], {}, [], np.array(facts["intercept"])
    for rule in facts["shapes"]:
        if rule["kind"] == "pair":
            raise InvalidParameterError("interactions", rule["name"], "have no step in scikit-learn", "Leave them out")
        rest, more = jumps(rule)
        shift = shift + rest
        if "levels" in rule:
            listed = [*rule["levels"], *rule.get("aliases", {})]
            levels: Any = [np.array(listed, object)]
            step = OneHotEncoder(categories=levels, handle_unknown="ignore", sparse_output=False)
            cells[rule["column"]] = [listed[0]] * 2
        else:
            functions = [FunctionTransformer(each, kw_args=given) for each, given in _functions(rule)]
            span = rule["lower"], rule["upper"]
            # Clipping comes first, as numbers outside may have no logarithm.
            scalers = [*[MinMaxScaler(span, clip=True)] * bool(functions), *functions, MinMaxScaler(clip=True)]
            # Knots are places in [0, 1], and -1 stands for a missing number, a vertex like any other.
            knots: Any = np.array([-1.0, *rule["knots"]])[:, None]
            hats = SplineTransformer(degree=1, knots=knots, extrapolation="constant")
            step = make_pipeline(*scalers, SimpleImputer(strategy="constant", fill_value=-1.0), hats)
            more = np.hstack([np.zeros((len(more), 1)), more])
            cells[rule["column"]] = list(span)
        steps.append((rule["name"], step, [rule["column"]]))
        coefs.append(more)
    table, coef = pd.DataFrame(cells), np.hstack(coefs)
    if model.schema is None and "feature_names_in_" not in vars(model):  # columns are called by their numbers
        whole = np.zeros((2, model.n_features_in_))
        whole[:, [int(name) for name in cells]] = table.to_numpy()
        table, steps = whole, [(name, step, [int(name)]) for name, step, _ in steps]
    columns = ColumnTransformer(steps)
    if facts["classes"] is None:
        clip = FunctionTransformer(inverse_func=partial(np.clip, a_min=facts["bounds"][0], a_max=facts["bounds"][1]))
        last = TransformedTargetRegressor(LinearRegression(), transformer=clip.set_params(check_inverse=False))
        pipeline = make_pipeline(columns, last).fit(table, facts["bounds"])
        last.regressor_.coef_, last.regressor_.intercept_ = coef[:1], shift[:1]  # pyright: ignore
        return pipeline
    count = len(model.classes_)
    last = LogisticRegression() if facts["slope_cap"] == 1 else LinearSVC(random_state=0)
    labels = np.repeat(np.arange(max(2, count)), 2)  # scikit-learn warns of classes that occur once
    pipeline = make_pipeline(columns, last)
    repeated = np.resize([0, 1], len(labels))
    pipeline.fit(table[repeated] if isinstance(table, np.ndarray) else table.iloc[repeated], labels)
    last.coef_, last.intercept_, last.classes_ = coef, shift, model.classes_
    return pipeline


def _quoted(name: str, mark: str = '"') -> str:
    return mark + name.replace(mark, 2 * mark) + mark


def _number(text: str) -> float:
    """Return the number that a schema reads in a text, true and false being 1 and 0; NaN if it is no number."""
    text = {"true": "1", "false": "0"}.get(text.lower(), text)
    return float(text) if re.match(NUMBER, text.lower()) else math.nan


def _same(text: str) -> list[str]:
    """Return other texts that a database may write for a numeric or Boolean level."""
    if not math.isfinite(number := _number(text)):
        return []
    truth = {0.0: ["false", "FALSE"], 1.0: ["true", "TRUE"]}.get(number, [])
    return [repr(number), *truth, *[str(int(number))] * number.is_integer()]


def _mixture(rule: dict[str, Any], values: list[str]) -> str:
    """Return the SQL of a row's value: `values`, the SQL at each vertex, averaged with the row's vertex weights."""
    if rule["kind"] == "pair":
        first = rule["first"]
        count = len(first["levels"]) + first["other"] if "levels" in first else len(first["knots"]) + first["missing"]
        width = len(values) // count
        parts = [values[start : start + width] for start in range(0, len(values), width)]
        return _mixture(first, [_mixture(rule["second"], part) for part in parts])
    cell, even = _quoted(rule["column"]), f"({' + '.join(values)}) / {len(values)}.0"
    if "levels" in rule:
        spelt = dict(zip(rule["levels"], values, strict=False))
        spelt |= {alias: spelt[level] for alias, level in rule.get("aliases", {}).items()}
        for text, value in list(spelt.items()):
            spelt = dict.fromkeys(_same(text), value) | spelt
        cases = [f"WHEN {_quoted(text, chr(39))} THEN {value}" for text, value in spelt.items()]
        return f"CASE TRIM(CAST({cell} AS VARCHAR)) {' '.join(cases)} ELSE {values[-1] if rule['other'] else even} END"
    # For a column with a formula, the numbers listed as missing concern its inputs.
    for none in filter(math.isfinite, map(_number, () if "formula" in rule else rule.get("absent", ()))):
        cell = f"NULLIF({cell}, {none!r})"
    low, high, knots = rule["lower"], rule["upper"], rule["knots"]
    place = f"CASE WHEN {cell} < {low!r} THEN {low!r} WHEN {cell} > {high!r} THEN {high!r} ELSE {cell} END"
    scale = float(rule.get("scale", 1.0))
    signed = f"(SIGN({place}) * LN(1 + ABS({place}) / {scale!r}))"
    forms = {"none": place, "sqrt": f"SQRT({place})", "log1p": f"LN(1 + {place})", "signed_log": signed}
    place, (low, high) = forms[rule["transform"]], _ends(rule)
    place = f"(({place} - {low!r}) / {high - low!r})"
    cases = [
        f"WHEN {place} <= {right!r} THEN ({a}) + (({b}) - ({a})) * ({place} - {left!r}) / {right - left!r}"
        for left, right, a, b in zip(knots, knots[1:], values, values[1:], strict=False)
    ]
    empty = values[-1] if rule["missing"] else even
    return f"CASE WHEN {cell} IS NULL THEN {empty} {' '.join(cases)} ELSE {values[len(knots) - 1]} END"


def _unused(columns: set[str]) -> str:
    """Return what no column's name begins with: inputs and constants of an ONNX model share one list of names."""
    for name in {"score", "prediction"} & columns:
        raise InvalidParameterError("column", name, "is the name of an output of ONNX models", "Rename the column")
    begins = "of model "
    while any(name.startswith(begins) for name in columns):
        begins += "of model "
    return begins


def to_onnx(model: Any) -> Any:
    """Return a double-precision ONNX model with an input (n, 1) per column, and outputs ``score``, ``prediction``.

    Raises
    ------
    InvalidParameterError
        If the model has pairs, or a column that is called as an output.
    """
    _validate.installed("onnx")
    from onnx import TensorProto, checker, helper, numpy_helper  # pyright: ignore[reportMissingImports]

    facts, nodes, constants, inputs = model.to_dict(), list[Any](), list[Any](), list[Any]()
    inner = _unused({rule.get("column", "") for rule in facts["shapes"]})

    def const(value: Any) -> str:
        constants.append(numpy_helper.from_array(np.asarray(value), f"{inner}c{len(constants)}"))
        return constants[-1].name

    def op(kind: str, *names: str, **how: Any) -> str:
        nodes.append(helper.make_node(kind, names, [f"{inner}v{len(nodes)}"], **how))
        return nodes[-1].output[0]

    score = const(np.array(facts["intercept"])[None])
    for rule in facts["shapes"]:
        if rule["kind"] == "pair":
            raise InvalidParameterError("interactions", rule["name"], "have no counterpart in ONNX", "Leave them out")
        rest, more = jumps(rule)
        text = "levels" in rule
        kind = TensorProto.STRING if text else TensorProto.DOUBLE
        inputs.append(helper.make_tensor_value_info(rule["column"], kind, ["n", 1]))
        if text:
            listed = [*rule["levels"], *rule.get("aliases", {})]
            how = {"keys_strings": listed, "values_int64s": [*range(len(listed))], "default_int64": len(listed)}
            place = op("Squeeze", op("LabelEncoder", rule["column"], domain="ai.onnx.ml", **how), const([1]))
            term = op("Gather", const(np.vstack([more.T, np.zeros(len(rest))])), place)
        else:
            first, last = _ends(rule)
            x = op("Clip", rule["column"], const(float(rule["lower"])), const(float(rule["upper"])))
            if rule["transform"] == "sqrt":
                x = op("Sqrt", x)
            elif rule["transform"] == "signed_log":
                size = op("Div", op("Abs", x), const(float(rule.get("scale", 1.0))))
                x = op("Mul", op("Sign", x), op("Log", op("Add", size, const(1.0))))
            elif rule["transform"] == "log1p":
                x = op("Log", op("Add", x, const(1.0)))
            u = op("Div", op("Sub", x, const(first)), const(last - first))
            u = op("Where", op("IsNaN", rule["column"]), const(-1.0), u)
            knots = np.array([-1.0, *rule["knots"]])
            ramps = op("Div", op("Sub", u, const(knots[None, :-1])), const(np.diff(knots)[None]))
            rises = np.diff(more, axis=1, prepend=0.0).T
            term = op("MatMul", op("Clip", ramps, const(0.0), const(1.0)), const(rises))
        score = op("Add", score, op("Add", term, const(rest[None])))
    if facts["classes"] is None:
        found, kind = op("Clip", score, *map(const, facts["bounds"])), TensorProto.DOUBLE
    else:  # positions among the classes
        two, kind = len(facts["intercept"]) == 1, TensorProto.INT64
        found = op("Cast", op("Greater", score, const(0.0)), to=kind) if two else op("ArgMax", score, axis=1)
    nodes += [helper.make_node("Identity", [a], [b]) for a, b in ((score, "score"), (found, "prediction"))]
    outputs = [
        helper.make_tensor_value_info("score", TensorProto.DOUBLE, ["n", len(facts["intercept"])]),
        helper.make_tensor_value_info("prediction", kind, ["n", 1]),
    ]
    graph = helper.make_graph(nodes, "dpconvex", inputs, outputs, constants)
    versions = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", 2)]
    made = helper.make_model(graph, opset_imports=versions, ir_version=9, producer_name="dpconvex")
    helper.set_model_props(made, {key: json.dumps(facts[key]) for key in ("format", "version", "classes", "model")})
    checker.check_model(made)
    return made


def to_card(model: Any, metrics: dict[str, Any] | None = None) -> str:
    """Return a model card in Markdown: promise, data, metrics and limits, from released numbers and public facts."""
    certificate, task = model.certificate_, "classification" if "classes_" in vars(model) else "regression"
    lines = ["---", "library_name: dpconvex", f"tags: [tabular-{task}, differential-privacy]", "---", ""]
    lines += [f"# {type(model).__name__}", "", "## Promise", "", "```text", certificate.explain(), "```", ""]
    lines += [f"Model `{certificate.model}`. Check it: `dpconvex verify certificate.json`.", "", "## Data", ""]
    lines += [f"- {key}: {value}" for key, value in certificate.public.items() if isinstance(value, str | int | float)]
    if model.schema is not None:
        lines += ["", "| column | public range or list | who says so |", "|---|---|---|"]
        for part, declared in zip(model.found_schema_.parts, model.schema.parts, strict=True):
            given = part.to_dict()
            listed = given.get("categories", given.get("classes", ()))
            more = f" and {len(listed) - 8} more" * (len(listed) > 8)
            ends = (f"{given[name]:g}" for name in ("lower", "upper") if name in given)
            text = ", ".join(listed[:8]) + more or " to ".join(ends)
            said = part.source or model.schema.source
            lines.append(_row(part.name, text, said if part == declared else "found privately by the fit (released)"))
    none = "None were released. `dpconvex evaluate` measures them privately, with intervals."
    lines += ["", "## Metrics", ""]
    lines += [none] if metrics is None else _metrics_table(metrics)
    limits = "The promise rests on what is listed above. Noise moves every coefficient, most where the data say little."
    unfair = "The model knows the people of its table alone, and repeats what was unfair there."
    return "\n".join([*lines, "", "## Limits", "", limits, unfair, ""])


def _metrics_table(metrics: dict[str, Any]) -> list[str]:
    """Return lines of Markdown: the first metrics of a ``metrics.json``, those of single classes last."""
    found = metrics.get("metrics", metrics)
    names = sorted(found, key=lambda name: "[" in name)
    lines = ["| metric | value | 95 % interval |", "|---|---|---|"]
    for name in names[:MOST_METRICS]:
        numbers = found[name] if isinstance(found[name], list) and found[name] else [found[name]]
        texts = [f"{each:.4g}" if isinstance(each, int | float) else "not known" for each in numbers]
        lines.append(_row(name, texts[0], " to ".join(texts[1:])))
    more = f"{len(names) - MOST_METRICS} more are in `metrics.json`." * (len(names) > MOST_METRICS)
    told = (more, metrics.get("scope"), metrics.get("promise"))
    return lines + [part for text in told if text for part in ("", html.escape(text))]


def _row(*cells: str) -> str:
    """Return a row of a table in Markdown."""
    safe = (html.escape(cell).replace("|", "&#124;") for cell in cells)
    return " ".join(f"| {' | '.join(safe)} |".split())
