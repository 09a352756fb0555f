"""Column names and declared formats decide how a file is read: each rule of
docs/inputs.md, in every format with columns.
"""

import json

import pandas as pd
import pyarrow as pa
import pytest

from tables import SEPARATORS, objects_of, write_table
from tailmetrics import RecallAtK
from tailmetrics.io import ALIASES, Columns, DataFileError, read
from tailmetrics.io.columns import is_known, normalised

FORMATS = [
    "csv",
    "tsv",
    "jsonl",
    "json",
    "parquet",
    "arrow",
    "frame",
    "table",
    "objects",
]
IN_MEMORY = ("frame", "table", "objects")
PREDS = {
    "query": ["u", "u", "v", "v"],
    "item": ["a", "b", "c", "a"],
    "score": [0.1, 0.9, 0.2, 0.7],
}
TARGET = {"query": ["u", "v"], "item": ["b", "c"]}
"""Recall at 1 is a half: the first item of u is b, which is relevant, and that of v is
a, which is not.
"""
LISTS = {"query": ["u", "v"], "ids": [["b", "a"], ["a", "c"]]}
LABELS = {"query": ["u", "v"], "labels": [["b"], ["c"]]}


@pytest.fixture
def write(tmp_path):
    """Return a function that writes columns in a format, and returns the path or the
    object in memory.
    """

    def write(name, columns, form):
        if form == "frame":
            return pd.DataFrame(columns)
        if form == "table":
            return pa.Table.from_pandas(pd.DataFrame(columns))
        if form == "objects":
            return objects_of(columns)
        path = tmp_path / f"{name}.{form}"
        write_table(path, columns, form)
        return path

    return write


def recall(preds, target, k=1, **options):
    metric = RecallAtK(k=k)
    for batch in read(preds, target, **options):
        metric.update(batch.preds, batch.target)
    return float(metric.compute())


def refusal(*files, **options):
    with pytest.raises(DataFileError) as caught:
        read(*files, **options)
    return caught.value


def test_every_missing_file_is_reported(tmp_path):
    """If both files are missing, one error names both."""
    error = refusal(tmp_path / "p.csv", tmp_path / "y.csv")
    assert [str(error.path), *(str(other.path) for other in error.others)] == [
        str(tmp_path / "p.csv"),
        str(tmp_path / "y.csv"),
    ]


# -- rules -----------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMATS)
def test_a_column_that_the_user_names_wins_and_must_exist(write, form):
    """Rule 1: a column name that the user gives wins over known names, and a name that
    no column has is refused.
    """
    preds = write("p", {**PREDS, "better": [0.9, 0.1, 0.7, 0.2]}, form)
    target = write("y", TARGET, form)
    assert recall(preds, target) == 0.5
    assert recall(preds, target, columns=Columns(score="better")) == 0.5
    assert recall(preds, target, columns=Columns(score="better"), k=2) == 1
    assert (
        "there is no column 'worse'"
        in refusal(preds, target, columns=Columns(score="worse")).problem
    )


RANKS = {"u": {"a": 2, "b": 1, "c": 3}, "v": {"a": 1, "c": 2, "b": 3}}
"""Ranks in the place of scores: recall at 1 is a half if they are read as ranks, and 0
as scores.
"""


def write_run(path, form):
    """Write the ranks as a run; TREC lists the items of a query in the order of their
    ranks.
    """
    lines = []
    for query, ranks in RANKS.items():
        lines += [
            f"{query} Q0 {item} 0 {rank} tag"
            for item, rank in sorted(ranks.items(), key=lambda pair: pair[1])
        ]
    texts = {"json": json.dumps(RANKS), "run": "\n".join(lines) + "\n"}
    file = path / f"p.{form}"
    file.write_text(texts[form])
    return file


def write_target(path, columns=TARGET):
    """Write targets as CSV."""
    write_table(path / "y.csv", columns, "csv")
    return path / "y.csv"


@pytest.mark.parametrize("form", ["json", "run"])
def test_scores_of_a_run_that_look_like_ranks_bring_a_note(tmp_path, form):
    """If the scores of a run number its items 1, 2, 3, a note says that they may be
    ranks and names the option that reads them as ranks. The option for ranks or
    distances changes the order, and the option for scores removes the note.
    """
    preds, target = write_run(tmp_path, form), write_target(tmp_path)
    note = f"{preds}: the scores number the items of most queries, 1, 2, 3 …, as ranks do, and the highest is ranked "
    note += "first; if they are ranks, --preds-columns.rank score says so."
    assert note in read(preds, target).notes
    assert recall(preds, target) == 0
    assert recall(preds, target, preds_columns=Columns(rank="score")) == 0.5
    assert recall(preds, target, preds_columns=Columns(distance="score")) == 0.5
    confirmed = read(preds, target, preds_columns=Columns(score="score"))
    assert not any("as ranks do" in note for note in confirmed.notes)


def test_scores_that_count_down_bring_no_note_on_ranks(tmp_path):
    """Scores that count down to 1, as Borda counts do, bring no note on ranks, because
    the first item of a query has the highest score.
    """
    (tmp_path / "p.json").write_text(
        '{"u": {"b": 3, "a": 2, "c": 1}, "v": {"a": 3, "c": 2, "b": 1}}'
    )
    target = write_target(tmp_path)
    assert not any(
        "as ranks do" in note for note in read(tmp_path / "p.json", target).notes
    )


@pytest.mark.parametrize("form", ["json", "run"])
def test_a_column_name_for_a_run_or_qrels_is_refused(tmp_path, form):
    """Rule 1: a column name for a run or qrels is refused, because their format has no
    names and would ignore it.

    A query column for all files is taken for the files that have columns.
    """
    preds, target = (
        write_run(tmp_path, form),
        write_target(tmp_path, {"wer": ["u", "v"], "item": ["b", "c"]}),
    )
    assert recall(preds, target, columns=Columns(query="wer")) == 0
    for columns in (
        Columns(rank="nosuch"),
        Columns(rank="order"),
        Columns(query="wer"),
    ):
        (role,) = columns.names()
        error = refusal(
            preds, target, columns=Columns(query="wer"), preds_columns=columns
        )
        assert f"no column {columns.names()[role]!r}" in error.problem
        assert (
            error.hint
            == f"leave --preds-columns.{role} out; its number is called 'score'."
        )
    (tmp_path / "y.qrels").write_text("u 0 b 1\nv 0 c 1\n")
    assert (
        "no column 'none'"
        in refusal(
            preds, tmp_path / "y.qrels", target_columns=Columns(gain="none")
        ).problem
    )


@pytest.mark.parametrize("form", FORMATS)
def test_a_query_column_applies_to_the_files_that_have_it(write, form):
    """Rule 1: a query column that the user names applies to the files that have it, and
    the other file keeps its known name. If no file has it, it is refused.
    """
    preds = write(
        "p",
        {"member": PREDS["query"], "item": PREDS["item"], "score": PREDS["score"]},
        form,
    )
    target = write("y", {"user_id": TARGET["query"], "item": TARGET["item"]}, form)
    assert recall(preds, target, columns=Columns(query="member")) == 0.5
    plain_preds = write("q", PREDS, form)
    assert (
        "has the query 'member'"
        in refusal(plain_preds, target, columns=Columns(query="member")).problem
    )


@pytest.mark.parametrize("form", FORMATS)
def test_files_with_no_or_two_known_names_for_a_role_are_refused(write, form):
    """Rule 2: a file with no known name for a role, or with two, is refused.

    The error lists the columns and options of each file.
    """
    preds = write("p", {"qid": PREDS["query"], **PREDS}, form)
    target = write("y", {"who": TARGET["query"], "item": TARGET["item"]}, form)
    error = refusal(preds, target)
    (target_error,) = error.others
    assert (
        error.problem
        == "'qid' and 'query' could each be the query; its columns are 'qid', 'query', 'item', 'score'"
    )
    assert target_error.problem.startswith(
        "no column is the query; its columns are 'who', 'item'"
    )
    if form in IN_MEMORY:
        hint = "name one column query, and drop the other columns that may be it"
        assert error.hint == target_error.hint == hint
    else:
        assert error.hint == "--preds-columns.query qid or --preds-columns.query query"
        assert target_error.hint.startswith("--target-columns.query NAME")
    names = {
        "preds_columns": Columns(query="qid"),
        "target_columns": Columns(query="who"),
    }
    assert recall(preds, target, **names) == 0.5


@pytest.mark.parametrize("form", FORMATS)
def test_predictions_need_a_score_a_rank_or_a_distance(write, form):
    """Rule 3: of score, rank and distance the first that a file has is read, unless the
    user names another.

    Without any the file is refused, unless the user says that the order of lines is the
    rank.
    """
    target = write("y", TARGET, form)
    values = {
        "score": PREDS["score"],
        "rank": [2, 1, 2, 1],
        "distance": [0.9, 0.1, 0.8, 0.3],
    }
    expected = {"score": 0.5, "rank": 0.5, "distance": 0.5}
    pairs = {"query": PREDS["query"], "item": PREDS["item"]}
    for role, numbers in values.items():
        preds = write(f"p{role}", {**pairs, role: numbers}, form)
        assert recall(preds, target) == expected[role]
        assert read(preds, target).readings[0].value_role == role
    with_all = write("every", {**pairs, **values}, form)
    assert read(with_all, target).readings[0].value_role == "score"
    assert (
        read(with_all, target, columns=Columns(distance="distance"))
        .readings[0]
        .value_role
        == "distance"
    )
    without_value = write("bare", pairs, form)
    assert (
        "no column is the score, rank or distance"
        in refusal(without_value, target).problem
    )
    assert recall(without_value, target, columns=Columns(rank="order")) == 0.5


@pytest.mark.parametrize(
    ("form", "stray"),
    [
        *((form, [0, 1]) for form in FORMATS),
        *(
            ("parquet", values)
            for values in ([False, True], [3, 5], ["de", "fr"], [0.5, 0.25])
        ),
    ],
)
def test_targets_with_a_column_of_unknown_meaning_are_refused(write, form, stray):
    """Rule 4: a column of an unknown name in targets is refused whatever it holds,
    because it may be the gain.

    The user says whether it is the gain or not.
    """
    preds = write("p", PREDS, form)
    target = write("y", {**TARGET, "clicked": stray}, form)
    error = refusal(preds, target)
    problem = "'clicked' may be the gain of each item, or nothing that counts; its columns are 'query', 'item', 'clicked'"
    assert error.problem == problem
    if form not in IN_MEMORY:
        assert error.hint == "--columns.gain none or --columns.gain clicked"
    assert recall(preds, target, columns=Columns(gain="none")) == 0.5
    assert recall(preds, target, extra_columns=["clicked"]) == 0.5
    if stray[0] == 0:
        assert recall(preds, target, columns=Columns(gain="clicked")) == 0


@pytest.mark.parametrize("name", ["", "Unnamed: 0", "__index_level_0__"])
def test_the_index_of_pandas_is_no_gain(write, name):
    """Rule 4: the column that pandas writes to CSV for its index is not taken for a
    gain.
    """
    preds = write("p", PREDS, "csv")
    assert recall(preds, write("y", {name: [0, 1], **TARGET}, "csv")) == 0.5


def test_an_unnamed_index_of_a_frame_is_ignored(write):
    """The index of a frame is a column only if it has a name; that of a filtered or
    shuffled frame is ignored.
    """
    shuffled = pd.DataFrame(TARGET).iloc[::-1]
    assert recall(pd.DataFrame(PREDS), shuffled) == 0.5
    assert recall(pd.DataFrame(PREDS), shuffled.set_index("query")) == 0.5


@pytest.mark.parametrize(
    ("columns", "problem", "hint"),
    [
        (
            {"target_columns": Columns(score="score")},
            "'score' is named as its score, but targets have no score",
            "leave --target-columns.score out; its roles are query, item, labels, gain.",
        ),
        (
            {"preds_columns": Columns(gain="score")},
            "'score' is named as its gain, but predictions have no gain",
            "leave --preds-columns.gain out; its roles are query, item, ids, score, rank, distance.",
        ),
        (
            {
                "columns": Columns(score="score"),
                "preds_columns": Columns(distance="score"),
            },
            "the score 'score' and the distance 'score' are named, but only one column can order the items",
            "leave all but one of --columns.score, --preds-columns.distance out.",
        ),
        (
            {"columns": Columns(score="score", rank="order")},
            "the score 'score' and the rank 'order' are named, but only one column can order the items",
            "leave all but one of --columns.score, --columns.rank out.",
        ),
    ],
)
def test_a_name_that_would_not_be_read_is_refused(write, columns, problem, hint):
    """Rule 1: a name that the user gives wins. So a name for what a kind of file does
    not have, and a second number that orders the items, are refused. They would change
    nothing, and nobody would know.
    """
    error = refusal(write("p", PREDS, "csv"), write("y", TARGET, "csv"), **columns)
    assert (error.problem, error.hint) == (problem, hint)


@pytest.mark.parametrize("form", ["json", "qrels"])
def test_a_gain_that_is_named_for_all_files_is_refused_for_grades_without_columns(
    tmp_path, form
):
    """Grades of dicts and qrels count. If ``gain="none"`` is for the training targets,
    the hint says so.
    """
    preds, target = tmp_path / "p.json", tmp_path / f"y.{form}"
    preds.write_text('{"u": {"a": 0.5}}')
    target.write_text('{"u": {"a": 1}}' if form == "json" else "u 0 a 1\n")
    for columns, hint in (
        (
            {"columns": Columns(gain="none")},
            "leave --columns.gain out, or name it for the other files alone.",
        ),
        ({"target_columns": Columns(gain="none")}, "leave --target-columns.gain out."),
    ):
        error = refusal(preds, target, **columns)
        assert error.hint == hint
    assert recall(preds, target, train_columns=Columns(gain="none")) == 1


@pytest.mark.parametrize("form", SEPARATORS)
def test_column_numbers_read_text_without_a_header(tmp_path, form):
    """Rule 5: a text file without a header is read by column numbers from 0, and its
    first line is data.

    With column numbers, a file that has a header is refused.
    """
    separator = SEPARATORS[form]
    for name, columns in (("p", PREDS), ("y", TARGET)):
        lines = [
            separator.join(map(str, row)) for row in zip(*columns.values(), strict=True)
        ]
        (tmp_path / f"{name}.{form}").write_text("\n".join(lines) + "\n")
    files = tmp_path / f"p.{form}", tmp_path / f"y.{form}"
    assert "places from 0 for NAME" in refusal(*files).hint
    places = Columns(query="0", item="1", score="2")
    assert recall(*files, columns=places) == 0.5
    (tmp_path / f"p.{form}").write_text(
        separator.join(PREDS) + "\nu" + separator + "a" + separator + "1\n"
    )
    assert "line 1 does" in refusal(*files, columns=places).problem


@pytest.mark.parametrize("form", FORMATS)
def test_two_columns_may_form_the_query(write, form):
    """Rule 6: two columns, such as head and relation, may form the query together, and
    a comma within a cell does not mix them up.
    """
    preds = write(
        "p",
        {
            "head": ["x,y", "x"],
            "relation": ["z", "y,z"],
            "item": ["a", "b"],
            "score": [1.0, 1.0],
        },
        form,
    )
    target = write(
        "y", {"relation": ["z", "y,z"], "head": ["x,y", "x"], "item": ["a", "c"]}, form
    )
    key = Columns(query="head,relation")
    assert recall(preds, target, columns=key) == 0.5
    assert read(preds, target, columns=key).num_rows == 2


@pytest.mark.parametrize("form", FORMATS)
def test_tables_are_joined_only_if_both_name_their_queries(write, tmp_path, form):
    """Rule 7: two tables are joined by query if both name their queries, and row by row
    if neither does.

    If only one does, they are refused, and the user chooses by an option.
    """
    delimiter = {"list_delimiter": " "} if form in SEPARATORS else {}
    preds, target = write("p", LISTS, form), write("y", LABELS, form)
    assert recall(preds, target, **delimiter) == 0.5
    unnamed = write("bare", {"labels": LABELS["labels"]}, form)
    error = refusal(preds, unnamed, **delimiter)
    assert "names no query, but" in error.problem
    if form not in IN_MEMORY:
        assert (
            error.hint
            == "--target-columns.query NAME joins by it, --columns.query none takes row i with row i"
        )
    assert recall(preds, unnamed, columns=Columns(query="none"), **delimiter) == 0.5
    assert recall(write("b", {"ids": LISTS["ids"]}, form), unnamed, **delimiter) == 0.5


@pytest.mark.parametrize("form", FORMATS)
def test_a_common_column_of_unknown_name_is_refused_as_a_possible_query(write, form):
    """Rule 8: tables that share a column of an unknown name are refused until the user
    says whether it is the query.

    In shuffled tables recall at 1 is 0.5 by query, and 0 row by row.
    """
    delimiter = {"list_delimiter": " "} if form in SEPARATORS else {}
    none = {"rank": "order", "gain": "none"} if delimiter else {}
    preds = write("p", {"playlist": ["u", "v"], "ids": LISTS["ids"]}, form)
    target = write(
        "y", {"playlist": ["v", "u"], "labels": LABELS["labels"][::-1]}, form
    )
    error = refusal(preds, target, columns=Columns(**none), **delimiter)
    assert "has 'playlist' in common with" in error.problem
    if form not in IN_MEMORY:
        assert (
            error.hint
            == "--columns.query playlist joins by it, --columns.query none takes row i with row i"
        )
    assert recall(preds, target, columns=Columns(query="playlist"), **delimiter) == 0.5
    assert (
        recall(preds, target, columns=Columns(query="none", **none), **delimiter) == 0
    )


@pytest.mark.parametrize("form", ["jsonl", "parquet", "frame"])
def test_differently_named_columns_are_refused_as_possible_queries(write, form):
    """Rule 8 holds for two columns of different unknown names as well: the tables are
    refused until the user names the query of each, or says that there is none.
    """
    preds = write("p", {"kunde": ["u", "v"], "ids": LISTS["ids"]}, form)
    target = write(
        "y", {"playlist": ["v", "u"], "labels": LABELS["labels"][::-1]}, form
    )
    assert (
        "'playlist' may be the query, and 'kunde' that of p"
        in refusal(preds, target).problem
    )
    names = {
        "preds_columns": Columns(query="kunde"),
        "target_columns": Columns(query="playlist"),
    }
    assert recall(preds, target, **names) == 0.5
    assert recall(preds, target, columns=Columns(query="none")) == 0


@pytest.mark.parametrize("form", FORMATS)
def test_names_for_predictions_add_to_names_for_all_files(write, form):
    """Rule 10: names for one kind of file, such as predictions, add to those for all
    files.
    """
    preds = write(
        "p",
        {"stay": PREDS["query"], "code": PREDS["item"], "prob": PREDS["score"]},
        form,
    )
    target = write("y", {"stay": TARGET["query"], "code": TARGET["item"]}, form)
    keys = Columns(query="stay", item="code")
    assert (
        recall(preds, target, columns=keys, preds_columns=Columns(score="prob")) == 0.5
    )


@pytest.mark.parametrize(
    ("role", "form"),
    [("gain", form) for form in FORMATS]
    + [("score", form) for form in ("jsonl", "parquet", "frame")],
)
def test_lists_of_numbers_need_a_known_or_given_name(write, role, form):
    """A list of numbers beside a list of items is read as scores or gains if its name
    is known.

    With an unknown name it is refused until the user says whether it counts.
    """
    delimiter = {"list_delimiter": " "} if form in SEPARATORS else {}
    preds = {**LISTS, "scores": [[0.1, 0.9], [0.7, 0.2]]}
    assert recall(write("p", preds, form), write("y", LABELS, form), **delimiter) == 0
    target = {**LABELS, "gains": [[0.0], [2.0]]}
    assert (
        recall(
            write("q", LISTS, form),
            write("z", target, form),
            num_labels=None,
            **delimiter,
        )
        == 0
    )
    if role == "score":
        unknown = {**LISTS, "odd": [[0.1, 0.9], [0.7, 0.2]]}
        files = write("o", unknown, form), write("y", LABELS, form)
        none = Columns(rank="order")
    else:
        unknown = {**LABELS, "odd": [[0.0], [1.0]]}
        files = write("p", LISTS, form), write("o", unknown, form)
        none = Columns(gain="none")
    assert f"'odd' may be the {role}" in refusal(*files, **delimiter).problem
    assert recall(*files, columns=Columns(**{role: "odd"}), **delimiter) == 0
    assert recall(*files, columns=none, **delimiter) == 0.5


@pytest.mark.parametrize(
    "form", ["jsonl", "json", "parquet", "arrow", "frame", "table", "objects"]
)
def test_lists_of_objects_with_an_item_and_a_score_are_read(write, form):
    """A row may hold a list of objects, whose fields for item and score have known
    names.
    """
    best = [
        [{"label": "b", "score": 0.9}, {"label": "a", "score": 0.1}],
        [{"label": "a", "score": 0.7}],
    ]
    preds = write("p", {"id": [1, 2], "predictions": best}, form)
    assert recall(preds, write("y", {"labels": LABELS["labels"]}, form)) == 0.5


def test_lists_in_text_need_a_delimiter(write):
    """Lists in a CSV file are refused until the user names their delimiter, because a
    default of blanks would make two labels of "New York".
    """
    preds = write("p", LISTS, "csv")
    error = refusal(preds, write("y", LABELS, "csv"))
    assert error.problem.startswith(
        "'ids' holds lists, and nothing says what separates them"
    )
    assert error.hint == "--preds-list-delimiter C"


def test_hints_on_separators_and_places_are_for_one_file(write, tmp_path):
    """The hints for the separator of lists and for places of columns name the options
    of their own file: one option for all would change the other file, silently.

    b is the only one of four relevant labels that is first, half of the two of u.
    """
    preds, target = tmp_path / "p.csv", tmp_path / "y.csv"
    preds.write_text("query,ids\nu,b a\nv,a c\n")
    target.write_text("query,labels\nu,b;d\nv,c;e\n")
    error = refusal(preds, target)
    assert [error.hint, error.others[0].hint] == [
        "--preds-list-delimiter C",
        "--target-list-delimiter C",
    ]
    delimiters = {"preds_list_delimiter": " ", "target_list_delimiter": ";"}
    assert recall(preds, target, **delimiters) == 0.25

    preds.write_text("u,a,0.1\nu,b,0.9\nv,c,0.2\nv,a,0.7\n")
    target = write("y", TARGET, "csv")
    error = refusal(preds, target)
    assert error.hint.startswith("--preds-columns.query NAME --preds-columns.item NAME")
    places = Columns(query="0", item="1", score="2")
    assert recall(preds, target, preds_columns=places) == 0.5
    error = refusal(preds, target, columns=places)
    assert "such as --target-columns.query NAME" in error.hint


@pytest.mark.parametrize("name", ["p.tsv", "p.tsv.gz"])
def test_quoted_names_in_tsv_are_refused(write, tmp_path, name):
    """pandas puts a name with a quote into quotes also if tabs separate the fields.
    TSV has none: it is refused, and as CSV it is the name that JSON Lines hold, also
    if the line of names holds a comma. Names that no writer of CSV puts so are read as
    they are, with their quotes.
    """
    items = ['5" disc', "a"]
    columns = {"query": ["u", "u"], "item": items, "score": [0.9, 0.1]}
    target = write("y", {"query": ["u"], "item": items[:1]}, "jsonl")
    table = pd.DataFrame({**columns, "a, b": [0, 0]})
    table.to_csv(tmp_path / name, sep="\t", index=False)
    error = refusal(tmp_path / name, target)
    assert error.problem == (
        'column \'item\' holds "5"" disc" in quotes, which tsv does not have'
    )
    assert error.hint == "--preds-format csv --preds-delimiter '\\t' reads quotes."
    csv_with_tabs = {"preds_format": "csv", "preds_delimiter": "\\t"}
    assert recall(tmp_path / name, target, **csv_with_tabs) == 1

    plain = tmp_path / "plain.tsv"
    for item in ('5" disc', '"A" and "B"', '"A', '"A"" B'):
        plain.write_text(f"query\titem\tscore\nu\t{item}\t0.9\nu\ta\t0.1\n")
        target = write("y", {"query": ["u"], "item": [item]}, "jsonl")
        assert recall(plain, target) == 1

    plain.write_text('query\tids\nu\t"a",b,"c"\n')
    target = write("y", {"query": ["u"], "item": ['"a"']}, "jsonl")
    order = Columns(rank="order")
    assert recall(plain, target, list_delimiter=",", preds_columns=order) == 1


def test_files_without_a_known_suffix_are_refused(tmp_path):
    """A file whose suffix does not tell the format is refused, and the hint lists the
    formats; .txt is such a suffix, because TREC and XMC use it.
    """
    for name in ("p.txt", "p"):
        (tmp_path / name).write_text("u Q0 b 1 1 me\n")
        error = refusal(tmp_path / name, tmp_path / name)
        assert error.hint.startswith(
            "--preds-format NAME, one of csv, tsv, jsonl, json, parquet,"
        )
    (tmp_path / "y.qrels").write_text("u 0 b 1\n")
    assert recall(tmp_path / "p.txt", tmp_path / "y.qrels", preds_format="trec") == 1


def test_scores_that_count_the_lines_are_refused(write):
    """Scores of a table that are 1, 2, 3 in each query are refused, because they may be
    ranks; the option for score or rank decides.
    """
    preds = write(
        "p", {"query": ["u"] * 3, "item": ["a", "b", "c"], "score": [1, 2, 3]}, "csv"
    )
    target = write("y", {"query": ["u"], "item": ["a"]}, "csv")
    assert (
        refusal(preds, target).hint == "--columns.rank score or --columns.score score"
    )
    assert recall(preds, target, columns=Columns(rank="score")) == 1
    assert recall(preds, target, columns=Columns(score="score")) == 0


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("second", ["rank", "distance"])
def test_a_rank_that_contradicts_the_score_is_refused(write, form, second):
    """A rank or distance that orders the items of a query differently from the score is
    refused, and a column that the user names decides. Equal scores or ranks are no
    contradiction.
    """
    columns = {
        "query": ["u"] * 4 + ["v"],
        "item": list("abcda"),
        "score": [0.9, 0.5, 0.5, 0.1, 0.3],
    }
    target = write("y", {"query": ["u", "v"], "item": ["b", "a"]}, form)
    for ranks in ([1, 2, 3, 4, 1], [1, 3, 2, 4, 1], [1, 2, 2, 3, 1]):
        assert recall(write("p", {**columns, second: ranks}, form), target, k=4) == 1
    preds = write("q", {**columns, second: [3, 1, 2, 4, 1]}, form)
    error = refusal(preds, target)
    assert (error.problem, error.where) == (
        f"'score' and '{second}' order the items differently",
        "query 'u'",
    )
    hint = f"--columns.score score or --columns.{second} {second}"
    if form in IN_MEMORY:
        hint = f"drop 'score' or '{second}'"
    assert error.hint == hint
    assert recall(preds, target, columns=Columns(score="score")) == 0.5
    assert recall(preds, target, columns=Columns(**{second: second})) == 1


@pytest.mark.parametrize("form", FORMATS)
def test_a_list_of_ranks_that_contradicts_the_scores_is_refused(write, form):
    """A list of ranks that orders items differently from the list of scores is refused,
    and the error names the row.
    """
    delimiter = {"list_delimiter": " "} if form in SEPARATORS else {}
    lists = {**LISTS, "score": [[0.9, 0.1], [0.7, 0.2]]}
    labels = write("y", LABELS, form)
    assert (
        recall(
            write("p", {**lists, "rank": [[1, 2], [1, 2]]}, form), labels, **delimiter
        )
        == 0.5
    )
    preds = write("q", {**lists, "rank": [[1, 2], [2, 1]]}, form)
    error = refusal(preds, labels, **delimiter)
    assert (error.problem, error.where) == (
        "'score' and 'rank' order the items differently",
        "row 1",
    )
    assert recall(preds, labels, columns=Columns(score="score"), **delimiter) == 0.5
    assert recall(preds, labels, columns=Columns(rank="rank"), **delimiter) == 1


@pytest.mark.parametrize("form", ["jsonl", "json", "parquet", "frame", "objects"])
def test_ranks_in_objects_that_contradict_the_scores_are_refused(write, form):
    """Ranks in a list of objects that order items differently from their scores are
    refused.
    """
    best = [
        [{"item": "b", "score": 0.9, "rank": 2}, {"item": "a", "score": 0.1, "rank": 1}]
    ]
    preds, labels = (
        write("p", {"predictions": best}, form),
        write("y", {"labels": [["b"]]}, form),
    )
    assert (
        refusal(preds, labels).problem
        == "'score' and 'rank' order the items differently"
    )
    assert recall(preds, labels, columns=Columns(score="score")) == 1
    assert recall(preds, labels, columns=Columns(rank="rank")) == 0


@pytest.mark.parametrize("form", FORMATS)
def test_lists_whose_scores_rise_are_refused(write, form):
    """Lists whose scores all rise are refused, because they may be ranks or distances,
    of which the least is best.

    The option for score or distance decides, for lists with or without a query.
    """
    delimiter = {"list_delimiter": " "} if form in SEPARATORS else {}
    rising = {
        "ids": [["a", "b", "c"], ["c", "a"], ["b"]],
        "scores": [[0.1, 0.5, 0.9], [0.2, 0.7], [0.3]],
    }
    labels = {"labels": [["a"], ["c"], ["b"]]}
    for queries in ({}, {"query": ["u", "v", "w"]}):
        preds, target = (
            write("p", {**queries, **rising}, form),
            write("y", {**queries, **labels}, form),
        )
        error = refusal(preds, target, **delimiter)
        assert (
            error.problem
            == "'scores' rises from the first item of each list to the last, as distances do"
        )
        hint = "--columns.distance scores or --columns.score scores"
        if form in IN_MEMORY:
            hint = "rename 'scores' to 'distance'; of scores the highest comes first"
        assert error.hint == hint
        assert recall(
            preds, target, columns=Columns(score="scores"), **delimiter
        ) == pytest.approx(1 / 3)
        assert (
            recall(preds, target, columns=Columns(distance="scores"), **delimiter) == 1
        )


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(
    "scores",
    [
        [[0.1, 0.5, 0.9], [0.7, 0.2], [0.3]],  # one list rises and one falls
        [[0.9, 0.5, 0.1], [0.7, 0.2], [0.3]],
        [[0.5, 0.9, 0.1], [0.2, 0.7], [0.3]],
        [[0.5, 0.5, 0.5], [0.2, 0.7], [0.3]],  # a single rising step may be chance
    ],
)
def test_lists_whose_scores_do_not_all_rise_are_read(write, form, scores):
    """Lists of scores that fall, are unsorted or rise in one step only are read as
    scores.
    """
    delimiter = {"list_delimiter": " "} if form in SEPARATORS else {}
    preds = write(
        "p", {"ids": [["a", "b", "c"], ["c", "a"], ["b"]], "scores": scores}, form
    )
    target = write("y", {"labels": [["a", "b", "c"], ["a", "c"], ["b"]]}, form)
    assert recall(preds, target, columns=Columns(gain="none"), k=3, **delimiter) == 1


# -- names -----------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["query", "item", "score", "rank", "distance"])
def test_every_known_name_of_predictions_is_read_in_any_spelling(write, role):
    """Every known name of a column of predictions is read in any spelling: case, signs
    between words and a suffix after a colon do not matter.
    """
    target = write("y", TARGET, "csv")
    for name in ALIASES[role]:
        for spelling in (
            name,
            name.upper().replace("_", "-"),
            f"{name.title().replace('_', '')}:token",
        ):
            columns = {
                "query": PREDS["query"],
                "item": PREDS["item"],
                "score": PREDS["score"],
            }
            if role in ("rank", "distance"):
                columns[role] = [2, 1, 2, 1]
                del columns["score"]
            preds = write(
                "p",
                {
                    spelling if key == role else key: cells
                    for key, cells in columns.items()
                },
                "csv",
            )
            assert recall(preds, target) == 0.5, spelling


def test_every_known_name_of_gains_and_lists_is_read(write):
    """Every known name of gains in lines is read, and every known name of lists and
    plural of an item name in tables.
    """
    preds = write("p", PREDS, "csv")
    for name in (*ALIASES["gain"], "score"):
        assert recall(preds, write("y", {**TARGET, name: [0, 1]}, "csv")) == 0
    for name in (
        *ALIASES["labels"],
        *ALIASES["item"],
        *(f"{item}s" for item in ALIASES["item"]),
    ):
        assert (
            recall(
                preds,
                write("y", {"query": ["u", "v"], name: LABELS["labels"]}, "parquet"),
            )
            == 0.5
        )
    for name in (*ALIASES["ids"], *(f"{item}s" for item in ALIASES["item"])):
        lists = write("l", {"query": ["u", "v"], name: LISTS["ids"]}, "parquet")
        assert recall(lists, write("y", LABELS, "parquet")) == 0.5


def test_no_name_has_two_roles():
    """No known name of a column of lines has two roles, and the plural "labels" is not
    a name of the gain.
    """
    seen = {}
    for role in ("query", "item", "score", "rank", "distance", "gain"):
        for name in ALIASES[role]:
            assert seen.setdefault(normalised(name), role) == role
    assert not is_known("labels", ALIASES["gain"])


def test_the_page_on_inputs_lists_every_known_name(request):
    """docs/inputs.md lists every known name of each role."""
    page = (request.config.rootpath / "docs" / "inputs.md").read_text()
    for role, names in ALIASES.items():
        (row,) = (
            line for line in page.splitlines() if line.startswith(f"| `{role}` | ")
        )
        assert row.startswith(f"| `{role}` | {', '.join(names)}")


@pytest.mark.parametrize("form", ["csv", "json", "trec"])
def test_label_names_number_the_labels_of_lines(tmp_path, form):
    """With label_names, the id of a label is the place of its name, whatever the order
    of names.

    A label that label_names lacks is refused.
    """
    run, qrels = {"q": {"d1": 0.9, "d0": 0.5}}, {"q": {"d0": 1}}
    preds, target = tmp_path / f"p.{form}", tmp_path / f"y.{form}"
    if form == "json":
        preds.write_text(json.dumps(run))
        target.write_text(json.dumps(qrels))
    elif form == "csv":
        preds.write_text("query,item,score\nq,d1,0.9\nq,d0,0.5\n")
        target.write_text("query,item\nq,d0\n")
    else:
        preds.write_text("q Q0 d1 1 0.9 me\nq Q0 d0 2 0.5 me\n")
        target = tmp_path / "y.qrels"
        target.write_text("q 0 d0 1\n")
    names = ["d2", "x", "d0", "d1"]
    dataset = read(preds, target, label_names=names)
    assert (dataset.num_labels, list(dataset.label_names)) == (4, names)
    (batch,) = dataset
    scores, ids = batch.preds
    assert dict(zip(ids[0].tolist(), scores[0].tolist(), strict=True)) == pytest.approx(
        {3: 0.9, 2: 0.5}
    )
    with pytest.raises(DataFileError, match="unknown label 'd1'; label_names lacks it"):
        read(preds, target, label_names=names[:3])
