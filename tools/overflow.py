"""Look at pages in a real browser, and say which of them are wider than the screen.

    python tools/overflow.py FOLDER [PATTERN ...]

Every page of FOLDER that a pattern matches (default: all) is laid out by the system's Chromium, without a window: at
the width of a phone, dark, and of a desktop, light. (Tests look at reports in all four ways.) A page overflows if it
can be scrolled sideways; tables, code and formulas that scroll by themselves do not count. Exit status: 0 if nothing
overflows or no browser is at hand, else 1.
"""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

PHONE, DESKTOP = 390, 1280
SCREENS = ((PHONE, True), (PHONE, False), (DESKTOP, True), (DESKTOP, False))  # width, and whether it is dark
SHELL = "overflow-shell.html"
BATCH = 25  # number of pages for one browser; more would fill its memory
# A frame has the width of a phone, which a window cannot have. Formulas are drawn after a page has loaded.
SCRIPT = """<!doctype html><meta charset=utf-8><title>-</title><body><script>
const found = [];
const dark = matchMedia("(prefers-color-scheme: dark)").matches;
async function look(page, width) {
  const frame = document.body.appendChild(document.createElement("iframe"));
  frame.style = `width:${width}px;height:900px;border:0`;
  await new Promise(done => { frame.onload = done; frame.src = page; });
  const inner = frame.contentWindow;
  if (inner.MathJax && inner.MathJax.startup) await inner.MathJax.startup.promise;
  const room = frame.contentDocument.documentElement;
  const wide = [...frame.contentDocument.body.querySelectorAll("*")].filter(
    each => each.getBoundingClientRect().right > width + 1).pop();
  found.push({page, width, dark, needs: room.scrollWidth, ink: inner.getComputedStyle(frame.contentDocument.body).color,
    widest: wide ? wide.outerHTML.slice(0, 120) : ""});
  frame.remove();
}
(async () => {
  for (const page of PAGES) for (const width of WIDTHS) await look(page, width);
  const kept = document.createElement("pre");
  kept.textContent = "FOUND" + JSON.stringify(found) + "END";
  document.body.append(kept);
})();
</script>"""


def browser() -> str | None:
    """Return the Chromium of the system, or None."""
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


def look(folder: Path, pages: Iterable[str], screens: Iterable[tuple[int, bool]] = SCREENS) -> list[dict[str, Any]]:
    """Return for every page and screen the width that it `needs`, its text color (`ink`) and its `widest` element."""
    pages, screens, program = list(pages), list(screens), browser()
    if program is None:
        raise FileNotFoundError("no Chromium was found")

    class Files(SimpleHTTPRequestHandler):
        shell = ""

        def do_GET(self) -> None:
            if self.path != f"/{SHELL}":
                return super().do_GET()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(Files.shell.encode())

        def log_message(self, *_: Any) -> None:
            """Log no request."""

    found = []
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Files, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        for start in range(0, len(pages), BATCH):
            some = json.dumps(pages[start : start + BATCH])
            for dark in (True, False):
                widths = json.dumps([width for width, wanted in screens if wanted == dark])
                Files.shell = SCRIPT.replace("PAGES", some).replace("WIDTHS", widths)
                found += _run(program, f"http://127.0.0.1:{server.server_port}/{SHELL}", dark)
        server.shutdown()
    return found


def _run(program: str, address: str, dark: bool) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        options = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]
        options += [f"--user-data-dir={profile}", f"--blink-settings=preferredColorScheme={1 - dark}"]
        options += ["--window-size=1400,1000", "--virtual-time-budget=600000", "--dump-dom"]
        done = subprocess.run([program, *options, address], capture_output=True, text=True, timeout=300)
    told = re.search(r"<pre>FOUND(.*?)END</pre>", done.stdout, re.DOTALL)
    if told is None:
        raise RuntimeError(f"the browser did not finish: {done.stderr[-500:]}")
    return json.loads(html.unescape(told[1]))


def too_wide(found: Iterable[dict[str, Any]]) -> list[str]:
    """Return a line for each page that can be scrolled sideways."""
    return [
        f"{each['page']} at {each['width']} px, {'dark' if each['dark'] else 'light'}: "
        f"needs {each['needs']} px. {each['widest']}"
        for each in found
        if each["needs"] > each["width"]
    ]


def main(folder: str, *patterns: str) -> int:
    if browser() is None:
        print("overflow: no Chromium is installed, so no page was looked at", file=sys.stderr)
        return 0
    root = Path(folder)
    pages = sorted(
        {os.fspath(p.relative_to(root)) for pattern in patterns or ("**/*.html",) for p in root.glob(pattern)}
    )
    found = look(root, pages, ((PHONE, True), (DESKTOP, False)))
    lines = too_wide(found)
    print(f"overflow: {len(pages)} pages, {len(found)} layouts, {len(lines)} too wide", *lines, sep="\n")
    return bool(lines)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
