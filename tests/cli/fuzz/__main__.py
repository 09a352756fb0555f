"""``python -m cli.fuzz --cases 2000 --seed 0``: run cases, print what was found and how many ended in which way."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

from cli.fuzz.trial import tried


def main() -> int:
    """Run the cases; return 1 if one has found something."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, help="run one case, and keep its files")
    parser.add_argument("--keep", type=Path, help="folder for the files of --only")
    options = parser.parse_args()
    counted: Counter[str] = Counter()
    found = []
    started = time.monotonic()
    numbers = [options.only] if options.only is not None else range(options.seed, options.seed + options.cases)
    for number in numbers:
        with TemporaryDirectory() as folder:
            ended = tried(number, options.keep or Path(folder))
        counted[ended.kind] += 1
        if ended.problem:
            found.append({"case": number, "what": ended.kind, "problem": ended.problem, "words": ended.words})
            print(json.dumps(found[-1]), flush=True)
    took = time.monotonic() - started
    print(f"{sum(counted.values())} command lines in {took:.0f} s: {dict(counted)}; {len(found)} found something")
    return 1 if found else 0


sys.exit(main())
