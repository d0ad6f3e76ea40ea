"""The tutorial's commands, as they stand in docs/tutorial.md, run from first to last."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dpconvex.cli.main import app

sys.path.insert(0, str(Path(__file__).parent))
import hospital

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tutorial.md"


def plain(text: str) -> str:
    """Return a text with other numbers, digests, labels and line breaks as one with these."""
    text = re.sub(r"\b[0-9a-f]{12}\b", "#", " ".join(text.split()))
    return re.sub(r'"(yes|no)"', '"?"', re.sub(r"-?\d+(?:[-.,:T]\d+)*", "#", text))


@pytest.mark.gate
def test_every_command_of_the_tutorial_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    sex = r"(?ms)^\[columns.sex\].*?(?=^\[|\Z)"
    ran, output, latest = 0, "", ""
    for kind, text in re.findall(r"(?ms)^```(bash|toml|text)\n(.*?)^```", PAGE.read_text(encoding="utf-8")):
        if kind == "text":  # what the commands before it printed, or wrote; `...` marks what is left out
            shown = [re.escape(plain(part)) for part in text.split("...")]
            assert re.search(r".*?".join(shown), plain(latest)), f"{text}\nis not what is printed:\n{latest}"
            continue
        if kind == "toml":  # the schema, and then a column of it again
            schema = Path("stays.toml")
            whole = text.startswith("confirmed")
            schema.write_text(text if whole else re.sub(sex, text + "\n", schema.read_text()))
            continue
        latest = ""
        for line in text.replace("\\\n", " ").splitlines():
            if line.startswith("python"):
                hospital.write(Path("stays.csv.gz"))
                latest = hospital.text()
            elif line.startswith("gunzip"):
                Path("new.csv").write_text("".join(hospital.text().splitlines(keepends=True)[:4]))
            else:
                result = CliRunner().invoke(app, shlex.split(line)[1:])
                assert result.exit_code == (2 if "second" in line else 0), f"{line}\n{result.output}"
                output, latest, ran = output + result.output, latest + result.output, ran + 1
                latest += Path("stays.toml").read_text(encoding="utf-8") if "draft" in line else ""
    assert ran > 12
    assert "'femal' is not listed" in output
    assert all(f"All {count} checks passed" in output for count in (27, 28))
    assert not Path("second").exists()
