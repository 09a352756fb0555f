"""What the command line says: options instead of arguments, nothing that a terminal acts upon, help for users."""

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
def test_help(command, tailmetrics, capsys):
    """It opens with what the program does and shows a command; no word of Python is in it."""
    with pytest.raises(SystemExit):
        tailmetrics(*command, "--help")
    text = capsys.readouterr().out
    assert re.search(rf"^  tailmetrics {command[0] if command else 'evaluate'} ", text, re.MULTILINE)
    for word in ("import", "type:", "null)", "Optional", "stateful", "TopKMetric, default"):
        assert word not in text
    if command:
        assert "--resample rows|rows,labels" in text
        assert re.search("^  trec  +a run", text, re.MULTILINE)


@pytest.mark.parametrize("words", [[], ["--help"], ["--version"]])
def test_what_is_asked_first_is_answered_without_torch(words):
    """It takes seconds to load, and neither the version nor the list of commands needs it; no word asks for that list."""
    code = (
        "import runpy, sys\n"
        "try: runpy.run_module('tailmetrics', run_name='__main__')\n"
        "finally: print(sorted({'torch', 'numpy', 'yaml'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True, check=True)
    assert done.stdout.startswith(("usage: tailmetrics", "tailmetrics 0."))
    assert done.stdout.endswith("\n[]\n")


ASCII = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
"""An environment in which Python takes ASCII for the encoding of texts."""
COMMANDS_IN_FORKS = """
import gc, os, sys
from tailmetrics.cli import compare, evaluate, main, parser

parser._parser("evaluate")
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
            sys.stdout = None  # as Python begins where descriptor 1 is closed
        sys.argv = ["tailmetrics", *map(os.fsdecode, arguments)]
        sys.exit(main())
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture(scope="module")
def in_ascii(tmp_path_factory):
    """Return a function that runs the command line in a fork of a process that takes ASCII for the encoding of texts.

    It returns status, stdout and stderr. Stdout may go to another file, or be closed from the start (``None``).
    """
    folder = tmp_path_factory.mktemp("streams")
    stdout_path, stderr_path = folder / "out", folder / "err"
    stdout_path.touch()
    command = [sys.executable, "-c", COMMANDS_IN_FORKS]
    with subprocess.Popen(command, env=ASCII, stdin=-1, stdout=-1, text=True) as process:

        def run(*words, stdout=str(stdout_path)):
            process.stdin.write(f"{[*map(os.fsencode, words)], stdout, str(stderr_path)}\n")
            process.stdin.flush()
            status = int(process.stdout.readline())
            return status, stdout_path.read_bytes(), stderr_path.read_bytes()

        yield run


def test_no_letter_beyond_ascii_ends_a_command(in_ascii, tmp_path, write_files):
    """Configs are UTF-8 in any locale, and what a terminal cannot show is written by its number."""
    (tmp_path / "c.yaml").write_text("metrics: [{class_path: RecallAtK, init_args: {k: 1}}]\ntitle: é…\n", "utf-8")
    words = ["evaluate", "--config", tmp_path / "c.yaml", *write_files(preds=np.eye(8), target=np.arange(8)[::-1] // 4)]
    tables = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    status, out, err = in_ascii(*words, "--per-row", tables[0], "--out", tmp_path / "out", "--verbose")
    assert (status, b"\\xe9\\u2026" in out, b"\\xb1" in out) == (0, True, True), err
    assert (tmp_path / "out" / "report.md").read_text("utf-8").startswith("# é…\n")
    tables[1].write_bytes(tables[0].read_bytes())
    status, out, err = in_ascii("compare", *tables, "--resamples", "50")
    assert (status, b"recall@1" in out) == (0, True), err
    status, _, err = in_ascii(*words[:-1], tmp_path / "é.npy")
    assert status == 2
    assert re.search(b"error: .*npy: holds bytes that are no text in the encoding ascii\nhint: set PYTHONUTF8=1", err)


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="Linux has it")
def test_an_stdout_that_cannot_be_written_is_named(in_ascii, tmp_path, config, write_files):
    """The report is there by then: neither its path nor its disk is at fault."""
    words = ["evaluate", "--config", config(PRECISION), *write_files(preds=np.eye(8), target=np.arange(8))]
    status, _, err = in_ascii(*words, "--out", tmp_path / "out", stdout="/dev/full")
    assert (status, (tmp_path / "out" / "report.json").exists()) == (2, True)
    full = rb"\nerror: stdout cannot be written: No space left on device\nhint: send .*; written and complete: .*report"
    assert re.search(full, err)
    status, _, err = in_ascii(*words, stdout=None)
    assert status == 2
    assert re.search(rb"\nerror: stdout cannot be written: it is closed\nhint: send .*, or add --out FOLDER.", err)
    assert in_ascii(*words, "--quiet", stdout=None)[0] == 0


def test_an_argument_that_an_error_names_can_be_typed():
    """An option has the name of the argument, with an underscore or a hyphen."""
    words = ["--train_min_gain=2", "--missing=zero", "--batch-rows", "7", "--metrics+=MRR", "--metrics.min_gain=3"]
    request = parse(["evaluate", *words])
    assert (request.data.train_min_gain, request.data.missing, request.data.batch_rows) == (2.0, "zero", 7)
    assert request.metrics[0].min_gain == 3


@pytest.mark.parametrize(
    ("files", "options", "hint"),
    [
        ({"p.csv": "user,score\na,1\n"}, [], "hint: --columns.item NAME"),
        ({"p.csv": "query,qid,item,score\n"}, ["--columns.query", "x"], "hint: --preds-columns.query query or --preds-columns.query qid"),
        ({"p.csv": "uid,qid,item,score\na,a,x,1\n"}, [], "hint: --columns.query uid or --columns.query qid"),
        ({"p.csv": "query,item,score\na,x,1\na,x,2\n"}, [], "hint: duplicates='first' leaves the later one in its place"),
        ({"p.csv": "query,item,score\na,x,1\n"}, ["--num-labels", "3"], "hint: leave --num-labels out, so that items"),
        ({"p": "\x00\x01"}, [], "hint: --format NAME, one of csv, tsv, jsonl, json, parquet, arrow, trec, letor, xmc, npy, npz, pt, msmarco"),
        ({"y.csv": "query,item,gain\na,x,-1\n"}, [], "hint: gains are 0 or from 1e-30 to 1e+30: write 0 for"),
    ],
)  # fmt: skip
def test_hints_name_options(files, options, hint, config, tailmetrics, tmp_path):
    """A hint can be typed as it stands."""
    files = {"p.csv": "query,item,score\na,x,1\n", "y.csv": "query,item\na,x\n"} | files
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    words = ["--preds", tmp_path / ("p" if "p" in files else "p.csv"), "--target", tmp_path / "y.csv", *options]
    status, out, err = tailmetrics("evaluate", "--config", config(PRECISION), *words)
    assert (status, out) == (2, "")
    assert hint in err
    assert "Columns(" not in err


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["compare", "new.parquet", "--foo"], "hint: evaluate or compare --help lists the options"),
        (["compare", "none.parquet", "none.parquet", "--names", "a", "b"], "none.parquet: is no table of values per"),
        (
            ["evaluate", "--metrics+=TieRateAtK"],
            "--metrics+=TieRateAtK: lacks k\nhint: add --metrics.k=VALUE behind it.",
        ),
    ],
)
def test_words_that_do_not_fit(words, problem, tailmetrics, tmp_path, monkeypatch):
    """Of either command, and of a metric: what is wrong, and where the options are listed."""
    monkeypatch.chdir(tmp_path)
    pq.write_table(pa.table({}), "none.parquet")
    status, _, err = tailmetrics(*words)
    assert (status, problem in err) == (2, True)


MEANT = {
    ("evalute",): "evaluate",
    ("eval", "--preds", "p.npy"): "evaluate",
    ("--versoin",): "--version",
    ("evaluate", "--pred", "p.npy"): "--preds",
    ("evaluate", "--pred=p.npy", "--train-targets", "y.npy"): "--preds and --train-target",
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


@pytest.mark.parametrize("words", MEANT)
def test_the_word_that_was_meant_is_named(words, tailmetrics, tmp_path, monkeypatch):
    """Of commands, options, classes and their arguments, on the command line and in a config."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "class.yaml").write_text("metrics: [{class_path: NDGCAtK, init_args: {k: 5}}]\n")
    (tmp_path / "option.yaml").write_text("metric: [{class_path: NDCGAtK, init_args: {k: 5}}]\n")
    (tmp_path / "argument.yaml").write_text("metrics: [{class_path: NDCGAtK, init_args: {k: 5, bucket: deciles}}]\n")
    status, out, err = tailmetrics(*words)
    assert (status, out) == (2, "")
    assert f"\nhint: did you mean {MEANT[words]}? " in err
    assert not re.search("Parser key|class_path|import path|unrecognized", err)


@pytest.mark.parametrize(
    "words",
    [["zzz"], ["evaluate", "--foo", "-1"], ["evaluate", "--metrics+=Zzz"], ["evaluate", "--preset", "imagenet"]],
)
def test_no_word_is_named_that_is_far_from_what_stands_there(words, tailmetrics):
    """A guess that is far off would mislead."""
    status, _, err = tailmetrics(*words)
    assert (status, "did you mean" in err) == (2, False)


def test_readings_are_said_once(config, capsys, tmp_path):
    """How a file is read is one line on stderr, and the status is 0; comparisons do not repeat it."""
    (tmp_path / "p.csv").write_text("user_id,item_id,score\na,x,1\n")
    (tmp_path / "y.csv").write_text("user_id,item_id,rating,time\na,x,1,5\n")
    files = ["--preds", tmp_path / "p.csv", "--target", tmp_path / "y.csv", "--train-target", tmp_path / "y.csv"]
    table = tmp_path / "rows.parquet"
    status = main([*map(str, ["evaluate", "--config", config(BY_DECILE), *files, "--quiet", "--per-row", table])])
    err = capsys.readouterr().err
    assert (status, b"is the query" in pq.read_metadata(table).metadata[METADATA]) == (0, False)
    roles = "csv: 'user_id' is the query, 'item_id' is the item, '{}' is the {}"
    preds, target = roles.format("score", "score"), roles.format("rating", "gain") + "; not read: 'time'"
    assert [line for line in err.splitlines() if line.startswith("read: ")] == [
        f"read: {tmp_path / 'p.csv'}: {preds}",
        f"read: {tmp_path / 'y.csv'}: {target}",
    ]


def test_nothing_reaches_the_terminal_that_it_acts_upon(config, tailmetrics, tmp_path):
    """Escape codes in names of columns, items, files, folders and titles are spelled out; brackets are no markup."""
    bad = "\x1b[31m\x07"
    (tmp_path / "p.csv").write_text(f"query{bad},item,score\na,x,1\n")
    (tmp_path / "y.csv").write_text("query,item\na,x\n")
    words = ["--config", config(PRECISION), "--preds", tmp_path / "p.csv", "--target", tmp_path / "y.csv"]
    status, out, err = tailmetrics("evaluate", *words)
    assert status == 2
    assert r"query\x1b[31m\x07" in err
    assert "\x1b" not in out + err
    assert "\x1b" not in "".join(tailmetrics("evaluate", *words, "--out", f"{bad}\x00")[1:])
    (tmp_path / "p.csv").write_text("query,item,score\na,x,1\n")
    folder = tmp_path / f"[red]{bad}"
    status, out, err = tailmetrics("evaluate", *words, "--out", folder, "--title", f"[bold]of {bad}", "--quiet")
    assert (status, err) == (0, "")
    assert "\x1b" not in out
    assert "[red]\\x1b[31m\\x07" in out
    assert printable("Größe 模型 10 %") == "Größe 模型 10 %"


def test_where_files_wait_is_not_shown(tmp_path):
    """An error while files are written names where they will be."""
    path = tmp_path / ".tailmetrics-x1" / "rows.parquet"
    assert describe(OSError(f"[Errno 28] No space left on device: '{path}'"))[0].endswith(
        f"'{tmp_path / 'rows.parquet'}'"
    )


def test_no_error_is_long():
    """Problem and remedy of each kind of error have at most 400 letters together; the remedy is kept."""
    for error in (
        CommandError("a " * 900, "add --k."),
        ValueError(f"rank: {'a ' * 900}; add --k."),
        OSError("a " * 900),
    ):
        problem, hint = describe(error)
        assert len(problem) + len(hint) <= 400
        assert hint.endswith(".")


def test_an_error_while_writing(data_set, config, tailmetrics, tmp_path, monkeypatch):
    """A full disk under the table of values per row is an error that names the table."""

    def full(self, *_, **__):
        raise OSError(28, "No space left on device", str(self.where))

    monkeypatch.setattr(pq.ParquetWriter, "write_table", full)
    table = tmp_path / "rows.parquet"
    status, _, err = tailmetrics("evaluate", "--config", config(PRECISION), *data_set.options, "--per-row", table)
    assert (status, err.splitlines()[0]) == (2, f"error: {table}: No space left on device")
    assert [path.name for path in tmp_path.iterdir()] == ["config.yaml"]


OWN_FORMAT = """
from tailmetrics import PrecisionAtK
from tailmetrics.io import Format, register_format
from tailmetrics.io.arrays import NumpySource

def open_raw(opening):
    return NumpySource(opening)

register_format(Format(name="raw", content="an array", suffixes=(), opener=open_raw))

class Own(PrecisionAtK):
    "A metric."
"""


def test_a_format_of_ones_own_by_name(tailmetrics, tmp_path, monkeypatch):
    """A format registered by a module that the config names is known to --format and listed by its error."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "of_ones_own.py").write_text(OWN_FORMAT)
    for name, array in (("p", np.eye(3)), ("y", [0, 1, 1])):
        np.save(tmp_path / f"{name}.npy", array)
        (tmp_path / f"{name}.npy").rename(f"{name}.raw")
    (tmp_path / "c.yaml").write_text("metrics:\n  - class_path: of_ones_own.Own\n    init_args: {k: 1}\n")
    words = ["evaluate", "--config", "c.yaml", "--preds", "p.raw", "--target", "y.raw"]
    try:
        status, out, err = tailmetrics(*words, "--format", "raw")
        assert (status, err) == (0, "")
        assert "0.6667" in out
        assert "'raw'" in tailmetrics(*words, "--format", "rwa")[2]
    finally:
        FORMATS.pop("raw", None)
