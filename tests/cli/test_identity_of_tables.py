"""`tailmetrics compare` of tables: what is not about the same thing is refused, and in what it differs is said."""

import json

import numpy as np
import pytest

from cli.long_tail import write_lists

METRICS = [("RecallAtK", "{k: 3}"), ("RecallAtK", "{k: 3, buckets: deciles, scope: global}")]


@pytest.fixture(scope="module")
def files(data_set, tmp_path_factory):
    """Return other predictions and judgements of the same rows, reversed counts, and pairs that do not count."""
    folder = tmp_path_factory.mktemp("identity")
    np.save(folder / "reversed.npy", np.load(data_set.counts)[::-1])
    (folder / "filter.txt").write_text("0 3\n1 4\n")
    return {
        "preds": write_lists(folder / "p.parquet", ids=data_set.candidates, scores=data_set.scores[::-1]),
        "target": write_lists(folder / "y.parquet", labels=data_set.relevant[::-1]),
        "label_counts": folder / "reversed.npy",
        "filter": folder / "filter.txt",
    }


@pytest.fixture
def table(data_set, files, config, tailmetrics, tmp_path):
    """Return a function that evaluates into a table of values per row, with other options if given; None is without."""

    def table(name, metrics=METRICS, **changed):
        path = tmp_path / f"{name}.parquet"
        options = {
            "preds": data_set.preds,
            "target": data_set.target,
            "label_counts": data_set.counts,
            "num_train": 240,
        }
        options |= {"filter": files["filter"], **changed}
        pairs = ((f"--{name.replace('_', '-')}", value) for name, value in options.items() if value is not None)
        words = [*(word for pair in pairs for word in pair), "--config", config(*metrics), "--per-row", path, "--quiet"]
        assert tailmetrics("evaluate", *words)[0] == 0
        return path

    return table


def test_runs_about_the_same_thing(files, table, tailmetrics, tmp_path):
    """Other predictions, in other batches: they are compared without a word."""
    first, other = table("one"), table("other", preds=files["preds"], batch_rows=7)
    assert tailmetrics("compare", first, other, "--quiet")[::2] == (0, "")


@pytest.mark.parametrize(
    ("what", "option"), [("targets", "target"), ("buckets", "label_counts"), ("options (filter)", "filter")]
)
def test_what_differs_is_refused(files, table, tailmetrics, tmp_path, what, option):
    """Other judgements of the same rows, opposite deciles, no filter: no number is printed or written."""
    metrics = [*METRICS, ("HitRateAtK", "{k: 1}")]
    changed = {option: None if option == "filter" else files[option]}
    first, other = table("one", metrics), table("other", metrics, preds=files["preds"], **changed)
    status, out, err = tailmetrics("compare", first, other, "--out", tmp_path / "compared")
    assert (status, out) == (2, "")
    assert f"error: compare: 'one' and 'other' have different {what}" in err
    assert "hint: evaluate both on the same targets" in err
    assert not (tmp_path / "compared").exists()


def test_queries_that_count_as_empty(write_files, evaluated, compared, tailmetrics, tmp_path):
    """--missing zero and skip are two evaluations, where a query has no predictions; a full run is the same in both."""
    skip, zero, full = (tmp_path / f"{name}.parquet" for name in ("skip", "zero", "full"))
    words = [*write_files(target="query,item\na,x\nb,x\n"), "--metrics", "[{class_path: MRR}]"]
    words += write_files(preds="query,item,score\na,x,1\n")
    for table in (skip, zero):
        evaluated(*words, "--missing", table.stem, "--per-row", table)
    status, _, err = tailmetrics("compare", skip, zero)
    assert (status, "skip lacks 1 of the 2 queries" in err) == (2, True)
    assert "averages over labels also by the number of rows" in err
    assert "; evaluate --missing zero --per-row counts queries that a run lacks as 0." in err
    write_files(preds="query,item,score\na,x,1\nb,x,1\n")
    for missing in ("skip", "zero"):
        evaluated(*words, "--missing", missing, "--per-row", full)
        compared(full, zero, "--resamples", 100)


@pytest.mark.parametrize("other", ["k: 3, empty_target_action: skip", "k: 2", "k: 3, ties: expected"])
def test_an_argument_that_no_key_tells(table, tailmetrics, other):
    """Two metrics of one name with one other argument."""
    first = table("one", [("RecallAtK", "{k: 3, name: mine}")])
    two = table("two", [("RecallAtK", f"{{{other}, name: mine}}")])
    status, _, err = tailmetrics("compare", first, two)
    assert status == 2
    assert "different arguments of 'mine'" in err
    assert (" (k=3, k=2)" in err) == (other == "k: 2")


@pytest.mark.filterwarnings("always:compare. the threshold")
def test_thresholds_of_their_own(write_files, evaluated, tailmetrics, tmp_path):
    """Two models with a threshold each are compared; the report and the terminal say which has which."""
    words = write_files(preds=np.array([[0.9, 0.7], [0.1, 0.7]]), target=np.array([[True, False], [False, True]]))
    tables = [tmp_path / f"{name}.parquet" for name in ("low", "high")]
    for table, cut in zip(tables, (0.6, 0.8), strict=True):
        metric = ["--metrics+=F1AtThreshold", f"--metrics.threshold={cut}", "--metrics.name=f1"]
        evaluated(*words, *metric, "--per-row", table)
    status, _, err = tailmetrics("compare", *tables, "--out", tmp_path / "compared")
    problem = "the threshold of 'f1' is 0.6 in 'low', 0.8 in 'high'"
    assert (status, f"warning: compare: {problem}" in err) == (0, True), err
    assert problem in json.loads((tmp_path / "compared" / "compare.json").read_text())["warnings"][0]


def test_names_of_labels_are_what_counts(write_files, config, evaluated, compared, tmp_path):
    """Two runs whose labels are numbered differently, since one knows a name more, are about the same thing."""
    words = [*write_files(target="query,item\na,x\nb,y\n", label_counts="label,count\nx,5\ny,2\n"), "--num-labels", 9]
    tables = [tmp_path / f"{name}.parquet" for name in ("one", "two")]
    for table, lines in zip(tables, ("a,x,1\nb,x,1\n", "a,a new one,2\na,x,1\nb,y,1\n"), strict=True):
        further_options = [
            *write_files(preds=f"query,item,score\n{lines}"),
            "--string-ids",
            "true",
            "--config",
            config(*METRICS),
        ]
        evaluated(*words, *further_options, "--per-row", table)
    compared(*tables)
