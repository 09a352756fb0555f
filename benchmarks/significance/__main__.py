"""Measure how often tests and intervals err, and write the table of docs/significance.md."""

from __future__ import annotations

import argparse
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter

from benchmarks.significance.simulation import LEVEL, Rates, Setting, settings, simulate
from benchmarks.tables import replace_table

PAGE = Path(__file__).parents[2] / "docs" / "significance.md"
HEADS = ("a row's value", "rows", "randomisation", "bootstrap", "t", "difference held", "value held")
CLUSTERED_HEADS = ("a row's value", "clusters", "`clusters=`", *HEADS[2:])


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    start = perf_counter()
    found = {}
    for setting in settings():
        found[setting] = simulate(setting, options.pairs, options.resamples)
        print(f"{perf_counter() - start:6.1f} s  {' | '.join(_cells(setting, found[setting]))}", flush=True)
    replace_table(options.page, "benchmarks.significance", _tables(found, options.pairs, options.resamples).rstrip())
    print(f"written to {options.page}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.significance", description=__doc__)
    parser.add_argument("--pairs", type=int, default=1200, help="pairs of runs per setting")
    parser.add_argument("--resamples", type=int, default=999, help="resamples and swaps of each pair")
    parser.add_argument("--page", type=Path, default=PAGE, help="the page whose table is replaced")
    return parser


def _tables(found: dict[Setting, Rates], pairs: int, resamples: int) -> str:
    chance = 1.96 * math.sqrt(LEVEL * (1 - LEVEL) / pairs)
    parts = [
        f"{pairs:,} pairs of runs in each line, {resamples} resamples; shares move by ±{chance:.3f} by chance alone.",
        "Rows are independent:",
        _table(HEADS, {one: rates for one, rates in found.items() if not one.sizes and one.limited}),
        "Rows come in clusters:",
        _table(CLUSTERED_HEADS, {one: rates for one, rates in found.items() if one.sizes}),
        "Without the limit of 10 rows, to see what it is for:",
        _table(HEADS, {one: rates for one, rates in found.items() if not one.limited}),
    ]
    return "\n\n".join(parts) + "\n"


def _table(heads: Sequence[str], found: Mapping[Setting, Rates]) -> str:
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)], *(_cells(*one) for one in found.items())]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _cells(setting: Setting, rates: Rates) -> list[str]:
    kind = setting.population.kind
    where = (
        [f"{setting.rows} {setting.sizes}", "yes" if setting.told else "no"] if setting.sizes else [f"{setting.rows}"]
    )
    shares = (rates.randomisation, rates.bootstrap, rates.t, rates.difference, rates.value)
    return [f"{kind} of {setting.population.values}", *where, *map(_shown, shares)]


def _shown(share: float) -> str:
    return "–" if math.isnan(share) else f"{share:.3f}".removeprefix("0")


if __name__ == "__main__":
    main()
