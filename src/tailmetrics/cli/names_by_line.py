"""Text files with one name on each line: the label, or the row, of the same number."""

from __future__ import annotations

from tailmetrics.io import DataFileError
from tailmetrics.io.errors import reading
from tailmetrics.io.files import check_file, stream


def read_names(path: str, hint: str) -> list[str]:
    """Return the lines of a text file, compressed or not, without the blanks around them; an empty line is "".

    Only a line feed ends a line: other characters that Unicode calls line ends may be part of a name.

    Raises:
        DataFileError: If it is no file, or no text in UTF-8; ``hint`` says what to write.
    """
    file = check_file(path)
    with reading(file, "text"), stream(file) as opened:
        content = bytes(opened.read())
    try:
        lines = content.decode("utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise DataFileError(file, "is no text", hint=hint) from error
    return [line.strip() for line in (lines if lines[-1] else lines[:-1])]
