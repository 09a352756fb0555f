"""Two processes that import the library once and then serve as ranks, or as workers that know nothing of one another."""

import io
import os
from contextlib import redirect_stderr, redirect_stdout

import pytest

import pictures
import processes


def run_as_rank(rank, port, folder, words):
    """Run the command line in a folder under the environment that torchrun gives; return status, stdout and stderr."""
    from tailmetrics.cli import main

    place = processes.as_rank(rank, port)
    os.environ.update(place)
    os.chdir(folder)
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), pytest.MonkeyPatch.context() as patched:
        pictures.leave_blank(patched)
        status = main(words)
    for name in place:
        del os.environ[name]
    return status, out.getvalue(), err.getvalue()


class Workers:
    """The pool; processes start with the first work."""

    def __init__(self) -> None:
        self.pool = processes.pool(2)

    def ranks(self, *words, folder=".", folders=None):
        """Run one command line on two ranks, in one folder or one for each; return status, stdout and stderr of each."""
        port = processes.free_port()
        words = [str(word) for word in words]
        places = map(str, folders or (folder, folder))
        work = [self.pool.submit(run_as_rank, rank, port, place, words) for rank, place in enumerate(places)]
        return processes.results(work)

    def map(self, function, arguments):
        """Return what a function gives for each tuple of arguments."""
        return processes.results([self.pool.submit(function, *some) for some in arguments])
