"""One random case: files in a folder, and the words of a command line."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import numpy as np

from cli.fuzz import content, reading, writing
from cli.fuzz.content import KEYED, ROWS, Data, Keyed, RefusedError
from cli.fuzz.expected import Asked

SUFFIXES = {
    "trec": {"preds": ("run", "trec", "txt"), "target": ("qrels", "qrel", "txt", "tsv")},
    "msmarco": {"preds": ("tsv", "txt"), "target": ("tsv", "qrels")},
    "lists": {"preds": ("csv",), "target": ("csv",)},
}
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
        columns: Names of columns that the words give.
    """

    folder: Path
    asked: Asked
    words: list[str]
    forms: dict[str, str]
    paths: dict[str, Path]
    columns: dict[str, str] = field(default_factory=dict)
    declared: int | None = None

    def read(self) -> Data:
        """Return what the files hold now."""
        data = {}
        for role, form in self.forms.items():
            kind = "preds" if role == "preds" else "target"
            if form in KEYED:
                data[role] = reading.read_keyed(self.paths[role], form, kind, self.columns)
            else:
                data[role] = reading.read_rows(self.paths[role], form, kind, self.declared)
        counts, num_train = None, None
        if "counts" in self.paths:
            counts, num_train = self._counts(), 1000
        return Data(data["preds"], data["target"], data.get("train"), counts, num_train)

    def _counts(self) -> dict[str, int]:
        path = self.paths["counts"]
        try:
            if path.suffix == ".npy":
                return {str(label): int(count) for label, count in enumerate(np.load(path).tolist())}
            return self._named_counts(path)
        except (ValueError, OSError, TypeError) as error:
            raise RefusedError("counts") from error

    def _named_counts(self, path: Path) -> dict[str, int]:
        header, *rows = [reading.fields(line, ",") for line in reading.lines_of(reading.plain(path))] or [[]]
        if sorted(header) != ["count", "label"] or any(len(row) != 2 for row in rows):
            raise RefusedError("columns of counts")
        label, count = header.index("label"), header.index("count")
        counts = {row[label]: reading.whole(row[count]) for row in rows}
        if len(counts) < len(rows) or any(one < 0 for one in counts.values()):
            raise RefusedError("counts")
        return counts


def made(source: Random, folder: Path) -> Case:
    """Return a case with its files written."""
    return _of_queries(source, folder) if source.random() < 0.65 else _of_rows(source, folder)


def _metrics(source: Random, trained: bool, catalogue: bool) -> list[tuple[str, dict[str, object]]]:
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
    if catalogue:
        chosen.append(("CatalogCoverageAtK", {"k": k}))
    if trained:
        chosen += [("PopularityAtK", {"k": k}), ("RecallAtK", {"k": k, "buckets": "deciles", "scope": "global"})]
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
    asked = Asked(
        [],
        trec=any(form == "trec" or (form == "msmarco" and role != "preds" and False) for role, form in forms.items()),
    )
    paths = {}
    for role, form in forms.items():
        some = source.sample(queries, source.randrange(1, len(queries) + 1)) if source.random() < 0.5 else queries
        paths[role] = _write_keyed(source, folder, role, form, some, items, style)
    words = _given(source, asked, names, queries, items, paths, folder)
    asked.metrics = _metrics(source, "train" in forms or "counts" in paths, asked.duplicates == "error")
    words += [word for name, value in columns.items() for word in (f"--columns.{name}", value)]
    words += ["--config", str(_config(asked.metrics, folder)), *_files(paths)]
    _settle_trec(asked, forms, paths)
    return Case(folder, asked, words, forms, paths, columns)


def _settle_trec(asked: Asked, forms: dict[str, str], paths: dict[str, Path]) -> None:
    """Say whether the last name wins ties: where a file is read as TREC, qrels beside ranked lists included."""
    qrels = [role for role, form in forms.items() if form == "msmarco" and role != "preds"]
    asked.trec = "trec" in forms.values() or bool(qrels)


def _write_keyed(
    source: Random, folder: Path, role: str, form: str, queries: list[str], items: list[str], style: writing.Style
) -> Path:
    kind = "preds" if role == "preds" else "target"
    graded = kind == "target" and (form in ("trec", "msmarco") or (form != "lists" and source.random() < 0.5))
    data = content.keyed(source, queries, items, graded, kind == "preds")
    if kind == "preds" and form in ("lists", "msmarco"):
        data = _by_rank(data, 0 if form == "lists" else 1)
    if form == "lists" and source.random() < 0.3:
        data.lines.append(("an empty one", None, None))
    codec = source.choice([None, None, None, "gz", "bz2"])
    suffix = source.choice(SUFFIXES.get(form, {}).get(kind, (form,)))
    path = folder / f"{role}.{suffix}{f'.{codec}' if codec else ''}"
    path.write_bytes(writing.compressed(writing.write_keyed(data, form, kind, style), codec))
    return path


def _by_rank(data: Keyed, first: int) -> Keyed:
    """Return the same lines with minus the rank in the place of the score."""
    lines: list[tuple[str, str | None, float | None]] = []
    for query in data.queries:
        lines += [(query, item, -float(place + first)) for place, (item, _) in enumerate(data.of(query))]
    return Keyed(lines)


def _given(
    source: Random, asked: Asked, names: str, queries: list[str], items: list[str], paths: dict[str, Path], folder: Path
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
        lines = [
            f"{item},{source.randrange(0, 50)}\n" for item in source.sample(items, source.randrange(1, len(items) + 1))
        ]
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
    if source.random() < 0.2:
        asked.cut = source.choice([1, 2, 5])
        words += ["--cut", str(asked.cut)]
    if source.random() < 0.15:
        asked.min_gain = source.choice([1.0, 2.0, 3.0])
        words += ["--min-gain", f"{asked.min_gain:g}"]
    if source.random() < 0.1:
        asked.duplicates = "first"
        words += ["--duplicates", "first"]
    return words


def _files(paths: dict[str, Path]) -> list[str]:
    options = {"preds": "--preds", "target": "--target", "train": "--train-target", "counts": "--label-counts"}
    words = [word for role, path in paths.items() for word in (options[role], str(path))]
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
    paths, declares = {}, False
    for role, form in forms.items():
        kind = "preds" if role == "preds" else "target"
        layout = source.choice(_layouts(form, kind))
        scored = kind == "preds" and layout != "ids"
        graded = kind == "target" and (form in ("npz", "xmc") or layout in ("dense", "pairs"))
        rows = content.rows(source, how_many if role != "train" else how_many * 3, num_labels, graded, scored)
        paths[role] = folder / f"{role}.{'txt' if form == 'xmc' else form}"
        writing.write_rows(rows, form, kind, paths[role], num_labels, source, layout)
        declares |= layout == "dense" or form in ("npz", "xmc")
    asked = Asked([])
    words = _common(source, asked)
    asked.num_labels = num_labels
    words += ["--num-labels", str(num_labels)]
    if source.random() < 0.15:
        some = [(str(source.randrange(how_many)), str(source.randrange(num_labels))) for _ in range(3)]
        asked.filtered = some
        words += _filter(asked, folder)
    if "train" not in paths and source.random() < 0.3:
        paths["counts"] = folder / "counts.npy"
        np.save(paths["counts"], [source.randrange(0, 50) for _ in range(num_labels)])
    asked.metrics = _metrics(source, "train" in forms or "counts" in paths, asked.duplicates == "error")
    words += ["--config", str(_config(asked.metrics, folder)), *_files(paths)]
    return Case(folder, asked, words, forms, paths, {}, num_labels)
