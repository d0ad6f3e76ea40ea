"""A report fits the screen of a phone and of a desktop, light and dark, in a real browser.

The pages of the documentation are looked at in the same way when they are built: ``make docs``.
"""

from __future__ import annotations

import runpy
import shutil
from pathlib import Path
from typing import Any

import pytest

TOOL: dict[str, Any] = runpy.run_path(str(Path(__file__).parents[3] / "tools" / "overflow.py"))
pytestmark = pytest.mark.skipif(TOOL["browser"]() is None, reason="no Chromium is installed")


@pytest.mark.gate
def test_a_report_fits_and_what_does_not_is_found(fitted_folder: Path, tmp_path: Path) -> None:
    shutil.copy(fitted_folder / "report.html", tmp_path)
    (tmp_path / "wide.html").write_text("<meta name=viewport content='width=device-width'><div style='width:600px'>x")
    found = TOOL["look"](tmp_path, ["report.html", "wide.html"])
    assert {(each["page"], each["width"], each["dark"]) for each in found} == {
        (page, width, dark) for page in ("report.html", "wide.html") for width in (390, 1280) for dark in (False, True)
    }
    assert [line.split(",")[0] for line in TOOL["too_wide"](found)] == ["wide.html at 390 px"] * 2
    inks = {each["dark"]: each["ink"] for each in found if each["page"] == "report.html"}
    assert inks[False] != inks[True]
