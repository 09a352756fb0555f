"""Every file is read as its author meant it, or refused with a hint that, if followed,
gives the right number.

The files are random, and their meaning is decided before they are written. Nothing here
depends on how a file is read.
"""

import os
import re
import shlex
from collections import Counter
from itertools import pairwise
from random import Random

import pytest

from tables import write_table
from tailmetrics import NDCGAtK
from tailmetrics.io import ALIASES, Columns, DataFileError, read

CASES = int(os.environ.get("TAILMETRICS_FUZZ_CASES", "40"))
LIST_SEPARATORS = " ;"
"""What separates the labels of a list in the text of predictions and of targets."""
FORMATS = ["csv", "tsv", "jsonl", "json", "parquet", "arrow"]
UNKNOWN = [
    "kunde",
    "ware",
    "stern",
    "wert",
    "liste",
    "feld",
    "antwort",
    "c1",
    "x_2",
    "Spalte 7",
]
STRAYS = {
    "zero_one": lambda rng: rng.randrange(2),
    "bool": lambda rng: rng.random() < 0.5,
    "grades": lambda rng: rng.randrange(4),
    "letters": lambda rng: rng.choice("ESC"),
    "text": lambda rng: " ".join(rng.choices(["red", "blue", "old"], k=3)),
    "float": lambda rng: round(rng.random(), 3),
}


class Case:
    """Predictions and targets, the formats and column names of their files, and the
    role of each column.
    """

    def __init__(self, number):
        rng = self.rng = Random(number)
        queries = [f"u{query}" for query in range(4)]
        items = [f"i{item}" for item in range(9)]
        self.scores = {
            q: {i: rng.random() for i in rng.sample(items, 5)} for q in queries
        }
        self.gains = {
            q: {i: rng.choice([1, 1, 2, 3]) for i in rng.sample(items, 3)}
            for q in queries
        }
        self.is_graded = rng.random() < 0.5
        self.value = rng.choice(["score", "rank", "distance", "order"])
        self.lists = rng.random() < 0.4
        self.forms = [rng.choice(FORMATS) for _ in range(2)]
        self.files = [self.file("preds"), self.file("target")]

    def name(self, role, taken):
        """Return a name for a column of a role: a known name, or an unknown one."""
        plurals = [f"{name}s" for name in ALIASES["item"]]
        aliases = {
            "ids": [*ALIASES["ids"][:2], *plurals],
            "labels": [*ALIASES["labels"], *plurals],
        }.get(role, ALIASES.get(role))
        names = list(aliases) if aliases and self.rng.random() < 0.6 else UNKNOWN
        return self.rng.choice([name for name in names if name not in taken])

    def file(self, kind):
        """Return the columns of a file, and the column of each role."""
        rng, roles, rows = self.rng, {}, []
        data = self.scores if kind == "preds" else self.gains
        value = {"preds": self.value, "target": "gain" if self.is_graded else "none"}[
            kind
        ]
        for query, entries in data.items():
            order = (
                sorted(entries, key=lambda item: -entries[item])
                if kind == "preds"
                else list(entries)
            )
            numbers = {
                "score": [entries[i] for i in order],
                "rank": [*range(1, len(order) + 1)],
            }
            numbers |= {
                "distance": [1 - entries[i] for i in order],
                "gain": [entries[i] for i in order],
            }
            lines = list(zip(order, numbers.get(value, order), strict=True))
            if value not in ("order", "none"):
                rng.shuffle(lines)
            rows.append(
                (query, [item for item, _ in lines], [number for _, number in lines])
            )
        rng.shuffle(rows)
        columns = {}

        def put(role, cells):
            roles[role] = self.name(role, columns)
            columns[roles[role]] = cells

        list_role = "ids" if kind == "preds" else "labels"
        if self.lists:
            put("query", [query for query, _, _ in rows])
            put(list_role, [items for _, items, _ in rows])
            if value not in ("order", "none"):
                put(value, [numbers for _, _, numbers in rows])
        else:
            put("query", [query for query, items, _ in rows for _ in items])
            put("item", [item for _, items, _ in rows for item in items])
            if value not in ("order", "none"):
                put(value, [number for _, _, numbers in rows for number in numbers])
        size = len(next(iter(columns.values())))
        for _ in range(rng.choice([0, 0, 1, 2])):
            factory = STRAYS[rng.choice(list(STRAYS))]
            columns[rng.choice([name for name in UNKNOWN if name not in columns])] = [
                factory(rng) for _ in range(size)
            ]
        if value == "order":
            roles["rank"] = "order"
        if value == "none":
            roles["gain"] = "none"
        names = list(columns)
        rng.shuffle(names)
        return {name: columns[name] for name in names}, roles

    def truth(self):
        """Return NDCG at 3 by plain loops."""
        from math import log2

        values = []
        for query, gains in self.gains.items():
            gain = gains if self.is_graded else dict.fromkeys(gains, 1)
            order = sorted(
                self.scores[query], key=lambda item: -self.scores[query][item]
            )
            lists = (
                [gain.get(item, 0) for item in order],
                sorted(gain.values(), reverse=True),
            )
            dcg, best = (
                sum(g / log2(place + 2) for place, g in enumerate(gains[:3]))
                for gains in lists
            )
            values.append(dcg / best)
        return sum(values) / len(values)

    def write(self, folder):
        paths = []
        for kind, form, (columns, _), separator in zip(
            ("p", "y"), self.forms, self.files, LIST_SEPARATORS, strict=True
        ):
            path = folder / f"{kind}.{form}"
            write_table(path, columns, form, separator)
            paths.append(path)
        return paths


def value(files, options):
    arguments = dict(options)
    for name, roles in options.items():
        if name.endswith("columns"):
            arguments[name] = Columns(**roles)
    metric = NDCGAtK(k=3)
    for batch in read(*files, **arguments):
        metric.update(batch.preds, batch.target)
    return float(metric.compute())


def means_something_else(file, name):
    """Whether the file has a column of this name that is not its query, so that the
    name cannot join the files.
    """
    columns, roles = file
    return name in columns and roles.get("query") != name


def follow(error, case, options):
    """Add to the options those of a hint that agree with what the author of the files
    meant.
    """
    file_index = 0 if error.path.stem == "p" else 1
    hint = error.hint.partition("; without a line of names")[0]
    for option in ("preds-list-delimiter", "target-list-delimiter"):
        if f"--{option} C" in hint:
            options[option.replace("-", "_")] = LIST_SEPARATORS[file_index]
    words = shlex.split(hint.replace("(", " ").replace(")", " ").replace(",", " "))
    for word, answer in pairwise(words):
        match = re.fullmatch(r"--((?:preds-|target-)?columns)\.(\w+)", word)
        if not match:
            continue
        option, role = match[1].replace("-", "_"), match[2]
        meant = case.files[
            {"preds_columns": 0, "target_columns": 1}.get(option, file_index)
        ][1]
        if (
            option == "columns"
            and role == "query"
            and means_something_else(case.files[1 - file_index], answer)
        ):
            continue
        if role == "score" and role not in meant and ".rank, .distance" in hint:
            role = next(
                (
                    text
                    for text in ("rank", "distance")
                    if meant.get(text, "order") != "order"
                ),
                role,
            )
        if answer == "NAME" and role in meant and meant[role] not in ("order", "none"):
            options.setdefault(option, {})[role] = meant[role]
        elif meant.get(role) == answer:
            options.setdefault(option, {})[role] = answer


@pytest.fixture(scope="module")
def counts():
    """Count after how many tries the cases are right, and print the counts at the
    end.
    """
    results = Counter()
    yield results
    print(dict(results))


@pytest.mark.parametrize("start", range(0, CASES, 40))
def test_random_files_are_read_right_or_right_after_their_hints(
    tmp_path, start, counts
):
    """Each pair of files gives the number of plain loops, or is refused and gives it
    with the options of the hints.

    Each file is refused at most once: a refusal asks for all that is undecided.
    """
    for number in range(start, min(start + 40, CASES)):
        case, options = Case(number), {}
        (tmp_path / str(number)).mkdir()
        files, truth = case.write(tmp_path / str(number)), case.truth()
        refused, tries, result = set(), 0, None
        while result is None:
            tries += 1
            try:
                result = value(files, options)
            except DataFileError as error:
                for each in (error, *error.others):
                    assert len(each.args[0]) < 500
                    assert each.path not in refused, (
                        number,
                        tries,
                        str(error),
                        options,
                        case.files,
                        case.forms,
                    )
                    refused.add(each.path)
                    follow(each, case, options)

        assert result == pytest.approx(truth, abs=1e-6), (
            number,
            options,
            case.forms,
            case.files,
        )
        counts[f"right at try {tries}"] += 1
