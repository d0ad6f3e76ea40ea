"""Small panels for notebooks: what is promised and spent, as a table with a bar. Plain HTML, everything escaped."""

import html
from collections.abc import Mapping
from typing import Any


def panel(title: str, rows: Mapping[str, Any], share: float, text: str = "") -> str:
    """Return a table of facts below a bar that is filled to a share in [0, 1]; `text` can be unfolded."""
    cells = "".join(f"<tr><th>{html.escape(k)}</th><td>{html.escape(str(v))}</td></tr>" for k, v in rows.items())
    width = round(200 * min(1.0, max(0.0, share)))
    bar = (
        f'<svg width="200" height="10" role="img" aria-label="{share:.0%}">'
        f'<rect width="200" height="10" fill="#ddd"/><rect width="{width}" height="10" fill="#0072b2"/></svg>'
    )
    more = f"<details><summary>Why it holds</summary><pre>{html.escape(text)}</pre></details>" if text else ""
    return f"<div><b>{html.escape(title)}</b><br>{bar}<table>{cells}</table>{more}</div>"
