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


@pytest.mark.gate
def test_every_command_of_the_tutorial_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    sex = r"(?ms)^\[columns.sex\].*?(?=^\[|\Z)"
    ran, output = 0, ""
    for kind, text in re.findall(r"(?ms)^```(bash|toml)\n(.*?)^```", PAGE.read_text(encoding="utf-8")):
        if kind == "toml":  # the schema, and then a column of it again
            schema = Path("stays.toml")
            whole = text.startswith("confirmed")
            schema.write_text(text if whole else re.sub(sex, text + "\n", schema.read_text()))
            continue
        for line in text.replace("\\\n", " ").splitlines():
            if line.startswith("python"):
                hospital.write(Path("stays.csv.gz"))
            elif line.startswith("gunzip"):
                Path("new.csv").write_text("".join(hospital.text().splitlines(keepends=True)[:4]))
            else:
                result = CliRunner().invoke(app, shlex.split(line)[1:])
                assert result.exit_code == (2 if "second" in line else 0), f"{line}\n{result.output}"
                output, ran = output + result.output, ran + 1
    assert ran > 12
    assert "'femal' is not listed" in output
    assert "All 26 checks passed" in output
    assert not Path("second").exists()
