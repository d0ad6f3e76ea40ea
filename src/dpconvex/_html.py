"""Small panels and tables for notebooks: what is promised, spent and planned. Plain HTML, everything escaped."""

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def panel(title: str, rows: Mapping[str, Any], share: float, text: str = "") -> str:
    """Return a table of facts below a bar that is filled to `share`, in [0, 1]; readers can unfold `text`."""
    cells = "".join(f"<tr><th>{html.escape(k)}</th><td>{html.escape(str(v))}</td></tr>" for k, v in rows.items())
    width = round(200 * min(1.0, max(0.0, share)))
    bar = (
        f'<svg width="200" height="10" role="img" aria-label="{share:.0%}">'
        f'<rect width="200" height="10" fill="#ddd"/><rect width="{width}" height="10" fill="#0072b2"/></svg>'
    )
    more = f"<details><summary>Why it holds</summary><pre>{html.escape(text)}</pre></details>" if text else ""
    return f"<div><b>{html.escape(title)}</b><br>{bar}<table>{cells}</table>{more}</div>"


def table(title: str, headers: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table with a title and a name above each column."""

    def line(kind: str, cells: Sequence[str]) -> str:
        return "<tr>" + "".join(f"<{kind}>{html.escape(cell)}</{kind}>" for cell in cells) + "</tr>"

    body = "".join(line("td", row) for row in rows)
    return f"<div><b>{html.escape(title)}</b><table>{line('th', headers)}{body}</table></div>"
