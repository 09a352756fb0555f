"""Fixtures of the command line: the data set, its files, and commands run in this
process.
"""

import json

import numpy as np
import pytest

from cli.long_tail import LongTailFiles
from pictures import most_pictures_blank as most_pictures_blank
from tailmetrics.cli import main
from written import comparisons_of


@pytest.fixture(scope="session")
def data_set(tmp_path_factory):
    """Return a data set in files, which tests do not change."""
    return LongTailFiles(tmp_path_factory.mktemp("made"))


@pytest.fixture
def config(tmp_path):
    """Return a function that writes a config of metrics, given as class name and
    arguments, and returns its path.
    """

    def config(*metrics, name="config.yaml"):
        path = tmp_path / name
        lines = [
            f"  - class_path: tailmetrics.{kind}\n    init_args: {arguments}\n"
            for kind, arguments in metrics
        ]
        path.write_text("metrics:\n" + "".join(lines))
        return str(path)

    return config


@pytest.fixture
def write_files(tmp_path):
    """Return a function that writes files, arrays as .npy and text as CSV, and returns
    the options that name them.
    """

    def write_files(**files):
        words = []
        for name, content in files.items():
            path = tmp_path / f"{name}.{'csv' if isinstance(content, str) else 'npy'}"
            path.write_text(content) if isinstance(content, str) else np.save(
                path, content
            )
            words += [f"--{name.replace('_', '-')}", path]
        return words

    return write_files


@pytest.fixture
def tailmetrics(capsys):
    """Return a function that runs the command line and returns exit status, stdout and
    stderr.
    """

    def run(*words):
        status = main([str(word) for word in words])
        out, err = capsys.readouterr()
        # leave out the warning of short lists, which all test data bring, and the line
        # for each file that is read
        lines = err.splitlines(keepends=True)
        lines_of_error = [
            line
            for line in lines
            if "lists end before" not in line and not line.startswith("read: ")
        ]
        return status, out, "".join(lines_of_error)

    return run


@pytest.fixture
def evaluated(tailmetrics, tmp_path):
    """Return a function that evaluates into the folder `out` and returns the report.

    The warnings printed must start with `warns`, one each, unless it is None.
    """

    def evaluated(*words, out="out", warns=None):
        status, _, err = tailmetrics(
            "evaluate", *words, "--quiet", "--overwrite", "--out", tmp_path / out
        )
        assert status == 0, err
        if warns is not None:
            printed = [
                line for line in err.splitlines() if not line.startswith("note: ")
            ]
            assert [
                line[: 9 + len(start)]
                for line, start in zip(printed, warns, strict=True)
            ] == [f"warning: {start}" for start in warns]
        return json.loads((tmp_path / out / "report.json").read_text())

    return evaluated


@pytest.fixture
def compared(tailmetrics, tmp_path):
    """Return a function that compares into the folder `out` and returns the comparisons
    by key.
    """

    def compared(*words, out="out"):
        status, _, err = tailmetrics(
            "compare", *words, "--quiet", "--overwrite", "--out", tmp_path / out
        )
        assert status == 0, err
        records = comparisons_of(
            json.loads((tmp_path / out / "compare.json").read_text())
        )
        return {record["key"]: record for record in records}

    return compared
