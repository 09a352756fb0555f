"""A metric or collection that is used in two stages brings a warning; in one stage it
brings none.
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning_toy import Trained
from numbered_rows import trainer
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from tailmetrics import LabelFrequency, PrecisionAtK, RecallAtK, TopKCollection

LABELS = 6
TEXT = "without a reset in between"


def loader() -> DataLoader[Any]:
    """Return three batches of four rows."""
    generator = torch.Generator().manual_seed(1)
    scores = torch.randn(12, LABELS, generator=generator)
    return DataLoader(TensorDataset(scores, torch.arange(12) % LABELS), 4)


def collection() -> TopKCollection:
    """Return a collection of several values."""
    return TopKCollection([PrecisionAtK(k=[1, 2]), RecallAtK(k=2)])


def metric() -> RecallAtK:
    """Return a metric of one value."""
    return RecallAtK(k=2)


class Model(Trained):
    """A model that updates and logs an object in each stage, which may be the same."""

    def __init__(
        self, train: Any, val: Any, training_mode: Callable[[], Any] = nullcontext
    ) -> None:
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
    texts += [
        str(warning.message) for warning in caught if TEXT in str(warning.message)
    ]


@pytest.mark.parametrize("inference_mode", [True, False])
@pytest.mark.parametrize("factory", [metric, collection])
def test_an_object_shared_by_two_stages_brings_one_warning(
    factory: Any, inference_mode: bool, tmp_path: Path
) -> None:
    """A metric or collection that is used for training and validation brings one
    warning in two epochs, which suggests ``clone`` with a prefix.
    """
    shared = factory()
    run = trainer(tmp_path, max_epochs=2, inference_mode=inference_mode)
    with warnings_of_stages() as texts:
        run.fit(Model(shared, shared), loader(), loader())
    (text,) = texts
    assert text.startswith(type(shared).__name__)
    assert "clone(prefix='val/')" in text


def test_a_shared_object_without_gradients_brings_one_warning(tmp_path: Path) -> None:
    """A shared object brings the warning also if the training step turns gradients off,
    because Lightning calls ``eval()`` for validation.
    """
    shared = collection()
    with warnings_of_stages() as texts:
        trainer(tmp_path).fit(Model(shared, shared, torch.no_grad), loader(), loader())
    assert len(texts) == 1


@pytest.mark.parametrize("training_mode", [nullcontext, torch.no_grad])
@pytest.mark.parametrize("factory", [metric, collection])
def test_objects_of_one_stage_bring_no_warning(
    factory: Any, training_mode: Any, tmp_path: Path
) -> None:
    """Objects that are used in one stage each bring no warning in fits of two epochs
    with a sanity check and a validation between them.
    """
    train = factory()
    val = (
        train.clone(prefix="val/")
        if isinstance(train, TopKCollection)
        else train.clone()
    )
    model = Model(train, val, training_mode)
    run = trainer(tmp_path, max_epochs=2, num_sanity_val_steps=2)
    with warnings_of_stages() as texts:
        run.fit(model, loader(), loader())
        run.validate(model, loader(), verbose=False)
        run.fit(model, loader(), loader())
    assert texts == []


@pytest.mark.parametrize("factory", [metric, collection])
@pytest.mark.parametrize("call", ["update", "forward"])
def test_a_custom_loop_brings_a_warning_only_without_resets(
    factory: Any, call: str
) -> None:
    """In a custom loop, an object that is reset between stages brings no warning;
    without a reset it brings one.
    """
    shared = factory()
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


def test_inference_mode_and_no_grad_count_as_one_stage() -> None:
    """Batches in inference mode and batches without gradients are of one stage and
    bring no warning.
    """
    shared = metric()
    batches = list(loader())
    with warnings_of_stages() as texts:
        for mode in (torch.inference_mode, torch.no_grad):
            with mode():
                shared.update(*batches[0])
    assert texts == []


def test_label_frequency_brings_no_warning_of_stages() -> None:
    """A LabelFrequency that counts with and without gradients brings no warning."""
    frequency = LabelFrequency(LABELS)
    with warnings_of_stages() as texts:
        frequency.update(torch.tensor([1]))
        with torch.no_grad():
            frequency.update(torch.tensor([2]))
    assert texts == []
