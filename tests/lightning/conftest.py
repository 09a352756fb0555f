"""Pictures are left blank, because few tests look at them, and log messages are
recorded.
"""

import logging
from collections.abc import Iterator

import pytest

from pictures import most_pictures_blank as most_pictures_blank


class Recorder(logging.Handler):
    """A log handler that keeps the text of each message."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


@pytest.fixture
def log_messages() -> Iterator[list[str]]:
    """Return a list to which each logged message is added."""
    recorder = Recorder()
    loggers = [logging.getLogger()]  # all loggers that propagate reach it
    for logger in logging.getLogger().manager.loggerDict.values():
        if isinstance(logger, logging.Logger) and not logger.propagate:
            loggers.append(logger)
    for logger in loggers:
        logger.addHandler(recorder)
    yield recorder.messages
    for logger in loggers:
        logger.removeHandler(recorder)
