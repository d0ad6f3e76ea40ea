"""``python -m dpconvex``."""

from dpconvex.cli.main import main

main()
