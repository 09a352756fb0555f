"""The texts of the command line: help for users, options in the place of arguments, and
no control characters.
"""

import os
import re
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tailmetrics.cli import main
from tailmetrics.cli.messages import CommandError, describe
from tailmetrics.cli.parser import parse
from tailmetrics.evaluation.row_tables import METADATA
from tailmetrics.io import FORMATS
from tailmetrics.report.formatting import printable

PRECISION = ("PrecisionAtK", "{k: 1}")
BY_DECILE = ("PrecisionAtK", "{k: 1, buckets: deciles}")


@pytest.mark.parametrize("command", [[], ["evaluate"], ["compare"]])
def test_help_shows_a_command_and_no_python_terms(command, tailmetrics, capsys):
    """--help shows an example of the command and its options and formats, and no terms
    of Python.
    """
    with pytest.raises(SystemExit):
        tailmetrics(*command, "--help")
    text = capsys.readouterr().out
    assert re.search(
        rf"^  tailmetrics {command[0] if command else 'evaluate'} ", text, re.MULTILINE
    )
    for word in (
        "import",
        "type:",
        "null)",
        "Optional",
        "stateful",
        "TopKMetric, default",
    ):
        assert word not in text
    if command:
        assert "--resample rows|rows,labels" in text
        assert re.search("^  trec  +a run", text, re.MULTILINE)


@pytest.mark.parametrize("words", [[], ["--help"], ["--version"]])
def test_help_and_version_load_no_torch(words):
    """The version and the list of commands, which is also shown without arguments, load
    neither torch nor numpy nor yaml.
    """
    code = (
        "import runpy, sys\n"
        "try: runpy.run_module('tailmetrics', run_name='__main__')\n"
        "finally: print(sorted({'torch', 'numpy', 'yaml'} & sys.modules.keys()))"
    )
    process = subprocess.run(
        [sys.executable, "-c", code, *words], capture_output=True, text=True, check=True
    )
    assert process.stdout.startswith(("usage: tailmetrics", "tailmetrics 0."))
    assert process.stdout.endswith("\n[]\n")


ASCII = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
"""An environment in which the default encoding of Python is ASCII."""
COMMANDS_IN_FORKS = """
import gc, os, sys
from tailmetrics.cli import compare, evaluate, main, parser

parser.options_of("evaluate")
gc.freeze()
for line in sys.stdin:
    arguments, stdout_path, stderr_path = eval(line)
    child = os.fork()
    if not child:
        for descriptor, path in ((1, stdout_path), (2, stderr_path)):
            if path is not None:
                os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
        if stdout_path is None:
            os.close(1)
            sys.stdout = None  # as Python starts if descriptor 1 is closed
        if stderr_path is None:
            os.close(2)
            sys.stderr = None
        sys.argv = ["tailmetrics", *map(os.fsdecode, arguments)]
        sys.exit(main())
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture(scope="module")
def in_ascii(tmp_path_factory):
    """Return a function that runs the command line in a fork of a process whose default
    encoding is ASCII.

    It returns status, stdout and stderr. Either may be another file, or closed from the
    start (``None``).
    """
    folder = tmp_path_factory.mktemp("streams")
    stdout_path, stderr_path = folder / "out", folder / "err"
    stdout_path.touch()
    stderr_path.touch()
    command = [sys.executable, "-c", COMMANDS_IN_FORKS]
    with subprocess.Popen(
        command, env=ASCII, stdin=-1, stdout=-1, text=True
    ) as process:

        def run(*words, stdout=str(stdout_path), stderr=str(stderr_path)):
            process.stdin.write(f"{[*map(os.fsencode, words)], stdout, stderr}\n")
            process.stdin.flush()
            status = int(process.stdout.readline())
            return status, stdout_path.read_bytes(), stderr_path.read_bytes()

        yield run


def test_commands_work_with_an_ascii_encoding(in_ascii, tmp_path, write_files):
    """If the default encoding is ASCII, configs are read as UTF-8, and letters that the
    terminal cannot show are printed as escapes. A path that cannot be encoded is an
    error with a hint.
    """
    (tmp_path / "c.yaml").write_text(
        "metrics: [{class_path: RecallAtK, init_args: {k: 1}}]\ntitle: é…\n", "utf-8"
    )
    words = [
        "evaluate",
        "--config",
        tmp_path / "c.yaml",
        *write_files(preds=np.eye(8), target=np.arange(8)[::-1] // 4),
    ]
    tables = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    status, out, err = in_ascii(
        *words, "--per-row", tables[0], "--out", tmp_path / "out", "--verbose"
    )
    assert (status, b"\\xe9\\u2026" in out, b"\\xb1" in out) == (0, True, True), err
    assert (tmp_path / "out" / "report.md").read_text("utf-8").startswith("# é…\n")
    tables[1].write_bytes(tables[0].read_bytes())
    status, out, err = in_ascii("compare", *tables, "--resamples", "50")
    assert (status, b"recall@1" in out) == (0, True), err
    status, _, err = in_ascii(*words[:-1], tmp_path / "é.npy")
    assert status == 2
    assert re.search(
        b"error: .*npy: holds bytes that are no text in the encoding ascii\nhint: set PYTHONUTF8=1",
        err,
    )


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="Linux has it")
def test_an_unwritable_stdout_is_an_error_after_the_report(
    in_ascii, tmp_path, config, write_files
):
    """If stdout is full or closed, the error says so and names the report, which is
    complete.

    With --quiet a closed stdout is no error.
    """
    words = [
        "evaluate",
        "--config",
        config(PRECISION),
        *write_files(preds=np.eye(8), target=np.arange(8)),
    ]
    status, _, err = in_ascii(*words, "--out", tmp_path / "out", stdout="/dev/full")
    assert (status, (tmp_path / "out" / "report.json").exists()) == (2, True)
    full = rb"\nerror: stdout cannot be written: No space left on device\nhint: send .*; written and complete: .*report"
    assert re.search(full, err)
    status, _, err = in_ascii(*words, stdout=None)
    assert status == 2
    assert re.search(
        rb"\nerror: stdout cannot be written: it is closed\nhint: send .*, or add --out FOLDER.",
        err,
    )
    assert in_ascii(*words, "--quiet", stdout=None)[0] == 0


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="Linux has it")
@pytest.mark.parametrize("stderr", ["/dev/full", None])
def test_results_are_printed_if_stderr_is_unwritable(
    in_ascii, config, write_files, stderr
):
    """If stderr is full or closed, results are printed, and an error keeps its exit
    status.
    """
    words = [
        "evaluate",
        "--config",
        config(PRECISION),
        *write_files(preds=np.eye(8), target=np.arange(8)),
    ]
    status, out, _ = in_ascii(*words, stderr=stderr)
    assert (status, b"precision@" in out) == (0, True)
    assert in_ascii(*words, "--num-labels", "no", stderr=stderr)[0] == 2


def test_options_have_the_names_of_arguments():
    """An option has the name of its argument, written with underscores or hyphens."""
    words = [
        "--train_min_gain=2",
        "--missing=zero",
        "--batch-rows",
        "7",
        "--metrics+=MRR",
        "--metrics.min_gain=3",
    ]
    request = parse(["evaluate", *words])
    assert (
        request.data.train_min_gain,
        request.data.missing,
        request.data.batch_rows,
    ) == (2.0, "zero", 7)
    assert request.metrics[0].min_gain == 3


@pytest.mark.parametrize(
    ("files", "options", "hint"),
    [
        ({"p.csv": "user,score\na,1\n"}, [], "hint: --columns.item NAME"),
        ({"p.csv": "query,qid,item,score\n"}, ["--columns.query", "x"], "hint: --preds-columns.query query or --preds-columns.query qid"),
        ({"p.csv": "uid,qid,item,score\na,a,x,1\n"}, [], "hint: --columns.query uid or --columns.query qid"),
        ({"p.csv": "query,item,score\na,x,1\na,x,2\n"}, [], "hint: duplicates='first' leaves the later one in its place"),
        ({"p.csv": "query,item,score\na,x,1\n"}, ["--num-labels", "3"], "hint: leave --num-labels out, so that items"),
        ({"p": "\x00\x01"}, [], "hint: --preds-format NAME, one of csv, tsv, jsonl, json, parquet, arrow, trec, letor, xmc, npy, npz, pt, msmarco"),
        ({"y.csv": "query,item,gain\na,x,-1\n"}, [], "hint: gains are 0 or from 1e-30 to 1e+30: write 0 for"),
    ],
)  # fmt: skip
def test_hints_name_options(files, options, hint, config, tailmetrics, tmp_path):
    """The hints for errors in files name options of the command line, and no Python
    arguments.
    """
    files = {"p.csv": "query,item,score\na,x,1\n", "y.csv": "query,item\na,x\n"} | files
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    words = [
        "--preds",
        tmp_path / ("p" if "p" in files else "p.csv"),
        "--target",
        tmp_path / "y.csv",
        *options,
    ]
    status, out, err = tailmetrics("evaluate", "--config", config(PRECISION), *words)
    assert (status, out) == (2, "")
    assert hint in err
    assert "Columns(" not in err


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (
            ["compare", "new.parquet", "--foo"],
            "hint: evaluate or compare --help lists the options",
        ),
        (
            ["compare", "none.parquet", "none.parquet", "--names", "a", "b"],
            "none.parquet: is no table of values per",
        ),
        (
            ["evaluate", "--metrics+=TieRateAtK"],
            "--metrics+=TieRateAtK: TieRateAtK: missing a required argument: 'k'\nhint: set arguments by --metrics.NAME=VALUE",
        ),
    ],
)
def test_errors_in_arguments_come_with_a_hint(
    words, problem, tailmetrics, tmp_path, monkeypatch
):
    """An unknown option, a file that is no table of rows and a metric that lacks an
    argument are errors that say what to do.
    """
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({}), "none.parquet")
    status, _, err = tailmetrics(*words)
    assert (status, problem in err) == (2, True)


CORRECTIONS = {
    ("evalute",): "evaluate",
    ("eval", "--preds", "p.npy"): "evaluate",
    ("--versoin",): "--version",
    ("evaluate", "--pred", "p.npy"): "--preds",
    (
        "evaluate",
        "--pred=p.npy",
        "--train-targets",
        "y.npy",
    ): "--preds and --train-target",
    ("evaluate", "--columns.itm", "x"): "--columns.item",
    ("compare", "--baselin", "a"): "--baseline",
    ("evaluate", "--metrics+=RecalAtK", "--metrics.k", "5"): "RecallAtK",
    ("evaluate", "--metrics+=recall@k"): "RecallAtK",
    ("evaluate", "--metrics+=tailmetrics.RecalAtK"): "RecallAtK",
    ("evaluate", "--metrics.help", "RecalAtK"): "RecallAtK",
    ("evaluate", "--metrics+=RecallAtK", "--metrics.scop", "global"): "scope",
    ("evaluate", "--config", "class.yaml"): "NDCGAtK",
    ("evaluate", "--config", "option.yaml"): "metrics",
    ("evaluate", "--config", "argument.yaml"): "buckets",
    ("evaluate", "--preset", "xcm"): "xmc",
}


@pytest.mark.parametrize("words", CORRECTIONS)
def test_hints_correct_misspelled_names(words, tailmetrics, tmp_path, monkeypatch):
    """A misspelled command, option, class, argument or preset is refused, and the hint
    gives the correct name, on the command line and in a config.
    """
    monkeypatch.chdir(tmp_path)
    (tmp_path / "class.yaml").write_text(
        "metrics: [{class_path: NDGCAtK, init_args: {k: 5}}]\n"
    )
    (tmp_path / "option.yaml").write_text(
        "metric: [{class_path: NDCGAtK, init_args: {k: 5}}]\n"
    )
    (tmp_path / "argument.yaml").write_text(
        "metrics: [{class_path: NDCGAtK, init_args: {k: 5, bucket: deciles}}]\n"
    )
    status, out, err = tailmetrics(*words)
    assert (status, out) == (2, "")
    assert f"\nhint: did you mean {CORRECTIONS[words]}? " in err
    assert not re.search("Parser key|class_path|import path|unrecognized", err)


@pytest.mark.parametrize(
    "words",
    [
        ["zzz"],
        ["evaluate", "--foo", "-1"],
        ["evaluate", "--metrics+=Zzz"],
        ["evaluate", "--preset", "imagenet"],
    ],
)
def test_hints_suggest_no_name_that_is_not_similar(words, tailmetrics):
    """A name that is similar to no valid one brings no suggestion, which would
    mislead.
    """
    status, _, err = tailmetrics(*words)
    assert (status, "did you mean" in err) == (2, False)


def test_how_a_file_was_read_is_printed_once(config, capsys, tmp_path):
    """How each file was read is printed in one line on stderr, once if targets and
    training are the same file, and is not kept in the table of rows.
    """
    (tmp_path / "p.csv").write_text("user_id,item_id,score\na,x,1\n")
    (tmp_path / "y.csv").write_text("user_id,item_id,rating,time\na,x,1,5\n")
    files = [
        "--preds",
        tmp_path / "p.csv",
        "--target",
        tmp_path / "y.csv",
        "--train-target",
        tmp_path / "y.csv",
    ]
    table = tmp_path / "rows.parquet"
    status = main(
        [
            *map(
                str,
                [
                    "evaluate",
                    "--config",
                    config(BY_DECILE),
                    *files,
                    "--quiet",
                    "--per-row",
                    table,
                ],
            )
        ]
    )
    err = capsys.readouterr().err
    assert (status, b"is the query" in pq.read_metadata(table).metadata[METADATA]) == (
        0,
        False,
    )
    roles = "csv: 'user_id' is the query, 'item_id' is the item, '{}' is the {}"
    preds, target = (
        roles.format("score", "score"),
        roles.format("rating", "gain") + "; not read: 'time'",
    )
    assert [line for line in err.splitlines() if line.startswith("read: ")] == [
        f"read: {tmp_path / 'p.csv'}: {preds}",
        f"read: {tmp_path / 'y.csv'}: {target}",
    ]


def test_control_characters_are_printed_as_escapes(config, tailmetrics, tmp_path):
    """Control characters in names of columns, files, folders and titles are printed as
    escapes, and brackets are not taken for markup. Other letters are printed unchanged.
    """
    bad = "\x1b[31m\x07"
    (tmp_path / "p.csv").write_text(f"query{bad},item,score\na,x,1\n")
    (tmp_path / "y.csv").write_text("query,item\na,x\n")
    words = [
        "--config",
        config(PRECISION),
        "--preds",
        tmp_path / "p.csv",
        "--target",
        tmp_path / "y.csv",
    ]
    status, out, err = tailmetrics("evaluate", *words)
    assert status == 2
    assert r"query\x1b[31m\x07" in err
    assert "\x1b" not in out + err
    assert "\x1b" not in "".join(
        tailmetrics("evaluate", *words, "--out", f"{bad}\x00")[1:]
    )
    (tmp_path / "p.csv").write_text("query,item,score\na,x,1\n")
    folder = tmp_path / f"[red]{bad}"
    status, out, err = tailmetrics(
        "evaluate", *words, "--out", folder, "--title", f"[bold]of {bad}", "--quiet"
    )
    assert (status, err) == (0, "")
    assert "\x1b" not in out
    assert "[red]\\x1b[31m\\x07" in out
    assert printable("Größe 模型 10 %") == "Größe 模型 10 %"


def test_errors_while_writing_name_the_final_path(tmp_path):
    """An error while a file is written names its final path, not the temporary
    folder.
    """
    path = tmp_path / ".tailmetrics-x1" / "rows.parquet"
    assert describe(OSError(f"[Errno 28] No space left on device: '{path}'"))[
        0
    ].endswith(f"'{tmp_path / 'rows.parquet'}'")


def test_errors_have_at_most_400_characters():
    """Problem and hint of an error of any kind have at most 400 characters together,
    and the end of the hint is kept.
    """
    for error in (
        CommandError("a " * 900, "add --k."),
        ValueError(f"rank: {'a ' * 900}; add --k."),
        OSError("a " * 900),
    ):
        problem, hint = describe(error)
        assert len(problem) + len(hint) <= 400
        assert hint.endswith(".")


def test_a_full_disk_is_an_error_that_names_the_table(
    data_set, config, tailmetrics, tmp_path, monkeypatch
):
    """If the disk is full while the table of rows is written, the error names the
    table, and no file is left.
    """

    def full(self, *_, **__):
        raise OSError(28, "No space left on device", str(self.where))

    monkeypatch.setattr(pq.ParquetWriter, "write_table", full)
    table = tmp_path / "rows.parquet"
    status, _, err = tailmetrics(
        "evaluate", "--config", config(PRECISION), *data_set.options, "--per-row", table
    )
    assert (status, err.splitlines()[0]) == (
        2,
        f"error: {table}: No space left on device",
    )
    assert [path.name for path in tmp_path.iterdir()] == ["config.yaml"]


CUSTOM_FORMAT = """
from tailmetrics import PrecisionAtK
from tailmetrics.io import Format, register_format
from tailmetrics.io.arrays import NumpySource

def open_raw(opening):
    return NumpySource(opening)

register_format(Format(name="raw", content="an array", suffixes=(), opener=open_raw))

class Custom(PrecisionAtK):
    "A metric."
"""


def test_a_custom_format_is_chosen_by_name(tailmetrics, tmp_path, monkeypatch):
    """A format that is registered by a module of the config may be chosen by --format,
    and the error for an unknown format lists it.
    """
    monkeypatch.chdir(tmp_path)
    (tmp_path / "custom_format.py").write_text(CUSTOM_FORMAT)
    for name, array in (("p", np.eye(3)), ("y", [0, 1, 1])):
        np.save(tmp_path / f"{name}.npy", array)
        (tmp_path / f"{name}.npy").rename(f"{name}.raw")
    (tmp_path / "c.yaml").write_text(
        "metrics:\n  - class_path: custom_format.Custom\n    init_args: {k: 1}\n"
    )
    words = ["evaluate", "--config", "c.yaml", "--preds", "p.raw", "--target", "y.raw"]
    try:
        status, out, err = tailmetrics(*words, "--format", "raw")
        assert (status, err) == (0, "")
        assert "0.6667" in out
        assert "'raw'" in tailmetrics(*words, "--format", "rwa")[2]
    finally:
        FORMATS.pop("raw", None)
