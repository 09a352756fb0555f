"""The arguments of an update, and the settings with which they are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from torch import Tensor
from typing_extensions import TypedDict

from tailmetrics._arguments import check_choice, check_count
from tailmetrics._parameters import SHARED_PARAMETERS
from tailmetrics.ranking._kernels import PLAIN, Kernels

Duplicates: TypeAlias = Literal["error", "first"]


class BatchArguments(TypedDict, total=False):
    """Keyword arguments of every metric that say how a batch is read.

    ``SHARED_PARAMETERS`` describes them.
    """

    duplicates: Duplicates
    ignore_index: int | None


BATCH_DEFAULTS: Final[Mapping[str, Any]] = {
    name: SHARED_PARAMETERS[name].default for name in ("duplicates", "ignore_index")
}
"""Every argument of :class:`BatchArguments` with its default."""


def check_batch_argument(caller: str, name: str, value: Any) -> Any:
    """Return an argument of :class:`BatchArguments` after a check."""
    if name == "duplicates":
        return check_choice(caller, name, value, Duplicates)
    if value is None:
        return None
    return check_count(caller, name, value, -(2**62))


ROW_ARGUMENTS = ("row_mask", "row_groups", "row_weights")

OPTIONAL_ARGUMENTS = (*ROW_ARGUMENTS, "indexes", "ids")
"""All arguments but ``preds`` and ``target``. Most batches have none of them."""


@dataclass(eq=False)
class Context:
    """The settings with which one batch is read; each batch gets a new context.

    Attributes:
        caller: The name that errors begin with.
        num_labels: L; None as long as it is unknown.
        validate: Whether values are checked; the checks make a GPU wait.
        duplicates: ``"error"`` refuses an id that stands twice in a row of preds;
            ``"first"`` counts its later places as misses.
        ignore_index: The label of target ids that is none, such as padding; None if all
            are labels.
        warns: Whether to warn if the values look like another form than the one that
            was guessed, such as ranks. True for a first batch.
        is_offline: Whether an evaluation reads the batch. It looks for padding even if
            values are not checked.
        kind: What ``preds`` must be, ``"scores"`` or ``"ids"``; None for either.
        counts_repeats: Whether a label may stand twice in a row of target ids, as in
            training data, where labels are counted.
        has_documents: Whether the rows are made of flat queries. A label may then stand
            twice in a row of the target.
        has_tokens: Whether preds and target are ids of one shape, as predicted and true
            labels of tokens are.
        row_mask: Shape (N,), bool: the rows that count; None for all.
        kernels: The kernels that read the batch.
        notes: The warnings about the batch that were issued.
    """

    caller: str
    num_labels: int | None = None
    validate: bool = True
    duplicates: Duplicates = "error"
    ignore_index: int | None = None
    warns: bool = False
    is_offline: bool = False
    kind: Literal["scores", "ids"] | None = None
    counts_repeats: bool = False
    has_documents: bool = False
    has_tokens: bool = False
    row_mask: Tensor | None = None
    kernels: Kernels = PLAIN
    notes: list[str] = field(default_factory=list)

    @classmethod
    def for_call(
        cls,
        caller: str,
        num_labels: Any,
        validate: bool,
        duplicates: Any,
        ignore_index: Any = None,
        **settings: Any,
    ) -> Context:
        """Return the settings of a call of a public function, after checks.

        A metric checks its settings when it is made.
        """
        if num_labels is not None:
            check_count(caller, "num_labels", num_labels)
        check_batch_argument(caller, "duplicates", duplicates)
        check_batch_argument(caller, "ignore_index", ignore_index)
        return cls(caller, num_labels, validate, duplicates, ignore_index, **settings)

    def counted(self, ids: Tensor) -> Tensor:
        """Return ``ids`` (N, K) with -1 in the rows that do not count."""
        return ids if self.row_mask is None else ids.where(self.row_mask[:, None], -1)


@dataclass(eq=False)
class Batch:
    """The arguments of an update, first as the caller passed them.

    :func:`as_tensors` and :func:`as_rows` turn them into tensors with one axis of rows.

    Attributes:
        preds: Scores, ids or CSR; or a pair of scores and ids.
        target: The relevant labels, in any form.
        row_mask: The rows that count, bool; None for all.
        row_groups: The row group of each row.
        row_weights: The weight of each row.
        indexes: The query of each document; only for flat queries.
        ids: The label of each document; only for flat queries.
        form: The form of ``target``: ``"target_ids"``, ``"target_mask"`` or
            ``"target_gains"``; ``"target"`` if the form follows from its type and
            shape; ``"ids"`` for the labels of documents.
        gains: The gains of a target of ids; None if all are 1.
        has_names: Whether labels have names, so that ids are places of names and
            nothing that could be numbers.
        tokens: The number of rows of each sequence (B, T, ...); 1 for rows that are no
            tokens.
        queries: Shape (N,): the index of the query of each row; None if the rows are
            not made of flat queries.
        num_documents: Shape (N,): the number of documents of each query, if they have
            no labels.
        documents: Scores and gains of the documents that count, shape (n,) each.
    """

    preds: Any
    target: Any = None
    row_mask: Any = None
    row_groups: Any = None
    row_weights: Any = None
    indexes: Any = None
    ids: Any = None
    form: str = "target"
    gains: Tensor | None = None
    has_names: bool = False
    tokens: int = 1
    queries: Tensor | None = None
    num_documents: Tensor | None = None
    documents: tuple[Tensor, Tensor] | None = None


@dataclass(frozen=True)
class ExplicitTarget:
    """The target in an explicit form: ids, a mask, gains, or ids with gains.

    The other attributes are None.
    """

    ids: Any = None
    mask: Any = None
    gains: Any = None
