"""`tailmetrics compare` of tables: what is not about the same thing is refused, and in what it differs is said."""

import numpy as np
import pyarrow.parquet as pq
import pytest

from cli.made import write_lists
from tailmetrics.cli.row_tables import IDENTITY

NUM_ROWS, NUM_LABELS = 60, 20
METRICS = [("RecallAtK", "{k: 3}"), ("RecallAtK", "{k: 3, buckets: deciles, scope: global}")]


class Files:
    """Predictions, two sets of judgements of the same rows, counts and reversed counts."""

    def __init__(self, folder):
        rng = np.random.default_rng(0)
        self.folder = folder
        self.preds = write_lists(
            folder / "p.parquet", ids=[rng.permutation(NUM_LABELS)[:5].tolist() for _ in range(60)]
        )
        self.other_preds = write_lists(
            folder / "q.parquet", ids=[rng.permutation(NUM_LABELS)[:5].tolist() for _ in range(60)]
        )
        relevant = rng.integers(NUM_LABELS, size=(2, NUM_ROWS))
        self.target, self.other_target = (
            write_lists(folder / f"{name}.parquet", labels=[[one] for one in labels.tolist()])
            for name, labels in zip(("y", "z"), relevant, strict=True)
        )
        counts = np.arange(NUM_LABELS, 0, -1)
        np.save(folder / "counts.npy", counts)
        np.save(folder / "reversed.npy", counts[::-1])
        (folder / "filter.txt").write_text("0 3\n1 4\n")
        (folder / "filtered.txt").write_text("0 3\n")

    def words(self, **changed):
        """Return the options of an evaluation; None leaves one out."""
        options = {"preds": self.preds, "target": self.target, "label_counts": self.folder / "counts.npy"}
        options |= {"num_train": 100, "filter": self.folder / "filter.txt", **changed}
        pairs = ((f"--{name.replace('_', '-')}", value) for name, value in options.items() if value is not None)
        return [word for pair in pairs for word in pair]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Return the files."""
    return Files(tmp_path_factory.mktemp("identity"))


@pytest.fixture
def table(files, config, tailmetrics, tmp_path):
    """Return a function that evaluates into a table of values per row."""

    def table(name, metrics=METRICS, **changed):
        path = tmp_path / f"{name}.parquet"
        words = [*files.words(**changed), "--config", config(*metrics), "--per-row", path, "--quiet"]
        assert tailmetrics("evaluate", *words)[0] == 0
        return path

    return table


def test_runs_about_the_same_thing(files, table, tailmetrics, tmp_path):
    """Other predictions, in other batches: they are compared without a word."""
    one, other = table("one"), table("other", preds=files.other_preds, batch_rows=7)
    assert tailmetrics("compare", one, other, "--quiet")[::2] == (0, "")


@pytest.mark.parametrize(
    ("what", "changed"),
    [
        ("targets", lambda files: {"target": files.other_target}),
        ("buckets", lambda files: {"label_counts": files.folder / "reversed.npy"}),
        ("options (filter)", lambda files: {"filter": None}),
    ],
)
def test_what_differs_is_refused(files, table, tailmetrics, tmp_path, what, changed):
    """Other judgements of the same rows, opposite deciles, no filter: no number is printed or written."""
    metrics = [*METRICS, ("HitRateAtK", "{k: 1}")]
    one, other = table("one", metrics), table("other", metrics, preds=files.other_preds, **changed(files))
    status, out, err = tailmetrics("compare", one, other, "--out", tmp_path / "out")
    assert (status, out) == (2, "")
    assert f"error: 'one' and 'other' have different {what}" in err
    assert "hint: evaluate both on the same targets" in err
    assert not (tmp_path / "out").exists()


def test_queries_that_count_as_empty(tailmetrics, config, tmp_path):
    """--missing zero and skip are two evaluations, where a query has no predictions; a full run is the same in both."""
    (tmp_path / "p.csv").write_text("query,item,score\na,x,1\n")
    (tmp_path / "full.csv").write_text("query,item,score\na,x,1\nb,x,1\n")
    (tmp_path / "y.csv").write_text("query,item\na,x\nb,x\n")
    files = [
        "--preds",
        tmp_path / "p.csv",
        "--target",
        tmp_path / "y.csv",
        "--config",
        config(("MRR", "{}")),
        "--quiet",
    ]
    for missing in ("skip", "zero"):
        table = tmp_path / f"{missing}.parquet"
        assert tailmetrics("evaluate", *files, "--missing", missing, "--per-row", table)[0] == 0
    status, _, err = tailmetrics("compare", tmp_path / "skip.parquet", tmp_path / "zero.parquet")
    assert (status, "skip lacks 1 of the 2 queries" in err) == (2, True)
    files[1], full = tmp_path / "full.csv", tmp_path / "full.parquet"
    for missing in ("skip", "zero"):
        words = [*files, "--missing", missing, "--per-row", full, "--overwrite"]
        assert tailmetrics("evaluate", *words)[0] == 0
        assert tailmetrics("compare", full, tmp_path / "zero.parquet", "--resamples", 100, "--quiet")[0] == 0


def test_an_argument_that_no_key_tells(table, tailmetrics):
    """Two metrics of one name that leave rows out differently."""
    one = table("one", [("RecallAtK", "{k: 3, name: mine}")])
    other = table("other", [("RecallAtK", "{k: 3, name: mine, empty_target_action: skip}")])
    status, _, err = tailmetrics("compare", one, other)
    assert status == 2
    assert "different arguments of 'mine" in err


def test_names_of_labels_are_what_counts(tailmetrics, config, tmp_path):
    """Two runs whose labels are numbered differently, since one knows a name more, are about the same thing."""
    (tmp_path / "y.csv").write_text("query,item\na,x\nb,y\n")
    (tmp_path / "counts.csv").write_text("label,count\nx,5\ny,2\n")
    tables = []
    for name, lines in (("one", "a,x,1\nb,x,1\n"), ("two", "a,a new one,2\na,x,1\nb,y,1\n")):
        (tmp_path / f"{name}.csv").write_text(f"query,item,score\n{lines}")
        tables.append(tmp_path / f"{name}.parquet")
        words = ["--preds", tmp_path / f"{name}.csv", "--target", tmp_path / "y.csv", "--config", config(*METRICS)]
        words += ["--label-counts", tmp_path / "counts.csv", "--num-labels", 9, "--string-ids", "true"]
        status, _, err = tailmetrics("evaluate", *words, "--per-row", tables[-1], "--quiet")
        assert status == 0, err
    assert tailmetrics("compare", *tables, "--quiet")[0] == 0


def test_a_table_that_does_not_say_what_it_is_about(files, table, tailmetrics, tmp_path):
    """Tables of earlier versions are compared, and the warning says that nothing tells what they are of."""
    one, other = table("one"), table("other", target=files.other_target)
    assert IDENTITY in pq.read_metadata(one).metadata
    pq.write_table(pq.read_table(other), tmp_path / "old.parquet")  # which keeps the schema, not the identity
    status, _, err = tailmetrics("compare", one, tmp_path / "old.parquet", "--quiet")
    assert status == 0
    assert "old.parquet: does not say what it was evaluated against" in err


def test_parts_of_two_runs(files, table, tailmetrics, tmp_path):
    """Parts beside one another that were evaluated with other options are no run."""
    one, other = table("one"), table("two", filter=None)
    shares = ((one, slice(0, 30)), (other, slice(30, 60)))
    for rank, (run, share) in enumerate(shares):
        part = pq.read_table(run).slice(share.start, share.stop - share.start)
        with pq.ParquetWriter(tmp_path / f"both.rank{rank}-of-2.parquet", part.schema) as writer:
            writer.write_table(part)
            writer.add_key_value_metadata({IDENTITY: pq.read_metadata(run).metadata[IDENTITY]})
    status, _, err = tailmetrics("compare", tmp_path / "both.parquet", tmp_path / "one.parquet")
    assert (status, "both.parquet: holds parts of different runs" in err) == (2, True)
