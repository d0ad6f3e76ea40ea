"""Somebody who knows scikit-learn: frames, pipelines, weights, sparse text, and a model that leaves."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from dpconvex import PrivateLogisticRegression
from dpconvex.errors import InvalidParameterError

sys.path.insert(0, str(Path(__file__).parent))
import hospital

NUMBERS = ["pulse", "creatinine", "sodium", "crp"]


@pytest.fixture(scope="module")
def stays() -> pd.DataFrame:
    table = pd.DataFrame(hospital.columns())
    table[NUMBERS] = table[NUMBERS].apply(pd.to_numeric, errors="coerce").replace(-999, np.nan)
    return table


def test_from_frame_to_plain_pipeline(stays: pd.DataFrame) -> None:
    X, y = stays[NUMBERS], stays["readmitted"]
    labels = sorted(y.unique())
    bounds = [(40, 160), (0, 5), (120, 160), (0, 100)]
    model = PrivateLogisticRegression(2.0, feature_bounds=bounds, classes=labels, weight_cap=2.0, random_state=0)
    weights = np.where(stays["sex"] == "female", 2.0, 1.0)
    model = clone(model).fit(X, y, sample_weight=weights)
    assert pickle.loads(pickle.dumps(model)).predict(X).tolist() == model.predict(X).tolist()
    plain = model.set_params(probabilities="sigmoid").to_sklearn()
    np.testing.assert_allclose(plain.predict_proba(X), model.predict_proba(X), rtol=0, atol=1e-12)
    pipeline = make_pipeline(FunctionTransformer(), clone(model).set_params(weight_cap=None)).fit(X, y)
    assert set(pipeline.predict(X)) <= set(labels)
    with pytest.raises(AttributeError, match="fit once"):
        model.partial_fit(X, y)


@pytest.mark.gate
def test_words_stay_sparse_and_balance_is_refused() -> None:
    rng = np.random.default_rng(0)
    X = scipy.sparse.random_array((300, 50_000), density=0.001, rng=rng, format="csr")
    y = rng.integers(0, 2, 300)
    model = PrivateLogisticRegression(2.0, feature_norm=1.0, classes=[0, 1], random_state=0)
    assert model.fit(X, y).predict(X).shape == (300,)
    with pytest.raises(InvalidParameterError, match="public share"):
        model.set_params(class_weight="balanced").fit(X, y)
