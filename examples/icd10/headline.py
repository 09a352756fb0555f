"""Writes the numbers that README and documentation name: `results.json`.

They come from the report that the demo writes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

METRIC = "global_recall@10"


def results(report: dict[str, Any]) -> dict[str, Any]:
    """Return the headline numbers of a report as plain data.

    Args:
        report: What `report_test.json` of the demo holds.
    """
    values = {record["key"]: record["value"] for record in report["records"]}
    buckets = report["buckets"]
    unseen = next(bucket for bucket in buckets if bucket["name"] == "unseen")
    return {
        "rows": report["rows"],
        "labels": sum(bucket["labels"] for bucket in buckets),
        "labels_by_decile": {bucket["name"]: bucket["labels"] for bucket in buckets},
        "recall@10": round(values["recall@10"], 4),
        "by_decile": {
            bucket["name"]: round(values[f"{METRIC}/{bucket['name']}"], 4)
            for bucket in buckets
        },
        "within_decile": {
            bucket["name"]: round(values[f"recall@10/{bucket['name']}"], 4)
            for bucket in buckets
        },
        "unseen_share_of_positives": round(
            unseen["positives"] / report["positives"], 4
        ),
    }


def headline(folder: Path) -> str:
    """Write `results.json` into the folder of the run, and return README's sentence."""
    values = results(
        json.loads((folder / "report_test.json").read_text(encoding="utf-8"))
    )
    (folder / "results.json").write_text(
        json.dumps(values, indent=2) + "\n", encoding="utf-8"
    )
    return sentence(values)


def sentence(values: dict[str, Any]) -> str:
    """Return the headline in words, as README has it.

    Recalls are means over rows; within a bucket, over the rows that have a relevant
    label there.

    >>> deciles = {"decile_10": 0.964, "decile_1": 0.496, "unseen": 0.0}
    >>> found = {"recall@10": 0.601, "by_decile": deciles, "unseen_share_of_positives": 0.166}
    >>> sentence({**found, "labels_by_decile": {"decile_10": 66, "decile_1": 2698}}).split(": ")[1][:52]
    '96 % of those among the 66 most frequent codes, 50 %'
    """
    by_decile = values["by_decile"]
    unseen = (
        "none" if by_decile["unseen"] == 0 else f"{100 * by_decile['unseen']:.0f} %"
    )
    percent = [
        f"{100 * value:.0f} %"
        for value in (
            values["recall@10"],
            by_decile["decile_10"],
            by_decile["decile_1"],
        )
    ]
    most, rarest = (
        values["labels_by_decile"][name] for name in ("decile_10", "decile_1")
    )
    return (
        f"On average the list holds {percent[0]} of the right codes of a name: "
        f"{percent[1]} of those among the {most} most frequent codes, {percent[2]} of "
        f"those among the {rarest:,} rarest. It holds {unseen} of the right codes that "
        "training never shows; these are "
        f"{100 * values['unseen_share_of_positives']:.1f} % of all."
    )
