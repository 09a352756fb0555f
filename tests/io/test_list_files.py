"""Lists in files may hold labels only: anything else in them is refused, because it
would silently become a label.
"""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tailmetrics.io import Columns, DataFileError, read, read_target


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


def refusal(preds, target, **options):
    with pytest.raises(DataFileError) as caught:
        read(preds, target, **options)[0]
    return caught.value


LISTS = Columns(ids="ids", labels="labels")


@pytest.mark.parametrize(
    "cell", ["[11, 12, 13]", "['a', 'b']", '[""a"", ""b""]', " [] ", "['a'\n 'b']"]
)
@pytest.mark.parametrize("delimiter", [",", " "])
@pytest.mark.parametrize("first", ["11", None])
def test_bracketed_text_of_a_list_is_refused(write, cell, delimiter, first):
    """A cell with the text of a Python list, as pandas writes one, is refused, in the
    first or a later row and with any delimiter of lists.
    """
    cells = [cell] if first is None else [first, cell]
    rows = "".join(f'{row},"{text}"\n' for row, text in enumerate(cells))
    preds, target = (
        write("p.csv", "query,ids\n" + rows),
        write("y.csv", "query,labels\n0,11\n1,11\n"),
    )

    error = refusal(preds, target, columns=LISTS, list_delimiter=delimiter)

    assert "column 'ids' holds the text of lists in brackets" in error.problem
    assert (
        error.hint == "write JSON Lines or Parquet, or strip the brackets and quotes."
    )


def test_bracketed_text_of_a_list_of_scores_is_refused(write):
    """A column of scores with the text of a Python list is refused as well."""
    preds, target = (
        write("p.csv", 'query,ids,scores\n0,a b,"[2, 1]"\n'),
        write("y.csv", "query,labels\n0,a\n"),
    )

    error = refusal(
        preds,
        target,
        columns=Columns(ids="ids", labels="labels", score="scores"),
        list_delimiter=" ",
    )

    assert "'scores' holds the text of lists in brackets" in error.problem


def test_lists_whose_entries_are_fields_are_refused(write, rows_of):
    """In lines u,a,b,c without quotes, a comma separates fields and entries: the list
    is refused, because only its first entry would be read. With quotes it is read, and
    so are lists of one entry beside a column that is declared, or is no entry because
    the blank of the separator is missing.
    """
    places = Columns(query="0", labels="1", gain="none")
    arguments = {"target_columns": places, "target_list_delimiter": ","}
    preds = write("p.jsonl", lines([{"query": "u", "ids": ["c", "a"]}]))
    for text, delimiter in (("u,a,b,c\n", ","), ("u,a, b, c\n", ", ")):
        arguments["target_list_delimiter"] = delimiter
        error = refusal(preds, write("y.csv", text), **arguments)
        assert error.problem == (
            f"',' separates fields, and no cell of column '1' holds {delimiter!r}"
        )
        assert error.hint.endswith("name another --target-list-delimiter.")

    def labels_of(text, **options):
        dataset = read(preds, write("y.csv", text), **(arguments | options))
        ((_, labels),) = rows_of(dataset).values()
        return labels

    arguments["target_list_delimiter"] = ","
    assert len(labels_of('u,"a,b,c",x\n')) == 3
    assert len(labels_of("u,a,x\n", extra_columns=["2"])) == 1
    semicolons = {"target_delimiter": ";", "target_list_delimiter": "; "}
    assert len(labels_of("u;a;x\n", **semicolons)) == 1


def test_the_list_delimiter_of_training_targets_is_sure(write, targets_of):
    """The list delimiter of read_target is for this file alone: entries may hold
    another usual separator.
    """
    path = write("y.csv", 'query,labels\nu,"a;1,b"\nv,b\n')
    targets = read_target(path, list_delimiter=",")
    assert targets.label_names == ("a;1", "b")
    assert targets_of(targets) == {0: [0, 1], 1: [1]}


def test_names_in_brackets_are_labels(write, rows_of):
    """Brackets around single names within a longer list are part of the names."""
    preds, target = (
        write("p.csv", "query,ids\n0,a [b] c\n"),
        write("y.csv", "query,labels\n0,[b] a\n"),
    )

    assert rows_of(read(preds, target, columns=LISTS, list_delimiter=" ")) == {
        0: ([1, 0, 2], [0, 1])
    }


LIST_LINES = "query,ids\nu,a b\nv,b c\n"


@pytest.mark.parametrize(
    ("separator", "labels"),
    [("|", "a|c"), (";", "a;c"), (",", '"a, c"'), ("\t", "a\tc")],
)
def test_a_list_with_another_separator_needs_its_own_delimiter(
    write, rows_of, separator, labels
):
    """A list whose entries hold another usual separator than the delimiter of both
    files is refused, because "a|c" would be one label. The delimiter of the one file,
    --target-list-delimiter, decides whether there are two labels or one.
    """
    preds, target = (
        write("p.csv", LIST_LINES),
        write("y.csv", f"query,labels\nu,{labels}\nv,b\n"),
    )

    error = refusal(preds, target, list_delimiter=" ")

    assert (
        f"column 'labels' holds {separator!r}, which may separate its entries"
        in error.problem
    )
    assert error.hint.endswith("or --target-list-delimiter ' '")
    options = {"list_delimiter": " ", "target_list_delimiter": separator}
    assert rows_of(read(preds, target, **options)) == {
        0: ([0, 1], [0, 2]),
        1: ([1, 2], [1]),
    }
    unsplit = read(
        preds,
        target,
        preds_list_delimiter=" ",
        target_list_delimiter=" ~ ",
        missing="zero",
    )
    assert len(rows_of(unsplit)[0][1]) == 1


def test_each_file_may_have_its_own_separator_of_fields(write, rows_of):
    """Each file may have its own separator of fields, such as commas in predictions
    beside "::" in targets of MovieLens. A file that the common separator leaves with
    one column is refused, and the hint names the option for that file.
    """
    preds, target = (
        write("p.csv", "query,item,score\nu,a,.5\nu,b,.7\n"),
        write("ratings.dat", "u::a::3\nu::c::4\n"),
    )
    places = Columns(query="0", item="1", gain="2")
    options = {"target_format": "csv", "target_columns": places}

    assert refusal(preds, target, delimiter="::", **options).hint.startswith(
        "--preds-delimiter C, "
    )
    assert rows_of(read(preds, target, target_delimiter="::", **options)) == {
        0: ({1: 0.7, 0: 0.5}, {0: 3.0, 2: 4.0})
    }


def test_a_json_file_of_lists_of_lists_is_refused(write):
    """A JSON file of lists of lists is refused, and the hint shows the forms of JSON
    that are read.
    """
    error = refusal(write("p.json", "[[1, 2], [3]]"), write("y.json", '{"0": [1]}'))
    assert error.problem == "holds a list of lists"
    assert error.hint.startswith('write {"query": {"item": 0.5}}')


NESTED = {"choices": ["Sports", "Politics"]}


@pytest.mark.parametrize("suffix", [".jsonl", ".json"])
@pytest.mark.parametrize(
    "labels",
    [
        [["a"], ["b", NESTED]],
        [["a"], [["a", "b"], "b"]],
        [["a"], NESTED],
        [[{"item": "a"}], [{"item": NESTED}]],
        [[{"item": NESTED}], [{"item": NESTED}]],
        [[{"item": ["a"]}], [{"item": [3]}]],
        [[["a"]], [["b"], ["a"]]],
        [[[3, 4]], [[4]]],
        [[[NESTED]], [[NESTED]]],
        [[3], [4, NESTED]],
    ],
)
def test_objects_and_lists_among_labels_are_refused(tmp_path, suffix, labels):
    """An object or a list in the place of a label is refused, because its text would
    become one label.
    """
    preds, target = tmp_path / f"p{suffix}", tmp_path / f"y{suffix}"
    rows = [
        {"query": str(row), "labels": entries} for row, entries in enumerate(labels)
    ]
    answers = [{"query": str(row), "ids": ["a", "b", "3", "4"]} for row in range(2)]
    for path, content in ((preds, answers), (target, rows)):
        path.write_text(lines(content) if suffix == ".jsonl" else json.dumps(content))

    error = refusal(preds, target, columns=Columns(labels="labels", gain="none"))

    assert error.path == target
    assert "among the items of 'labels'" in error.problem


def test_an_object_among_labels_of_a_late_row_is_refused(write):
    """An object among labels is refused also after 30,000 rows, where DuckDB no longer
    detects types.
    """
    rows = [{"query": str(row), "labels": ["a"]} for row in range(30_000)] + [
        {"query": "z", "labels": [NESTED]}
    ]
    answers = [{"query": row["query"], "ids": ["a"]} for row in rows]

    assert (
        "choices"
        in refusal(
            write("p.jsonl", lines(answers)), write("y.jsonl", lines(rows))
        ).problem
    )


def test_an_object_as_the_item_of_a_line_is_refused(write):
    """An object as the item of a line of JSON is refused."""
    rows = [{"query": "1", "item": "a"}, {"query": "2", "item": NESTED}]
    answers = [
        {"query": "1", "item": "a", "score": 1},
        {"query": "2", "item": "b", "score": 1},
    ]

    assert (
        "choices"
        in refusal(
            write("p.jsonl", lines(answers)), write("y.jsonl", lines(rows))
        ).problem
    )


@pytest.mark.parametrize("query", [["2"], {"id": "2"}])
def test_an_object_or_a_list_among_queries_is_refused(write, query):
    """A query of JSON Lines that is an object or a list among others of text is
    refused: as text it would have no predictions, and be left out.
    """
    rows = [{"query": "1", "item": "a"}, {"query": query, "item": "a"}]
    answers = [{"query": "1", "item": "a", "score": 1}]
    error = refusal(write("p.jsonl", lines(answers)), write("y.jsonl", lines(rows)))
    assert error.problem.endswith("among the queries of 'query'")
    assert error.hint == "write each query as text or as a whole number."


@pytest.mark.parametrize("other", ["0.25", '"0.25"'])
@pytest.mark.parametrize(
    "number",
    [
        *("0.1", "1e23", "2.5E-1", "5e-324", "-0.0", "1e400", "-1e-400"),
        *("0.30000000000000004", "9007199254740993", "1" * 30),
        *("Infinity", "true", '"0.5"'),
    ],
)
def test_numbers_of_json_lines_are_those_of_python(write, number, other):
    """A score in JSON Lines is the number that Python reads, whether all scores are
    numbers or one is text.
    """
    text = '{{"query": "u", "item": "{}", "score": {}}}\n'
    preds = write("p.jsonl", text.format("a", number) + text.format("b", other))
    (batch,) = read(preds, write("y.csv", "query,item\nu,a\n"))
    scores, items = batch.preds
    expected = [float(json.loads(number)), 0.25]
    assert items.tolist() == [[0, 1]]
    assert list(map(str, scores[0].tolist())) == list(map(str, expected))


@pytest.mark.parametrize("value", ["null", "NaN", '""', "[1]", '"high"'])
def test_a_score_of_json_lines_is_a_number(write, value):
    """A score in JSON Lines that is no number is refused."""
    text = '{{"query": "u", "item": "{}", "score": {}}}\n'
    preds = write("p.jsonl", text.format("a", value) + text.format("b", "0.5"))
    with pytest.raises(DataFileError, match=r"not a number|score nan|has no 'score'"):
        list(read(preds, write("y.csv", "query,item\nu,a\n")))


def test_objects_and_columns_of_late_lines_are_refused(write):
    """In JSON with one item a line, an object as the item and a new column that may be
    the gain are refused also after 30,000 lines.
    """
    rows = [{"query": str(row), "item": "a"} for row in range(30_000)]
    answers = write("p.jsonl", lines({**row, "score": 1} for row in rows))

    nested = write("y.jsonl", lines([*rows, {"query": "z", "item": NESTED}]))
    late_column = write(
        "z.jsonl", lines([*rows, {"query": "z", "item": "a", "note": 1}])
    )

    assert "choices" in refusal(answers, nested).problem
    assert "'note' may be the gain" in refusal(answers, late_column).problem


def test_late_values_of_another_type_are_names(write):
    """In JSON with one item a line, items that are whole numbers in the first 30,000
    lines and 1.5, true or text later are four names; nothing is rounded.
    """
    rows = [{"query": str(row), "item": 1} for row in range(30_000)]
    rows += [{"query": "z", "item": item} for item in (1.5, True, "a")]
    answers = write("p.jsonl", lines({**row, "score": 0.5} for row in rows))

    dataset = read(answers, write("y.jsonl", lines(rows)))

    assert list(dataset.label_names) == ["1", "1.5", "a", "true"]


def test_late_fractions_are_no_whole_items(write):
    """If all items are whole numbers in the first 25,000 lines and 7.0 later, which is
    another text than 7, the file is refused: hits would be lost.
    """
    rows = [
        {"query": str(row), "item": 7 if row < 25_000 else 7.0, "score": 0.5}
        for row in range(30_000)
    ]
    answers = [{"query": str(row), "item": 7} for row in range(30_000)]

    error = refusal(write("p.jsonl", lines(rows)), write("y.jsonl", lines(answers)))

    assert "item" in error.problem


def test_labels_in_braces_are_text(write, rows_of):
    """A string that looks like an object is a label, because it is a string in the
    file.
    """
    preds, target = (
        [{"query": 1, "ids": ["b", '{"a": 1}']}],
        [{"query": 1, "labels": ['{"a": 1}']}],
    )

    rows = rows_of(
        read(write("p.jsonl", lines(preds)), write("y.jsonl", lines(target)))
    )

    assert rows == {0: ([0, 1], [1])}


@pytest.mark.parametrize(
    "suffix", [".jsonl", ".json", ".parquet", "dict", "objects", "lists"]
)
@pytest.mark.parametrize("padded", ["preds", "target"])
def test_padding_in_lists_is_refused(tmp_path, suffix, padded):
    """A -1 among the whole numbers of a list is refused in every form of lists, and the
    message suggests that it is padding.
    """
    lists = {"preds": [[5, 3], [7, 5]], "target": [[5, 3], [2, 7]]}
    lists[padded][1][1] = -1
    files = {}
    for role, name in (("preds", "ids"), ("target", "labels")):
        rows = [
            {"query": row, name: entries} for row, entries in enumerate(lists[role])
        ]
        files[role] = tmp_path / f"{role}{suffix}"
        if suffix == ".jsonl":
            files[role].write_text(lines(rows))
        elif suffix == ".json":
            files[role].write_text(json.dumps(rows))
        elif suffix == ".parquet":
            import pyarrow as pa
            import pyarrow.parquet as pq

            pq.write_table(pa.Table.from_pylist(rows), files[role])
        elif suffix == "dict":
            files[role] = dict(enumerate(lists[role]))
        elif suffix == "objects":
            files[role] = rows
        else:
            files[role] = lists[role]

    with pytest.raises(DataFileError, match="holds the label id -1.*pad") as caught:
        list(read(files["preds"], files["target"]))

    assert padded in str(caught.value.path)


def test_hints_name_the_options_for_recbole_and_ms_marco(write):
    """For a file of RecBole with a timestamp, the hint offers "none" for the gain
    first, because a time is no gain.

    For files of MS MARCO, which have no names of columns, the hints name column numbers
    and formats.
    """
    header = "user_id:token\titem_id:token\t"
    preds = write("p.tsv", f"{header}score:float\n1\ta\t.5\n")

    times = refusal(preds, write("y.tsv", f"{header}timestamp:float\n1\ta\t8\n"))
    assert times.hint == "--columns.gain none or --columns.gain timestamp:float"

    run, qrels = (
        write("run.tsv", "11\t7\t1\n11\t8\t2\n"),
        write("qrels.tsv", "11\t0\t7\t1\n"),
    )
    error = refusal(run, qrels)
    assert error.hint.endswith(
        "places from 0 for NAME, or --preds-format trec, msmarco or xmc"
    )
    assert error.others[0].hint.endswith("or --target-format trec, msmarco or xmc")
    options = {"preds_format": "msmarco", "target_format": "trec"}
    assert read(run, qrels, **options).num_rows == 1


@pytest.mark.parametrize("labels", [[3, 1], ["b", "a"]])
def test_empty_lists_of_objects_fit_numbers_and_names(write, rows_of, labels):
    """JSON Lines with nothing but empty lists are read beside label ids and beside
    names.
    """
    preds = write("p.jsonl", '{"ids": []}\n{"ids": []}\n')
    target = write(
        "y.jsonl", "".join(json.dumps({"labels": [label]}) + "\n" for label in labels)
    )
    assert [list(ids) for ids, _ in rows_of(read(preds, target)).values()] == [[], []]


def test_a_list_with_a_number_too_large_for_a_label_id_names_the_option(tmp_path):
    """Beside names, a whole number that no label id can be is refused, and
    ``string_ids`` reads it as a name.
    """
    large = 2**62
    pq.write_table(
        pa.table({"query": ["u"], "ids": [[large, 5]]}), tmp_path / "p.parquet"
    )
    (tmp_path / "y.csv").write_text(f"query,item\nu,{large}\n")
    with pytest.raises(
        DataFileError,
        match="is too large for a label id; --string-ids true numbers the items as names",
    ):
        list(read(tmp_path / "p.parquet", tmp_path / "y.csv"))
    assert (
        read(tmp_path / "p.parquet", tmp_path / "y.csv", string_ids=True).num_labels
        == 2
    )
