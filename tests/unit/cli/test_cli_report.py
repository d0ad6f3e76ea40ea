"""The report: self-contained, escaped, true to the certificate; and the demo, which fills its measured figure."""

from __future__ import annotations

import html
import json
import re
from datetime import UTC, datetime
from decimal import Decimal
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from dpconvex import PrivateLasso, PrivateLogisticRegression, PrivateWorstGroupClassifier, load_model, verify
from dpconvex.algorithms import PredictedError
from dpconvex.cli import report as figures
from dpconvex.cli._output import number
from dpconvex.cli.budget import Paid
from dpconvex.cli.fit import write_outputs
from dpconvex.cli.report import Measured, Origin, _coefficients, _factor, promise, write_report
from dpconvex.cli.shapes import _draw
from dpconvex.errors import DpconvexWarning, HopelessPlanWarning
from dpconvex.privacy import PrivacyParams
from dpconvex_experiments.adult import MAJORITY, NOT_PRIVATE, accuracy_figure

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
    options = {"feature_bounds": (-1, 1), "classes": [0, 1], **options}
    labels = np.asarray(options["classes"])
    y = labels[(X[:, 0] * len(labels) / 2 + len(labels) / 2).astype(int)]
    return PrivateLogisticRegression(**options).fit(X, y)


def written(model: Any, folder: Path, measured: Measured | None = None, origin: Origin | None = None) -> str:
    write_report(model, folder / "r.html", origin, measured)
    return (folder / "r.html").read_text(encoding="utf-8")


def words_of(text: str) -> str:
    """The words of a page, as one line."""
    body = re.sub(r"<style>.*?</style>", "", text, flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]*>", " ", body)).split())


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
    assert page.tags.count("svg") == 1


def test_report_says_what_the_certificate_says(fitted_folder: Path) -> None:
    text = html.unescape((fitted_folder / "report.html").read_text(encoding="utf-8"))
    certificate = load_model(fitted_folder / "model.skops").certificate_
    assert certificate.explain() in text
    assert promise(certificate) in text
    assert "factor of 7.39" in text  # e^2
    assert certificate.to_dict()["digest"] in text
    assert "dpconvex verify FOLDER" in text
    for assumption in certificate.assumptions:
        assert assumption.statement in text
    for release in certificate.releases:
        assert release.sensitivity.lemma in text


def test_figures_use_the_colors_and_fonts_of_the_page(fitted_folder: Path) -> None:
    text = (fitted_folder / "report.html").read_text(encoding="utf-8")
    drawing = "".join(re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL))
    assert set(re.findall(r"(?:fill|stroke): ?(#\w+)", drawing)) <= {"#ffffff"}
    assert "var(--ink)" in drawing
    assert "DejaVu" not in drawing


def test_the_curves_of_several_classes_share_an_axis_that_is_logarithmic() -> None:
    """The second class met an axis that the first had made logarithmic, and a paid fit ended without its model."""
    axes, colors = Figure().subplots(), ("#000", "#888", "#ddd", "#ccc")
    shape = SimpleNamespace(vertices=(0.0, 1.0, 10.0, 1000.0), interval=None, log_from=None)
    for values in (np.arange(4.0), -np.arange(4.0)):
        _draw(axes, shape, values, np.array([values - 1, values + 1]), colors)
    assert axes.get_xscale() == "symlog"


def test_lines_that_are_straight_in_a_logarithm_are_drawn_so() -> None:
    """With knots at the ends alone, too: on a linear axis the line through them was not what the model predicts."""
    for log_from, scale in ((None, "linear"), (1.0, "symlog"), (250.0, "symlog")):
        axes, values = Figure().subplots(), np.array([-1.0, 1.0])
        shape = SimpleNamespace(vertices=(0.0, 20_000.0), interval=None, log_from=log_from)
        _draw(axes, shape, values, np.array([values - 1, values + 1]), ("#000", "#888", "#ddd", "#ccc"))
        assert axes.get_xscale() == scale


def test_a_report_that_fails_does_not_cost_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "write_report", lambda *_: 1 / 0)
    with pytest.warns(DpconvexWarning, match="ZeroDivisionError"):
        write_outputs(fitted(), tmp_path, Origin())
    assert {path.name for path in tmp_path.iterdir()} == {"model.skops", "certificate.json"}


@pytest.mark.gate
def test_a_hopeless_fit_is_called_so(tmp_path: Path) -> None:
    with pytest.warns(HopelessPlanWarning):
        text = written(fitted(epsilon=1e-6), tmp_path)
    assert "This fit was hopeless by its plan" in text
    assert "hopeless" not in written(fitted(epsilon=20.0), tmp_path)


@pytest.mark.gate
def test_only_methods_with_guaranteed_bands_are_compared_with_them(tmp_path: Path) -> None:
    model = fitted(epsilon=20.0, algorithm="recentering")
    assert model.plan_.noise_reach() is None
    text = written(model, tmp_path)
    assert "no band is guaranteed" in text
    assert "none is larger" not in text


def test_the_stated_factor_is_never_below_the_promised_one() -> None:
    for epsilon in (1e-13, 1e-6, 1e-4, 0.01, 0.05, 0.1, 0.3, 1.0, 2.0, 5.0, 6.9):
        stated = float(_factor(epsilon))
        assert np.exp(epsilon) <= stated <= 1 + 1.1 * np.expm1(epsilon) + 1e-12, epsilon


def test_names_and_labels_are_escaped_everywhere(tmp_path: Path) -> None:
    model = fitted(classes=["<script>alert(1)</script>", "$x^2$ & <b>", "c"])
    text = written(model, tmp_path)
    page = Page(text)
    assert page.open == []
    assert "script" not in page.tags
    assert "b" not in page.tags
    assert "$x^2$ &amp; &lt;b&gt;" in text


def test_coefficients_of_two_levels_are_explained(fitted_folder: Path) -> None:
    words = words_of((fitted_folder / "report.html").read_text(encoding="utf-8"))
    assert "for a level of a category: against none of the listed ones" in words
    assert "for a category of two levels alone, which has one coefficient: the second level against the first." in words


def test_a_seeded_model_is_called_not_private(tmp_path: Path) -> None:
    text = written(fitted(random_state=1), tmp_path)
    assert "This model is not private" in text
    assert "promise to everyone" not in text


def test_the_lead_names_what_is_protected_and_warns_where_it_is_rows(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, size=(400, 3))
    rows = words_of(written(fitted(), tmp_path))
    assert "Replacing one row changes the probability of any result by at most a factor of 2.72." in rows
    assert "One row is protected, not one person." in rows
    assert "two rows by a factor of 7.39 only" in rows
    model = PrivateLogisticRegression(1.0, feature_bounds=(-1, 1)).fit(X, X[:, 0] > 0, groups=np.arange(400) // 4)
    users = words_of(written(model, tmp_path))
    assert "Replacing everything that one person contributed changes the probability" in users
    assert "not one person" not in users


def test_the_report_names_where_the_model_comes_from(fitted_folder: Path, tmp_path: Path) -> None:
    certificate = load_model(fitted_folder / "model.skops").certificate_.to_dict()
    found = words_of((fitted_folder / "report.html").read_text(encoding="utf-8"))
    for told in (
        "data set train.csv",
        f"date {datetime.now(UTC).date().isoformat()}",
        "purpose a <test> of reports",
        "source of bounds and categories UCI Machine Learning Repository",
        "age 17 to 90",
        certificate.get("model", certificate["digest"]),
    ):
        assert told in found, told
    assert "budget " not in found.partition("What was spent")[0]
    plain = words_of(written(fitted(), tmp_path))
    for name in ("data set", "purpose", "source of bounds and categories"):
        assert f"{name} not stated" in plain
    taken = Paid("b.json", PrivacyParams(0.1), Decimal("0.2"), Decimal(0), tmp_path / "b.json", 1)
    assert "b.json: epsilon 0.3, delta 0 before; epsilon 0.2, delta 0 after" in words_of(
        written(fitted(), tmp_path, origin=Origin("t.csv", paid=taken))
    )


@pytest.mark.gate
def test_coefficients_are_ordered_by_size_only_beyond_their_guaranteed_band(tmp_path: Path) -> None:
    for epsilon, algorithm in ((1.0, "objective_perturbation"), (8.0, "output_perturbation")):
        model = fitted(epsilon=epsilon, algorithm=algorithm, random_state=0, l2=0.01)
        rows = _coefficients(model)
        reach = model.plan_.noise_reach()
        assert reach is not None
        by_name = {row["name"]: row for row in rows}
        assert by_name["feature 1"]["reach"] == reach[1]
        assert by_name["intercept"]["reach"] == pytest.approx(reach[3] * model.plan_.problem.domain.intercept)
        sure = [row for row in rows if row["sure"]]
        assert rows[: len(sure)] == sorted(sure, key=lambda row: -abs(row["value"]))
        left = [row["name"] for row in rows[len(sure) :]]
        assert left == sorted(left)  # the order of the columns
        assert all(abs(row["value"]) > row["reach"] for row in sure)
        page = written(model, tmp_path)
        assert page.count('class="dot"') == len(rows)
        assert words_of(page).count("± ") == len(rows)
        told = words_of(page)
        assert ("off by up to 16 times where columns are collinear or levels rare" in told) == (epsilon == 1.0)
        assert "signific" not in told
        assert "No band says whether an effect exists" in told
    assert 0 < len(sure) < 4  # the last model has both kinds


@pytest.mark.gate
def test_a_band_that_nobody_knows_is_called_so(tmp_path: Path) -> None:
    model = fitted(algorithm="noisy_gradient", delta=1e-6)
    assert model.plan_.noise_reach() is None
    found = words_of(written(model, tmp_path))
    assert found.count("not known") >= 4
    assert "none is known that holds for every data set" in found
    assert "Estimate in the place of a bound, which is not known" in found


KINDS: list[dict[str, Any]] = [
    {},
    {"epsilon": 1e-4},
    {"epsilon": 1e4},
    {"fit_intercept": False, "l2": 0.5},
    {"delta": 1e-6, "algorithm": "noisy_gradient"},
    {"algorithm": "output_perturbation", "constants": "paper", "l2": 0.5},
    {"risk": "population"},
    {"tilt": 0.5},
    {"algorithm": "recentering", "epsilon": 50.0},
    {"algorithm": "random_projection", "feature_bounds": None, "feature_norm": 1.0},
]


@pytest.mark.gate
def test_no_report_calls_an_expectation_a_bound(tmp_path: Path) -> None:
    """Over all words of reports of every kind: no sentence speaks of both, and each number stands in one of its own."""
    rng = np.random.default_rng(0)
    wide = rng.uniform(-1, 1, size=(400, 16)) / 4
    labels = wide[:, 0] > 0
    for options in KINDS:
        model = PrivateLogisticRegression(**{"feature_bounds": (-1, 1), **options}).fit(wide, labels)
        error, text = model.plan_.predicted_error, written(model, tmp_path)
        found = words_of(text)
        assert Page(text).tags.count("svg") == 1, options
        pieces = (words_of(piece) for piece in re.split(r"</?(?:td|th|li|p|h\d|figcaption|summary|pre|text)\b", text))
        for sentence in (each for piece in pieces for each in re.split(r"\.(?= [A-Z]|$)", piece)):
            guess = re.search(r"\b(expect\w*|guess\w*|typical\w*)\b", sentence, flags=re.IGNORECASE)
            sure = re.search(r"\b(bound|bounds|guarantee\w*|at most|proved|no more than)\b", sentence)
            assert not (guess and sure), sentence
        assert "usually" not in found
        planned = found.partition("What was planned")[2]
        kind = "Bound: " if error.proved else "Estimate in the place of a bound, which is not known: "
        assert f"{kind}{number(error.bound)}" in planned, options
        if error.expected is None:
            assert "Expected:" not in planned
        else:
            assert f"Expected: {number(error.expected)}, a guess for typical data, not a limit" in planned


PLACED = r'<text [^>]*?(?:x="([-\d.]+)" y="([-\d.]+)"|translate\(([-\d.]+) ([-\d.]+)\))[^>]*>([^<]+)<'
"""Place and words of a text in a drawing."""


@pytest.mark.gate
def test_names_in_the_figure_of_plans_do_not_meet() -> None:
    grid = np.geomspace(0.05, 10, 9)
    for size in (1e-4, 0.01, 1.0):
        for ratio in (1.5, 20.0):
            for epsilon in (0.06, 1.0):
                error = PredictedError(size * ratio / epsilon, 0.693, "s", expected=size / epsilon)
                curves = (size * ratio / grid).tolist(), (size / grid**1.5).tolist()
                drawing = figures.loss_figure(grid.tolist(), *curves, error, epsilon, 0.41)
                found = re.findall(PLACED, drawing)
                places = [(float(a or c), float(b or d), name) for a, b, c, d, name in found]
                named = [place for place in places if place[2] in ("bound", "expected")]
                assert named
                for x, y, name in named:
                    for u, v, other in places:
                        near = abs(x - u) < 50 and abs(y - v) < 10
                        assert other == name or not near, (size, ratio, epsilon, name, other)


@pytest.mark.gate
def test_public_rates_of_the_classes_give_a_yardstick(tmp_path: Path) -> None:
    entropy = -0.86 * np.log(0.86) - 0.14 * np.log(0.14)
    for rates, level in ((None, 0.693), ([0.86, 0.14], entropy)):
        model = fitted(rates=rates, slope_cap=1.0, classes=[0, 1])
        write_report(model, tmp_path / "report.html")
        text = " ".join((tmp_path / "report.html").read_text(encoding="utf-8").split())
        assert model.plan_.predicted_error.trivial == pytest.approx(level, rel=1e-3)
        assert ("Yardstick: predicting the public rates of the classes" in text) == (rates is not None)
        assert ("equal probabilities for all classes lose 0.693" in text) == (rates is not None)


def test_nothing_in_the_page_is_wider_than_a_telephone(fitted_folder: Path) -> None:
    """Every figure shrinks with the page (looked at in a browser: 390 and 1,280 pixels)."""
    style = re.search(r"<style>(.*?)</style>", (fitted_folder / "report.html").read_text(encoding="utf-8"), re.DOTALL)
    assert style is not None
    assert "min-width" not in style.group(1)
    assert re.search(r"figure svg \{[^}]*width: 100%", style.group(1))


@pytest.mark.gate
def test_a_vacuous_plan_is_called_so(tmp_path: Path) -> None:
    assert "promises nothing about the quality" in written(fitted(epsilon=0.001), tmp_path)
    assert "promises nothing about the quality" not in written(fitted(epsilon=50.0), tmp_path)


def test_the_same_model_gives_the_same_page(tmp_path: Path) -> None:
    model = fitted()
    assert written(model, tmp_path) == written(model, tmp_path)


def test_measured_accuracies_are_drawn_and_marked_public(tmp_path: Path) -> None:
    found = [(MAJORITY, None, 0.6), (NOT_PRIVATE, None, 0.9), ("private", 0.5, 0.71), ("private", 2.0, 0.82)]
    figure = accuracy_figure([{"model": name, "epsilon": e, "accuracy": value} for name, e, value in found])
    text = written(fitted(), tmp_path, Measured(figure, "Public data."))
    assert text.count("<svg") == 2
    for label in ("71.0 %", "82.0 %", "not private 90.0 %", "larger class only 60.0 %", "Public data."):
        assert label in text


@pytest.mark.gate
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
    assert rows[1]["accuracy"] == pytest.approx(0.842, abs=0.004)  # not private


@pytest.mark.filterwarnings("ignore::dpconvex.errors.HopelessPlanWarning")
def test_the_page_of_a_sparse_model_lists_its_largest_coefficients(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.choice([-1.0, 1.0], size=(4000, 400)), columns=[f"<b>{k}" for k in range(400)])
    y = np.clip(2 * X["<b>7"] + rng.normal(size=4000), -8, 8)
    options: dict[str, Any] = {"feature_bound": 1.0, "target_bounds": (-8, 8)}
    model = PrivateLasso(20.0, **options).fit(X, y)
    text = written(model, tmp_path)
    assert Page(text).open == []
    words = words_of(text)
    assert f"{model.sparsity_} of 400 columns have a coefficient other than 0; the largest come first" in words
    assert re.search(r"value <b>7 0?\.\d+|value <b>7 \d", words)  # the first row
    assert model.certificate_.explain().split("\n")[0] in words
    assert "Then make a table with one row a person" in words
    assert "--user-column" not in words
    assert f"is at most {number(model.plan_.predicted_error.bound)} above" in words
    many = written(PrivateLasso(20.0, algorithm="gaussian_mirror_descent", **options).fit(X, y), tmp_path)
    assert "and 300 are listed" in words_of(many)
    assert many.count('class="dot"') == 301  # and the intercept
    words = words_of(written(PrivateLasso(0.001, **options).fit(X, y), tmp_path))
    assert "No column has a coefficient other than 0: the answer is the same for all" in words


def test_the_page_of_a_worst_group_shows_how_groups_were_weighed(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X, group = rng.uniform(-1, 1, size=(2000, 2)), rng.integers(0, 2, size=2000)
    options: dict[str, Any] = {"feature_bound": 1.0, "groups": ["A&B", "C"], "algorithm": "vertex_mirror_descent"}
    model = PrivateWorstGroupClassifier(5.0, **options).fit(X, X[:, 0] > 0, groups=np.array(["A&B", "C"])[group])
    text = written(model, tmp_path)
    assert Page(text).open == []
    share, weight = number(model.group_shares_[0], 3), number(model.group_weights_[0], 3)
    assert f"A&B {share} {weight}" in words_of(text)
    assert "to the right means more likely “True”" in words_of(text)


def test_reports_say_what_the_columns_were_found_to_sum_to(run: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = pd.DataFrame((rng.random((2000, 16)) < 0.02) * 1, columns=[f"c{k}" for k in range(16)]).assign(y="a")
    table.to_csv(tmp_path / "t.csv", index=False)
    lines = [f"[columns.c{k}]\nlower = 0\nupper = 1\nstep = 1\n" for k in range(16)]
    (tmp_path / "s.toml").write_text('confirmed = true\n[target]\nname = "y"\nclasses = ["a", "b"]\n' + "".join(lines))
    asked = [tmp_path / "t.csv", "--schema", tmp_path / "s.toml", "--epsilon", "1", "--output", tmp_path / "m"]
    told = run("fit", *asked, "--algorithm", "joint_bound").output
    assert "sum of 16 columns at most" in " ".join(told.split())
    assert "sum of 16 columns" in (tmp_path / "m" / "report.html").read_text()
