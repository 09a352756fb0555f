"""Layer 0: the table of the parameters that several classes or functions take.

Signatures, defaults and help of the classes of metrics are made from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from textwrap import wrap
from types import MappingProxyType
from typing import Any, Final


@dataclass(frozen=True)
class SharedParameter:
    """A parameter that several classes or functions take by name.

    Attributes:
        name: Its name.
        type: Its type, as a signature writes it.
        default: Its default.
        text: What it means.
    """

    name: str
    type: str
    default: Any
    text: str

    def described(self) -> str:
        """Return the lines of the parameter for ``Args:``, not indented."""
        lines = wrap(
            f"{self.name}: {self.text}",
            width=116,
            initial_indent=" " * 4,
            subsequent_indent=" " * 8,
            break_long_words=False,
            break_on_hyphens=False,
        )
        return "\n".join(lines) + "\n"


SHARED_PARAMETERS: Final[Mapping[str, SharedParameter]] = MappingProxyType({
    parameter.name: parameter
    for parameter in (
        SharedParameter(
            "label_counts", "Any", None,
            (
"Shape (L,), training counts; if not given, taken from the buckets or "
                "from ``bind``."
),
        ),
        SharedParameter(
            "num_train", "int | None", None,
            "Number of training rows, at least 3; if not given, taken from ``bind``.",
        ),
        SharedParameter("a", "float | None", None, "A of the propensity model."),
        SharedParameter("b", "float | None", None, "B of the propensity model."),
        SharedParameter(
            "preset", "Preset", "default",
            (
'``"default"`` (.55, 1.5), ``"wikipedia"`` (.5, .4) or ``"amazon"`` '
                '(.6, 2.6) instead of a and b.'
),
        ),
        SharedParameter(
            "weights", "Any", None,
            (
"Shape (L,), the inverse propensities themselves, in [0, 2^32), "
                "instead of all that makes them."
),
        ),
        SharedParameter(
            "buckets", "Buckets | None", None,
            'Label buckets, or a text such as ``"deciles"``, ``"quantiles:5"`` or '
            '``"thresholds:1,5,100"``, from '
            "which :meth:`bind` makes the buckets.",
        ),
        SharedParameter(
            "scope", "Scope", "bucket",
            '``"bucket"`` reads the row\'s top ``depth`` list, keeps only the '
            'bucket\'s labels, and takes the top k of '
            'these. ``"global"`` takes the row\'s overall top k, in which only the '
            'bucket\'s labels count as relevant.',
        ),
        SharedParameter(
            "average", "Average", "samples",
            '``"samples"``, the mean over rows. Precision, recall and F1 also take '
            '``"micro"``, the ratio of the '
            'sums over all labels; ``"macro"``, the mean over labels; ``"weighted"``, '
            'that mean weighted by support; '
            '``"none"``, the value of each label, 0 for 0/0.',
        ),
        SharedParameter(
            "depth", "int", 500,
            (
'Number of labels of a list, best first, that ``scope="bucket"`` '
                'reads, and ``KForRecall`` always.'
),
        ),
        SharedParameter(
            "labels", "LabelSet", "present",
            'The labels over which ``average="macro"`` takes the mean: ``"present"``, '
            'those in the targets; '
            '``"union"``, those in the targets or the predictions; ``"all"``, '
            'all labels.',
        ),
        SharedParameter(
            "empty_target_action", "EmptyTargetAction | None", None,
            'Value of a row without a relevant label: ``"neg"`` is 0, ``"pos"`` is 1; '
            'with ``"skip"`` '
            'the row does not count; ``"error"`` raises an error. None means '
            '``"neg"`` overall, but ``"skip"`` for '
            '``CrossEntropy``; within buckets, None means ``"skip"`` for the mean '
            'over rows and '
            '``"neg"`` for averages over labels, in which every row counts.',
        ),
        SharedParameter(
            "ties", "Ties", "id",
            'How labels of equal score are ranked: ``"id"``, the lower id first, as '
            'in a list; ``"expected"``, the '
            'mean value over all orders of these labels; ``"worst"``, relevant labels '
            'last; ``"best"``, relevant '
            "labels first "
            "(for ``RelevanceAtK``, any other label at rank k, or a relevant "
            "label there).",
        ),
        SharedParameter(
            "min_gain", "float | None", None,
            "Smallest gain with which a label is relevant; None: every label with a "
            "gain above 0 is relevant. "
            "CG, DCG and nDCG keep all gains, as in trec_eval.",
        ),
        SharedParameter(
            "duplicates", "Duplicates", "error",
            'What happens if an id stands twice in a row of ``preds``: ``"error"`` '
            'raises an error; ``"first"`` '
            "counts the first place, and the later places are misses. They tie as other "
            "labels do, also with the first place.",
        ),
        SharedParameter(
            "ignore_index", "int | None", None,
            "An id in ``target`` that is no label, such as padding, or the -100 of "
            "language models. A row that holds nothing else does not count. In a list "
            "of ``preds`` such an id, from 0 on, is a miss.",
        ),
        SharedParameter(
            "num_labels", "int | None", None,
            (
"Number of labels L; needed only if neither the buckets nor "
                "``preds`` show it."
),
        ),
        SharedParameter(
            "row_groups", "Sequence[str] | None", None,
            "Names of groups of rows, such as languages. ``update`` then takes the "
            "group of each row, and each value is computed over all rows and over the "
            "rows of each group.",
        ),
        SharedParameter(
            "weighted", "bool", False,
            (
"Whether ``update`` takes a weight for each row; a mean over rows is "
                "then a weighted mean."
),
        ),
        SharedParameter("name", "str | None", None, (
"Key of the value in :meth:`scalars`, in place of the "
            "usual key."
)),
        SharedParameter(
            "validate_args", "bool", True,
            (
"False skips the checks of values in tensors, for which the CPU waits "
                "for the GPU."
),
        ),
    )
})  # fmt: skip
"""Every shared parameter by name, in the order of signatures."""
