"""``python -m dpconvex``, and the command ``dpconvex``: one line if Ctrl-C comes before the command has begun."""

import sys


def main() -> None:
    """Run the command line."""
    try:
        from dpconvex.cli.main import app
    except KeyboardInterrupt:
        print("Aborted.", file=sys.stderr)
        sys.exit(130)
    app()


if __name__ == "__main__":
    main()
