"""Values in the JSON of a report, by key."""

from typing import Any


def values_of(report: dict[str, Any]) -> dict[str, Any]:
    """Return the values of a written report by key, None where nothing was measured."""
    return {
        record["key"]: record["value"]
        for record in report["records"]
        if not record["summary"]
    }


def field_of(report: dict[str, Any], name: str) -> dict[str, Any]:
    """Return a field of the records of a written report by key, where there is one."""
    return {
        record["key"]: record[name]
        for record in report["records"]
        if record[name] is not None
    }


def by_bucket_of(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the values of a written report over all rows by metric and bucket."""
    values: dict[str, dict[str, Any]] = {}
    for record in report["records"]:
        if record["bucket"] and not record["row_group"]:
            values.setdefault(record["metric"], {})[record["bucket"]] = record["value"]
    return values


def comparisons_of(comparison: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the lines of a written comparison that compare a run with a baseline."""
    return [
        record for record in comparison["records"] if record["baseline"] is not None
    ]


def by_key(report: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the records of a written report with an interval, by key."""
    return {
        record["key"]: record
        for record in report["records"]
        if record["confidence"] is not None
    }
