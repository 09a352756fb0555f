"""``python -m tailmetrics``: the command line."""

from tailmetrics.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
