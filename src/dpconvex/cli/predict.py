"""``dpconvex predict``: apply a model file to a table."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from dpconvex.cli._console import one_line_errors
from dpconvex.cli._folder import MODEL
from dpconvex.errors import InvalidDataError, InvalidParameterError


@one_line_errors
def predict(
    model: Annotated[Path, typer.Argument(help="Model folder, or model.skops.")],
    table: Annotated[Path, typer.Argument(help="CSV or Parquet file; the target column is not needed.")],
    proba: Annotated[
        bool, typer.Option("--proba", help="Also write the probability of every class (logistic models).")
    ] = False,
    output: Annotated[Path | None, typer.Option(help="CSV file to write. Default: stdout.")] = None,
) -> None:
    """Write one predicted label or number a row, as CSV."""
    import pyarrow as pa
    import pyarrow.csv as pacsv

    from dpconvex.data import read_table, write_atomically
    from dpconvex.estimators import PrivateSparseClassifier, ProbabilisticClassifier
    from dpconvex.estimators.persistence import load_model

    estimator = load_model(model / MODEL if model.is_dir() else model)
    if estimator.schema is None:
        raise InvalidDataError(f"{model}: the model has no schema to read tables with. Use it from Python")
    if proba and not isinstance(estimator, ProbabilisticClassifier | PrivateSparseClassifier):
        raise InvalidParameterError(
            "proba", proba, f"needs a model that gives probabilities, and this is {type(estimator).__name__}", ""
        )
    features = read_table(table, estimator.schema, features_only=True)
    columns = {"prediction": pa.array(estimator.predict(features))}
    if isinstance(estimator, ProbabilisticClassifier | PrivateSparseClassifier) and proba:
        probabilities = estimator.predict_proba(features)
        columns |= {f"p({label})": pa.array(probabilities[:, k]) for k, label in enumerate(estimator.classes_)}
    result = pa.table(columns)
    if output is not None:
        write_atomically(output, lambda file: pacsv.write_csv(result, file))
        return
    sink = pa.BufferOutputStream()
    pacsv.write_csv(result, sink)
    sys.stdout.write(sink.getvalue().to_pybytes().decode())
