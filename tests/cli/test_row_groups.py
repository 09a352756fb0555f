"""`--row-groups`, `--labels` and `--label-names` give values by group and by label that
equal plain loops.
"""

import csv
import gzip
import json

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq
import pytest

from cli.long_tail import NUM_LABELS, NUM_ROWS
from tailmetrics.cli import main
from written import by_key, values_of

LANGUAGES = ["de", "en", None]
PRECISION = ["--metrics+=PrecisionAtK", "--metrics.k=1"]
METRICS = [
    ("PrecisionAtK", "{k: 3, denominator: k}"),
    ("RecallAtK", "{k: 3, buckets: deciles, scope: global}"),
]


def language(row):
    """Return the group of a row; every third row has none."""
    return LANGUAGES[row % 3]


def top_labels(data_set, row, k):
    """Return the k labels with the highest scores; of equal scores the lower label
    comes first.
    """
    scored = zip(data_set.scores[row], data_set.candidates[row], strict=True)
    return [label for _, label in sorted(scored, key=lambda pair: (-pair[0], pair[1]))][
        :k
    ]


def precision(data_set, rows, k=3):
    """Return the hits among the first k of all rows, divided by k times the number of
    rows.
    """
    hits = [
        len({*top_labels(data_set, row, k)} & {*data_set.relevant[row]}) for row in rows
    ]
    return sum(hits) / (k * len(hits))


@pytest.fixture(scope="module")
def grouped(data_set, tmp_path_factory):
    """Return a folder with targets that have a column of languages, and the options
    that name the files.
    """
    folder = tmp_path_factory.mktemp("grouped")
    columns = {
        "labels": pa.array(data_set.relevant, pa.list_(pa.int32())),
        "lang": [language(r) for r in range(NUM_ROWS)],
    }
    pq.write_table(pa.table(columns), folder / "target.parquet")
    (folder / "languages.txt").write_text(
        "".join(f"{language(row) or ''}\n" for row in range(NUM_ROWS))
    )
    np.save(folder / "languages.npy", [language(row) or "" for row in range(NUM_ROWS)])
    files = [
        "--preds",
        data_set.preds,
        "--target",
        folder / "target.parquet",
        "--num-labels",
        NUM_LABELS,
    ]
    return folder, [*files, "--train-target", data_set.train]


def table_of_labels(folder):
    """Return the lines of labels.csv."""
    return list(csv.DictReader((folder / "out" / "labels.csv").open()))


def rows_of(name):
    """Return the rows of a group."""
    return [row for row in range(NUM_ROWS) if language(row) == name]


@pytest.mark.parametrize("groups", ["lang", "languages.txt", "languages.npy"])
@pytest.mark.slow
def test_row_groups_give_values_of_plain_loops(
    data_set, grouped, config, evaluated, tmp_path, groups
):
    """--row-groups of a column, a text file or an array gives values for each group,
    overall and by bucket, which equal loops over the rows of the group.
    """
    folder, files = grouped
    source = groups if groups == "lang" else folder / groups
    report = evaluated(
        *files,
        "--config",
        config(*METRICS),
        "--row-groups",
        source,
        "--batch-rows",
        7,
        warns=(),
    )
    values = values_of(report)
    for name in ("de", "en"):
        rows = rows_of(name)
        assert values[f"precision_k@3/{name}"] == pytest.approx(
            precision(data_set, rows), abs=1e-12
        )
        recalls = [
            len({*top_labels(data_set, row, 3)} & {*data_set.relevant[row]})
            / len(data_set.relevant[row])
            if data_set.relevant[row]
            else 0
            for row in rows
        ]
        assert values[f"recall@3/{name}"] == pytest.approx(
            sum(recalls) / len(rows), abs=1e-12
        )
        assert f"global_recall@3/{name}/decile_1" in values
    assert values["precision_k@3"] == pytest.approx(
        precision(data_set, range(NUM_ROWS)), abs=1e-12
    )
    assert report["row_groups"] == [
        {"name": "de", "rows": 20},
        {"name": "en", "rows": 20},
    ]
    assert "## By group of rows" in (tmp_path / "out" / "report.md").read_text()


def test_a_metric_may_list_the_row_groups(
    data_set, grouped, config, evaluated, tailmetrics
):
    """A metric of a config may list the groups in any order. A group of the data that
    it does not list is refused.
    """
    path = config(("PrecisionAtK", "{k: 3, denominator: k, row_groups: [en, de]}"))
    values = values_of(evaluated(*grouped[1], "--config", path, "--row-groups", "lang"))
    for name in ("de", "en"):
        assert values[f"precision_k@3/{name}"] == pytest.approx(
            precision(data_set, rows_of(name)), abs=1e-12
        )
    path = config(("PrecisionAtK", "{k: 3, row_groups: [en]}"))
    status, _, err = tailmetrics(
        "evaluate", *grouped[1], "--config", path, "--row-groups", "lang"
    )
    assert (status, "--row-groups: holds 'de', which is none of en" in err) == (2, True)


def test_coverage_has_values_by_row_group(write_files, evaluated, tmp_path):
    """Coverage, which has no values per row, has values by group: all lists of a hold
    label 0 only, and those of b hold 0 and 1.
    """
    (tmp_path / "groups.txt").write_text("a\na\nb\nb\n")
    words = [
        *write_files(preds=np.eye(2)[[0, 0, 0, 1]], target=np.array([0, 1, 0, 1])),
        "--metrics+=CatalogCoverageAtK",
    ]
    report = evaluated(
        *words,
        "--metrics.k=1",
        "--num-labels=2",
        "--row-groups",
        tmp_path / "groups.txt",
    )
    assert values_of(report) == {
        "catalog_coverage@1": 1,
        "catalog_coverage@1/a": 1 / 2,
        "catalog_coverage@1/b": 1,
    }


def test_a_query_of_two_groups_is_refused(write_files, tailmetrics):
    """A query whose lines have different groups is refused."""
    lines = {
        "preds": "query,item,score\nq0,i,1\n",
        "target": "query,item,lang\nq0,i,b\nq0,j,a\n",
    }
    status, _, err = tailmetrics(
        "evaluate", *write_files(**lines), *PRECISION, "--row-groups", "lang"
    )
    assert (status, "query 'q0' has the groups 'b' and 'a'" in err) == (2, True)


def test_a_dict_of_groups_is_refused(write_files, tailmetrics, tmp_path):
    """Groups in JSON are a list of objects; a dict from query to group is refused, and
    a hint shows the list.
    """
    lines = {"preds": "query,item,score\nq0,i,1\n", "target": "query,item\nq0,i\n"}
    path = tmp_path / "groups.json"
    options = [*write_files(**lines), *PRECISION, "--row-groups", path]
    path.write_text('{"q0": "en"}')
    status, _, err = tailmetrics("evaluate", *options)
    assert (status, err.splitlines()[-2:]) == (
        2,
        [
            f"error: {path}: holds a dict, no list of objects",
            'hint: write a list of objects with a field for each column, such as [{"query": "q1", "group": "new"}].',
        ],
    )
    path.write_text('[{"query": "q0", "group": "en"}]')
    assert tailmetrics("evaluate", *options)[0] == 0


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("country", "there is no such file"),
        ("short.txt", "holds 2 rows, but there are 60"),
        ("short.npy", "holds 2 rows, but there are 60"),
        ("pairs.npy", "holds 120 rows, but there are 60"),
        ("cube.npy", "cube.npy: holds int64 [60, 2, 1]"),
    ],
)
def test_wrong_row_groups_are_refused(
    grouped, config, tailmetrics, tmp_path, name, problem
):
    """An unknown column, and a file or array of another shape than the rows, are
    refused.
    """
    (tmp_path / "short.txt").write_text("a\nb\n")
    np.save(tmp_path / "short.npy", np.array([7, 8]))
    np.save(tmp_path / "pairs.npy", np.zeros((60, 2), int))
    np.save(tmp_path / "cube.npy", np.zeros((60, 2, 1), int))
    name = tmp_path / name if "." in name else name
    status, _, err = tailmetrics(
        "evaluate", *grouped[1], "--config", config(*METRICS), "--row-groups", name
    )
    assert status == 2
    assert problem in err


def test_tables_of_rows_keep_row_groups(
    data_set, grouped, config, evaluated, compared, tailmetrics, tmp_path
):
    """Intervals and comparisons have the keys of groups, with the numbers of rows and
    values of these rows alone.

    Tables with different groups are refused.
    """
    words = [
        *grouped[1],
        "--config",
        config(*METRICS),
        "--row-groups",
        "lang",
        "--resamples",
        200,
        "--intervals",
    ]
    table = tmp_path / "rows.parquet"
    records = by_key(evaluated(*words, "--per-row", table))
    assert records["precision_k@3/en"]["value"] == pytest.approx(
        precision(data_set, rows_of("en")), abs=1e-12
    )
    assert records["precision_k@3/en"]["n"] == len(rows_of("en"))
    record = compared(table, table, "--names", "a", "b")["precision_k@3/de"]
    assert record["value"] == pytest.approx(precision(data_set, rows_of("de")))
    assert record["difference"] == 0
    (tmp_path / "moved.txt").write_text("\n".join(["en", *["de"] * (NUM_ROWS - 1)]))
    words[words.index("lang")] = tmp_path / "moved.txt"
    evaluated(*words[:-3], "--per-row", tmp_path / "moved.parquet")
    failure = tailmetrics("compare", table, tmp_path / "moved.parquet")
    assert (failure[0], "moved has other groups of rows than rows" in failure[2]) == (
        2,
        True,
    )


@pytest.mark.slow
def test_labels_writes_counts_and_values_of_every_label(
    data_set, config, tailmetrics, tmp_path
):
    """--labels writes labels.csv with counts, recall and precision of every label that
    a file or list holds, at the k of the first metric, most missed first and with its
    name. Names may end with a carriage return; a wrong number of names is refused.
    """
    names = [f"label number {label}" for label in range(NUM_LABELS)]
    (tmp_path / "names.txt").write_bytes("\r".join(names).encode() + b"\r\n")
    arguments = [
        "--config",
        config(*METRICS),
        "--labels",
        "--label-names",
        tmp_path / "names.txt",
        "--batch-rows",
        7,
    ]
    status, out, _ = tailmetrics(
        "evaluate",
        *data_set.options_with_training,
        *arguments,
        "--out",
        tmp_path / "out",
    )
    assert status == 0
    lines = table_of_labels(tmp_path)
    top_lists = [top_labels(data_set, row, 3) for row in range(NUM_ROWS)]
    for line in lines:
        label = int(line["label"])
        support = sum(label in relevant for relevant in data_set.relevant)
        predicted = sum(label in top for top in top_lists)
        hits = sum(
            label in top and label in relevant
            for top, relevant in zip(top_lists, data_set.relevant, strict=True)
        )
        expected = (support, predicted, hits, support - hits, predicted - hits)
        assert (
            tuple(
                int(line[name])
                for name in ("support", "predicted", "hits", "missed", "wrong")
            )
            == expected
        )
        assert int(line["count"]) == sum(
            label in trained for trained in data_set.trained
        )
        assert line["name"] == names[label]
        assert line["recall@3"] == (str(hits / support) if support else "")
        assert line["precision@3"] == (str(hits / predicted) if predicted else "")
    assert {int(line["label"]) for line in lines} == {
        label for rows in (*top_lists, *data_set.relevant) for label in rows
    }
    order = [(-int(line["missed"]), int(line["label"])) for line in lines]
    assert order == sorted(order)
    assert names[int(lines[0]["label"])] in out
    assert (
        names[int(lines[0]["label"])] in (tmp_path / "out" / "report.html").read_text()
    )
    assert (
        tailmetrics(
            "evaluate",
            *data_set.options_with_training,
            *arguments,
            "--overwrite",
            "--out",
            tmp_path / "out",
        )[0]
        == 0
    )
    (tmp_path / "names.txt").write_text("one\n")
    status, _, err = tailmetrics(
        "evaluate", *data_set.options_with_training, *arguments
    )
    assert status == 2
    assert "num_labels says 30 labels, but label_names holds 1" in err


def test_min_gain_applies_to_labels_csv(write_files, evaluated, tmp_path):
    """--min-gain 2 makes a label of gain 1 irrelevant, in the metrics and in
    labels.csv.
    """
    files = write_files(
        preds=[[0.9, 0.5, 0.1], [0.1, 0.9, 0.5]],
        target=[[1.0, 2.0, 0.0], [0.0, 3.0, 1.0]],
    )
    assert values_of(evaluated(*files, *PRECISION, "--min-gain", 2, "--labels")) == {
        "precision_min2@1": 0.5
    }
    assert [(line["label"], line["support"]) for line in table_of_labels(tmp_path)] == [
        ("1", "2"),
        ("0", "0"),
    ]


@pytest.mark.parametrize("kind", ["csv.gz", "tsv", "jsonl", "parquet"])
def test_groups_of_queries_in_parts(write_files, evaluated, tmp_path, kind):
    """A folder of targets in lines or tables, compressed or not, gives the groups of
    one file.
    """
    rows = [
        (f"q{row}", str(item), "en" if row % 3 else "de")
        for row in range(9)
        for item in (row, row + 1)
    ]
    for number, part in ((2, rows[:10]), (10, rows[10:])):
        path = tmp_path / "target" / f"part-{number}.{kind}"
        path.parent.mkdir(exist_ok=True)
        if kind in ("csv.gz", "tsv"):
            text = "\n".join(
                [",".join(("query", "item", "lang")), *map(",".join, part), ""]
            )
            content = (
                gzip.compress(text.encode())
                if kind == "csv.gz"
                else text.replace(",", "\t").encode()
            )
            path.write_bytes(content)
        elif kind == "jsonl":
            records = (
                json.dumps(dict(zip(("query", "item", "lang"), row, strict=True)))
                for row in part
            )
            path.write_text("\n".join(records) + "\n")
        else:
            columns = [pa.array(column) for column in zip(*part, strict=True)]
            table = pa.table(columns, ["query", "item", "lang"])
            pq.write_table(table, path)
    run = write_files(
        preds="query,item,score\n"
        + "".join(f"q{r},{r if r < 4 else 20},1\n" for r in range(9))
    )
    words = [
        *run,
        "--target",
        tmp_path / "target",
        "--num-labels",
        30,
        *PRECISION,
        "--row-groups",
        "lang",
    ]
    values = values_of(evaluated(*words))
    assert (values["precision@1/de"], values["precision@1/en"]) == (2 / 3, 2 / 6)


@pytest.mark.parametrize("form", ["parquet", "arrow", "pattern"])
def test_groups_of_rows_in_parts(
    data_set, grouped, config, evaluated, tailmetrics, tmp_path, form
):
    """A folder or pattern of tables with lists gives the groups of one file, and the
    error for an unknown column lists the columns.
    """
    table = pq.read_table(grouped[0] / "target.parquet")
    for number, part in ((2, table.slice(0, 25)), (10, table.slice(25))):
        (tmp_path / "y").mkdir(exist_ok=True)
        if form == "arrow":
            with pa.ipc.new_file(
                tmp_path / "y" / f"part-{number}.arrow", table.schema
            ) as writer:
                writer.write_table(part)
        else:
            pq.write_table(part, tmp_path / "y" / f"part-{number}.parquet")
    target = tmp_path / "y" / "*.parquet" if form == "pattern" else tmp_path / "y"
    words = [
        "--preds",
        data_set.preds,
        "--target",
        target,
        "--num-labels",
        NUM_LABELS,
        "--config",
        config(METRICS[0]),
    ]
    values = values_of(evaluated(*words, "--row-groups", "lang", warns=()))
    for name in ("de", "en"):
        assert values[f"precision_k@3/{name}"] == pytest.approx(
            precision(data_set, rows_of(name)), abs=1e-12
        )
    status, _, err = tailmetrics("evaluate", *words, "--row-groups", "country")
    assert (
        status,
        "has no such column\nhint: its columns are 'labels', 'lang'." in err,
    ) == (2, True)


def test_row_group_names_may_hold_unicode_line_ends(
    data_set, grouped, config, evaluated, tmp_path
):
    """A compressed file of groups with a byte order mark is read, and a Unicode line
    separator may be part of a name.
    """
    names = [f"fever\u2028{row % 2}" if row % 3 else "" for row in range(NUM_ROWS)]
    (tmp_path / "groups.txt.gz").write_bytes(
        gzip.compress("\n".join(names).encode("utf-8-sig"))
    )
    report = evaluated(
        *grouped[1],
        "--config",
        config(METRICS[0]),
        "--row-groups",
        tmp_path / "groups.txt.gz",
    )
    rows = [row for row in range(NUM_ROWS) if row % 3 and row % 2]
    assert values_of(report)["precision_k@3/fever\u20281"] == pytest.approx(
        precision(data_set, rows), abs=1e-12
    )


def test_labels_csv_lists_only_labels_with_names(evaluated, tmp_path):
    """If --num-labels is greater than the number of names in the files, labels.csv
    lists the labels that have names.
    """
    (tmp_path / "run.trec").write_text("q 0 x 1 2.0 me\nq 0 y 2 1.0 me\n")
    (tmp_path / "y.qrels").write_text("q 0 y 1\n")
    files = [
        "--preds",
        tmp_path / "run.trec",
        "--target",
        tmp_path / "y.qrels",
        "--num-labels",
        9,
        "--labels",
    ]
    evaluated(*files, *PRECISION)
    assert {line["name"]: line["hits"] for line in table_of_labels(tmp_path)} == {
        "x": "0",
        "y": "0",
    }


@pytest.mark.parametrize(
    "metric",
    [
        ("RecallAtK", "{k: 7, average: macro}"),
        ("PrecisionAtK", "{k: [5, 7], average: macro, labels: all}"),
    ],
)
def test_labels_csv_is_complete_beside_averages_over_labels(
    data_set, config, evaluated, tmp_path, metric
):
    """labels.csv has predictions and support of every label also beside a macro recall,
    which counts no predictions, and a precision over all labels, which counts no
    support.
    """
    evaluated("--config", config(metric), *data_set.options_with_training, "--labels")
    lines = table_of_labels(tmp_path)
    name = "predicted@7" if "[" in metric[1] else "predicted"
    top_lists = [top_labels(data_set, row, 7) for row in range(NUM_ROWS)]
    for line in lines:
        assert int(line[name]) == sum(int(line["label"]) in top for top in top_lists)
        assert int(line["support"]) == sum(
            int(line["label"]) in relevant for relevant in data_set.relevant
        )


def test_a_note_counts_rows_without_a_group(data_set, evaluated, tmp_path):
    """Rows whose group is empty count only overall, and a note of the report gives
    their number.
    """
    (tmp_path / "groups.txt").write_text(
        "\n".join(["", "", *["a"] * (NUM_ROWS - 2)]) + "\n"
    )
    evaluated(
        *PRECISION, *data_set.options, "--row-groups", tmp_path / "groups.txt", warns=()
    )
    assert (
        f"2 of {NUM_ROWS} rows have no group and count only overall."
        in (tmp_path / "out" / "report.md").read_text()
    )


def test_a_file_of_row_groups_has_its_own_column_names(
    write_files, evaluated, tailmetrics, tmp_path
):
    """A file of groups may name its query column as --columns.query says, or by a known
    name.

    Of two columns the other one is the group, whatever its name. Without known names,
    the first column is the query. A file of three columns, none of which is named
    group, is refused.
    """
    words = write_files(
        preds="x,item,score\na,i,1\nb,j,1\n", target="x,item\na,i\nb,i\n"
    )
    words += [
        "--columns.query",
        "x",
        *PRECISION,
        "--row-groups",
        tmp_path / "groups.csv",
    ]
    for name in ("query", "x"):
        (tmp_path / "groups.csv").write_text(f"{name},group\na,one\nb,two\n")
        values = values_of(evaluated(*words))
        assert values == {
            "precision@1": 0.5,
            "precision@1/one": 1.0,
            "precision@1/two": 0.0,
        }
    for names in (
        "query,country\n",
        "country,user\n",
        "query,user\n",
        "stay,ward\n",
        "",
    ):
        lines = (
            ["one,a", "two,b"] if names.startswith("country") else ["a,one", "b,two"]
        )
        (tmp_path / "groups.csv").write_text(names + "\n".join(lines) + "\n")
        assert values_of(evaluated(*words))["precision@1/one"] == 1.0
    (tmp_path / "groups.csv").write_text("query,country,year\na,one,1\nb,two,2\n")
    err = tailmetrics("evaluate", *words, "--quiet")[2]
    assert (
        f"error: --row-groups {tmp_path / 'groups.csv'}: holds the columns 'query', 'country', 'year'"
        in err
    )
    assert (
        "hint: give two columns, the query and its group, or call the second 'group'."
        in err
    )


def test_the_query_or_the_item_may_be_the_group(write_files, evaluated):
    """A column that is the query or the item may also be the group, if a row has one of
    it. A column that is a group is not said to be left unread.
    """
    preds = "query,item,score\nu,a,1\nv,a,1\n"
    target = "query,item,lang\nu,a,de\nv,b,fr\n"
    words = [
        *PRECISION,
        *write_files(preds=preds, target=target),
        "--columns.gain",
        "none",
    ]
    for column, names in (("query", "uv"), ("item", "ab")):
        values = values_of(evaluated(*words, "--row-groups", column))
        assert [values[f"precision@1/{name}"] for name in names] == [1, 0]


def test_a_column_of_groups_is_not_said_to_be_unread(write_files, capsys):
    """The line on how a file is read lists the columns that nothing reads; groups are
    read.
    """
    target = "query,item,lang,age\nu,a,de,3\n"
    words = [
        *PRECISION,
        *write_files(preds="query,item,score\nu,a,1\n", target=target),
        "--columns.gain",
        "none",
    ]
    assert (
        main([str(word) for word in ("evaluate", *words, "--row-groups", "lang")]) == 0
    )
    assert "not read: 'age'\n" in capsys.readouterr().err
