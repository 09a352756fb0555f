"""Options of a config and of the command line: the later one wins, whatever the kind of the option."""

import pytest

from tailmetrics.cli.messages import CommandError
from tailmetrics.cli.parser import parse


@pytest.fixture
def request_of(tmp_path):
    """Return a function that parses ``evaluate --config`` of a text, with further words behind it."""

    def request_of(text, *words, command="evaluate"):
        path = tmp_path / "config.yaml"
        path.write_text(text)
        return parse([command, "--config", str(path), *words])

    return request_of


@pytest.mark.parametrize(
    ("option", "opposite"), [("intervals", "no_intervals"), ("no_intervals", "intervals"), ("no_rows", "per_row")]
)
def test_an_option_replaces_its_opposite_in_a_config(request_of, option, opposite):
    """The command line says the opposite of the config, which then does not hold."""
    value = "rows.parquet" if opposite == "per_row" else "true"
    options = request_of(f"{opposite}: {value}\n", f"--{option.replace('_', '-')}").evaluation
    assert (getattr(options, option), getattr(options, opposite) or None) == (True, None)


def test_verbose_and_quiet(request_of):
    """Either one wins over the other in a config."""
    assert not request_of("quiet: true\n", "--verbose").output.quiet
    assert not request_of("verbose: true\n", "--quiet").output.verbose


@pytest.mark.parametrize(("word", "value"), [("--quiet=false", False), ("--quiet=true", True), ("--quiet", True)])
def test_a_flag_with_a_value(request_of, word, value):
    """``--quiet=false`` takes back what a config says."""
    assert request_of("quiet: true\n", word).output.quiet is value


def test_a_flag_that_is_false_replaces_nothing(request_of):
    """The opposite of what is false stays."""
    assert request_of("intervals: true\n", "--no-intervals=false").evaluation.intervals
    with pytest.raises(CommandError, match="--quiet maybe: is not true or false"):
        request_of("", "--quiet=maybe")


def test_a_later_config_replaces_the_command_line(request_of, tmp_path):
    """Options are set in the order in which they are written."""
    path = tmp_path / "later.yaml"
    path.write_text("intervals: true\n")
    options = request_of("", "--no-intervals", "--config", str(path)).evaluation
    assert (options.intervals, options.no_intervals) == (True, False)


def test_a_path_may_begin_with_the_home_folder(request_of, tmp_path, monkeypatch):
    """Of a config, and of ``--target=~/y.csv``, which shells leave as it is; other options keep their text."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    (tmp_path / "later.yaml").write_text("title: ~/title\n")
    request = request_of("out: ~/report\n", "--target=~/y.csv", "--preds", "a~", "--config=~/later.yaml")
    assert [request.output.out, request.data.target] == [str(tmp_path / name) for name in ("report", "y.csv")]
    assert [request.evaluation.preds, request.output.title] == ["a~", "~/title"]
    assert request_of("", "--preds", "~/a", "b", command="compare").comparison.preds == [str(tmp_path / "a"), "b"]


def test_a_list_on_the_command_line_replaces_that_of_a_config(request_of):
    """Values of the command line are added to each other alone."""
    request = request_of("only: [a, b]\n", "--only", "c", "--only", "d", command="compare")
    assert request.comparison.only == ["c", "d"]


OWN = """from tailmetrics.metrics import RowMeanMetric

class Own(RowMeanMetric):
    def _row_value(self, ranks, k):
        {body}
"""
MODULES = {
    "def f(:\n": "mine.Own: the import of mine raised SyntaxError: ",
    "import nosuchmodule\n": "mine.Own: the module mine needs the package nosuchmodule",
    "1 / 0\n": "mine.Own: the import of mine raised ZeroDivisionError: division by zero",
    OWN.format(body="return {}['a']"): "Own: mine.py, line 5 raised KeyError: 'a'",
    OWN.format(body="import nosuchmodule"): "Own: mine.py, line 5 raised ModuleNotFoundError: No module named 'nosuchm",
    OWN.format(body="return ranks.hits_at(k)"): "Own: _row_value returned",
    OWN.format(body="return") + "    def __init__(self, k):\n        self.nothing\n": (
        "Own: mine.py, line 7 raised AttributeError"
    ),
    None: "mine.Own: there is no module mine",
}


@pytest.mark.parametrize("code", MODULES)
def test_an_error_of_a_metric_of_the_user(tailmetrics, write_files, tmp_path, monkeypatch, code):
    """One line says whose error it is and where, and the exit status is 2."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(__import__("sys").modules, "mine", raising=False)
    if code is not None:
        (tmp_path / "mine.py").write_text(code)
    files = write_files(preds=[[0.1, 0.9], [0.2, 0.3]], target=[0, 1])
    status, _, err = tailmetrics("evaluate", *files, "--metrics+=mine.Own", "--metrics.k=1")
    lines = err.splitlines()
    assert status == 2
    assert lines[-2].startswith(f"error: {MODULES[code]}")
    assert lines[-1].startswith("hint: ")
    if code is None:
        assert str(tmp_path) in lines[-1]
