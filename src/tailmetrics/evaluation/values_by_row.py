"""Arguments with a value per row, such as ``row_groups``, in the order of the rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from torch import Tensor

from tailmetrics.evaluation.argument_forms import is_table
from tailmetrics.evaluation.data import Data
from tailmetrics.evaluation.options import CALLER
from tailmetrics.ranking._tensors import check_indexes


def values_by_row(
    values: Any, argument: str, data: Data, inputs: Mapping[str, Any]
) -> Any:
    """Return the values of an argument in the order of the rows.

    Args:
        values: A dict by query, a Series whose index names the queries, or values that
            are in the order of the rows; None is returned unchanged.
        argument: Name of the argument, for messages.
        data: The evaluated data.
        inputs: Predictions and targets by argument name. If neither is a table, queries
            have no names: a Series is then in the order of the rows, and its index has
            to be the index of the rows.

    Raises:
        TypeError: If ``values`` is a table.
        ValueError: If a query has two values, or none, which ``row_groups`` as a dict
            may lack for some queries; or if shape or index do not fit the rows.
    """
    if values is None:
        return None
    is_dict = isinstance(values, Mapping)
    if is_table(values) and not is_dict:
        raise TypeError(
            f"{CALLER}: {argument} is a table; pass one column of it, as a list by "
            "row or a dict by query."
        )
    # a column of Arrow, whose entries are no texts of Python
    if hasattr(values, "to_pylist"):
        values = values.to_pylist()
    if not is_dict and (data.tokens > 1 or getattr(values, "ndim", 1) > 1):
        return _values_by_token(values, argument, data)

    has_queries = any(map(is_table, inputs.values()))
    is_series = hasattr(values, "index") and hasattr(values, "items")
    if is_dict or (has_queries and is_series):
        return _values_by_query(values, argument, data)
    check_indexes(CALLER, {**inputs, argument: values})
    if has_queries and not data.has_one_order:
        raise ValueError(
            f"{CALLER}: {argument} is in the order of the rows, but preds and target "
            "name their queries in different orders; pass a dict by query, or a "
            "Series whose index names the queries."
        )
    return values


def _values_by_token(values: Any, argument: str, data: Data) -> Any:
    """Return values (B, T) or (B,) of tokens or sequences by row, shape (B * T,)."""
    if isinstance(values, Tensor):
        values = values.cpu()
    flat = np.asarray(values).reshape(-1)
    num_sequences = data.num_rows // data.tokens
    if data.tokens > 1 and len(flat) not in (data.num_rows, num_sequences):
        raise ValueError(
            f"{CALLER}: {argument} is of shape {list(np.shape(values))} for "
            f"{num_sequences:,} sequences of {data.tokens:,} tokens; pass one for each "
            "sequence, or for each token, padding included."
        )
    if len(flat) == data.num_rows:
        return flat
    return flat.repeat(data.tokens)


def _values_by_query(values: Any, argument: str, data: Data) -> list[Any]:
    """Return the value of each row's query, from a dict by query or a Series.

    The value is None for a query without a group.
    """
    value_of_query: dict[str, Any] = {}
    for query, value in values.items():
        if str(value_of_query.setdefault(str(query), value)) != str(value):
            raise ValueError(
                f"{CALLER}: {argument} has two values for the query {str(query)!r}; "
                "pass one for each."
            )

    names = _query_names(data)
    lacking = [name for name in names if name not in value_of_query]
    may_lack = (
        isinstance(values, Mapping)
        and argument == "row_groups"
        and len(lacking) < len(names)
    )
    if lacking and not may_lack:
        raise ValueError(
            f"{CALLER}: {argument} has no value for {len(lacking):,} of {len(names):,} "
            f"queries, such as {lacking[0]!r}; pass a dict by query, a Series whose "
            "index names the queries, or a list by row."
        )
    return list(map(value_of_query.get, names))


def _query_names(data: Data) -> list[str]:
    """Return the query of each row; row numbers if queries have no names."""
    return list(data.row_names or map(str, range(data.num_rows)))


def note_on_groups(row_groups: Any, data: Data) -> list[str]:
    """Return a note on queries that a dict of groups lacks.

    Their names may be spelled in another way.
    """
    if not isinstance(row_groups, Mapping):
        return []
    names = _query_names(data)
    lacking = set(names) - set(map(str, row_groups))
    if not lacking:
        return []
    problem = (
        f"row_groups lacks {len(lacking):,} of {len(names):,} queries, such as "
        f"{min(lacking)!r}"
    )
    return [f"{problem}: they count only overall."]
