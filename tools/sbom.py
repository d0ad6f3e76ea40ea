"""Print what an environment consists of, as a CycloneDX document: run it with the environment's own Python.

    build/release/empty/bin/python tools/sbom.py > sbom.json

Standard library only, and nothing that differs between two runs: no serial number, no time.
"""

from __future__ import annotations

import json
import re
from importlib.metadata import Distribution, distributions
from typing import Any


def component(found: Distribution) -> dict[str, Any]:
    """Name, version, package address and license, as far as the distribution states them."""
    fields: Any = found.metadata
    name = re.sub(r"[-_.]+", "-", fields["Name"]).lower()
    trove = [line.rpartition(" :: ")[2] for line in fields.get_all("Classifier") or [] if line.startswith("License ::")]
    license_ = fields.get("License-Expression") or ", ".join(trove) or (fields.get("License") or "").partition("\n")[0]
    purl = f"pkg:pypi/{name}@{found.version}"
    stated = {"licenses": [{"license": {"name": license_[:200]}}]} if license_ else {}
    return {"type": "library", "bom-ref": purl, "name": name, "version": found.version, "purl": purl, **stated}


def document(found: list[Distribution], subject: str = "dpconvex") -> dict[str, Any]:
    """The subject, and everything beside it, each once, in the order of the alphabet."""
    every = {part["name"]: part for part in map(component, found)}
    own = every.pop(subject)
    parts = [every[name] for name in sorted(every)]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": own},
        "components": parts,
    }


if __name__ == "__main__":
    print(json.dumps(document(list(distributions())), indent=1))
