"""How often each label occurs in training: given, taken from a checkpoint, or counted."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from warnings import warn

import torch
from torch import Tensor

from tailmetrics._checks import check_count, check_counts
from tailmetrics.buckets import LabelBuckets
from tailmetrics.collection import TopKCollection
from tailmetrics.frequency import LabelFrequency, frequency_of
from tailmetrics.lightning._counting import count_labels
from tailmetrics.lightning._loaders import training_loaders
from tailmetrics.lightning._weakly import Weakly

CHECKPOINT = "the checkpoint"


class TrainingLabels:
    """The training counts of a callback, and what they come from.

    Args:
        collection: Metrics that the counts complete.
        num_labels: L, if the user says so.
        label_counts: Counts, if the user gives them, or the path of a file of them.
        num_train: Number of training rows that go with them.
        train_target: Where the target is in a training batch.
    """

    def __init__(
        self,
        collection: TopKCollection,
        num_labels: int | None,
        label_counts: Any,
        num_train: int | None,
        train_target: Any,
    ) -> None:
        self.collection, self.num_labels, self.train_target = collection, num_labels, train_target
        self.frequency: LabelFrequency | None = None
        self.source = ""
        self.notes: tuple[str, ...] = ()
        self._saved: dict[str, Any] = {}
        self._counted_for = Weakly()
        if label_counts is not None:
            counts = _read(label_counts) if isinstance(label_counts, str) else label_counts
            frequency = _frequency_of(check_counts("HeadToTailReport", "label_counts", counts), num_train)
            if num_labels not in (None, frequency.num_labels):
                raise ValueError(
                    f"HeadToTailReport: num_labels={num_labels}, but label_counts holds {frequency.num_labels} counts; "
                    "pass one per label, and leave num_labels out."
                )
            self._adopt(frequency, "label_counts")

    def ensure(self, trainer: Any, pl_module: Any, starts_fit: bool = False) -> bool:
        """Make sure that the metrics are bound; return whether they were bound anew.

        What was counted for the fit of another Trainer is counted again when a fit starts: it may have other data.
        """
        again = starts_fit and self._counted_for.is_other_than(trainer)
        if not again and (self.frequency is not None or (self.collection.is_bound and not self._saved)):
            return False
        if self._saved and not again:
            self._take_saved(trainer, pl_module)
            return True
        num_labels, source = self._find_num_labels(trainer, pl_module)
        loaders = training_loaders(trainer, pl_module)
        frequency, notes = count_labels(loaders, self.train_target, num_labels, source, trainer, pl_module.device)
        self._adopt(_frequency_of(frequency.compute().reshape(-1).cpu(), frequency.num_rows), source, again)
        self.notes, self._counted_for = tuple(notes), Weakly(trainer)
        for note in notes if trainer.is_global_zero else ():
            warn(f"HeadToTailReport: {note} label_counts= replaces what is counted.", stacklevel=2)
        return True

    def _adopt(self, frequency: LabelFrequency, source: str, again: bool = False) -> None:
        self.frequency, self.source = frequency, source
        if again or not self.collection.is_bound:
            # counts that were given without num_train: buckets know no number of rows, rather than none
            only_counts = not int(frequency.rows) and bool(frequency.counts.any())
            self.collection.bind(LabelBuckets.deciles(frequency.counts) if only_counts else frequency)

    # -- the number of labels -----------------------------------------------------------------------------------

    def _find_num_labels(self, trainer: Any, pl_module: Any) -> tuple[int, str]:
        """Return the number of labels, and what says so."""
        found = next(self._told(trainer, pl_module), None)
        if found is None:
            raise ValueError(
                "HeadToTailReport: the number of labels is not known; pass num_labels=, or give the data module or "
                "the model an attribute num_labels."
            )
        return found

    def _told(self, trainer: Any, pl_module: Any) -> Iterator[tuple[int, str]]:
        """Yield every number of labels that is told, with what tells it: what counts first comes first."""
        members = self.collection.members().values()
        told = [(self.num_labels, "num_labels")]
        told += [(metric.num_labels, f"num_labels of {type(metric).__name__}") for metric in members]
        owners = (getattr(trainer, "datamodule", None), pl_module, getattr(pl_module, "hparams", None))
        names = ("data module", "model", "model's hparams")
        told += [
            (getattr(owner, "num_labels", None), f"num_labels of the {name}")
            for owner, name in zip(owners, names, strict=True)
        ]
        for number, source in told:
            if number is not None:
                yield check_count("HeadToTailReport", source, number), source

    def check_width(self, preds: Tensor) -> None:
        """Name what the number of labels came from where scores have another."""
        known = None if self.frequency is None else self.frequency.num_labels
        if known is not None and preds.ndim == 2 and preds.is_floating_point() and preds.shape[1] != known:
            raise ValueError(
                f"HeadToTailReport: preds has {preds.shape[1]} columns, but there are {known} labels by "
                f"{self.source}; pass scores of all labels, or the number that there is."
            )

    # -- checkpoints --------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the counts, so that a resumed run does not count again."""
        if self.frequency is None:
            return self._saved
        return {"label_counts": self.frequency.counts.cpu(), "num_train": int(self.frequency.rows)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Keep the counts of a checkpoint until it is known who else tells the number of labels."""
        if "label_counts" not in state:
            return
        saved = {name: state[name] for name in ("label_counts", "num_train")}
        if self.frequency is None:
            self._saved = saved
        else:
            self._compare(saved["label_counts"])

    def _take_saved(self, trainer: Any, pl_module: Any) -> None:
        frequency = _frequency_of(self._saved["label_counts"], self._saved["num_train"])
        number, source = next(self._told(trainer, pl_module), (frequency.num_labels, ""))
        if number != frequency.num_labels:
            raise ValueError(_other_labels(frequency.num_labels, f"{source} is {number}"))
        self._saved = {}
        self._adopt(frequency, CHECKPOINT)

    def _compare(self, saved: Tensor) -> None:
        """Refuse, or warn of, counts that are not those of the run that goes on."""
        assert self.frequency is not None
        known = self.frequency.counts.cpu()
        if len(saved) != len(known):
            raise ValueError(_other_labels(len(saved), f"there are {len(known)} by {self.source}"))
        if not torch.equal(saved.cpu(), known):
            warn(
                "HeadToTailReport: the training counts of the checkpoint are not those that the callback has; it keeps "
                "its own, so that buckets may differ from those of the run that made the checkpoint.",
                stacklevel=2,
            )


def _read(path: str) -> Any:
    """Return the counts of a file."""
    try:
        return torch.load(path, weights_only=True)
    except Exception as error:  # whatever torch says of a file that is missing, or holds something else
        raise ValueError(
            f"HeadToTailReport: label_counts={path!r} cannot be read ({' '.join(str(error).split())[:100]}); save the "
            "counts with torch.save(counts, path), or pass the counts."
        ) from error


def _other_labels(saved: int, told: str) -> str:
    return (
        f"HeadToTailReport: the checkpoint holds training counts of {saved} labels, but {told}; load the checkpoint "
        "with the model and data that it was made with, or start without it."
    )


def _frequency_of(counts: Tensor, num_rows: int | None) -> LabelFrequency:
    return frequency_of(counts.to(torch.int64).reshape(-1), num_rows or 0)
