"""Folders of parts, patterns, partitions and lists of files: what is read, in which
order, and what is refused.
"""

import gzip
import shutil
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tailmetrics.io import DataFileError, read, read_label_names
from tailmetrics.io.files import find

ROWS = 23
PREDS = [([row % 5, (row + 1) % 5], [0.5, row / 100]) for row in range(ROWS)]
TARGET = [[(row * 3) % 5] for row in range(ROWS)]
EXPECTED = {
    row: (dict(zip(ids, scores, strict=True)), TARGET[row])
    for row, (ids, scores) in enumerate(PREDS)
}


def table(rows):
    return pa.table(
        {"ids": [ids for ids, _ in rows], "scores": [scores for _, scores in rows]}
    )


@pytest.fixture
def target(tmp_path):
    """Return targets in one file."""
    pq.write_table(pa.table({"labels": TARGET}), tmp_path / "y.parquet")
    return tmp_path / "y.parquet"


def split(count):
    """Return the rows of each part; parts differ in length."""
    cuts = sorted({0, ROWS, *(number * number % ROWS for number in range(1, count))})
    return [PREDS[start:stop] for start, stop in pairwise(cuts)]


def write_parts(folder, count=12, name="part-{}.parquet"):
    """Write the rows as parts, whose numbers have no leading zeros, beside files that
    are no data.
    """
    folder.mkdir(parents=True)
    for number, rows in enumerate(split(count)):
        path = folder / name.format(number)
        path.parent.mkdir(exist_ok=True)
        pq.write_table(table(rows), path)
    (folder / "_SUCCESS").write_text("")
    (folder / ".part-0.crc").write_text("x")
    return folder


@pytest.mark.parametrize(("world_size", "batch_rows"), [(1, 4), (2, 1), (3, 100)])
def test_parts_are_read_as_one_file(tmp_path, target, rows_of, world_size, batch_rows):
    """A folder, a pattern, partitions and a list of files are read as one file with
    their rows in order, on each rank.

    On one process all of these are tried, on two and three every other one.
    """
    folder = write_parts(tmp_path / "folder")
    hive = write_parts(tmp_path / "hive", name="day={}/a.parquet")
    deep = write_parts(tmp_path / "deep" / "below")
    paths = list(find(folder).parts)
    assert [path.name for path in paths][-2:] == [
        f"part-{len(paths) - 2}.parquet",
        f"part-{len(paths) - 1}.parquet",
    ]
    patterns = [
        str(folder / "part-*.parquet"),
        str(tmp_path / "deep" / "**" / "*.parquet"),
        f"{hive}/day=*",
    ]
    forms = (
        folder,
        hive,
        deep.parent,
        paths,
        list(map(str, paths)),
        f"file://{folder}",
        *patterns,
    )
    for preds in forms if world_size == 1 else forms[world_size % 2 :: 2]:
        parts = [
            rows_of(
                read(
                    preds,
                    target,
                    num_labels=5,
                    rank=rank,
                    world_size=world_size,
                    batch_rows=batch_rows,
                )
            )
            for rank in range(world_size)
        ]
        assert {row: value for part in parts for row, value in part.items()} == EXPECTED


def test_parts_without_rows_are_skipped(tmp_path, target, rows_of):
    """A part without rows, as Spark writes them, is skipped wherever it stands."""
    folder = write_parts(tmp_path / "folder", count=4)
    for name in ("part-", "part-00", "part-2a", "part-99"):
        pq.write_table(table(PREDS).slice(0, 0), folder / f"{name}.parquet")
    assert rows_of(read(folder, target, num_labels=5)) == EXPECTED


@pytest.mark.parametrize("suffix", ["npy", "xmc", "gz"])
def test_arrays_and_text_are_read_in_parts(tmp_path, target, rows_of, suffix):
    """Arrays, text and compressed text are read in parts."""
    folder = tmp_path / "folder"
    folder.mkdir()
    for number, rows in enumerate(split(5)):
        dense = np.full((len(rows), 5), -np.inf)
        for row, (ids, scores) in enumerate(rows):
            dense[row, ids] = scores
        lines = [
            " ".join(
                f"{label}:{score}" for label, score in zip(ids, scores, strict=True)
            )
            for ids, scores in rows
        ]
        text = "".join(line + "\n" for line in [f"{len(rows)} 5", *lines])
        if suffix == "npy":
            np.save(folder / f"{number}.npy", dense)
        elif suffix == "xmc":
            (folder / f"{number}.xmc").write_text(text)
        else:
            (folder / f"{number}.xmc.gz").write_bytes(gzip.compress(text.encode()))
    rows_read = rows_of(read(folder, target, batch_rows=4))
    finite = {
        row: ({i: s for i, s in preds.items() if s > -np.inf}, labels)
        for row, (preds, labels) in rows_read.items()
    }
    assert finite == EXPECTED


CSV = "query,item,score\n"


def test_lines_of_a_query_may_lie_in_several_parts(tmp_path, rows_of):
    """Lines of a query may lie in several parts.

    An error names the part and the line in it, and label names are collected over all
    parts.
    """
    (tmp_path / "p").mkdir()
    for number in range(3):
        lines = "".join(
            f"u{query},{(query + number) % 4},{number / 4}\n" for query in (3, 1, 2)
        )
        (tmp_path / "p" / f"{number}.csv").write_text("user_id,item,score\n" + lines)
    (tmp_path / "y.csv").write_text("query,item\nu1,1\nu2,3\n")
    dataset = read(tmp_path / "p", tmp_path / "y.csv", num_labels=4)
    assert dataset.readings[0].query == ("user_id",)
    assert dataset.unmatched_queries == 1
    assert rows_of(dataset) == {
        0: ({1: 0.0, 2: 0.25, 3: 0.5}, [1]),
        1: ({2: 0.0, 3: 0.25, 0: 0.5}, [3]),
    }
    (tmp_path / "p" / "1.csv").write_text("user_id,item,score\nu1,1,0.5\nu1,2,high\n")
    with pytest.raises(
        DataFileError, match=r"p/1\.csv, line 3: score 'high' is not a number"
    ):
        read(tmp_path / "p", tmp_path / "y.csv", num_labels=4)
    names = read_label_names(
        [tmp_path / "p" / "[02].csv"], tmp_path / "y.csv", string_ids=True
    )
    assert names == ("0", "1", "2", "3")
    with pytest.raises(
        DataFileError, match=r"p/\[02\]\.csv, query 'u2': unknown label '0'"
    ):
        read(
            tmp_path / "p" / "[02].csv", tmp_path / "y.csv", label_names=["1", "2", "3"]
        )


def test_parts_with_ranks_and_with_scores_are_refused(tmp_path):
    """Parts of which one has scores and another ranks are refused, for lines and for
    lists.
    """
    (tmp_path / "y.csv").write_text("query,item\na,x\nb,y\n")
    for name, value in (("0", "score"), ("1", "rank")):
        for folder in ("p", "l"):
            (tmp_path / folder).mkdir(exist_ok=True)
        (tmp_path / "p" / f"{name}.csv").write_text(f"query,item,{value}\na,x,1\n")
        rows = [[{"item": "x", value: 1}]]
        pq.write_table(
            pa.table({"query": [name], "items": rows}),
            tmp_path / "l" / f"{name}.parquet",
        )
    with pytest.raises(
        DataFileError,
        match=r"1\.csv: .*'rank' is the rank, least first, unlike 0\.csv: ",
    ):
        read(tmp_path / "p", tmp_path / "y.csv")
    with pytest.raises(DataFileError, match=r"1\.parquet: holds lists .* with a rank"):
        read(tmp_path / "l", tmp_path / "y.csv")


def without_scores(folder):
    pq.write_table(table(PREDS[:3]).drop_columns(["scores"]), folder / "part-1.parquet")


def with_strings(folder):
    pq.write_table(
        pa.table({"ids": [["a"]], "scores": [[1.0]]}), folder / "part-1.parquet"
    )


def truncated(folder):
    path = folder / "part-1.parquet"
    path.write_bytes(path.read_bytes()[:-9])


def empty(folder):
    (folder / "part-1.parquet").write_bytes(b"")


def in_another_format(folder):
    (folder / "part-1.csv").write_text(CSV)


def with_a_wrong_row(folder):
    pq.write_table(table([([1, 9], [1.0, 2.0])]), folder / "part-1.parquet")


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (
            without_scores,
            r"part-1\.parquet: holds lists of whole numbers, but .*part-0\.parquet holds .* with a score",
        ),
        (
            with_strings,
            r"part-1\.parquet: holds lists of strings with a score, but .*part-0",
        ),
        (truncated, r"part-1\.parquet: cannot be read as parquet"),
        (empty, r"part-1\.parquet: is empty"),
        (in_another_format, r"part-1\.csv: is csv, but .*part-0\.parquet is parquet"),
        (
            with_a_wrong_row,
            r"part-1\.parquet, row 0: holds the label id 9, but there are 5 labels",
        ),
        (shutil.rmtree, r"folder: there is no such file"),
        (
            lambda folder: (folder / "part-2.parquet").unlink(),
            r"y\.parquet: holds 23 rows, but .*folder holds",
        ),
    ],
)
def test_a_wrong_part_is_named(tmp_path, target, damage, problem):
    """A part of another schema or format, one that is cut short, empty or missing, and
    one with a wrong row raise an error that names the part or the folder.
    """
    folder = write_parts(tmp_path / "folder", count=6)
    damage(folder)
    with pytest.raises(DataFileError, match=problem) as caught:
        list(read(folder, target, num_labels=5))
    assert caught.value.hint


def test_paths_without_data_are_refused(tmp_path, target):
    """A folder without data, a pattern without a match and an empty list are
    refused.
    """
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "_SUCCESS").write_text("x")
    for preds, problem in (
        (tmp_path / "bare", "holds no files of data"),
        (tmp_path / "*.npz", "no file matches"),
    ):
        with pytest.raises(DataFileError, match=problem):
            read(preds, target)
    with pytest.raises(TypeError, match="preds: is a list"):
        read([], target)


def test_an_existing_path_is_not_read_as_a_pattern(tmp_path, target, rows_of):
    """A path of an existing file is that file, though it holds the signs of a
    pattern.
    """
    pq.write_table(table(PREDS), tmp_path / "p[1]*.parquet")
    assert rows_of(read(tmp_path / "p[1]*.parquet", target, num_labels=5)) == EXPECTED


@pytest.mark.parametrize("target_parts", [1, 2])
def test_parts_of_sequences_are_read_as_rows(tmp_path, target_parts):
    """Parts (B, T, L) of scores and (B, T) of labels are read as B x T rows, though the
    parts differ in B.
    """
    scores, labels = (
        np.random.default_rng(0).random((5, 3, 4), np.float32),
        np.arange(15).reshape(5, 3) % 4,
    )
    for name, array, cuts in (
        ("p", scores, [2]),
        ("y", labels, [4][: target_parts - 1]),
    ):
        (tmp_path / name).mkdir()
        for number, part in enumerate(np.split(array, cuts)):
            np.save(tmp_path / name / f"{number}.npy", part)
    dataset = read(tmp_path / "p", tmp_path / "y", batch_rows=4)
    batches = list(dataset)
    assert (
        np.concatenate([batch.preds for batch in batches]).tolist()
        == scores.reshape(15, 4).tolist()
    )
    assert (
        np.concatenate([batch.target for batch in batches]).tolist()
        == labels.reshape(15).tolist()
    )


@pytest.mark.parametrize("labels", [[3, 1], ["b", "a"]])
@pytest.mark.parametrize("first", [0, 1])
def test_a_part_of_empty_lists_has_no_type(tmp_path, rows_of, labels, first):
    """Arrow gives lists that are all empty no type. Such a part is read with parts of
    numbers and of names, whichever comes first, and a whole file of it beside targets
    of either.
    """
    nothing = pa.array([[]], pa.list_(pa.null()))
    parts = [
        pa.table({"ids": [labels], "score": [[0.5, 0.25]]}),
        pa.table({"ids": nothing, "score": nothing}),
    ]
    (tmp_path / "preds").mkdir()
    for number, table in enumerate(parts):
        pq.write_table(table, tmp_path / "preds" / f"{(number + first) % 2}.parquet")
    pq.write_table(
        pa.table({"labels": [labels[:1], labels[1:]]}), tmp_path / "y.parquet"
    )
    rows = rows_of(read(tmp_path / "preds", tmp_path / "y.parquet", batch_rows=1))
    assert [len(preds) for preds, _ in rows.values()] == [2, 0][:: 1 - 2 * first]
    empty = tmp_path / "preds" / f"{1 - first}.parquet"
    pq.write_table(pa.table({"labels": [labels]}), tmp_path / "one.parquet")
    assert [
        list(preds)
        for preds, _ in rows_of(read(empty, tmp_path / "one.parquet")).values()
    ] == [[]]
