"""One random case: files in a folder, and the words of a command line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from cli.fuzz import content, writing
from cli.fuzz.content import KEYED, ROWS, Data, Keyed, Rows
from cli.fuzz.expected import Asked

SUFFIXES = {
    "trec": {"preds": ("run", "trec", "txt"), "target": ("qrels", "qrel", "txt", "tsv")},
    "msmarco": {"preds": ("tsv", "txt"), "target": ("tsv", "qrels")},
    "lists": {"preds": ("csv",), "target": ("csv",)},
    "long": {"preds": ("parquet", "arrow", "feather", "pq"), "target": ("parquet", "arrow", "ipc")},
}
GROUPS = ["de", "en", "zh-Hant", "né", ""]
WITH_COLUMNS = ("csv", "tsv", "jsonl", "long")
"""Formats whose targets can hold a column of groups."""
LAYOUTS = {"npy": ("dense", "ids"), "pt": ("dense", "ids", "pairs"), "parquet": ("pairs", "ids", "names")}


@dataclass
class Case:
    """Files and what is asked of them.

    Attributes:
        folder: Where the files lie.
        asked: What the words ask for.
        words: The words, but for outputs.
        forms: Format of each file, by role.
        paths: Path of each file, by role.
        data: What the files hold.
    """

    folder: Path
    asked: Asked
    words: list[str]
    forms: dict[str, str]
    paths: dict[str, Path]
    data: Data

    @property
    def files(self) -> list[tuple[Path, str]]:
        """Every file that holds data, the parts of a folder one by one, with its format."""
        return [
            (file, self.forms.get(role, ""))
            for role, path in self.paths.items()
            for file in ([path] if path.is_file() else sorted((path if path.is_dir() else path.parent).iterdir()))
        ]


def made(source: Random, folder: Path) -> Case:
    """Return a case with its files written."""
    return _of_queries(source, folder) if source.random() < 0.65 else _of_rows(source, folder)


def _metrics(source: Random, trained: bool) -> list[tuple[str, dict[str, object]]]:
    k = source.choice([1, 2, 3, 5, 10])
    found: list[tuple[str, dict[str, object]]] = [
        ("PrecisionAtK", {"k": k, "denominator": "k"}),
        ("RecallAtK", {"k": k}),
        ("NDCGAtK", {"k": k}),
        ("HitRateAtK", {"k": k}),
        ("MRR", {}),
        ("MAP", {}),
    ]
    chosen = source.sample(found, source.randrange(1, 4))
    if source.random() < 0.2:
        chosen.append(("RecallAtK", {"k": k, "average": "micro"}))
    chosen.append(("CatalogCoverageAtK", {"k": k}))
    if trained:
        chosen.append(("PopularityAtK", {"k": k}))
        by_bucket = [(name, {**arguments, "buckets": "deciles"}) for name, arguments in found]
        by_bucket += [(name, {**arguments, "scope": "global"}) for name, arguments in by_bucket]
        by_bucket.append(("PredictionProportionAtK", {"k": k, "buckets": "deciles"}))
        by_bucket.append(("RecallAtK", {"k": k, "buckets": "deciles", "scope": "global", "average": "micro"}))
        chosen += source.sample(by_bucket, source.randrange(1, 4))
    return chosen


def _config(metrics: list[tuple[str, dict[str, object]]], folder: Path) -> Path:
    lines = ["metrics:"]
    for name, arguments in metrics:
        listed = ", ".join(f"{key}: {value}" for key, value in arguments.items())
        lines += [f"  - class_path: tailmetrics.{name}", f"    init_args: {{{listed}}}"]
    path = folder / "config.yaml"
    path.write_text("\n".join(lines) + "\n")
    return path


def _of_queries(source: Random, folder: Path) -> Case:
    names = source.choice(["numbers", "gaps", "text"])
    items = content.items_of(source, names, source.randrange(3, 15))
    queries = [f"q{number}" for number in source.sample(range(50), source.randrange(1, 12))]
    forms = {"preds": source.choice(KEYED), "target": source.choice(KEYED)}
    if source.random() < 0.4:
        forms["train"] = source.choice(KEYED)
    columns = {one: f"{one} of mine" for one in writing.USUAL if source.random() < 0.1}
    style = writing.Style(source, columns)
    asked, paths, held = Asked([], grouped=source.random() < 0.2), {}, {}
    of_queries = {query: source.choice(GROUPS) for query in queries} if asked.grouped else {}
    in_target = asked.grouped and forms["target"] in WITH_COLUMNS and source.random() < 0.7
    for role, form in forms.items():
        some = source.sample(queries, source.randrange(1, len(queries) + 1)) if source.random() < 0.5 else queries
        own = of_queries if role == "target" and in_target else {}
        paths[role], held[role] = _write_keyed(source, folder, role, form, some, items, style, own)
    counts: dict[str, int] = {}
    words = _given(source, asked, names, queries, items, paths, folder, counts)
    if source.random() < 0.15 and len(set(forms.values())) == 1:
        words += ["--format", forms["preds"]]
    if source.random() < 0.1:
        words += ["--memory", source.choice(["64MiB", "100 MB", "1GB"])]
    if asked.grouped and not in_target:
        paths["groups"] = _write_groups(source, folder, columns, of_queries)
    words += _groups_said(asked, in_target, paths)
    asked.metrics = _metrics(source, "train" in forms or "counts" in paths)
    words += _buckets(source, asked)
    words += [word for name, value in columns.items() for word in (f"--columns.{name}", value)]
    words += ["--config", str(_config(asked.metrics, folder)), *_files(paths)]
    bare = [held[role] for role in forms if role != "preds" and forms[role] in WITH_COLUMNS]
    asked.lacks_gains = "gain" in columns and not all(one.graded for one in bare)
    _settle_trec(asked, {role: form for role, form in forms.items() if "--format" not in words or form == "trec"})
    return Case(folder, asked, words, forms, paths, _data(held, paths, counts, of_queries))


def _data(held: dict[str, Any], paths: dict[str, Path], counts: dict[str, int], groups: Any) -> Data:
    counted = counts if "counts" in paths else None
    return Data(held["preds"], held["target"], held.get("train"), counted, counted and 1000, groups)


def _write_groups(source: Random, folder: Path, columns: dict[str, str], of_queries: dict[str, str]) -> Path:
    """Write a CSV file of queries and their groups; groups of queries that nobody asks for are among them."""
    lines = [f"{columns.get('query', 'query')},group", *(f"{query},{name}" for query, name in of_queries.items())]
    lines.append("nobody,nn")
    codec = source.choice([None, None, "gz"])
    path = folder / f"groups.csv{f'.{codec}' if codec else ''}"
    path.write_bytes(writing.compressed("\n".join([*lines, ""]).encode(), codec))
    return path


def _groups_said(asked: Asked, in_target: bool, paths: dict[str, Path]) -> list[str]:
    if not asked.grouped:
        return []
    return ["--row-groups", writing.GROUP if in_target else str(paths["groups"])]


def _buckets(source: Random, asked: Asked) -> list[str]:
    if source.random() < 0.75 or not any("buckets" in arguments for _, arguments in asked.metrics):
        return []
    asked.buckets = source.choice(["quantiles:1", "quantiles:3", "thresholds:1,2,10", "thresholds:3", "deciles"])
    return ["--buckets", asked.buckets]


def _settle_trec(asked: Asked, told: dict[str, str]) -> None:
    """Say whether the last name wins ties: where a file is told to be TREC, qrels beside ranked lists included."""
    qrels = [role for role, form in told.items() if form == "msmarco" and role != "preds"]
    asked.trec = "trec" in told.values() or bool(qrels)


def _write_keyed(
    source: Random,
    folder: Path,
    role: str,
    form: str,
    queries: list[str],
    items: list[str],
    style: writing.Style,
    groups: dict[str, str],
) -> tuple[Path, Keyed]:
    kind = "preds" if role == "preds" else "target"
    graded = kind == "target" and (form in ("trec", "msmarco") or (form != "lists" and source.random() < 0.5))
    data = content.keyed(source, queries, items, graded, kind == "preds")
    data.groups = groups
    if kind == "preds" and form in ("lists", "msmarco"):
        data = _by_rank(data, 0 if form == "lists" else 1)
    if form == "lists" and source.random() < 0.3:
        data.lines.append(("an empty one", None, None))
    codec = source.choice([None, None, None, "gz", "bz2", "zst"])
    suffix = source.choice(SUFFIXES.get(form, {}).get(kind, (form,)))
    ending = f"{suffix}{f'.{codec}' if codec else ''}"
    whole = folder / f"{role}.{ending}"
    if source.random() < 0.8:
        whole.write_bytes(writing.compressed(writing.write_keyed(data, form, kind, style), codec))
        return whole, data
    found, parts = _parts(source, folder, role, ending)
    shares = _shared(source, data, len(parts))
    for place, lines in zip(parts, shares, strict=True):
        part = Keyed(lines, groups)
        place.write_bytes(writing.compressed(writing.write_keyed(part, form, kind, style), codec))
    return found, Keyed([line for lines in shares for line in lines], groups)


def _parts(source: Random, folder: Path, role: str, ending: str) -> tuple[Path, list[Path]]:
    """Return a folder or a pattern, and the files in it, in their order."""
    inside = folder / f"{role} parts"
    inside.mkdir()
    parts = [inside / f"part-{number}.{ending}" for number in source.choice([(1,), (2, 10), (0, 1, 2), (9, 10, 11)])]
    return source.choice([inside, inside / f"part-*.{ending}", inside / "*"]), parts


def _shared(source: Random, data: Keyed, number: int) -> list[list[tuple[str, str | None, float | None]]]:
    """Return the lines in so many shares, each query in one of them; none is empty unless there are too few."""
    queries = data.queries
    share = {
        query: place % number if place < number else source.randrange(number) for place, query in enumerate(queries)
    }
    shares: list[list[tuple[str, str | None, float | None]]] = [[] for _ in range(number)]
    for line in data.lines:
        shares[share[line[0]]].append(line)
    return [one or [data.lines[0]] for one in shares]


def _by_rank(data: Keyed, first: int) -> Keyed:
    """Return the lines by query with minus the rank in the place of the score."""
    lines: list[tuple[str, str | None, float | None]] = []
    for query in data.queries:
        lines += [(query, item, -float(place + first)) for place, (item, _) in enumerate(data.of(query))]
    return Keyed(lines, data.groups)


def _given(
    source: Random,
    asked: Asked,
    names: str,
    queries: list[str],
    items: list[str],
    paths: dict[str, Path],
    folder: Path,
    counts: dict[str, int],
) -> list[str]:
    """Draw options of keyed files, write what they name, and return the words."""
    words: list[str] = []
    if names != "text" and source.random() < 0.3:
        asked.num_labels = max(map(int, items)) + source.randrange(1, 4)
        words += ["--num-labels", str(asked.num_labels)]
    if source.random() < 0.15:
        asked.string_ids = source.random() < 0.7
        words += ["--string-ids", str(asked.string_ids).lower()]
    if "train" not in paths and source.random() < 0.3:
        paths["counts"] = folder / "counts.csv"
        counts |= {item: source.randrange(0, 50) for item in source.sample(items, source.randrange(1, len(items) + 1))}
        lines = [f"{item},{count}\n" for item, count in counts.items()]
        paths["counts"].write_text("label,count\n" + "".join(lines))
    if source.random() < 0.15:
        asked.filtered = [(source.choice(queries), source.choice(items)) for _ in range(source.randrange(0, 5))]
        words += _filter(asked, folder)
    words += _common(source, asked)
    return words


def _filter(asked: Asked, folder: Path) -> list[str]:
    path = folder / "filter.txt"
    path.write_text("".join(f"{row} {label}\n" for row, label in asked.filtered) or "\n")
    return ["--filter", str(path)]


def _common(source: Random, asked: Asked) -> list[str]:
    words = ["--batch-rows", str(source.choice([1, 3, 1000]))]
    if source.random() < 0.3:
        asked.missing = source.choice(["skip", "zero"])
        words += ["--missing", asked.missing]
    if source.random() < 0.15:
        asked.min_gain = source.choice([1.0, 2.0, 3.0])
        words += ["--min-gain", f"{asked.min_gain:g}"]
    if source.random() < 0.1:
        asked.duplicates = "first"
        words += ["--duplicates", "first"]
    return words


def _files(paths: dict[str, Path]) -> list[str]:
    options = {"preds": "--preds", "target": "--target", "train": "--train-target", "counts": "--label-counts"}
    words = [word for role, option in options.items() if role in paths for word in (option, str(paths[role]))]
    return [*words, "--num-train", "1000"] if "counts" in paths else words


def _layouts(form: str, kind: str) -> list[str]:
    """Return how a format can hold rows; a pair of arrays is for predictions only."""
    layouts = LAYOUTS.get(form, ("pairs",))
    return [one for one in layouts if one != "names" and not (form == "pt" and kind == "target" and one == "pairs")]


def _of_rows(source: Random, folder: Path) -> Case:
    num_labels, how_many = source.randrange(3, 15), source.randrange(1, 12)
    forms = {"preds": source.choice(ROWS), "target": source.choice(ROWS)}
    if source.random() < 0.4:
        forms["train"] = source.choice(ROWS)
    paths, held, counts = {}, {}, {}
    asked = Asked([], grouped=source.random() < 0.2)
    in_target = asked.grouped and forms["target"] == "parquet" and source.random() < 0.7
    groups = [source.choice(GROUPS) for _ in range(how_many)]
    for role, form in forms.items():
        kind = "preds" if role == "preds" else "target"
        layout = source.choice(_layouts(form, kind))
        scored = kind == "preds" and layout != "ids"
        graded = kind == "target" and (form in ("npz", "xmc") or layout in ("dense", "pairs"))
        rows = content.rows(source, how_many if role != "train" else how_many * 3, num_labels, graded, scored)
        own = groups if role == "target" and in_target else None
        paths[role], held[role] = _write_rows(source, folder, role, form, rows, num_labels, layout, own), rows
    words = _common(source, asked)
    if asked.grouped and not in_target:
        codec = source.choice([None, None, "gz"])
        paths["groups"] = folder / f"groups.txt{f'.{codec}' if codec else ''}"
        text = "".join(f"{name}\n" for name in groups)
        paths["groups"].write_bytes(writing.compressed(text.encode() or b"\n", codec))
    words += _groups_said(asked, in_target, paths)
    asked.num_labels = num_labels
    words += ["--num-labels", str(num_labels)]
    if source.random() < 0.15:
        some = [(str(source.randrange(how_many)), str(source.randrange(num_labels))) for _ in range(3)]
        asked.filtered = some
        words += _filter(asked, folder)
    if "train" not in paths and source.random() < 0.3:
        paths["counts"] = folder / "counts.npy"
        counts = {str(label): source.randrange(0, 50) for label in range(num_labels)}
        np.save(paths["counts"], list(counts.values()))
    asked.metrics = _metrics(source, "train" in forms or "counts" in paths)
    words += _buckets(source, asked)
    words += ["--config", str(_config(asked.metrics, folder)), *_files(paths)]
    return Case(folder, asked, words, forms, paths, _data(held, paths, counts, groups if asked.grouped else None))


def _write_rows(
    source: Random,
    folder: Path,
    role: str,
    form: str,
    rows: Rows,
    num_labels: int,
    layout: str,
    groups: list[str] | None,
) -> Path:
    """Write rows into one file, or into several whose rows follow one another."""
    kind, ending = "preds" if role == "preds" else "target", "txt" if form == "xmc" else form
    valued = any(value is not None for row in rows.rows for _, value in row)
    if source.random() < 0.8:
        path = folder / f"{role}.{ending}"
        writing.write_rows(rows, form, kind, path, num_labels, source, layout, groups, valued)
        return path
    found, parts = _parts(source, folder, role, ending)
    cuts = [0, *sorted(source.choices(range(1, len(rows.rows) + 1), k=len(parts) - 1)), len(rows.rows)]
    for part, start, stop in zip(parts, cuts, cuts[1:], strict=False):
        if start == stop:
            continue
        own = None if groups is None else groups[start:stop]
        writing.write_rows(Rows(rows.rows[start:stop]), form, kind, part, num_labels, source, layout, own, valued)
    return found
