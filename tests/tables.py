"""Tables of small data, written to files in each format that has columns."""

import json

import pandas as pd
import pyarrow as pa

SEPARATORS = {"csv": ",", "tsv": "\t"}
"""Format of text -> what separates the cells of a line."""


def objects_of(columns):
    """Return the lines of a table, one dict for each."""
    return [
        dict(zip(columns, row, strict=True))
        for row in zip(*columns.values(), strict=True)
    ]


def write_table(path, columns, form, list_separator=" "):
    """Write columns, a dict of lists, to a file; in text, a separator stands between
    the labels of a list.
    """
    frame = pd.DataFrame(columns)
    if form in SEPARATORS:
        for name, cells in columns.items():
            if isinstance(cells[0], list):
                frame[name] = [list_separator.join(map(str, cell)) for cell in cells]
        frame.to_csv(path, index=False, sep=SEPARATORS[form])
    elif form == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in objects_of(columns)))
    elif form == "json":
        path.write_text(json.dumps(objects_of(columns)))
    elif form == "parquet":
        frame.to_parquet(path)
    else:
        assert form == "arrow"
        table = pa.Table.from_pandas(frame)
        with pa.ipc.new_file(path, table.schema) as file:
            file.write_table(table)
