"""Runs write reports, of which few tests look at the picture."""

import logging
from collections.abc import Iterator

import pytest

from pictures import most_pictures_blank as most_pictures_blank


class Recorder(logging.Handler):
    """Keeps the text of each message."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


@pytest.fixture
def log_messages() -> Iterator[list[str]]:
    """Return a list that grows by each message that a library logs."""
    recorder = Recorder()
    loggers = [logging.getLogger()]  # reached by all loggers but those that do not pass on
    for logger in logging.getLogger().manager.loggerDict.values():
        if isinstance(logger, logging.Logger) and not logger.propagate:
            loggers.append(logger)
    for logger in loggers:
        logger.addHandler(recorder)
    yield recorder.messages
    for logger in loggers:
        logger.removeHandler(recorder)
