"""Training counts of the labels: given, loaded from a checkpoint, or counted."""

from __future__ import annotations

from pickle import UnpicklingError
from typing import Any
from warnings import warn

import numpy as np
import torch
from torch import Tensor

from tailmetrics._arguments import check_count, check_counts
from tailmetrics._number_of_labels import REMEDY_OF_METRICS, number_of_labels
from tailmetrics.buckets import LabelBuckets
from tailmetrics.collection import TopKCollection
from tailmetrics.evaluation.options import Options
from tailmetrics.frequency import LabelFrequency
from tailmetrics.lightning.counting import TargetPlace, count_labels


class TrainingLabels:
    """The training counts of a callback: given, loaded from a checkpoint, or counted.

    Args:
        collection: The metrics, which get buckets and counts from training counts.
        num_labels: L; None if the user does not give it.
        label_counts: Training counts, the path of their file, or None.
        num_train: Number of training rows behind ``label_counts``.
        train_target: The place of the target in a training batch.

    Attributes:
        frequency: The training counts; None until they are known.
        notes: Warnings about the counting, for the report.
    """

    def __init__(
        self,
        collection: TopKCollection,
        num_labels: int | None,
        label_counts: Any,
        num_train: int | None,
        train_target: TargetPlace,
    ) -> None:
        if num_labels is not None:
            check_count("HeadToTailReport", "num_labels", num_labels, minimum=0)
        if num_train is not None:
            check_count("HeadToTailReport", "num_train", num_train, minimum=0)
        self.collection = collection
        self.train_target = train_target
        self.frequency: LabelFrequency | None = None
        self.notes: tuple[str, ...] = ()
        self._were_counted = False
        self._loaded_state: dict[str, Any] = {}
        if label_counts is not None:
            if isinstance(label_counts, str):
                label_counts = read_counts(label_counts)
            label_counts = check_counts(
                "HeadToTailReport", "label_counts", label_counts
            )

        stated = {} if num_labels is None else {"num_labels": num_labels}
        stated |= Options(
            metrics=collection, label_counts=label_counts
        ).stated_numbers()
        self.num_labels = number_of_labels(
            "HeadToTailReport", {}, stated, REMEDY_OF_METRICS
        )
        self._source = next(iter(stated), "")
        if label_counts is not None:
            self._set_counts(label_counts, num_train)

    def ensure(self, trainer: Any, pl_module: Any, starts_fit: bool = False) -> bool:
        """Give the metrics buckets and counts; return whether this call set the counts.

        If the callback counted the labels before, it counts again when a fit starts:
        the fit may have other data.
        """
        if self._loaded_state and self.frequency is None:
            self._set_loaded_counts(trainer, pl_module)
            return True
        counts_again = starts_fit and self._were_counted
        if not counts_again and (
            self.frequency is not None or self.collection.is_bound
        ):
            return False

        num_labels, source = self._stated_num_labels(trainer, pl_module)
        if num_labels is None:
            raise ValueError(
                "HeadToTailReport: the number of labels is not known; pass "
                "num_labels=, or give the data module or "
                "the model an attribute num_labels."
            )
        counter, self.notes = count_labels(
            trainer, pl_module, self.collection, num_labels, source, self.train_target
        )
        self._set_counts(
            counter.compute().reshape(-1).cpu(), counter.num_rows, counts_again
        )
        self._were_counted = True
        if trainer.is_global_zero:
            for note in self.notes:
                warn(
                    f"HeadToTailReport: {note} label_counts= replaces what is counted.",
                    stacklevel=2,
                )
        return True

    def _set_loaded_counts(self, trainer: Any, pl_module: Any) -> None:
        counts = self._loaded_state["label_counts"]
        num_labels, source = self._stated_num_labels(trainer, pl_module)
        if num_labels not in (None, len(counts)):
            raise ValueError(
                "HeadToTailReport: the checkpoint holds training counts of "
                f"{len(counts)} labels, but there are {num_labels} by {source}; load "
                "the checkpoint with the model and data that it was made with, or "
                "start without it."
            )
        self._set_counts(counts, self._loaded_state["num_train"])

    def _set_counts(
        self, counts: Tensor, num_rows: int | None, binds_again: bool = False
    ) -> None:
        self.frequency = LabelFrequency.from_counts(counts, num_rows or 0)
        if self.collection.is_bound and not binds_again:
            return
        if not num_rows and bool(counts.any()):
            # leaves the number of rows open; a frequency says 0
            self.collection.bind(LabelBuckets.deciles(counts))
        else:
            self.collection.bind(self.frequency)

    # -- the number of labels ----------------------------------------------------------

    def _stated_num_labels(
        self, trainer: Any, pl_module: Any
    ) -> tuple[int | None, str]:
        """Return the number of labels and its source; None if nothing states it.

        Arguments come first, then the attribute ``num_labels`` of the data module, of
        the model and of its hparams.
        """
        if self.num_labels is not None:
            return self.num_labels, self._source
        hparams = getattr(pl_module, "hparams", None)
        owners = {
            "data module": getattr(trainer, "datamodule", None),
            "model": pl_module,
            "model's hparams": hparams,
        }
        for name, owner in owners.items():
            num_labels = getattr(owner, "num_labels", None)
            if num_labels is not None:
                source = f"num_labels of the {name}"
                return check_count("HeadToTailReport", source, num_labels), source
        return None, ""

    # -- checkpoints -------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the counts, so that a resumed run does not count again."""
        if self.frequency is None:
            return self._loaded_state
        return {
            "label_counts": self.frequency.counts.cpu(),
            "num_train": int(self.frequency.rows),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Store the counts of a checkpoint.

        :meth:`ensure` checks and uses them, unless counts are known already.
        """
        self._loaded_state = state


def read_counts(path: str) -> Any:
    """Read a file that ``numpy.save`` or ``torch.save`` wrote."""
    try:
        if path.endswith(".npy"):
            return np.load(path)
        return torch.load(path, weights_only=True)
    except (EOFError, RuntimeError, ValueError, UnpicklingError) as error:
        raise ValueError(
            f"HeadToTailReport: label_counts={path!r} is no file of an array or a "
            "tensor; pass the counts, or the path of a file that numpy.save (.npy) or "
            "torch.save wrote."
        ) from error
