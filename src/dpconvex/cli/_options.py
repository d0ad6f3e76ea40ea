"""Options that several commands share. Values are checked by the library, whose messages name what is allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

Epsilon = Annotated[float, typer.Option(help="Privacy budget, positive. Typical values lie between 0.1 and 10.")]
Delta = Annotated[float, typer.Option(help="In [0, 1/2); 0 is pure differential privacy.")]
Algorithm = Annotated[str, typer.Option(help="auto, objective_perturbation or output_perturbation.")]
Constants = Annotated[str, typer.Option(help="calibrated, or paper (output perturbation only).")]
Noise = Annotated[str, typer.Option(help="auto, or a name that `dpconvex plan` lists.")]
L2 = Annotated[
    float | None,
    typer.Option(help="Regularisation. Default: from public facts. Tuning it on the private data is not private."),
]
CoefficientNorm = Annotated[
    float | None, typer.Option(help="Norm of coefficients that the model should reach. Never affects privacy.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on stdout.")]
Force = Annotated[bool, typer.Option("--force", help="Replace an existing model folder.")]
SchemaFile = Annotated[Path, typer.Option("--schema", help="Schema file (TOML); see `dpconvex schema`.")]
