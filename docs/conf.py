"""Sphinx configuration. The build is offline and treats warnings as errors: ``make docs``."""

from __future__ import annotations

import importlib
import os
import re
import sys
import warnings
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import dpconvex

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from generated import GENERATED  # noqa: E402

project = "dpconvex"
author = "The dpconvex developers"
copyright = "2026, the dpconvex developers"
release = version = dpconvex.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.mathjax",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["_build", "auto_examples/**.py", "auto_examples/**.ipynb", "**/sg_execution_times.rst"]
templates_path = ["_templates"]
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

html_theme = "pydata_sphinx_theme"
html_static_path = ["_static"]
html_css_files = ["gallery.css"]
html_title = "dpconvex"
mathjax_path = "mathjax/tex-svg.js"  # MathJax 3.2.2 (Apache 2.0), bundled: formulas are drawn without a network
html_theme_options = {
    "show_toc_level": 2,
    "header_links_before_dropdown": 7,
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "logo": {"text": "dpconvex"},
}
html_sidebars = {"index": [], "changelog": []}

numpydoc_show_class_members = False
autodoc_typehints = "none"  # the docstrings give types, shapes, ranges and units
autodoc_member_order = "bysource"
autosummary_generate = True

sphinx_gallery_conf = {
    "examples_dirs": str(HERE.parent / "examples"),
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"plot_",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 5,
    "reset_modules": ("matplotlib", "generated.figure_style"),
}
os.environ.setdefault("MPLBACKEND", "Agg")
warnings.filterwarnings("ignore", message=".*Matplotlib is currently using agg.*")
warnings.filterwarnings("ignore", message="Unknown section Guarantees")  # see show_guarantees

PARTS = {
    "dpconvex": "Public interface",
    "dpconvex.errors": "Errors",
    "dpconvex.privacy": "Privacy: promises, ledger, certificates",
    "dpconvex.mechanisms": "Mechanisms",
    "dpconvex.randomness": "Random bits",
    "dpconvex.geometry": "Geometry: norms of noise",
    "dpconvex.problems": "Problems: domains, records, objectives",
    "dpconvex.losses": "Losses",
    "dpconvex.sets": "Sets",
    "dpconvex.solvers": "Solvers",
    "dpconvex.data": "Data: schemas and tables",
    "dpconvex.algorithms.erm.output_perturbation": "Output perturbation",
    "dpconvex.algorithms.location.geometric_median": "Geometric median",
    "dpconvex.algorithms.location.registry": "Every private center",
    "dpconvex.algorithms.erm.heavy_tailed": "Heavy tails",
    "dpconvex.algorithms.erm.user_level": "User-level privacy",
    "dpconvex.algorithms.erm.heavy_tailed.clipped_gradient": "Clipped gradient descent",
    "dpconvex_experiments.reference.localized_mechanism": "Localized exponential mechanism",
    "dpconvex.algorithms.erm.objective_perturbation": "Objective perturbation",
    "dpconvex_experiments.reference.exponential_mechanism": "Exponential mechanism over a grid",
    "dpconvex.algorithms.erm.gradient_descent": "Noisy gradient descent",
    "dpconvex.algorithms.erm.sufficient_statistics": "Sufficient statistics",
    "dpconvex.audit": "Audits",
    "dpconvex_experiments": "Experiments",
}


def write_reference() -> None:
    """Write the reference page from the export lists, so that a new part needs no edit here."""
    seen: set[int] = set()
    pages = {"index.rst"}
    lines = ["Every exported name", "===================", ""]
    for module_name, title in PARTS.items():
        module = importlib.import_module(module_name)
        names = getattr(module, "__all__", None) or [
            name for name, value in vars(module).items() if isinstance(value, type) and value.__module__ == module_name
        ]
        names = [name for name in names if not name.startswith("_") and id(getattr(module, name)) not in seen]
        seen.update(id(getattr(module, name)) for name in names)
        pages |= {f"{module_name}.{name}.rst" for name in names}
        lines += [title, "-" * len(title), "", f".. currentmodule:: {module_name}", ""]
        lines += [".. autosummary::", "   :toctree: .", "   :nosignatures:", "", *(f"   {name}" for name in names), ""]
    target = HERE / "api" / "generated" / "index.rst"
    target.parent.mkdir(parents=True, exist_ok=True)
    for page in target.parent.glob("*.rst"):  # removes pages of earlier builds for names that no longer exist
        if page.name not in pages:
            page.unlink()
    text = "\n".join(lines)
    if not target.exists() or target.read_text(encoding="utf-8") != text:
        target.write_text(text, encoding="utf-8")


write_reference()


def show_guarantees(app: Sphinx, what: str, name: str, obj: object, options: dict[str, Any], lines: list[str]) -> None:
    """Present the section *Guarantees*, which numpydoc does not know, as a note of that name."""
    for i, line in enumerate(lines[:-1]):
        if line == "Guarantees" and lines[i + 1].startswith("---"):
            lines[i : i + 2] = ["Notes", "-----", "**Guarantees.**", ""]
            return


class Generated(SphinxDirective):
    """The block ``{generated} NAME``: Markdown that `generated.py` makes of the code, anew in every build."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        self.env.note_reread()
        container = nodes.container()
        text = GENERATED[self.arguments[0]]()
        self.state.nested_parse(StringList(text.splitlines(), "generated.py"), 0, container)
        return container.children


def place_in_code(
    name: str, rawtext: str, text: str, lineno: int, inliner: Any, *_: Any
) -> tuple[list[nodes.Node], list[nodes.system_message]]:
    """The role ``{at}`file name` ``: a definition in a file of dpconvex or of src/; a warning if it is not there."""
    path, _, defined = text.partition(" ")
    sources = HERE.parent / "src"
    file = next((found for found in (sources / "dpconvex" / path, sources / path) if found.is_file()), sources)
    code = file.read_text(encoding="utf-8") if file.is_file() else ""
    if not code or (defined and not re.search(rf"^\s*(def|class) {re.escape(defined)}\b", code, re.M)):
        return [], [inliner.reporter.warning(f"{path} has no {defined or 'content'}", line=lineno)]
    shown = f"{path}: {defined}" if defined else path
    return [nodes.literal(shown, shown)], []


def setup(app: Sphinx) -> None:
    """Add what is ours; before numpydoc, whose priority is the default 500."""
    app.add_directive("generated", Generated)
    app.add_role("at", place_in_code)
    app.connect("autodoc-process-docstring", show_guarantees, priority=100)
