"""The values of a report are the same, byte for byte, however its files are laid
out.
"""

import gzip
import json
import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import feather

from written import values_of

ROWS, LABELS = 157, 40
METRICS = [
    ("PrecisionAtK", "{k: [1, 5]}"),
    ("NDCGAtK", "{k: 5, buckets: deciles}"),
    ("RecallAtK", "{k: 5, average: macro}"),
    ("PropensityScoredPrecisionAtK", "{k: 3}"),
    ("MRR", "{}"),
    ("GiniAtK", "{k: 5}"),
]


@pytest.fixture(scope="module")
def rows():
    """Return lists of ids with scores that are often equal, graded targets, and
    training targets.
    """
    source = random.Random(3)
    preds, target = [], []
    for _ in range(ROWS):
        ids = source.sample(range(LABELS), source.randrange(5, 20))
        preds.append((ids, [source.randrange(8) / 8 for _ in ids]))
        labels = source.sample(range(LABELS), source.randrange(1, 4))
        target.append((labels, [float(source.randrange(1, 4)) for _ in labels]))
    train = [
        source.choices(range(LABELS), [1 / (1 + label) for label in range(LABELS)])[:1]
        for _ in range(500)
    ]
    return preds, target, train


def lists(rows, names):
    return pa.table(dict(zip(names, map(list, zip(*rows, strict=True)), strict=True)))


def long(rows, value):
    lines = [
        {"query": row, "item": label, value: number}
        for row, (labels, numbers) in enumerate(rows)
        for label, number in zip(labels, numbers, strict=True)
    ]
    random.Random(1).shuffle(lines)
    return lines


def in_parts(table, folder, name="part-{}.parquet", count=7):
    size = -(-len(table) // count)
    for number in range(count):
        path = folder / name.format(number)
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table.slice(number * size, size), path)
    return folder


def as_one_file(preds, target, folder):
    pq.write_table(preds, folder / "p.parquet")
    pq.write_table(target, folder / "y.parquet", row_group_size=50)
    return folder / "p.parquet", folder / "y.parquet"


def as_folders(preds, target, folder):
    return in_parts(preds, folder / "p"), in_parts(target, folder / "y", count=3)


def as_arrow(preds, target, folder):
    feather.write_feather(
        preds, str(folder / "p.feather"), chunksize=50, compression="zstd"
    )
    with pa.ipc.new_stream(folder / "y.arrow", target.schema) as file:
        file.write_table(target, 33)
    return folder / "p.feather", folder / "y.arrow"


def as_structs(preds, target, folder):
    rows = [
        [
            {"item": i, "score": s}
            for i, s in zip(row["ids"], row["scores"], strict=True)
        ]
        for row in preds.to_pylist()
    ]
    pq.write_table(pa.table({"ids": rows}), folder / "p.parquet")
    return folder / "p.parquet", as_one_file(preds, target, folder / "..")[1]


ROW_LAYOUTS = [as_one_file, as_folders, as_arrow]


def as_long(preds, target, folder):
    pq.write_table(pa.Table.from_pylist(preds), folder / "p.parquet")
    return folder / "p.parquet", in_parts(pa.Table.from_pylist(target), folder / "y")


def as_compressed_json(preds, target, folder):
    for name, lines in (("p", preds), ("y", target)):
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / f"{name}.jsonl.gz").write_bytes(gzip.compress(text.encode()))
    return folder / "p.jsonl.gz", folder / "y.jsonl.gz"


def as_csv_parts(preds, target, folder):
    for name, lines in (("p", preds), ("y", target)):
        (folder / name).mkdir()
        for number in range(3):
            third = lines[number::3]
            text = "".join(
                ",".join(map(str, line.values())) + "\n"
                for line in [{name: name for name in lines[0]}, *third]
            )
            (folder / name / f"{number}.csv").write_text(text)
    return folder / "p", folder / "y"


LINE_LAYOUTS = [as_long, as_compressed_json, as_csv_parts]


def values(folder):
    """Return the content of a report as text, without its title and how its files were
    read.
    """
    report = json.loads((folder / "report.json").read_text())
    return json.dumps(
        {
            name: value
            for name, value in report.items()
            if name not in ("title", "readings")
        }
    )


@pytest.fixture
def words(config, tmp_path, rows):
    """Return the options that all command lines share."""
    pq.write_table(pa.table({"labels": rows[2]}), tmp_path / "train.parquet")
    training = ["--train-target", tmp_path / "train.parquet", "--num-labels", LABELS]
    return ["evaluate", "--config", config(*METRICS), *training, "--quiet"]


@pytest.mark.slow
def test_every_layout_gives_the_same_report(rows, words, tailmetrics, tmp_path):
    """The same rows give the same report as one file, folders, Arrow and structs, and
    as shuffled lines in Parquet, compressed JSON or parts of CSV.
    """
    preds, target, _ = rows
    files_by_layout = {}
    for layout in [*ROW_LAYOUTS, as_structs]:
        (tmp_path / layout.__name__).mkdir()
        tables = lists(preds, ("ids", "scores")), lists(target, ("labels", "gains"))
        files_by_layout[layout.__name__] = layout(*tables, tmp_path / layout.__name__)
    for layout in LINE_LAYOUTS:
        (tmp_path / layout.__name__).mkdir()
        files_by_layout[layout.__name__] = layout(
            long(preds, "score"), long(target, "gain"), tmp_path / layout.__name__
        )
    reports = {}
    for name, (preds_file, target_file) in files_by_layout.items():
        files = ["--preds", preds_file, "--target", target_file]
        assert tailmetrics(*words, *files, "--out", tmp_path / name / "one")[0] == 0
        reports[name] = values(tmp_path / name / "one")
    assert set(reports.values()) == {reports["as_one_file"]}
    assert values_of(json.loads(reports["as_one_file"]))["precision@5"] > 0.05


def test_a_report_notes_that_rows_are_joined_by_number(config, tailmetrics, tmp_path):
    """If one file names its queries and the other is an array without names, rows are
    joined by number, and the report notes it once.
    """
    pq.write_table(
        pa.table({"user": ["a", "b"], "ids": [[1], [0]]}), tmp_path / "p.parquet"
    )
    np.save(tmp_path / "y.npy", np.array([[1], [1]]))
    words = [
        "--preds",
        tmp_path / "p.parquet",
        "--target",
        tmp_path / "y.npy",
        "--out",
        tmp_path / "out",
        "--quiet",
    ]
    assert (
        tailmetrics("evaluate", *words, "--config", config(("RecallAtK", "{k: 1}")))[0]
        == 0
    )
    content = json.loads((tmp_path / "out" / "report.json").read_text())
    note = "names no query, so that row i belongs to row i of"
    assert sum(note in warning for warning in content["warnings"]) == 1
    assert note in (tmp_path / "out" / "report.md").read_text()


@pytest.mark.parametrize("form", ["csv", "json"])
def test_training_targets_do_not_decide_ties(evaluated, tmp_path, form):
    """Equal scores of CSV files keep the order of names, whatever the format of the
    training targets: a is before b.
    """
    contents = {
        "p.csv": "query,item,score\nu,b,0.5\nu,a,0.5\n",
        "y.csv": "query,item\nu,a\n",
        "t.csv": "query,item\nt,b\n",
        "t.json": '{"t": ["b"]}',
    }
    for name, content in contents.items():
        (tmp_path / name).write_text(content)
    words = ["--preds", tmp_path / "p.csv", "--target", tmp_path / "y.csv"]
    words += ["--train-target", tmp_path / f"t.{form}"]
    report = evaluated(*words, "--metrics+=AccuracyAtK", "--metrics.k=1")
    assert values_of(report)["accuracy@1"] == 1
