"""`tailmetrics compare` finds the differences between runs, and only these."""

import csv
import json
import math
import shutil

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from sklearn.metrics import f1_score, roc_auc_score

from cli.long_tail import rewrite, write_lists
from tailmetrics import LabelBuckets, PrecisionAtK, RecallAtK, evaluate
from tailmetrics.evaluation import compare_runs
from tailmetrics.evaluation.row_tables import METADATA, RowTable
from tailmetrics.significance import compare
from written import by_key, comparisons_of, field_of, values_of

NUM_ROWS, NUM_LABELS = 400, 40
BY_DECILE = ("RecallAtK", "{k: 3, buckets: deciles, scope: global}")
OVERALL = ("PrecisionAtK", "{k: [1, 3], denominator: k}")
RATIO = ("PropensityScoredRecallAtK", "{k: 3}")
MEDIAN = ("KForRecall", "{min_recall: 1.0, miss_value: 40}")


class Runs:
    """One relevant label per row.

    The old run hits half of the rows; the new run hits these and all rows of decile 1.
    """

    def __init__(self, folder):
        rng = np.random.default_rng(3)
        counts = (1000 / np.arange(1, NUM_LABELS + 1)).astype(int)
        deciles = LabelBuckets.deciles(counts)
        self.rarest = set(
            np.flatnonzero(
                deciles.assignment.numpy() == deciles.names.index("decile_1")
            ).tolist()
        )
        rare = rng.choice(sorted(self.rarest), NUM_ROWS)
        frequent = rng.choice(sorted(set(range(NUM_LABELS)) - self.rarest), NUM_ROWS)
        self.relevant = np.where(rng.random(NUM_ROWS) < 0.3, rare, frequent)
        self.hits = rng.random(NUM_ROWS) < 0.5

        old, new = [], []
        for row, (label, hit) in enumerate(
            zip(self.relevant.tolist(), self.hits, strict=True)
        ):
            misses = [other for other in range(NUM_LABELS) if other != label][
                row % 30 :
            ][:3]
            right, wrong = [label, *misses[:2]], misses
            old.append(right if hit else wrong)
            new.append(right if hit or label in self.rarest else wrong)

        self.old = write_lists(folder / "old.parquet", ids=old)
        self.new = write_lists(folder / "new.parquet", ids=new)
        self.target = write_lists(
            folder / "target.parquet",
            labels=[[label] for label in self.relevant.tolist()],
        )
        np.save(folder / "counts.npy", counts)
        self.reference = [
            "--target",
            self.target,
            "--label-counts",
            str(folder / "counts.npy"),
            "--num-train",
            "1000",
        ]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Return the runs in files."""
    return Runs(tmp_path_factory.mktemp("runs"))


@pytest.fixture
def tables(runs, config, tailmetrics, tmp_path):
    """Return a function that evaluates a run into a table of values per row."""

    def tables(name, *metrics):
        path = tmp_path / f"{name}-rows.parquet"
        options = [
            "--config",
            config(*metrics),
            *runs.reference,
            "--per-row",
            path,
            "--quiet",
        ]
        status, _, err = tailmetrics(
            "evaluate", "--preds", getattr(runs, name), *options
        )
        assert (status, err.partition(" how often")[0]) in (
            (0, ""),
            (0, "warning: No metric reads"),
        )
        return path

    return tables


def written_comparison(folder):
    """Return the content of compare.json."""
    return json.loads((folder / "compare.json").read_text())


@pytest.mark.drawn
def test_an_improvement_of_rare_labels_is_significant_only_in_their_bucket(
    runs, config, tailmetrics, tmp_path
):
    """If the new run improves decile 1 only, the significant differences are those of
    decile 1, of its gap and of the overall value, and equal the share of rows that the
    old run misses. The other buckets differ by 0. Page and pictures show the same.
    """
    words = [
        "--preds",
        runs.old,
        "--preds",
        runs.new,
        "--config",
        config(BY_DECILE),
        *runs.reference,
    ]
    status, out, err = tailmetrics(
        "compare", *words, "--out", tmp_path / "out", "--verbose"
    )
    assert (status, err) == (0, "")
    comparisons = {
        record["key"]: record
        for record in comparisons_of(written_comparison(tmp_path / "out"))
    }
    # eleven buckets, their gap and adjusted gap, all labels
    assert len(comparisons) == 14
    gaps = ["global_recall@3/gap"]  # the adjusted gap is shown but not tested
    significant = [key for key, record in comparisons.items() if record["significant"]]
    assert significant == ["global_recall@3/decile_1", "recall@3", *gaps]
    record = comparisons["global_recall@3/decile_1"]
    decile = np.isin(runs.relevant, list(runs.rarest))
    missed = decile & ~runs.hits
    assert (record["n"], record["wins"], record["losses"]) == (
        decile.sum(),
        missed.sum(),
        0,
    )
    assert record["difference"] == pytest.approx(missed.sum() / decile.sum())
    assert record["low"] < record["difference"] < record["high"]
    assert comparisons.pop("recall@3")["difference"] == pytest.approx(
        missed.sum() / NUM_ROWS
    )
    assert comparisons.pop("global_recall@3/gap")["difference"] == pytest.approx(
        -record["difference"]
    )
    # each row has one relevant label
    beyond_chance = record["difference"] / (1 - 3 / NUM_LABELS)
    assert comparisons.pop("global_recall@3/adjusted_gap")[
        "difference"
    ] == pytest.approx(-beyond_chance)
    assert all(
        other["difference"] == 0
        for key, other in comparisons.items()
        if key != record["key"] and other["n"]
    )
    assert "new against old" in out
    tested = 2 + sum(
        record["p_randomisation"] is not None for record in comparisons.values()
    )
    assert tested < 14  # values without rows are not tested
    for text in (
        out,
        *(
            (tmp_path / "out" / f"compare.{suffix}").read_text()
            for suffix in ("md", "html")
        ),
    ):
        assert f"max-t, of {tested} comparisons" in " ".join(text.split())
    page = (tmp_path / "out" / "compare.html").read_text()
    assert (
        f"1 {record['difference']:+.4f} ({record['low']:+.4f} to {record['high']:+.4f}), significant"
        in page
    )
    for text in (
        "in the one list that a row shows (scope global)",
        "decile_10 holds the most frequent labels",
    ):
        assert text in page
    assert (tmp_path / "out" / "compare.png").read_bytes().startswith(b"\x89PNG")


def test_equal_runs_do_not_differ(tables, compared, tmp_path):
    """A run and its copy have differences of 0 and p-values of 1, and nothing is
    significant.
    """
    table = tables("old", OVERALL, BY_DECILE, RATIO)
    shutil.copy(table, tmp_path / "copy.parquet")
    comparisons = compared(table, tmp_path / "copy.parquet").values()
    assert not any(record["significant"] for record in comparisons)
    counted = [record for record in comparisons if record["n"] > 1]
    assert len(counted) >= 12
    assert all(
        (
            record["difference"],
            record["p_randomisation"],
            record["wins"],
            record["losses"],
        )
        == (0, 1 if record["tested"] else None, 0, 0)
        for record in counted
    )


def test_tables_and_predictions_give_the_same_comparison(
    runs, tables, config, compared, tmp_path
):
    """Comparing tables of rows gives the files that comparing their predictions gives.

    The records name the statistic: mean, ratio or median.
    """
    metrics = [OVERALL, RATIO, MEDIAN]
    paths = [tables(name, *metrics) for name in ("old", "new")]
    options = ["--names", "old", "new", "--resamples", 500]
    comparisons = compared(*paths, *options, out="a")
    compared(
        "--preds",
        runs.old,
        runs.new,
        *options,
        "--config",
        config(*metrics),
        *runs.reference,
        out="b",
    )
    for suffix in ("json", "md", "csv"):
        assert (tmp_path / "a" / f"compare.{suffix}").read_text() == (
            tmp_path / "b" / f"compare.{suffix}"
        ).read_text()
    kinds = {"precision_k@1": "mean", "precision_k@3": "mean", "psr@3": "ratio"}
    assert {
        key: record["statistic"] for key, record in comparisons.items()
    } == kinds | {"median_k_for_recall_miss40@1": "median"}
    median = comparisons["median_k_for_recall_miss40@1"]
    assert median["wins"] > median["losses"] == 0  # lower is better
    with (tmp_path / "a" / "compare.csv").open() as file:
        assert [row["key"] for row in csv.DictReader(file) if row["baseline"]] == list(
            comparisons
        )


def test_baseline_and_only_choose_pairs_and_tests(
    tables, compared, tailmetrics, tmp_path
):
    """With --baseline every other run is compared with it alone.

    --only chooses the keys that are tested and corrected, and an unknown key is refused
    with examples of keys.
    """
    old, new = (tables(name, OVERALL, BY_DECILE) for name in ("old", "new"))
    third = tmp_path / "third.parquet"
    shutil.copy(new, third)
    words = [old, new, third, "--names", "a", "b", "c", "--resamples", 500]
    for baseline, pairs in (
        ([], [("b", "a"), ("c", "a"), ("c", "b")]),
        (["--baseline", "b"], [("a", "b"), ("c", "b")]),
    ):
        comparisons = compared(*words, "--only", "precision_k@1", *baseline)
        assert {key for key, record in comparisons.items() if record["tested"]} == {
            "precision_k@1"
        }
        assert {
            key
            for key, record in comparisons.items()
            if record["p_randomisation"] is not None
        } == {"precision_k@1"}
        assert "| untested |" in (tmp_path / "out" / "compare.md").read_text()
        comparisons = comparisons_of(written_comparison(tmp_path / "out"))
        assert [
            (record["run"], record["baseline"])
            for record in comparisons
            if record["key"] == "precision_k@1"
        ] == pairs
    status, _, err = tailmetrics("compare", *words, "--only", "precision@9")
    assert status == 2
    assert "only='precision@9' matches no value of rows" in err
    assert (
        "choose a key or pattern such as precision_k@1, precision_k@3, global_recall@3/*"
        in err
    )
    status, _, err = tailmetrics("compare", *words, "--only")
    assert status == 2
    assert "--only" in err


def test_the_verdict_is_about_the_metric_that_is_named_first(
    tables, compared, tmp_path
):
    """The verdict is about the first metric of --only, whatever the order of the
    config.
    """
    ranked = ("RecallAtK", "{k: 3, buckets: deciles}")
    paths = [tables(name, BY_DECILE, ranked) for name in ("old", "new")]
    for only in (
        ["recall@3/*", "global_recall@3/*"],
        ["global_recall@3/*", "recall@3/*"],
    ):
        comparisons = compared(*paths, "--only", *only, "--resamples", 100)
        verdict = written_comparison(tmp_path / "out")["verdict"].partition(
            "old-rows: "
        )[2]
        assert verdict.startswith(f"{only[0][:-2]}: ")
        assert {
            f"{key.partition('/')[0]}/*"
            for key, record in comparisons.items()
            if record["tested"]
        } == {*only}


def test_a_key_tests_one_value_and_a_pattern_tests_buckets(tables, compared, tmp_path):
    """`--only recall@3` tests the overall value alone.

    `--only recall@3/*` tests the buckets, also those of a global recall, but not the
    adjusted gap.
    """
    paths = [
        tables(name, ("RecallAtK", "{k: 3}"), ("NDCGAtK", "{k: 3}"), BY_DECILE)
        for name in ("old", "new")
    ]
    tested = {}
    for only in ("recall@3", "recall@3/*"):
        comparisons = compared(*paths, "--only", only, "--resamples", 100)
        tested[only] = {key for key, record in comparisons.items() if record["tested"]}
        assert "Tested: " + only in written_comparison(tmp_path / "out")["verdict"]
    assert tested["recall@3"] == {"recall@3"}
    assert {key.partition("/")[0] for key in tested["recall@3/*"]} == {
        "global_recall@3"
    }
    assert not any(key.endswith("adjusted_gap") for key in tested["recall@3/*"])


def test_tokens_of_a_sequence_bring_a_warning_unless_clustered(tailmetrics, tmp_path):
    """For scores (B, T, L), reports and comparisons warn that tokens of a sequence are
    taken for independent, unless clusters are given or the tables have them. Tables
    with different clusters are refused.
    """
    source = np.random.default_rng(0)
    np.save(tmp_path / "y.npy", source.integers(0, 9, (12, 5)))
    (tmp_path / "sequences.txt").write_text(
        "".join(f"{row // 5}\n" for row in range(60))
    )
    clustered, warning = (
        ["--clusters", tmp_path / "sequences.txt"],
        "Rows of one sequence are taken for independent",
    )
    common = [
        "--target",
        tmp_path / "y.npy",
        "--metrics+=AccuracyAtK",
        "--metrics.k=1",
        "--num-labels",
        9,
    ]
    for name in ("a", "b"):
        np.save(tmp_path / f"{name}.npy", source.normal(size=(12, 5, 9)))
        words = [
            "--preds",
            tmp_path / f"{name}.npy",
            *common,
            "--per-row",
            tmp_path / f"{name}.parquet",
        ]
        status, out, _ = tailmetrics(
            "evaluate", *words, *(clustered if name == "a" else [])
        )
        assert (status, warning in " ".join(out.split())) == (0, name == "b")
    files = [
        ["--preds", tmp_path / "a.npy", tmp_path / "b.npy", *common],
        [tmp_path / "a.parquet", tmp_path / "b.parquet"],
    ]
    for words in files:
        for options in (clustered, []):
            status, out, err = tailmetrics(
                "compare", *words, *options, "--resamples", 100
            )
            # the table of a has its clusters
            warned = not options and words[0] == "--preds"
            assert (status, " ".join((out + err).split()).count(warning)) == (
                0,
                warned,
            ), words
    assert tailmetrics("compare", *files[1], "--out", tmp_path)[0] == 0
    assert "12 clusters" in (tmp_path / "compare.md").read_text()
    words = [
        "--preds",
        tmp_path / "b.npy",
        *common,
        "--per-row",
        tmp_path / "b.parquet",
        "--overwrite",
        "--quiet",
    ]
    (tmp_path / "others.txt").write_text("".join(f"{row // 10}\n" for row in range(60)))
    assert (
        tailmetrics("evaluate", *words, "--clusters", tmp_path / "others.txt")[0] == 0
    )
    failure = tailmetrics("compare", *files[1])
    assert (failure[0], "the tables have different clusters" in failure[2]) == (2, True)


def test_clusters_of_sequences_are_those_of_their_tokens(
    evaluated, compared, write_files, tailmetrics, tmp_path
):
    """A file of clusters with one line for each of 12 sequences gives the result of an
    array (12, 5) for their tokens, in `evaluate` and in `compare` of predictions and of
    tables. A file of another length is refused.
    """
    source = np.random.default_rng(0)
    np.save(tmp_path / "tokens.npy", np.repeat(np.arange(12) // 2, 5).reshape(12, 5))
    lines = {"sequences": np.arange(12) // 2, "others": np.arange(30)}
    for name, clusters in lines.items():
        np.savetxt(tmp_path / f"{name}.txt", clusters, fmt="%d")
    common = [
        *write_files(target=source.integers(0, 9, (12, 5))),
        "--metrics+=AccuracyAtK",
        "--metrics.k=1",
    ]
    preds, tables = (
        [tmp_path / f"{name}.{form}" for name in "ab"] for form in ("npy", "parquet")
    )
    for path, table in zip(preds, tables, strict=True):
        np.save(path, source.normal(size=(12, 5, 9)))
        evaluated("--preds", path, *common, "--per-row", table)
    for run, words in (
        (
            lambda *options: by_key(evaluated(*options)),
            ["evaluate", "--preds", preds[0], *common],
        ),
        (compared, ["compare", "--preds", *preds, *common]),
        (compared, ["compare", *tables]),
    ):
        comparisons = run(*words[1:], "--clusters", tmp_path / "sequences.txt")
        assert comparisons == run(*words[1:], "--clusters", tmp_path / "tokens.npy")
        assert all(record["clusters"] == 6 for record in comparisons.values())
        err = tailmetrics(*words, "--clusters", tmp_path / "others.txt")[2]
        assert (
            "hint: give one line for each of the 12 sequences, or for each token, padding included."
            in err
        )


def test_clusters_may_be_a_column_of_the_targets(compared, write_files):
    """`compare` takes clusters from a column of the targets, as `evaluate` does: 6
    queries of 3 users are 3 clusters.
    """
    lines = [f"q{row},i{row % 2}" for row in range(6)]
    preds = {
        name: "\n".join(["query,item,score", *(f"{line},1" for line in lines)])
        for name in ("a", "b")
    }
    target = "\n".join(
        ["query,item,user", *(f"{line},u{row // 2}" for row, line in enumerate(lines))]
    )
    (_, a, _, b), words = write_files(**preds), write_files(target=target)
    comparisons = compared(
        "--preds",
        a,
        b,
        *words,
        "--metrics+=RecallAtK",
        "--metrics.k=1",
        "--clusters",
        "user",
    )
    assert comparisons["recall@1"]["clusters"] == 3


def test_per_row_keeps_clusters_without_intervals(
    evaluated, write_files, tailmetrics, tmp_path
):
    """--per-row writes the cluster of each row also with --no-intervals.

    Without a table, --clusters and --no-intervals contradict each other, and the hint
    offers --per-row.
    """
    words = [
        *write_files(preds=np.eye(6), target=np.arange(6)),
        "--metrics+=MRR",
        "--no-intervals",
    ]
    np.savetxt(tmp_path / "users.txt", np.arange(6) // 2, fmt="%d")
    words += ["--clusters", tmp_path / "users.txt"]
    assert field_of(evaluated(*words, "--per-row", tmp_path / "t.parquet"), "low") == {}
    assert RowTable.open(tmp_path / "t.parquet").column("cluster") == [
        "0",
        "0",
        "1",
        "1",
        "2",
        "2",
    ]
    assert (
        "or add --per-row TABLE, which keeps the clusters"
        in tailmetrics("evaluate", *words)[2]
    )


def test_clusters_of_unnamed_rows_have_no_header(tables, tailmetrics, tmp_path):
    """For rows without names, clusters are an array or one line for each row, which
    give the same comparison.

    A header counts as a row, so that the file is refused, and the hint asks for a file
    without one.
    """
    paths = [tables(name, OVERALL) for name in ("old", "new")]
    users = np.arange(NUM_ROWS) // 4
    np.save(tmp_path / "users.npy", users)
    np.savetxt(tmp_path / "users.txt", users, fmt="%d")
    for name in ("users.npy", "users.txt"):
        tailmetrics(
            "compare",
            *paths,
            "--clusters",
            tmp_path / name,
            "--out",
            tmp_path / name[-3:],
        )
    by_array, by_lines = (
        (tmp_path / form / "compare.md").read_text() for form in ("npy", "txt")
    )
    assert by_array.replace("users.npy", "users.txt") == by_lines
    assert "100 clusters" in by_lines
    (tmp_path / "users.csv").write_text("query,group\n" + "1,u\n" * NUM_ROWS)
    problem, hint = tailmetrics(
        "compare", *paths, "--clusters", tmp_path / "users.csv"
    )[2].splitlines()
    assert (
        problem
        == f"error: --clusters {tmp_path / 'users.csv'}: holds 401 rows, but there are 400"
    )
    assert (
        hint
        == "hint: these rows have no names: give a text file with one line for each row, and no header."
    )


def test_correction_chooses_the_corrected_p_values(tables, compared):
    """--correction bonferroni multiplies p-values by the number of comparisons, up to
    1, and --correction none leaves them unchanged.
    """
    paths = [tables(name, OVERALL) for name in ("old", "new")]
    for correction, factor in (("bonferroni", 2), ("none", 1)):
        for record in compared(*paths, "--correction", correction).values():
            assert record["p_randomisation_corrected"] == pytest.approx(
                min(1, factor * record["p_randomisation"])
            )


def test_tables_of_different_rows_or_metrics_are_refused(tables, tailmetrics, tmp_path):
    """Tables of different rows or metrics, and files that are no tables of rows or are
    damaged, are refused with a hint.
    """
    old = tables("old", OVERALL)
    table = pq.read_table(old)
    wrong = {
        "shorter": (
            table.slice(0, 399),
            "shorter holds 399 rows, but old-rows holds 400",
        ),
        "other": (
            table.set_column(0, "row", pa.array(range(1, 401))),
            "other holds the row 1 where old-rows holds 0",
        ),
        "less": (
            table.drop_columns(["precision_k@3"]),
            "less.parquet: lacks 'precision_k@3'",
        ),
        "plain": (table, "is no table of values per row"),
        "forged": (table, "is damaged, or of another version of tailmetrics"),
    }
    for name, (changed, problem) in wrong.items():
        path = tmp_path / f"{name}.parquet"
        rewrite(changed, old, path)
        if name == "plain":
            pq.write_table(table, path)  # as pandas writes it, without the metadata
        if name == "forged":
            pq.write_table(
                table.replace_schema_metadata({METADATA: b"[" * 100_000}), path
            )
        status, out, err = tailmetrics("compare", old, path)
        assert (status, out) == (2, "")
        assert problem in err.splitlines()[0]
        assert err.splitlines()[1].startswith("hint: ")
    # in either order
    status, _, err = tailmetrics("compare", tmp_path / "less.parquet", old)
    assert (status, "less.parquet: lacks 'precision_k@3', which" in err) == (2, True)


@pytest.mark.parametrize("order", [["lists", "scores"], ["scores", "lists"]])
def test_a_table_of_queries_and_a_table_of_rows_are_refused(
    order, evaluated, write_files, tailmetrics, tmp_path
):
    """A table whose rows are named queries and one whose rows have no names are refused
    in either order, because nothing tells which query is which row. The hint says what
    to write instead.
    """
    lists, scores = "query,item,score\nv0,a,1\nv1,b,1", np.eye(2)
    common = {
        "lists": write_files(target="query,item\nv0,a\nv1,b"),
        "scores": write_files(target=np.arange(2)),
    }
    for name, preds in (("lists", lists), ("scores", scores)):
        table = [
            "--metrics",
            "[{class_path: MRR}]",
            "--per-row",
            tmp_path / f"{name}.parquet",
        ]
        evaluated(*write_files(preds=preds), *common[name], *table)
    status, _, err = tailmetrics(
        "compare", *(tmp_path / f"{name}.parquet" for name in order)
    )
    reasons = {
        "lists": "rows of lists are queries, such as 'v0'",
        "scores": "rows of scores have no names",
    }
    assert (status, err.splitlines()[0]) == (
        2,
        f"error: {'; '.join(reasons[name] for name in order)}",
    )
    assert "padded by -1" in err.splitlines()[1]


AVERAGES = [
    ("RecallAtK", "{k: [1, 3], average: macro, buckets: deciles, scope: global}"),
    ("F1AtK", "{k: 3, average: weighted}"),
    ("PositiveCoverageAtK", "{k: 3}"),
]


@pytest.mark.slow
def test_averages_over_labels_of_several_runs_equal_those_of_python(
    runs, tables, config, compared, evaluated, tmp_path
):
    """Averages over labels of several runs of a model give the differences and
    intervals of `significance.compare`.

    The value of a median is the mean over runs, and it is not compared.
    """
    old, new = (tables(name, *AVERAGES, MEDIAN) for name in ("old", "new"))
    comparisons = compared(
        f"{old},{new}", f"{new},{new}", "--names", "a", "b", "--resamples", 600
    )
    old_table, new_table = (RowTable.open(path) for path in (old, new))
    (median,) = (key for key in old_table.pairs if key.startswith("median"))
    keys = [key for key in old_table.pairs if key != median]
    medians = [table.scalars[median] for table in (old_table, new_table)]
    records = [
        record
        for record in written_comparison(tmp_path / "out")["records"]
        if record["key"] == median
    ]
    assert {record["run"]: record["value"] for record in records} == {
        "a": sum(medians) / 2,
        "b": medians[1],
    }
    expected = compare(
        {
            "a": [old_table.values(keys), new_table.values(keys)],
            "b": [new_table.values(keys)] * 2,
        },
        gaps={
            f"global_macro_recall@{k}/gap": [
                key for key in keys if f"recall@{k}/decile" in key
            ]
            for k in (1, 3)
        },
        resamples=600,
    )
    assert {key for key in comparisons if "gap" in key} == {
        "global_macro_recall@1/gap",
        "global_macro_recall@3/gap",
    }
    for comparison in expected:
        record = comparisons[comparison.key]
        if math.isnan(comparison.interval.low):
            assert record["low"] is None
        else:
            assert record["difference"] == pytest.approx(comparison.difference)
            assert record["low"] == pytest.approx(comparison.interval.low)
    report = evaluated(
        "--preds", runs.old, *runs.reference, "--config", config(*AVERAGES, MEDIAN)
    )
    for key in ("global_macro_recall@3/decile_1", "weighted_f1@3"):
        assert values_of(report)[key] == pytest.approx(
            old_table.values([key])[key].influence().value
        )


@pytest.mark.slow
def test_the_order_of_rows_in_tables_does_not_matter(
    config, evaluated, compared, write_files, tmp_path
):
    """Two models of two runs each, with row groups and clusters, give the same
    comparison if the tables list their rows in another order. The difference is that of
    the means over runs, and clusters may be a file or a column.
    """
    rng = np.random.default_rng(5)
    queries, items = (
        [f"{number:03}" for number in range(40)],
        [f"i{number}" for number in range(6)],
    )
    users, tables = rng.integers(0, 12, len(queries)), {}
    lines = [
        f"{query},{rng.choice(items)},{rng.choice(['de', 'fr'])}" for query in queries
    ]
    truth = "query,item,lang\n" + "\n".join(lines)
    users_by_query = [
        f"{query},{user}" for query, user in zip(queries, users, strict=True)
    ]
    (tmp_path / "users.csv").write_text("query,group\n" + "\n".join(users_by_query))
    metrics = config(
        OVERALL,
        ("RecallAtK", "{k: 2, average: micro, buckets: deciles, scope: global}"),
        MEDIAN,
    )
    words = [
        "--config",
        metrics,
        *write_files(target=truth, train_target=truth),
        "--row-groups",
        "lang",
    ]
    shuffled_paths = {
        name: tmp_path / f"other-{name}.parquet" for name in ("a0", "a1", "b0", "b1")
    }
    for name, path in shuffled_paths.items():
        scores = [
            f"{query},{item},{rng.random():.3f}" for query in queries for item in items
        ]
        table_path = tmp_path / f"{name}.parquet"
        evaluated(
            *words,
            *write_files(preds="query,item,score\n" + "\n".join(scores)),
            "--per-row",
            table_path,
        )
        tables[name] = pq.read_table(table_path)
        # resampling follows the rows of the first table, which are not shuffled
        shuffled = tables[name].take(
            rng.permutation(40) if tables.keys() - {"a0"} else np.arange(40)
        )
        rewrite(shuffled, table_path, path)
    a0, a1, b0, b1 = (str(tmp_path / f"{name}.parquet") for name in tables)
    models, options = (
        [f"{a0},{a1}", f"{b0},{b1}"],
        ["--names", "a", "b", "--resamples", 200],
    )
    comparisons = compared(*models, "--clusters", tmp_path / "users.csv", *options)
    shuffled_a0, shuffled_a1, shuffled_b0, shuffled_b1 = map(
        str, shuffled_paths.values()
    )
    shuffled_comparisons = compared(
        f"{shuffled_a0},{shuffled_a1}",
        f"{shuffled_b0},{shuffled_b1}",
        "--clusters",
        tmp_path / "users.csv",
        *options,
    )
    assert json.dumps(comparisons) == json.dumps(shuffled_comparisons)
    assert {"precision_k@1/de", "global_micro_recall@2/gap"} <= comparisons.keys()
    # several runs have no median
    assert not any(key.startswith("median") for key in comparisons)
    means = {
        name: np.nanmean(table["precision_k@1"].to_numpy())
        for name, table in tables.items()
    }
    expected = (means["b0"] + means["b1"] - means["a0"] - means["a1"]) / 2
    assert comparisons["precision_k@1"]["difference"] == pytest.approx(expected)
    rewrite(tables["a0"].append_column("user", pa.array(users)), a0, a0)
    assert json.dumps(compared(*models, "--clusters", "user", *options)) == json.dumps(
        comparisons
    )
    text = (tmp_path / "out" / "compare.md").read_text()
    assert f"{len({*users})} clusters (user)" in text
    assert "2 models (means over 2 runs of a, 2 runs of b), 40 rows compared" in text


def test_predictions_instead_of_tables_are_refused(runs, tailmetrics, tmp_path):
    """Files of predictions in the place of tables are refused, and the hint says how to
    compare predictions.
    """
    np.save(tmp_path / "scores.npy", np.zeros((3, 4)))
    for path in (runs.old, tmp_path / "scores.npy"):
        status, out, err = tailmetrics("compare", path, runs.new)
        assert (status, out) == (2, "")
        assert (
            "or compare predictions: --preds A --preds B --target T"
            in err.splitlines()[1]
        )


def test_overall_label_averages_equal_scikit_learn_beside_buckets(
    config, compared, write_files, tmp_path
):
    """Areas and F-scores averaged over labels, computed overall and by bucket in one
    comparison, equal scikit-learn's for both runs, also at a threshold.
    """
    rng = np.random.default_rng(8)
    target = rng.random((200, 12)) < np.linspace(0.6, 0.1, 12)
    runs = {
        name: np.round(target * scale + rng.normal(size=target.shape), 1)
        for name, scale in (("a", 2), ("b", 1))
    }
    for name, scores in runs.items():
        np.save(tmp_path / f"{name}.npy", scores.astype(np.float32))
    kinds = (
        ("LabelAUC", ""),
        ("F1AtThreshold", "threshold: 0.95, average: macro"),
        ("F1AtK", "k: 3, average: macro"),
    )
    metrics = [(kind, f"{{{arguments}{', ' * bool(arguments)}{by}}}") for kind, arguments in kinds
               for by in ("num_labels: 12", "num_labels: 12, scope: global, buckets: 'quantiles:3'")
               if not (kind == "LabelAUC" and "global" in by)]  # fmt: skip
    metrics.insert(1, ("LabelAUC", "{num_labels: 12, buckets: 'quantiles:3'}"))
    words = [
        "--config",
        config(*metrics),
        "--preds",
        tmp_path / "a.npy",
        tmp_path / "b.npy",
        "--num-train",
        200,
    ]
    comparisons = compared(
        *words,
        *write_files(target=target, label_counts=target.sum(axis=0)),
        "--resamples",
        400,
    )
    for side, name in (("baseline_value", "a"), ("value", "b")):
        scores = runs[name].astype(np.float32)
        best = np.zeros_like(target)
        np.put_along_axis(
            best, np.argsort(-scores, axis=1, kind="stable")[:, :3], True, axis=1
        )
        expected = {
            "macro_auc": roc_auc_score(target, scores, average="macro"),
            "macro_f1@t0.95": f1_score(target, scores > 0.95, average="macro"),
            "macro_f1@3": f1_score(target, best, average="macro"),
        }
        for key, value in expected.items():
            assert comparisons[key][side] == pytest.approx(
                value, abs=1e-4 if key == "macro_auc" else 1e-12
            )


@pytest.fixture
def unequal(write_files, tmp_path):
    """Return files of scores of nine labels and of their first three ids, and the
    options that name the targets.
    """
    scores = np.random.default_rng(0).normal(size=(40, 9))
    np.save(tmp_path / "full.npy", scores)
    np.save(tmp_path / "cut.npy", (-scores).argsort(1)[:, :3])
    return (
        tmp_path / "full.npy",
        tmp_path / "cut.npy",
        [*write_files(target=np.arange(40) % 9), "--num-labels", 9],
    )


def test_a_warning_of_short_lists_names_the_run(unequal, compared, tmp_path):
    """If only one run has lists that end before k, one warning of the comparison names
    this run.
    """
    full, cut, target = unequal
    compared(
        "--preset", "next_location", *target, "--preds", full, cut, "--resamples", 100
    )
    warnings = written_comparison(tmp_path / "out")["warnings"]
    assert [
        text.partition(":")[0] for text in warnings if "AccuracyAtK, k=5" in text
    ] == ["cut"]


def test_values_of_lists_of_unequal_length_are_marked(
    unequal, config, compared, evaluated, tmp_path
):
    """If one run has 3 labels a row and the other all 9, values that read more than 3
    places are marked, and the verdict gives the lengths. This holds for tables and for
    predictions.
    """
    metrics = config(
        ("RecallAtK", "{k: [3, 5]}"),
        ("MRR", "{}"),
        ("RecallAtK", "{k: [3, 5], average: macro}"),
    )
    words = ["--config", metrics, *unequal[2]]
    tables = [path.with_suffix(".parquet") for path in unequal[:2]]
    for path, table in zip(unequal[:2], tables, strict=True):
        evaluated(*words, "--preds", path, "--per-row", table)
    for files in (tables, [*words, "--preds", *unequal[:2]]):
        compared(*files, "--resamples", 100)
        comparison = written_comparison(tmp_path / "out")
        five, everything = "full 5, cut 3", "full all labels, cut 3"
        assert comparison["unequal_lists"] == {
            "recall@5": five,
            "mrr": everything,
            "macro_recall@5": five,
        }
        assert (
            f"† recall@5, macro_recall@5: the median number of labels read in a list differs ({five}), which may be"
            in comparison["verdict"]
        )
        lines = (
            (tmp_path / "out" / "compare.md")
            .read_text()
            .replace("\\_", "_")
            .splitlines()
        )
        for key in ("recall@3", "recall@5", "mrr", "macro_recall@3", "macro_recall@5"):
            (line,) = [
                line for line in lines if line.replace("*", "").startswith(f"| {key} |")
            ]
            assert ("†" in line) == (key in comparison["unequal_lists"])


def test_runs_of_different_queries_are_refused_before_evaluation(
    tailmetrics, tmp_path, monkeypatch
):
    """Runs that lack queries are refused before any is evaluated, and the hint names
    --missing zero.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "tailmetrics.cli.compare.accumulate", lambda *_: pytest.fail("evaluated")
    )
    both_queries = "q1,i,1\nq2,i,1\n"
    for name, text in {
        "a.csv": both_queries,
        "b.csv": "q1,i,1\n",
        "c.csv": "q2,i,1\n",
        "y.csv": both_queries,
    }.items():
        (tmp_path / name).write_text(
            f"query,item,{'gain' if name == 'y.csv' else 'score'}\n{text}"
        )
    for runs, problem in (
        ("ab", "b lacks 1"),
        ("ba", "b lacks 1"),
        ("bc", "b lacks 1 and c lacks 1"),
    ):
        words = [
            "--preds",
            *(f"{run}.csv" for run in runs),
            "--target",
            "y.csv",
            "--metrics",
            "[{class_path: MRR}]",
        ]
        status, _, err = tailmetrics("compare", *words)
        assert (status, f"error: {problem} of the 2 queries\nhint: " in err) == (
            2,
            True,
        )
        assert "--missing zero counts queries that a run lacks as 0" in err


@pytest.mark.parametrize(
    ("option", "noun"), [("--clusters", "cluster"), ("--row-groups", "group")]
)
def test_clusters_and_row_groups_by_name_need_columns(
    write_files, tailmetrics, option, noun
):
    """A column name for clusters or row groups is refused if no file has columns, and
    the hint asks for a text file with one line for each row.
    """
    words = write_files(preds=np.eye(3), target=np.arange(3))
    status, _, err = tailmetrics("evaluate", *words, "--metrics+=MRR", option, "user")
    assert (
        status,
        f"give a text file with the {noun} of each row, one per line." in err,
    ) == (2, True)


def test_folders_of_reports_are_compared_by_their_tables(
    runs, config, tailmetrics, tmp_path
):
    """Folders of reports give the comparison of the tables of rows in them.

    A folder without a table, or with several, is refused, but of the tables best and
    val that of best is compared, with a note.
    """
    common = ["--config", config(BY_DECILE), *runs.reference, "--quiet"]
    for name in ("old", "new"):
        words = ["evaluate", "--preds", getattr(runs, name), *common]
        assert tailmetrics(*words, "--out", tmp_path / name)[::2] == (0, "")
        assert tailmetrics(*words, "--per-row", tmp_path / f"{name}.parquet")[::2] == (
            0,
            "",
        )
    comparisons = []
    for kind, suffix in (("folders", ""), ("tables", ".parquet")):
        names = [tmp_path / f"{name}{suffix}" for name in ("old", "new")]
        assert (
            tailmetrics(
                "compare", *names, "--out", tmp_path / kind, "--resamples", 200
            )[0]
            == 0
        )
        comparisons.append(written_comparison(tmp_path / kind))
    assert comparisons[0] == comparisons[1]
    assert (comparisons[0]["title"], len(comparisons_of(comparisons[0]))) == (
        "new against old",
        14,
    )
    without_table = tmp_path / "bare"
    assert (
        tailmetrics(
            "evaluate",
            "--preds",
            runs.old,
            *common,
            "--out",
            without_table,
            "--no-rows",
        )[0]
        == 0
    )
    assert not list(without_table.glob("*.parquet"))
    status, _, err = tailmetrics("compare", tmp_path / "old", without_table)
    assert (status, "holds no table of rows" in err, "--out FOLDER" in err) == (
        2,
        True,
        True,
    )
    for name in ("a", "b"):
        (without_table / f"rows_{name}.parquet").write_bytes(
            (tmp_path / "old.parquet").read_bytes()
        )
    status, _, err = tailmetrics("compare", tmp_path / "old", without_table)
    assert (
        status,
        "several tables of rows: rows_a.parquet, rows_b.parquet" in err,
    ) == (2, True)
    for name in ("best", "val"):
        (without_table / f"rows_{name}.parquet").write_bytes(
            (tmp_path / "old.parquet").read_bytes()
        )
    status, _, err = tailmetrics(
        "compare", tmp_path / "new", without_table, "--resamples", 200
    )
    assert (
        status,
        "bare: rows_best.parquet is compared; for rows_val.parquet, name the file."
        in err,
    ) == (0, True)


@pytest.mark.parametrize("metric", [RecallAtK(k=3), PrecisionAtK(k=3)])
def test_a_folder_whose_report_is_of_another_evaluation_is_refused(
    runs, config, tailmetrics, tmp_path, metric
):
    """A report that Python wrote over that of evaluate, with another value of a key or
    without it, beside the old table of rows: the folder is refused, and the table
    itself is compared.
    """
    words = ["--config", config(("RecallAtK", "{k: 3}")), *runs.reference, "--quiet"]
    for name in ("old", "new"):
        assert (
            tailmetrics(
                "evaluate",
                "--preds",
                getattr(runs, name),
                *words,
                "--out",
                tmp_path / name,
            )[0]
            == 0
        )
    evaluate(torch.eye(9), torch.arange(9), metrics=[metric]).write(tmp_path / "new")
    status, _, err = tailmetrics("compare", tmp_path / "old", tmp_path / "new")
    assert (status, "is of another evaluation than report.json beside it" in err) == (
        2,
        True,
    )
    table = tmp_path / "new" / "rows.parquet"
    assert tailmetrics("compare", tmp_path / "old", table, "--resamples", 99)[0] == 0


def test_folders_of_the_same_name_are_named_by_the_differing_part(
    runs, config, tailmetrics, tmp_path
):
    """Folders of the same name are named by the part in which their paths differ:
    first/logs/version_0 and second/logs/version_0 are first and second.
    """
    common = ["--config", config(BY_DECILE), *runs.reference, "--quiet"]
    folders = []
    for name, preds in (("first", runs.old), ("second", runs.new)):
        folders.append(tmp_path / name / "logs" / "version_0")
        assert (
            tailmetrics("evaluate", "--preds", preds, *common, "--out", folders[-1])[0]
            == 0
        )
    assert (
        tailmetrics("compare", *folders, "--out", tmp_path / "out", "--resamples", 200)[
            0
        ]
        == 0
    )
    assert written_comparison(tmp_path / "out")["title"] == "second against first"


@pytest.mark.parametrize(
    ("name", "labels"),
    [
        ("head_to_tail", "labels"),
        ("xmc", "labels"),
        ("recsys", "items"),
        ("next_location", "places"),
    ],
)
@pytest.mark.slow
def test_a_comparison_with_a_preset_prints_at_most_40_lines(
    runs, tailmetrics, name, labels
):
    """A comparison with a preset prints at most 40 lines.

    With --verbose it prints all tables, in the words of the field.
    """
    words = [
        "compare",
        "--preset",
        name,
        "--preds",
        runs.old,
        "--preds",
        runs.new,
        *runs.reference,
        "--resamples",
        100,
    ]
    status, out, err = tailmetrics(*words)
    assert (status, out.count("\n") <= 40) == (0, True), (out, err)
    assert (
        f"new against old: the runs over all {labels}"
        in tailmetrics(*words, "--verbose")[1]
    )


@pytest.mark.parametrize("words", ["users", "users, items, more", ","])
def test_words_takes_two_words(runs, config, tailmetrics, words):
    """--words takes two words, for rows and labels, which the report uses.

    Any other number is refused with an example.
    """
    files = ["--preds", runs.old, *runs.reference, "--config", config(BY_DECILE)]
    status, _, err = tailmetrics("evaluate", *files, "--words", words)
    assert (status, "such as 'users, items'" in err) == (2, True)
    out = tailmetrics("evaluate", *files, "--words", "users, items")[1]
    assert "users, the first 3 places hold" in " ".join(out.split())


def test_compare_excludes_rows_with_ignore_index(config, tailmetrics, tmp_path):
    """Rows whose target is the ignore_index count in no value: a comparison of tables
    has the keys, numbers of rows and intervals of `compare_runs`, 68 of 80 rows.
    """
    rng = np.random.default_rng(0)
    target = np.where(np.arange(80) % 7, rng.integers(6, size=80), -100)
    scores = {name: rng.normal(size=(80, 6)) for name in ("a", "b")}
    np.save(tmp_path / "target.npy", target)
    words = ["--target", tmp_path / "target.npy", "--ignore-index", -100, "--quiet"]
    words += [
        "--config",
        config(
            ("RecallAtK", "{k: 2}"),
            ("RecallAtK", "{k: 2, average: macro, num_labels: 6}"),
        ),
    ]
    for name, run_scores in scores.items():
        np.save(tmp_path / f"{name}.npy", run_scores)
        run = [
            "--preds",
            tmp_path / f"{name}.npy",
            "--per-row",
            tmp_path / f"{name}.parquet",
        ]
        assert tailmetrics("evaluate", *run, *words)[0] == 0
    tables = [tmp_path / f"{name}.parquet" for name in scores]
    assert tailmetrics("compare", *tables, "--out", tmp_path / "out", "--quiet")[0] == 0
    metrics = [RecallAtK(k=2), RecallAtK(k=2, average="macro", num_labels=6)]
    expected = compare_runs(
        scores, target, metrics=metrics, ignore_index=-100
    ).comparisons
    intervals = {
        record["key"]: (record["n"], record["low"], record["high"])
        for record in comparisons_of(written_comparison(tmp_path / "out"))
    }
    assert intervals == {
        record.key: (record.n, record.interval.low, record.interval.high)
        for record in expected
    }
    assert {n for n, *_ in intervals.values()} == {68}
