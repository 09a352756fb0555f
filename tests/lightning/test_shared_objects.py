"""One metric or collection in two stages is told once; in one stage it is not."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from counted import trainer
from lightning_toy import Trained
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from tailmetrics import LabelFrequency, PrecisionAtK, RecallAtK, TopKCollection

LABELS = 6
TEXT = "without a reset in between"


def loader() -> DataLoader[Any]:
    """Three batches of four rows."""
    generator = torch.Generator().manual_seed(1)
    scores = torch.randn(12, LABELS, generator=generator)
    return DataLoader(TensorDataset(scores, torch.arange(12) % LABELS), 4)


def collection() -> TopKCollection:
    """Several values."""
    return TopKCollection([PrecisionAtK(k=[1, 2]), RecallAtK(k=2)])


def metric() -> RecallAtK:
    """One value."""
    return RecallAtK(k=2)


class Model(Trained):
    """Updates and logs an object in each stage; by default one for both."""

    def __init__(self, train: Any, val: Any, training_mode: Callable[[], Any] = nullcontext) -> None:
        super().__init__()
        self.train_metrics, self.val_metrics = train, val
        self.training_mode = training_mode

    def add(self, metrics: Any, batch: Any, stage: str) -> None:
        metrics.update(*batch)
        if isinstance(metrics, TopKCollection):
            self.log_dict(metrics, on_step=False, on_epoch=True)
        else:
            self.log(f"{stage}/recall", metrics, on_step=False, on_epoch=True)

    def training_step(self, batch: Any) -> Tensor:
        with self.training_mode():
            self.add(self.train_metrics, batch, "train")
        return super().training_step(batch)

    def validation_step(self, batch: Any) -> None:
        self.add(self.val_metrics, batch, "val")


@contextmanager
def warnings_of_stages() -> Iterator[list[str]]:
    """Collect the warnings about two stages."""
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield texts
    texts += [str(warning.message) for warning in caught if TEXT in str(warning.message)]


@pytest.mark.parametrize("inference_mode", [True, False])
@pytest.mark.parametrize("make", [metric, collection])
def test_an_object_of_training_and_validation_is_told_once(make: Any, inference_mode: bool, tmp_path: Path) -> None:
    """Two epochs of three batches in each stage: one warning, which shows ``clone`` with a prefix."""
    shared = make()
    run = trainer(tmp_path, max_epochs=2, inference_mode=inference_mode)
    with warnings_of_stages() as texts:
        run.fit(Model(shared, shared), loader(), loader())
    (text,) = texts
    assert text.startswith(type(shared).__name__)
    assert "clone(prefix='val/')" in text


def test_training_without_gradients_differs_by_the_mode_of_the_model(tmp_path: Path) -> None:
    """A step that turns gradients off around its metrics is told, too: Lightning calls ``eval()`` for validation."""
    shared = collection()
    with warnings_of_stages() as texts:
        trainer(tmp_path).fit(Model(shared, shared, torch.no_grad), loader(), loader())
    assert len(texts) == 1


@pytest.mark.parametrize("training_mode", [nullcontext, torch.no_grad])
@pytest.mark.parametrize("make", [metric, collection])
def test_an_object_of_one_stage_is_quiet(make: Any, training_mode: Any, tmp_path: Path) -> None:
    """A fit of two epochs with a sanity check, a validation and a test between, with an object for each stage."""
    train = make()
    val = train.clone(prefix="val/") if isinstance(train, TopKCollection) else train.clone()
    model = Model(train, val, training_mode)
    run = trainer(tmp_path, max_epochs=2, num_sanity_val_steps=2)
    with warnings_of_stages() as texts:
        run.fit(model, loader(), loader())
        run.validate(model, loader(), verbose=False)
        run.fit(model, loader(), loader())
    assert texts == []


@pytest.mark.parametrize("make", [metric, collection])
@pytest.mark.parametrize("call", ["update", "forward"])
def test_a_loop_of_ones_own(make: Any, call: str) -> None:
    """With a reset between the stages it is quiet; without one it is told, once, and the values cover both."""
    shared = make()
    batches = list(loader())
    with warnings_of_stages() as texts:
        for _ in range(2):
            for batch in batches:
                getattr(shared, call)(*batch)
            shared.reset()
            with torch.no_grad():
                for batch in batches:
                    getattr(shared, call)(*batch)
            shared.reset()
    assert texts == []
    with warnings_of_stages() as texts:
        for _ in range(2):
            getattr(shared, call)(*batches[0])
            with torch.inference_mode():
                getattr(shared, call)(*batches[1])
    assert len(texts) == 1


def test_two_ways_to_evaluate_are_quiet() -> None:
    """Batches in inference mode and without gradients are of one evaluation."""
    shared = metric()
    batches = list(loader())
    with warnings_of_stages() as texts:
        for mode in (torch.inference_mode, torch.no_grad):
            with mode():
                shared.update(*batches[0])
    assert texts == []


def test_counts_of_labels_are_quiet() -> None:
    """A LabelFrequency counts in whatever mode the loop over the training data has."""
    frequency = LabelFrequency(LABELS)
    with warnings_of_stages() as texts:
        frequency.update(torch.tensor([1]))
        with torch.no_grad():
            frequency.update(torch.tensor([2]))
    assert texts == []
