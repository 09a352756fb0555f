"""Several runs side by side: what comparisons found, as plain data that pages and pictures read."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from tailmetrics.report.keys import Key, split

if TYPE_CHECKING:
    from tailmetrics.significance.comparison import Comparison

LETTERS = "abcdefghijklmnopqrstuvwxyz"
"""What runs are called in superscripts."""


@dataclass(frozen=True)
class ComparisonReport:
    """Runs compared row by row, ready to be shown.

    Attributes:
        comparisons: What :func:`tailmetrics.significance.compare` returned.
        title: What was compared.
        correction: How p-values were corrected for the number of comparisons.
        buckets: Names of the buckets, head first; a key that ends in "/" and one of them is of that bucket.
        row_groups: Names of the groups of rows.
        captions: For each metric by bucket what its values are of.
        over_all: For each metric by bucket the key of its value over all labels.
        lower_is_better: Keys of which less is better.
        what_buckets_are: One or two sentences that say it.
    """

    comparisons: Sequence[Comparison]
    title: str = "Comparison"
    correction: str = "holm"
    buckets: Sequence[str] = ()
    row_groups: Sequence[str] = ()
    captions: Mapping[str, str] = field(default_factory=dict)
    over_all: Mapping[str, str] = field(default_factory=dict)
    lower_is_better: Sequence[str] = ()
    what_buckets_are: str = ""

    @cached_property
    def runs(self) -> list[str]:
        """The names of the runs, the baseline first."""
        pairs = [(one.baseline, one.run) for one in self.comparisons]
        return list(dict.fromkeys([*(baseline for baseline, _ in pairs), *(run for _, run in pairs)]))

    @property
    def baseline(self) -> str:
        """The run that pictures hold the others against."""
        return self.runs[0]

    @cached_property
    def values(self) -> dict[str, dict[str, float]]:
        """Values by key and run."""
        found: dict[str, dict[str, float]] = {}
        for one in self.comparisons:
            found.setdefault(one.key, {}).update({one.run: one.value, one.baseline: one.baseline_value})
        return found

    @cached_property
    def parts(self) -> dict[str, Key]:
        """The parts of each key."""
        return {key: split(key, self.row_groups, self.buckets) for key in self.values}

    @property
    def overall(self) -> list[str]:
        """Keys of values over all rows and labels; all keys where there are but those of groups."""
        found = [key for key, part in self.parts.items() if not (part.group or part.bucket)]
        return found or ([] if self.by_bucket else list(self.parts))

    @property
    def alike(self) -> list[dict[str, str]]:
        """Keys of :attr:`overall` that one drawing can show: shares, and what is larger than 1."""
        shares = {key for key in self.overall if all(not abs(value) > 1 for value in self.values[key].values())}
        found = [{key: key for key in self.overall if (key in shares) is wanted} for wanted in (True, False)]
        return [keys for keys in found if keys]

    @property
    def by_bucket(self) -> dict[str, dict[str, str]]:
        """Keys of values over all rows by metric and bucket, head first."""
        found: dict[str, dict[str, str]] = {}
        for key, part in self.parts.items():
            if part.bucket and not part.group:
                found.setdefault(part.metric, {})[part.bucket] = key
        return found

    def against(self, key: str, run: str) -> Comparison | None:
        """Return the comparison of a run with the baseline; None where there is none."""
        fits = (one for one in self.comparisons if (one.key, one.run, one.baseline) == (key, run, self.baseline))
        return next(fits, None)

    def beaten(self, key: str, run: str) -> str:
        """Return the letters of the runs that a run is significantly better than, as superscripts of its value."""
        less = key in self.lower_is_better
        found = set()
        for one in self.comparisons:
            if (
                one.key != key
                or not one.significant
                or math.isnan(one.difference)
                or run not in (one.run, one.baseline)
            ):
                continue
            run_is_better = (one.difference < 0) == less
            better, worse = (one.run, one.baseline) if run_is_better else (one.baseline, one.run)
            if better == run:
                found.add(worse)
        return "".join(self.letter(other) for other in self.runs if other in found)

    def letter(self, run: str) -> str:
        """Return what a run is called in superscripts."""
        place = self.runs.index(run)
        return LETTERS[place] if place < len(LETTERS) else f"({place + 1})"

    @property
    def level(self) -> float:
        """The significance level."""
        return round(1 - self.comparisons[0].interval.confidence, 6) if self.comparisons else math.nan

    def write(self, folder: Path | str, stem: str = "compare") -> list[Path]:
        """Write the comparison as a page, a picture, Markdown and LaTeX into ``folder``; return their paths."""
        from tailmetrics.report.comparison_figure import comparison_figure
        from tailmetrics.report.comparison_page import comparison_page
        from tailmetrics.report.comparison_text import comparison_latex, comparison_markdown

        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        picture = folder / f"{stem}.png"
        comparison_figure(self).savefig(picture, dpi=120)
        texts = {
            "html": comparison_page(self),
            "md": comparison_markdown(self, picture.name),
            "tex": comparison_latex(self),
        }
        for suffix, text in texts.items():
            (folder / f"{stem}.{suffix}").write_text(text, encoding="utf-8", newline="")
        return [*(folder / f"{stem}.{suffix}" for suffix in texts), picture]

    def _repr_html_(self) -> str:
        from tailmetrics.report.comparison_page import comparison_fragment

        return comparison_fragment(self)
