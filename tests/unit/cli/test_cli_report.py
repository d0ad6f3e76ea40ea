"""The report: self-contained, escaped, true to the certificate; and the demo, which fills its measured figure."""

from __future__ import annotations

import html
import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpconvex import PrivateLogisticRegression, load_model, verify
from dpconvex.cli.report import Measured, promise, write_report

VOID = {"meta", "br", "path", "use"}


class Page(HTMLParser):
    """Tags, attributes that load something, and whether every tag is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loads += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href", "data", "srcset")]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag


def fitted(**options: Any) -> PrivateLogisticRegression:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(400, 3))
    labels = np.asarray(options.get("classes", [0, 1]))
    y = labels[(X[:, 0] * len(labels) / 2 + len(labels) / 2).astype(int)]
    return PrivateLogisticRegression(**{"feature_bounds": (-1, 1), **options}).fit(X, y)


def written(model: PrivateLogisticRegression, folder: Path, measured: Measured | None = None) -> str:
    write_report(model, folder / "r.html", measured)
    return (folder / "r.html").read_text(encoding="utf-8")


def test_report_loads_nothing_and_is_well_formed(fitted_folder: Path) -> None:
    text = (fitted_folder / "report.html").read_text(encoding="utf-8")
    page = Page(text)
    assert page.open == []
    assert all(link.startswith("#") for link in page.loads)
    assert not {"script", "link", "iframe", "img", "object"} & set(page.tags)
    assert all(target.startswith("#") for target in re.findall(r"url\(['\"]?([^)'\"]+)", text))
    assert "@import" not in text
    # The only addresses are the names of the SVG vocabularies, which nothing fetches.
    assert {a for a in re.findall(r"https?://[^\"'\s<)]+", text) if not a.startswith("http://www.w3.org/")} == set()
    assert page.tags.count("svg") == 2


def test_report_says_what_the_certificate_says(fitted_folder: Path) -> None:
    text = html.unescape((fitted_folder / "report.html").read_text(encoding="utf-8"))
    certificate = load_model(fitted_folder / "model.skops").certificate_
    assert certificate.explain() in text
    assert promise(certificate) in text
    assert "factor of 7.39" in text  # e^2
    assert certificate.to_dict()["digest"] in text
    assert "dpconvex verify certificate.json" in text
    for assumption in certificate.assumptions:
        assert assumption.statement in text
    for release in certificate.releases:
        assert release.sensitivity.lemma in text


def test_figures_use_the_colours_and_fonts_of_the_page(fitted_folder: Path) -> None:
    text = (fitted_folder / "report.html").read_text(encoding="utf-8")
    drawing = "".join(re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL))
    assert set(re.findall(r"(?:fill|stroke): ?(#\w+)", drawing)) <= {"#ffffff"}
    assert "var(--ink)" in drawing
    assert "DejaVu" not in drawing


def test_names_and_labels_are_escaped_everywhere(tmp_path: Path) -> None:
    model = fitted(classes=["<script>alert(1)</script>", "$x^2$ & <b>", "c"])
    text = written(model, tmp_path)
    page = Page(text)
    assert page.open == []
    assert "script" not in page.tags
    assert "b" not in page.tags
    assert "$x^2$ &amp; &lt;b&gt;" in text


def test_a_seeded_model_is_called_not_private(tmp_path: Path) -> None:
    text = written(fitted(random_state=1), tmp_path)
    assert "This model is not private" in text
    assert "promise to everyone" not in text


def test_a_vacuous_plan_is_called_so(tmp_path: Path) -> None:
    assert "promises nothing about the quality" in written(fitted(epsilon=0.001), tmp_path)
    assert "promises nothing about the quality" not in written(fitted(epsilon=50.0), tmp_path)


def test_the_same_model_gives_the_same_page(tmp_path: Path) -> None:
    model = fitted()
    assert written(model, tmp_path) == written(model, tmp_path)


@pytest.mark.parametrize(
    "options",
    [
        {"epsilon": 1e-4},
        {"epsilon": 1e4},
        {"delta": 1e-6},
        {"algorithm": "output_perturbation", "constants": "paper"},
        {"l2": 0.5},
        {"fit_intercept": False},
        {"feature_bounds": None, "feature_norm": 2.0},
    ],
    ids=str,
)
def test_every_kind_of_model_has_a_report(tmp_path: Path, options: dict[str, Any]) -> None:
    assert Page(written(fitted(**options), tmp_path)).tags.count("svg") == 2


def test_measured_accuracies_are_drawn_and_marked_public(tmp_path: Path) -> None:
    text = written(fitted(), tmp_path, Measured((0.5, 2.0), (0.71, 0.82), 0.6, 0.9, "Public data."))
    assert text.count("<svg") == 3
    for label in ("71.0 %", "82.0 %", "not private 90.0 %", "larger class only 60.0 %", "Public data."):
        assert label in text


def test_quick_demo_leaves_a_verified_private_model(run: Any, tmp_path: Path) -> None:
    result = run("demo", "--quick", "--json")
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)
    assert [row["epsilon"] for row in rows] == [None, None, 1.0, 3.0]
    assert result.stderr == ""  # no progress bar where there is no terminal
    majority, plain, _, private = rows
    assert majority["accuracy"] < private["accuracy"] <= plain["accuracy"] + 0.01
    assert verify(tmp_path / "demo" / "certificate.json").passed
    assert load_model(tmp_path / "demo" / "model.skops").epsilon == 1.0
    text = (tmp_path / "demo" / "report.html").read_text(encoding="utf-8")
    assert "mean of 2 random splits, 8,000 records to fit and 9,036 to test" in text


@pytest.mark.slow
def test_demo_reaches_the_measured_accuracies(run: Any) -> None:
    """Means of an independent prototype: 0.821, 0.839, 0.845, 0.845; five standard deviations off."""
    rows = json.loads(run("demo", "--json").stdout)
    accuracies = [row["accuracy"] for row in rows[2:]]
    np.testing.assert_array_less([0.78, 0.83, 0.84, 0.842], accuracies)
    assert rows[1]["accuracy"] == pytest.approx(0.848, abs=0.003)
