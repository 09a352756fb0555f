"""Values of TREC runs and qrels on the command line equal trec_eval's, for each query
and on average.
"""

import gzip
import random

import pyarrow.parquet as pq
import pytest
import pytrec_eval

from written import values_of

MEASURES = {
    "precision@5": "P_5",
    "precision@10": "P_10",
    "recall@100": "recall_100",
    "hit_rate@1": "success_1",
    "hit_rate@10": "success_10",
    "map": "map",
    "mrr": "recip_rank",
    "r_precision": "Rprec",
    "ndcg@5": "ndcg_cut_5",
    "ndcg@10": "ndcg_cut_10",
    "ndcg@1000": "ndcg",
}


@pytest.fixture
def trec(tmp_path):
    """Return random graded qrels and a run with many equal scores, and write both; each
    lacks some queries of the other.
    """
    source = random.Random(7)
    documents = [f"WT{source.randrange(100)}-{number}" for number in range(55)] + [
        "é",
        "ẞ",
        "𝒳",
        "Z",
        "a-1",
    ]
    # some are equal only in single precision
    scores = [0.5, 0.5 + 1e-9, 1.0, -3.0, 1e39, 2e39, 0.0, 0.75, 2.25]
    qrels = {
        f"q{query}": {
            document: source.choice([-2, 0, 0, 1, 2, 3])
            for document in source.sample(documents, 25)
        }
        for query in range(1, 41)
    }
    qrels["q7"] = dict.fromkeys(qrels["q7"], 0)
    run = {
        f"q{query}": {
            document: source.choice(scores)
            for document in source.sample(documents, source.randrange(1, 50))
        }
        for query in range(5, 46)
    }
    lines = [
        f"{query} Q0 {document} 0 {score} me\n"
        for query, by in run.items()
        for document, score in by.items()
    ]
    source.shuffle(lines)
    (tmp_path / "a.run").write_text("".join(lines))
    judged = [
        f"{query} 0 {document} {grade}\n"
        for query, by in qrels.items()
        for document, grade in by.items()
    ]
    (tmp_path / "a.qrels").write_text("".join(judged))
    return qrels, run


def files_of(folder):
    """Return the options that name run and qrels."""
    return ["--preds", folder / "a.run", "--target", folder / "a.qrels"]


def trec_eval(qrels, run):
    """Return the values of trec_eval for each query that is in both files."""
    return pytrec_eval.RelevanceEvaluator(
        qrels, pytrec_eval.supported_measures
    ).evaluate(run)


@pytest.mark.parametrize("missing", ["skip", "zero"])
def test_values_equal_trec_eval(trec, evaluated, tmp_path, missing):
    """The values of each query and their averages equal trec_eval's, over the queries
    with predictions or, with --missing zero as with its option -c, over all judged
    queries. Notes count the queries that only one file has.
    """
    qrels, run = trec
    report = evaluated(
        "--preset",
        "retrieval",
        *files_of(tmp_path),
        "--per-row",
        tmp_path / "rows.parquet",
        "--missing",
        missing,
    )
    expected = trec_eval(qrels, run)
    assert len(expected) == 36
    table = pq.read_table(tmp_path / "rows.parquet").to_pylist()
    assert [row["query"] for row in table] == [
        query for query in qrels if missing == "zero" or query in expected
    ]
    assert report["rows"] == len(table)
    nothing = dict.fromkeys(MEASURES.values(), 0)
    for key, measure in MEASURES.items():
        values = [expected.get(row["query"], nothing)[measure] for row in table]
        assert [row[key] for row in table] == pytest.approx(values, abs=1e-12)
        assert values_of(report)[key] == pytest.approx(
            sum(values) / len(values), abs=1e-12
        )
    notes = " ".join(report["warnings"])
    outcome = (
        "left out; missing='zero' counts them as" if missing == "skip" else "counted as"
    )
    assert (
        f"4 queries of a.qrels have no predictions in a.run: {outcome} empty lists."
        in notes
    )
    assert "5 queries of a.run have no targets: left out." in notes


@pytest.mark.parametrize("level", [1, 2])
def test_min_gain_equals_the_level_of_trec_eval(trec, evaluated, tmp_path, level):
    """--min-gain gives the values of trec_eval with the option -l, and nDCG uses all
    grades.

    The files are compressed and named by --format, as their names tell no format.
    """
    qrels, run = trec
    for name in ("run", "qrels"):
        (tmp_path / name).write_bytes(
            gzip.compress((tmp_path / f"a.{name}").read_bytes())
        )
    words = [
        "--preset",
        "retrieval",
        "--preds",
        tmp_path / "run",
        "--target",
        tmp_path / "qrels",
        "--min-gain",
        level,
    ]
    words += ["--format", "trec"]
    left_out = "4 queries of qrels have no predictions in run: left out; missing='zero' counts them as empty lists."
    actual = values_of(evaluated(*words, warns=[left_out, ""]))
    judge = pytrec_eval.RelevanceEvaluator(
        qrels, pytrec_eval.supported_measures, relevance_level=level
    )
    expected = judge.evaluate(run)
    assert f"recall_min{level}@100" in actual
    actual = {key.replace(f"_min{level}", ""): value for key, value in actual.items()}
    for key, measure in MEASURES.items():
        mean = sum(values[measure] for values in expected.values()) / len(expected)
        assert actual[key] == pytest.approx(mean, abs=1e-12), key


# shown as a warning of Python it would name ids
@pytest.mark.filterwarnings("default:.*of the rows have equal scores")
@pytest.mark.parametrize(
    ("form", "winner", "item", "training"),
    [
        ("run", "comes last by name", "b", ()),
        ("csv", "comes first by name", "a", ()),
        # a TREC file of training targets decides no order
        ("csv", "comes first by name", "a", ("y.qrels",)),
    ],
)
def test_the_warning_of_ties_says_which_name_is_ranked_first(
    evaluated, tmp_path, form, winner, item, training
):
    """Of two documents with equal scores, trec_eval and a run beside TREC files rank
    the last name first, and other formats the first name; the warning of ties says
    which.
    """
    target = tmp_path / "y.qrels"
    target.write_text("q 0 b 1\n")
    if form == "run":
        (tmp_path / "a.run").write_text("q Q0 a 1 1 me\nq Q0 b 2 1 me\n")
    else:
        target = tmp_path / "y.csv"
        (tmp_path / "a.csv").write_text("query,item,score\nq,a,1\nq,b,1\n")
        target.write_text(f"query,item\nq,{item}\n")
    words = [
        "--metrics+=PrecisionAtK",
        "--metrics.k=1",
        "--preds",
        tmp_path / f"a.{form}",
        "--target",
        target,
    ]
    words += [word for file in training for word in ("--train-target", tmp_path / file)]
    report = evaluated(*words)
    assert values_of(report) == {"precision@1": 1}
    assert (
        f"(100.0% at rank 1): there the label that {winner} is shown"
        in report["warnings"][0]
    )


def test_buckets_include_names_that_only_training_has(
    trec, config, evaluated, tmp_path
):
    """Names are numbered over run, qrels and training, so that buckets hold the labels
    of all.

    Training counts by name give the report of training targets.
    """
    qrels, _ = trec
    names = sorted({document for by in qrels.values() for document in by})
    counts = {
        name: 3 * number + 1
        for number, name in enumerate(["AA-never-ranked", *names, "ZZ-never-ranked"])
    }
    lines = [
        f"t{number} 0 {name} 1\n"
        for name, count in counts.items()
        for number in range(count)
    ]
    (tmp_path / "train.qrels").write_text("".join(lines))
    (tmp_path / "counts.csv").write_text(
        "label,count\n" + "".join(f"{name},{n}\n" for name, n in counts.items())
    )
    words = [
        "--config",
        config(("RecallAtK", "{k: 5, buckets: deciles}")),
        *files_of(tmp_path),
    ]
    report = evaluated(*words, "--train-target", tmp_path / "train.qrels")
    counted_report = evaluated(*words, "--label-counts", tmp_path / "counts.csv")
    # counts are not among the readings
    assert counted_report == {**report, "readings": report["readings"][:2]}
    assert sum(bucket["labels"] for bucket in report["buckets"]) >= len(counts)
    assert sum(bucket["occurrences"] for bucket in report["buckets"]) == sum(
        counts.values()
    )


@pytest.mark.parametrize(
    ("grades", "options", "has_note"),
    [
        ("12", [], True),
        ("12", ["--train-min-gain", 1], False),  # the user decides
        # another scale, such as clicks, of which none would count from 2
        ("11", [], False),
        ("22", [], False),
    ],
)
def test_a_note_compares_the_gain_levels_of_targets_and_training(
    write_files, evaluated, grades, options, has_note
):
    """With --min-gain 2, training targets count from any gain above 0, and a note
    offers --train-min-gain.

    There is none if the user gives it, or if training has one grade only.
    """
    training = "".join(f"t,d{row},{grade}\n" for row, grade in enumerate(grades))
    words = write_files(
        preds="query,item,score\nq,d0,1\n", target="query,item,gain\nq,d0,2\n"
    )
    words += [
        *write_files(train_target=f"query,item,gain\n{training}"),
        "--metrics+=RecallAtK",
        "--metrics.k=1",
    ]
    warnings = evaluated(*words, "--buckets", "quantiles:2", "--min-gain", 2, *options)[
        "warnings"
    ]
    warning = "Training targets count from any gain above 0, targets from 2: --train-min-gain 2 counts both alike."
    assert (warning in warnings) == has_note


def test_swapped_run_and_qrels_bring_a_warning(tailmetrics, tmp_path):
    """A run and qrels in JSON that may be swapped bring a warning: the predictions hold
    small whole numbers, as grades are, and the targets fractions.
    """
    for name, text in {
        "qrels": '{"q": {"a": 2, "b": 1}}',
        "run": '{"q": {"a": 0.5, "b": 0.25}}',
    }.items():
        (tmp_path / f"{name}.json").write_text(text)
    words = [
        "--preds",
        tmp_path / "qrels.json",
        "--target",
        tmp_path / "run.json",
        "--metrics+=MRR",
        "--quiet",
    ]
    status, _, err = tailmetrics("evaluate", *words)
    error = "qrels.json holds only whole numbers up to 2, as grades are, and run.json holds fractions"
    assert (status, error in err) == (0, True)


def test_the_hint_on_queries_without_a_relevant_label_works(write_files, evaluated):
    """Of two queries one has no grade of 2, so that recall is 0.5.

    A note says so, and with the option that it names recall is 1.
    """
    words = write_files(
        preds="query,item,score\np,a,1\nq,a,1\n",
        target="query,item,gain\np,a,2\nq,a,1\n",
    )
    words += ["--min-gain", 2, "--metrics+=RecallAtK", "--metrics.k=1"]
    report = evaluated(*words)
    (hint,) = (
        text.partition("; ")[2]
        for text in report["warnings"]
        if "no relevant label at min_gain=2" in text
    )
    assert hint == "empty_target_action='skip' leaves them out."
    values = values_of(evaluated(*words, "--metrics.empty_target_action='skip'"))
    assert [*values_of(report).values(), *values.values()] == [0.5, 1]
