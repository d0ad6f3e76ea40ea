"""``python -m dpconvex``."""

from dpconvex.cli.main import main

if __name__ == "__main__":
    main()
