"""The deciles of labels are the same from every format that holds the same data, also
where counts are equal.
"""

import csv
import json
import random
from collections import Counter

import pytest

from tailmetrics import RecallAtK, evaluate
from tailmetrics.cli import main
from written import values_of


def deciles_by_loop(counts, key):
    """Return the decile of each seen label: the most frequent first, and of equal
    counts the first by name.
    """
    labels = iter(sorted(counts, key=lambda label: (-counts[label], key(label))))
    remaining = sum(counts.values())
    deciles = {}
    for decile in range(10, 0, -1):
        taken = 0
        while taken * decile < remaining:
            label = next(labels)
            deciles[label] = f"decile_{decile}"
            taken += counts[label]
        remaining -= taken
    return deciles


def write(folder, form, run, target, train):
    """Write run, targets and training targets, and return their paths."""
    names = {"trec": ("run", "qrels", "qrels"), "mixed": ("json", "json", "qrels")}.get(
        form, (form,) * 3
    )
    paths = [
        folder / f"{name}.{suffix}"
        for name, suffix in zip(("run", "test", "train"), names, strict=True)
    ]
    for path, data in zip(paths, (run, target, train), strict=True):
        cells = [
            (query, item, value)
            for query, by in data.items()
            for item, value in by.items()
        ]
        if path.suffix == ".json":
            path.write_text(json.dumps(data))
        elif path.suffix == ".csv":
            with path.open("w", newline="") as file:
                csv.writer(file).writerows([("query", "item", "score"), *cells])
        elif path.suffix == ".run":
            path.write_text(
                "".join(
                    f"{query} Q0 {item} 1 {value} me\n" for query, item, value in cells
                )
            )
        else:
            path.write_text(
                "".join(f"{query} 0 {item} {value}\n" for query, item, value in cells)
            )
    return paths


@pytest.mark.parametrize(
    ("form", "stem"),
    [
        ("trec", "doc"),
        ("trec", ""),
        ("mixed", ""),
        ("json", "doc"),
        ("csv", ""),
        ("python", "doc"),
    ],
)
@pytest.mark.slow
def test_deciles_order_equal_counts_by_name_in_every_format(tmp_path, form, stem):
    """In every format, labels of equal counts are divided among deciles in the order of
    their names, and names that are whole numbers ascend by value. The sizes of deciles
    and the recalls by decile equal those of plain loops.
    """
    source = random.Random(3)
    items = [f"{stem}{number}" for number in range(5, 205)]
    key = str if stem else int
    # most counts are 1, 2 or 3
    train = {f"t{row}": dict.fromkeys(source.sample(items, 3), 1) for row in range(120)}
    target = {f"q{row}": dict.fromkeys(source.sample(items, 8), 1) for row in range(30)}
    # no ties
    run = {
        query: dict(zip(source.sample(items, 20), range(20, 0, -1), strict=True))
        for query in target
    }
    decile = deciles_by_loop(Counter(item for by in train.values() for item in by), key)
    if form == "python":
        metrics = [RecallAtK(10, buckets="deciles", scope="global")]
        report = evaluate(
            run, target, train_target=train, metrics=metrics, intervals=False
        )
        values, sizes = report.scalars, {row.name: row.labels for row in report.buckets}
    else:
        paths = write(tmp_path, form, run, target, train)
        words = [
            "--preds",
            paths[0],
            "--target",
            paths[1],
            "--train-target",
            paths[2],
            "--buckets",
            "deciles",
        ]
        words += [
            "--metrics+=RecallAtK",
            "--metrics.k=10",
            "--out",
            tmp_path / "out",
            "--quiet",
        ]
        assert main(["evaluate", *map(str, words)]) == 0
        report = json.loads((tmp_path / "out" / "report.json").read_text())
        values, sizes = (
            values_of(report),
            {row["name"]: row["labels"] for row in report["buckets"]},
        )
    for name in [f"decile_{number}" for number in range(1, 11)]:
        recalls = []
        for query, relevant in target.items():
            relevant_items = {item for item in relevant if decile.get(item) == name}
            best = sorted(run[query], key=run[query].get, reverse=True)[:10]
            if relevant_items:
                recalls.append(len(relevant_items & {*best}) / len(relevant_items))
        assert sizes[name] == [*decile.values()].count(name)
        value = next(
            value for key, value in values.items() if key.endswith(f"recall@10/{name}")
        )
        assert value == pytest.approx(sum(recalls) / len(recalls), abs=1e-12), name
