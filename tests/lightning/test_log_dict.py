"""`self.metrics.update(…); self.log_dict(self.metrics)`, the idiom of Lightning, works
for any cut-offs and buckets.
"""

import pickle
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning_toy import Trained
from numbered_rows import trainer
from pytorch_lightning.loggers import CSVLogger
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

import tailmetrics
from tailmetrics import LabelFrequency, TopKCollection

pytestmark = pytest.mark.filterwarnings(
    "ignore:::pytorch_lightning", "ignore:::lightning"
)
LABELS, ROWS = 24, 30


def rows(seed: int, number: int = ROWS) -> TensorDataset:
    """Return scores as inputs and one label a row, with frequent and rare labels."""
    generator = torch.Generator().manual_seed(seed)
    target = (torch.rand(number, generator=generator) ** 2 * LABELS).long()
    return TensorDataset(torch.randn(number, LABELS, generator=generator), target)


def loader(seed: int = 0, number: int = ROWS) -> DataLoader[Any]:
    """Return batches of 8 rows."""
    return DataLoader(rows(seed, number), 8)


def collection(prefix: str = "val/") -> TopKCollection:
    """Return a collection of metrics with one value, with several cut-offs, with
    buckets and with both.
    """
    frequency = LabelFrequency(LABELS)
    frequency.update(rows(9, 300).tensors[1])
    metrics = [
        tailmetrics.MRR(),
        tailmetrics.PrecisionAtK(k=[1, 5]),
        tailmetrics.RecallAtK(k=[1, 10], buckets="deciles"),
        tailmetrics.KForRecall(0.8, buckets="deciles"),
        tailmetrics.CatalogCoverageAtK(k=5),
    ]
    return TopKCollection(metrics, prefix=prefix).bind(frequency)


def expected(*seeds: int, prefix: str = "val/", number: int = ROWS) -> dict[str, float]:
    """Return the values of plain PyTorch."""
    metrics = collection(prefix)
    for seed in seeds:
        metrics.update(*rows(seed, number).tensors)
    return {key: float(value) for key, value in metrics.compute().items()}


class Model(Trained):
    """A model whose scores are its inputs, and which logs as the documentation of
    TorchMetrics shows.
    """

    def __init__(self, **log_options: Any) -> None:
        super().__init__()
        self.metrics, self.log_options = collection(), log_options
        self.train_metrics = collection("train/")

    def training_step(self, batch: Any) -> Tensor:
        self.train_metrics.update(*batch)
        self.log_dict(self.train_metrics, on_step=False, on_epoch=True)
        return super().training_step(batch)

    def validation_step(
        self, batch: Any, batch_idx: int = 0, dataloader_idx: int = 0
    ) -> None:
        self.metrics.update(*batch)
        self.log_dict(self.metrics, on_step=False, on_epoch=True, **self.log_options)

    test_step = validation_step


def same(values: Any, expected_values: dict[str, float]) -> None:
    """Check that keys are equal, and values equal to float32."""
    assert set(values) == set(expected_values)
    for key, value in expected_values.items():
        assert float(values[key]) == pytest.approx(value, rel=2**-23, nan_ok=True), key


def test_each_scalar_is_logged_under_its_key(tmp_path: Path) -> None:
    """Each value of a collection is logged under its key in a fit with a sanity check
    and two epochs, beside a collection for training, and is returned by validate and
    test.
    """
    run = trainer(
        tmp_path, max_epochs=2, num_sanity_val_steps=2, logger=CSVLogger(tmp_path)
    )
    model = Model()
    run.fit(model, loader(seed=3), loader())
    same(run.callback_metrics, expected(0) | expected(3, prefix="train/"))
    (returned,) = run.validate(model, loader(seed=1), verbose=False)
    same(returned, expected(1))
    same(run.test(model, loader(seed=2), verbose=False)[0], expected(2))


def test_each_validation_starts_without_earlier_rows(tmp_path: Path) -> None:
    """A validation after a fit, and each further one, has the values of its own rows
    only.
    """
    model, run = Model(), trainer(tmp_path)
    run.fit(model, loader(), loader(seed=4))
    for seed in (5, 5, 6):
        same(run.validate(model, loader(seed), verbose=False)[0], expected(seed))


@pytest.mark.parametrize("number", [1, 2, 3])
def test_each_loader_has_its_own_values(number: int, tmp_path: Path) -> None:
    """A collection that is logged for several loaders has the values of each loader
    under the keys of Lightning.
    """
    run = trainer(tmp_path)
    returned = run.validate(
        Model(), [loader(seed) for seed in range(number)], verbose=False
    )
    for seed, values in enumerate(returned):
        suffix = f"/dataloader_idx_{seed}" if number > 1 else ""
        same(values, {f"{key}{suffix}": value for key, value in expected(seed).items()})


def test_values_are_computed_and_reset_once_an_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A collection of 37 values is computed once and reset once an epoch, not once for
    each value.
    """
    calls = {"compute": 0, "reset": 0}

    def counted(name: str) -> None:
        original = getattr(TopKCollection, name)

        def method(self: Any, *args: Any) -> Any:
            calls[name] += 1
            return original(self, *args)

        monkeypatch.setattr(TopKCollection, name, method)

    counted("compute"), counted("reset")
    model, run = Model(), trainer(tmp_path)
    assert len(model.metrics.compute()) == 1 + 2 + 2 * 11 + 11 + 1
    calls.update(compute=0)
    run.validate(model, loader(), verbose=False)
    assert calls == {"compute": 1, "reset": 1}
    run.validate(model, loader(), verbose=False)
    assert calls == {"compute": 2, "reset": 2}


def test_forward_logs_the_values_of_each_batch(tmp_path: Path) -> None:
    """With forward and on_step=True the values of each batch are logged, and with
    on_epoch=True those of all rows, under the names of Lightning.
    """

    class Stepping(Model):
        def training_step(self, batch: Any) -> Tensor:
            self.train_metrics(*batch)
            self.log_dict(self.train_metrics, on_step=True, on_epoch=True)
            return (self.weight - 1) ** 2

        def on_train_batch_end(self, outputs: Any, batch: Any, batch_idx: int) -> None:
            batch_metrics = collection("train/")
            batch_metrics.update(*batch)
            expected_values = {
                f"{key}_step": float(value)
                for key, value in batch_metrics.compute().items()
            }
            same(
                {key: self.trainer.logged_metrics[key] for key in expected_values},
                expected_values,
            )

    run = trainer(tmp_path)
    run.fit(Stepping(), loader())
    expected_values = {
        f"{key}_epoch": value for key, value in expected(0, prefix="train/").items()
    }
    same(
        {
            key: value
            for key, value in run.callback_metrics.items()
            if key.endswith("_epoch")
        },
        expected_values,
    )


def test_a_metric_logged_before_does_not_hide_the_collection(tmp_path: Path) -> None:
    """A collection is logged correctly also if the step logs a single metric first, at
    which Lightning collects the metrics of all modules.
    """

    class First(Model):
        def __init__(self) -> None:
            super().__init__()
            self.mrr = tailmetrics.MRR()

        def validation_step(self, batch: Any) -> None:
            self.mrr.update(*batch)
            self.log("val/alone", self.mrr)
            super().validation_step(batch)

    run = trainer(tmp_path)
    expected_values = expected(0)
    same(
        run.validate(First(), loader(), verbose=False)[0],
        expected_values | {"val/alone": expected_values["val/mrr"]},
    )


class Logging(Trained):
    """A model that logs one metric as the documentation of TorchMetrics shows, by
    update or by forward.
    """

    def __init__(self, metric: Any, forward: bool = False, **log_options: Any) -> None:
        super().__init__()
        self.metric, self.forward_it, self.log_options = metric, forward, log_options

    def validation_step(
        self, batch: Any, batch_idx: int = 0, dataloader_idx: int = 0
    ) -> None:
        (self.metric if self.forward_it else self.metric.update)(*batch)
        self.log("r", self.metric, **self.log_options)


@pytest.mark.parametrize("forward", [False, True])
@pytest.mark.parametrize("number", [1, 2, 3])
def test_a_logged_metric_has_a_value_for_each_loader(
    number: int, forward: bool, tmp_path: Path
) -> None:
    """A metric that is logged for several loaders has a value for each loader and each
    epoch.

    After that, compute() between updates continues with all rows.
    """
    metric, run = tailmetrics.RecallAtK(k=3), trainer(tmp_path)
    for first in (0, 5):
        loaders = [loader(seed) for seed in range(first, first + number)]
        returned = run.validate(Logging(metric, forward), loaders, verbose=False)
        for seed, values in zip(range(first, first + number), returned, strict=True):
            loader_metric = tailmetrics.RecallAtK(k=3)
            loader_metric.update(*rows(seed).tensors)
            same(
                values,
                {
                    f"r/dataloader_idx_{seed - first}" if number > 1 else "r": float(
                        loader_metric.compute()
                    )
                },
            )
    metric_of_all_rows = tailmetrics.RecallAtK(k=3)
    for seed in (0, 1):
        metric.update(*rows(seed).tensors)
        metric_of_all_rows.update(*rows(seed).tensors)
        assert float(metric.compute()) == float(metric_of_all_rows.compute())
    assert metric.update_count == 2


def test_a_logged_sum_of_metrics_has_a_value_for_each_loader(tmp_path: Path) -> None:
    """A sum of two metrics, logged for two loaders, has for each the sum of the values
    that the metrics have there.
    """
    metrics = tailmetrics.RecallAtK(k=3), tailmetrics.PrecisionAtK(k=3)
    logged = Logging(metrics[0] + metrics[1])
    run = trainer(tmp_path)
    seeds = 3, 6  # of different values
    returned = run.validate(logged, [loader(seed) for seed in seeds], verbose=False)
    for number, (seed, values) in enumerate(zip(seeds, returned, strict=True)):
        batch = rows(seed).tensors
        total = sum(float(metric.clone()(*batch)) for metric in metrics)
        same(values, {f"r/dataloader_idx_{number}": total})


def test_a_refused_batch_does_not_reset_a_logged_metric(tmp_path: Path) -> None:
    """A batch that a logged metric refuses leaves the rows of the previous loader; the
    next valid batch replaces them.
    """
    metric = tailmetrics.RecallAtK(k=3)
    trainer(tmp_path).validate(Logging(metric), loader(0), verbose=False)
    metric.update(*rows(0).tensors)
    vars(metric)["_was_logged"] = True
    before = float(metric.compute()), metric.update_count
    for call in (metric.update, metric):
        with pytest.raises(ValueError, match="NaN"):
            call(torch.full((1, LABELS), torch.nan), torch.tensor([0]))
        assert (float(metric.compute()), metric.update_count) == before
    metric.update(*rows(1).tensors)
    assert metric.update_count == 1


@pytest.mark.parametrize(
    "log",
    [{}, {"on_step": True}, {"on_step": True, "on_epoch": False, "prog_bar": True}],
    ids=str,
)
@pytest.mark.parametrize("forward", [False, True])
def test_self_log_refuses_a_metric_of_several_values(
    log: dict[str, Any], forward: bool, tmp_path: Path
) -> None:
    """self.log refuses a metric of several values at the first step, and the error
    gives their number and names TopKCollection.
    """
    metrics_of_several_values = (
        tailmetrics.PrecisionAtK(k=[1, 5]),
        tailmetrics.RecallAtK(k=1, average="none", num_labels=LABELS),
    )
    for metric, number in zip(
        metrics_of_several_values, ("2", "one for each label"), strict=True
    ):
        words = rf"{type(metric).__name__}: self.log takes one value, and this metric has {number}; .*TopKCollection"
        with pytest.raises(ValueError, match=words):
            trainer(tmp_path).validate(
                Logging(metric, forward, **log), loader(), verbose=False
            )


def test_copies_of_a_collection_have_their_own_scalars() -> None:
    """Copies by clone, deepcopy and pickle have scalars with the keys of their prefix
    and the values of their own rows.
    """
    first = collection()
    list(first.items(copy_state=False))
    first.update(*rows(0).tensors)
    copies = [
        first.clone(prefix="test/"),
        deepcopy(first),
        pickle.loads(pickle.dumps(first)),
    ]
    first.update(*rows(1).tensors)
    for copy, prefix in zip(copies, ("test/", "val/", "val/"), strict=True):
        values = {key: scalar.compute() for key, scalar in copy.items(copy_state=False)}
        same(values, expected(0, prefix=prefix))
        assert {id(scalar) for _, scalar in copy.items(copy_state=False)} <= {
            id(module) for module in copy.modules()
        }
    same(
        {key: scalar.compute() for key, scalar in first.items(copy_state=False)},
        expected(0, 1),
    )


def test_scalars_add_no_state_or_children_to_a_collection() -> None:
    """The scalars that Lightning logs add no entry to the state_dict, no child and no
    state to a collection, and its members keep their names.
    """
    first, second = collection(), collection()
    list(first.items(copy_state=False))
    first.persistent(True), second.persistent(True)
    assert list(first.state_dict()) == list(second.state_dict())
    assert [name for name, _ in first.named_children()] == list(first.members())
    assert dict(first.items(keep_base=True)) == first.members()
    assert [name for name, _ in first.items()] == list(first.compute())
    assert [name for name, _ in first.items(keep_base=True)] == list(first.members())
    assert list(first.metric_state) == list(first.keys())


def test_scalars_follow_updates_and_resets_of_members() -> None:
    """The scalars follow updates and resets of the collection and of its members, also
    of a member that keeps no cache.
    """
    metrics = TopKCollection(
        [
            tailmetrics.RecallAtK(k=1),
            tailmetrics.RecallAtK(k=2, compute_with_cache=False),
        ]
    )
    scalars = dict(metrics.items(copy_state=False))

    def logged_by_epoch() -> list[float]:
        return [float(scalar.compute()) for scalar in scalars.values()]

    scores, hit, miss = (
        torch.tensor([[3.0, 2.0, 1.0]]),
        torch.tensor([0]),
        torch.tensor([1]),
    )
    metrics.update(scores, hit)
    assert logged_by_epoch() == [1.0, 1.0]
    metrics.update(scores, miss)  # values were computed, so that a new epoch starts
    assert logged_by_epoch() == [0.0, 1.0]
    for metric in metrics.members().values():
        metric.update(scores, hit)
    assert logged_by_epoch() == [0.5, 1.0]
    for metric in metrics.members().values():
        metric.reset()
        metric.update(scores, torch.tensor([2]))
        metric.update(scores, torch.tensor([2]))
    assert logged_by_epoch() == [0.0, 0.0]
    for scalar in scalars.values():
        scalar.reset()
    assert not any(metric.update_called for metric in metrics.members().values())
    metrics.update(scores, hit)
    assert logged_by_epoch() == [1.0, 1.0]


def test_a_scalar_of_a_collection_refuses_updates() -> None:
    """A scalar of a collection refuses update, and the error names the collection."""
    ((_, scalar),) = TopKCollection([tailmetrics.RecallAtK(k=1)]).items(
        copy_state=False
    )
    with pytest.raises(
        TypeError,
        match="TopKCollection: a single value of it takes no batches; update the collection",
    ):
        scalar.update(1, 2)
