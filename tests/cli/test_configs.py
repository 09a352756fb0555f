"""Options of a config and of the command line: the later one wins."""

import pytest

from tailmetrics.cli.messages import CommandError
from tailmetrics.cli.parser import parse


@pytest.fixture
def request_of(tmp_path):
    """Return a function that parses `evaluate --config` with a config of this text,
    followed by further options.
    """

    def request_of(text, *words, command="evaluate"):
        path = tmp_path / "config.yaml"
        path.write_text(text)
        return parse([command, "--config", str(path), *words])

    return request_of


@pytest.mark.parametrize(
    ("option", "opposite"),
    [
        ("intervals", "no_intervals"),
        ("no_intervals", "intervals"),
        ("no_rows", "per_row"),
    ],
)
def test_an_option_replaces_its_opposite_in_a_config(request_of, option, opposite):
    """An option on the command line replaces the opposite option in a config."""
    value = "rows.parquet" if opposite == "per_row" else "true"
    options = request_of(
        f"{opposite}: {value}\n", f"--{option.replace('_', '-')}"
    ).evaluation
    assert (getattr(options, option), getattr(options, opposite) or None) == (
        True,
        None,
    )


def test_verbose_and_quiet_replace_each_other(request_of):
    """--verbose replaces `quiet` in a config, and --quiet replaces `verbose`."""
    assert not request_of("quiet: true\n", "--verbose").output.quiet
    assert not request_of("verbose: true\n", "--quiet").output.verbose


@pytest.mark.parametrize(
    ("word", "value"),
    [("--quiet=false", False), ("--quiet=true", True), ("--quiet", True)],
)
def test_a_flag_may_have_a_value(request_of, word, value):
    """A flag may have a value: `--quiet=false` cancels `quiet: true` in a config."""
    assert request_of("quiet: true\n", word).output.quiet is value


def test_a_flag_that_is_false_replaces_nothing(request_of):
    """A flag that is false does not replace its opposite. A value other than true or
    false is refused.
    """
    assert request_of("intervals: true\n", "--no-intervals=false").evaluation.intervals
    with pytest.raises(CommandError, match="--quiet maybe: is not true or false"):
        request_of("", "--quiet=maybe")


def test_a_later_config_replaces_earlier_options(request_of, tmp_path):
    """Options are applied in the order of the command line, so that a later config
    replaces an earlier option.
    """
    path = tmp_path / "later.yaml"
    path.write_text("intervals: true\n")
    options = request_of("", "--no-intervals", "--config", str(path)).evaluation
    assert (options.intervals, options.no_intervals) == (True, False)


def test_paths_may_start_with_a_tilde(request_of, tmp_path, monkeypatch):
    """Paths of options and configs may start with ~, also in ``--target=~/y.csv``,
    which shells do not expand.

    Options that are no paths keep their text.
    """
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    (tmp_path / "later.yaml").write_text("title: ~/title\n")
    request = request_of(
        "out: ~/report\n", "--target=~/y.csv", "--preds", "a~", "--config=~/later.yaml"
    )
    assert [request.output.out, request.data.target] == [
        str(tmp_path / name) for name in ("report", "y.csv")
    ]
    assert [request.evaluation.preds, request.output.title] == ["a~", "~/title"]
    assert request_of(
        "", "--preds", "~/a", "b", command="compare"
    ).comparison.preds == [str(tmp_path / "a"), "b"]


def test_a_list_on_the_command_line_replaces_that_of_a_config(request_of):
    """A list on the command line replaces the list of a config, and repeated options
    extend it.
    """
    request = request_of(
        "only: [a, b]\n", "--only", "c", "--only", "d", command="compare"
    )
    assert request.comparison.only == ["c", "d"]


CUSTOM = """from tailmetrics.metrics import RowMeanMetric

class Custom(RowMeanMetric):
    def _row_value(self, ranks, k):
        {body}
"""
MODULES = {
    "def f(:\n": "mine.Custom: the import of mine raised SyntaxError: ",
    "import nosuchmodule\n": "mine.Custom: the module mine needs the package nosuchmodule",
    "1 / 0\n": "mine.Custom: the import of mine raised ZeroDivisionError: division by zero",
    CUSTOM.format(
        body="return {}['a']"
    ): "Custom: mine.py, line 5 raised KeyError: 'a'",
    CUSTOM.format(
        body="import nosuchmodule"
    ): "Custom: mine.py, line 5 raised ModuleNotFoundError: No module named 'nosuchm",
    CUSTOM.format(body="return ranks.hits_at(k)"): "Custom: _row_value returned",
    CUSTOM.format(body="return")
    + "    def __init__(self, k):\n        self.nothing\n": (
        "Custom: mine.py, line 7 raised AttributeError"
    ),
    None: "mine.Custom: there is no module mine",
}


@pytest.mark.parametrize("code", MODULES)
def test_an_error_in_a_custom_metric_names_file_and_line(
    tailmetrics, write_files, tmp_path, monkeypatch, code
):
    """An error in a custom metric ends the command with status 2 and one line, which
    names the class, the file and the line.
    """
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "mine", raising=False)
    if code is not None:
        (tmp_path / "mine.py").write_text(code)
    files = write_files(preds=[[0.1, 0.9], [0.2, 0.3]], target=[0, 1])
    status, _, err = tailmetrics(
        "evaluate", *files, "--metrics+=mine.Custom", "--metrics.k=1"
    )
    lines = err.splitlines()
    assert status == 2
    assert lines[-2].startswith(f"error: {MODULES[code]}")
    assert lines[-1].startswith("hint: ")
    if code is None:
        assert str(tmp_path) in lines[-1]
