"""``python -m dpconvex``, and the command ``dpconvex``: one line if Ctrl-C comes before the command has begun."""

import os
import signal
import sys


def main() -> None:
    """Run the command line."""
    sys.stdout = sys.stdout or open(os.devnull, "w")  # noqa: SIM115 (closed by the caller: no file may take its place)
    try:
        from dpconvex.cli.main import app
    except KeyboardInterrupt:
        print("Aborted.", file=sys.stderr)
        sys.exit(130)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that no hidden folder stays behind
    app()


if __name__ == "__main__":
    main()
