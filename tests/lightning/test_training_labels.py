"""Training labels are counted over what the loaders show, by their workers, and without a trace in the run."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from counted import ROWS, Given, Model, Numbered, Stream, callback, counted, each_of, loader, trainer
from pytorch_lightning import seed_everything
from pytorch_lightning.callbacks import EarlyStopping
from pytorch_lightning.utilities import CombinedLoader
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    RandomSampler,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

from tailmetrics import RecallAtK

ALL = each_of(*range(ROWS))
HELD_IN = range(15)
pytestmark = pytest.mark.filterwarnings(
    "ignore:::pytorch_lightning",
    "ignore:::lightning",
    "ignore:HeadToTailReport. labels are counted over the rows that (Given|list|Shuffled|Weighted|limit_|max_|the Comb)",
)


@pytest.mark.filterwarnings("ignore:HeadToTailReport. labels are counted over the rows that drop_last:UserWarning")
@pytest.mark.parametrize(
    ("arguments", "rows"),
    [
        ({}, range(ROWS)),
        ({"shuffle": True}, range(ROWS)),
        ({"sampler": SubsetRandomSampler(HELD_IN)}, HELD_IN),
        ({"batch_sampler": BatchSampler(SequentialSampler(HELD_IN), 4, drop_last=True)}, range(12)),
        ({"sampler": Given([8, 4, 2])}, [2, 4, 8]),
        ({"sampler": torch.tensor([8, 2]).tolist()}, [2, 8]),
        ({"batch_sampler": Given([[1, 2], [9]])}, [1, 2, 9]),
        ({"drop_last": True, "batch_size": 8}, range(16)),
    ],
)
def test_what_an_epoch_of_the_loader_yields_is_counted(arguments: Any, rows: Any, tmp_path: Path) -> None:
    """Whatever the sampler: rows that it leaves out are not counted."""
    assert counted(loader(**arguments), tmp_path) == each_of(*rows)


def test_an_epoch_without_a_label_is_told(tmp_path: Path) -> None:
    """All labels are then unseen: a function that returns None for each batch is the cause more often than the data."""
    report = callback(train_target=lambda batch: None)
    with pytest.warns(UserWarning, match="no training label was counted, so that every label is unseen"):
        trainer(tmp_path, report).fit(Model(), loader())


def test_a_row_that_a_sampler_draws_twice_counts_twice(tmp_path: Path) -> None:
    """A sampler that balances classes shows rare rows more often: they are counted as training sees them."""
    drawn = loader(sampler=WeightedRandomSampler(torch.eye(ROWS)[3], 7))
    assert counted(drawn, tmp_path) == [7 * rows for rows in each_of(3)]


def test_a_label_of_rows_that_are_held_out_is_unseen(tmp_path: Path) -> None:
    """Labels 0 to 9 are trained on; 10 to 19 are only in rows that the sampler leaves out, and 5 of them are asked for."""
    report = callback()
    rows = loader(sampler=SubsetRandomSampler(range(10)))
    trainer(tmp_path, report).fit(Model(), rows, DataLoader(torch.utils.data.Subset(Numbered(), range(15)), 5))
    labels_and_positives = {row.name: (row.labels, row.positives) for row in report.report.buckets}
    assert labels_and_positives == {**{f"decile_{place}": (1, 1) for place in range(1, 11)}, "unseen": (10, 5)}


@pytest.mark.parametrize(
    ("arguments", "limit", "rows"),
    [
        ({}, 2, range(8)),
        ({}, 0.4, range(8)),
        ({}, 1.0, range(ROWS)),
        ({}, 9, range(ROWS)),
        ({"drop_last": True}, 1, range(4)),
    ],
)
def test_a_limit_of_batches_is_honoured(arguments: Any, limit: Any, rows: Any, tmp_path: Path) -> None:
    """Two batches of 4, or two fifths of five batches, are 8 rows."""
    assert counted(loader(**arguments), tmp_path, limit_train_batches=limit) == each_of(*rows)


@pytest.mark.parametrize(
    ("rows", "cause", "arguments"),
    [
        (loader(sampler=WeightedRandomSampler([1.0] * ROWS, ROWS)), "WeightedRandomSampler", {}),
        (loader(sampler=RandomSampler(range(ROWS), replacement=True)), "RandomSampler", {}),
        (loader(sampler=Given([1, 1, 2])), "Given", {}),
        (loader(batch_sampler=Given([[1, 1], [2]])), "Given", {}),
        (DataLoader(Subset(Subset(Numbered(), [1, 1, 2]), [0, 1]), 4), "Subset", {}),
        (DataLoader(Numbered(), batch_size=16, drop_last=True), "drop_last=True", {}),  # 4 of 20 rows
        (loader(), "limit_train_batches=2", {"limit_train_batches": 2}),
    ],
)
def test_rows_that_may_be_shown_more_than_once_or_not_at_all_are_said(
    rows: Any, cause: str, arguments: Any, tmp_path: Path
) -> None:
    """They hide which labels are rare, so that the buckets would not be those of the data set."""
    report, text = callback(), f"labels are counted over the rows that {cause} shows"
    with pytest.warns(UserWarning, match=f"{text}.* label_counts= replaces what is counted"):
        trainer(tmp_path, report, **arguments).fit(Model(), rows, loader())
    assert any(text in note for note in report.report.notes)


def test_a_last_batch_that_is_full_drops_no_row(tmp_path: Path) -> None:
    """Batches of 5 leave none of 20 rows out, and nothing is said."""
    assert counted(DataLoader(Numbered(), batch_size=5, drop_last=True), tmp_path) == ALL


@pytest.mark.parametrize("kind", ["mixup", "smoothing", "sparse"])
def test_shares_of_labels_are_refused(kind: str, tmp_path: Path) -> None:
    """A row of Mixup has one label in two parts: it would count twice. One of label smoothing would count L times."""
    targets = torch.eye(ROWS)
    mixed = 0.7 * targets + 0.3 * targets.roll(1, 0) if kind == "mixup" else 0.9 * targets + 0.1 / ROWS
    mixed = (0.7 * targets).to_sparse_csr() if kind == "sparse" else mixed
    with pytest.raises(ValueError, match="counting training labels.*numbers between 0 and 1, such as those of Mixup"):
        counted(loader(), tmp_path, lambda batch: mixed)
    assert counted(loader(), tmp_path, lambda batch: targets[batch["target"]]) == ALL


def test_the_label_that_metrics_ignore_is_not_counted(tmp_path: Path) -> None:
    """With ignore_index=-100, each label of a text is a row: of [[0, 1, -100], [1, -100, -100]], three rows count."""
    texts = torch.tensor([[0, 1, -100], [1, -100, -100]])
    wide = torch.nn.functional.pad(texts, (0, ROWS - 3), value=-100)  # a block as long as the vocabulary
    for target in (texts, texts.reshape(-1), texts.to(torch.int32), wide):
        metrics = [RecallAtK(k=5, buckets="deciles", ignore_index=-100)]
        report = callback(metrics, train_target=lambda batch, target=target: target)
        trainer(tmp_path, report).fit(Model(), loader(sampler=SubsetRandomSampler([3])))
        counts = [1, 2] + [0] * (ROWS - 2)
        assert report.frequency.counts.tolist() == counts
        assert report.frequency.num_rows == sum(counts)


def test_a_run_of_one_batch_counts_one_batch(tmp_path: Path) -> None:
    """fast_dev_run tries the code; it does not read the whole training set."""
    assert sum(counted(loader(shuffle=True), tmp_path, fast_dev_run=True)) == 4


class StepsOfItsOwn(Model):
    """Decides in its step how often the optimizer steps."""

    automatic_optimization = False


@pytest.mark.parametrize(
    ("arguments", "batches"),
    [
        ({"max_steps": 3}, 3),
        ({"max_steps": 3, "max_epochs": -1}, 3),
        ({"max_steps": 2, "accumulate_grad_batches": 3}, 6),
        ({"limit_train_batches": 2}, 2),
        ({"limit_train_batches": 2, "max_steps": 100}, 2),
        ({"fast_dev_run": True}, 1),
    ],
)
def test_of_an_endless_stream_as_many_batches_are_counted_as_training_reads(
    arguments: dict[str, Any], batches: int, tmp_path: Path
) -> None:
    """Steps times batches of a step, or the limit of batches; and the report says that a part was counted."""
    stream = Stream()
    report = callback()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trainer(tmp_path, report, **arguments).fit(Model(), DataLoader(stream, 4))
    assert report.frequency.num_rows == 4 * batches
    texts = " ".join(str(warning.message) for warning in caught)
    assert ("labels are counted over the rows that" in texts) != ("fast_dev_run" in arguments)


@pytest.mark.parametrize(
    ("arguments", "model"),
    [
        ({"max_time": "00:00:00:05", "max_epochs": -1}, Model),
        ({"max_time": "00:00:00:05"}, Model),
        ({"max_epochs": -1}, Model),
        ({"max_steps": 3}, StepsOfItsOwn),
        (
            {
                "val_check_interval": 2,
                "check_val_every_n_epoch": None,
                "callbacks": [EarlyStopping("val/recall@5/decile_1")],
            },
            Model,
        ),
    ],
)
def test_a_stream_that_may_never_end_is_refused_before_a_row_is_read(
    arguments: dict[str, Any], model: type[Model], tmp_path: Path
) -> None:
    """What training reads of it is not known: by time, without a limit, or where the step or an early stop decides.

    Lightning itself reads one batch ahead.
    """
    stream = Stream()
    callbacks = arguments.pop("callbacks", [])
    run = trainer(tmp_path, callback(), *callbacks, **arguments)
    with pytest.raises(ValueError, match="no length.*label_counts=.*limit_train_batches=.*train_target="):
        run.fit(model(), DataLoader(stream, 4), loader())
    assert stream.rows_read == 4


def test_a_test_without_training_does_not_read_a_stream(tmp_path: Path) -> None:
    """Without a fit nothing says how much of it is the training data."""

    class Streamed(Model):
        def train_dataloader(self) -> Any:
            return DataLoader(self.stream, 4)

    model = Streamed()
    model.stream = Stream()
    with pytest.raises(ValueError, match="the training loader has no length"):
        trainer(tmp_path, callback()).test(model, loader(), verbose=False)
    assert model.stream.rows_read == 0


@pytest.mark.parametrize(
    ("mode", "arguments", "batches"), [("min_size", {}, 5), ("max_size_cycle", {"max_steps": 2}, 2)]
)
def test_a_stream_beside_a_loader_is_counted_as_far_as_their_mode_reads_it(
    mode: str, arguments: dict[str, Any], batches: int, tmp_path: Path
) -> None:
    """With ``min_size`` the five batches of the loader end an epoch; otherwise only the number of steps does."""
    stream = Stream()
    report = callback(train_target=lambda batch: batch["target"] if "worker" not in batch else None)
    loaders = CombinedLoader([DataLoader(stream, 4), loader()], mode)
    trainer(tmp_path, report, **arguments).fit(Model(), loaders)
    assert report.frequency.num_rows == 4 * batches


def test_a_stream_with_an_end_is_counted_whole(tmp_path: Path) -> None:
    """Two epochs of ten rows, which end by themselves, as training then does, too."""
    report = callback()
    trainer(tmp_path, report, max_epochs=2).fit(Model(), DataLoader(Stream(end=10), 4))
    assert report.frequency.num_rows == 10


def test_a_loader_that_can_be_read_only_once_is_refused(tmp_path: Path) -> None:
    """A generator would be used up by counting, and leave nothing to train on."""
    batches = (batch for batch in loader())
    with pytest.raises(ValueError, match="the training loader is a generator, which can be read only once"):
        trainer(tmp_path, callback()).fit(Model(), batches)


def test_what_has_no_numbered_rows_is_read_up_to_the_limit(tmp_path: Path) -> None:
    """A stream without end, two batches of 4; and rows that are asked for by something else than a number."""
    assert counted(DataLoader(Stream(), batch_size=4), tmp_path, limit_train_batches=2) == each_of(*range(8))
    named: Any = {"a": {"x": 3, "target": 3}, "b": {"x": 5, "target": 5}}
    assert counted(DataLoader(named, sampler=Given(["b", "a"])), tmp_path) == each_of(3, 5)


@pytest.mark.parametrize(
    ("loaders", "train_target", "rows"),
    [
        ([loader(sampler=Given([1])), loader(sampler=Given([2, 3]))], "target", [1, 2, 3]),
        (
            {"a": loader(sampler=Given([1])), "b": loader(sampler=Given([4]))},
            lambda batch: batch["target"] if batch["target"] < 2 else None,
            [1],
        ),
        (CombinedLoader({"a": loader(sampler=Given([6]))}, "min_size"), lambda batch: batch["target"], [6]),
    ],
)
def test_several_training_loaders_are_counted_one_by_one(
    loaders: Any, train_target: Any, rows: Any, tmp_path: Path
) -> None:
    """A list, a dict, a CombinedLoader; None is a batch without labels."""
    assert counted(loaders, tmp_path, train_target) == each_of(*rows)


def test_a_target_that_a_batch_does_not_have_is_named(tmp_path: Path) -> None:
    """The message says what the batch holds."""
    message = r"train_target='label' is not in a training batch \(a dict with 'x', 'target'"
    with pytest.raises(ValueError, match=f"HeadToTailReport: {message}"):
        counted({"b": loader()}, tmp_path, "label")


def test_the_workers_of_the_loader_read_what_is_counted(tmp_path: Path) -> None:
    """Two workers, none of them the main process, and 20 rows once each."""
    workers: set[int] = set()

    def target(batch: Any) -> Any:
        workers.update(batch["worker"].tolist())
        return batch["target"]

    assert counted(loader(num_workers=2), tmp_path, target) == ALL
    assert workers == {0, 1}


def test_counting_shows_how_far_it_is_and_how_to_do_without(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    log_messages: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A bar on a terminal, a line in a log."""
    monkeypatch.setenv("FORCE_COLOR", "1")  # what rich takes for a terminal
    report = callback()
    trainer(tmp_path, report, enable_progress_bar=True).fit(Model(), loader())
    shown = capfd.readouterr().err
    line = "counting the training labels in 5 batches; pass label_counts= to leave this out"
    assert any(line in message for message in log_messages)
    assert "Counting training labels (pass label_counts= to leave this out)" in shown
    assert "100%" in shown


@pytest.mark.parametrize("generator", [False, True])
@pytest.mark.parametrize("sampler", [RandomSampler, SubsetRandomSampler])
def test_counting_changes_no_random_number_of_the_run(sampler: Any, generator: bool, tmp_path: Path) -> None:
    """Rows are shuffled alike, and what a row draws is alike, whether labels were counted or given."""

    class Noisy(Numbered):
        def __getitem__(self, row: int) -> dict[str, Any]:
            return {"x": torch.rand(()) + row, "target": row}

    class Shuffled(Given):
        generator = None

        def __iter__(self) -> Any:
            order = torch.randperm(len(self), generator=self.generator).tolist()
            return (self.rows[place] for place in order)

    def shown(kind: Any, **arguments: Any) -> list[Any]:
        seed_everything(3)
        own = torch.Generator().manual_seed(5) if generator else None
        rows = kind(range(ROWS)) if kind is Shuffled else kind(range(ROWS), generator=own)
        rows.generator = own
        model = Model()
        trainer(tmp_path, callback(**arguments)).fit(model, DataLoader(Noisy(), 4, sampler=rows))
        return model.shown

    for kind in (sampler, Shuffled):
        assert shown(kind) == shown(kind, label_counts=ALL, num_train=ROWS)


def test_a_checkpoint_of_another_number_of_labels_is_refused(tmp_path: Path) -> None:
    """num_labels=60, or a model that says so, with the counts of 20: the error names both."""
    run = trainer(tmp_path, callback())
    run.fit(Model(), loader())
    run.save_checkpoint(tmp_path / "run.ckpt")
    message = (
        "HeadToTailReport: the checkpoint holds training counts of 20 labels, but there are 60 by num_labels{}; load"
    )
    with pytest.raises(ValueError, match=message.format("")):
        trainer(tmp_path, callback(num_labels=60), max_epochs=2).fit(Model(), loader(), ckpt_path=tmp_path / "run.ckpt")
    model = Model()
    model.num_labels = 60
    again = trainer(tmp_path, callback(num_labels=None), max_epochs=2)
    with pytest.raises(ValueError, match=message.format(" of the model")):
        again.fit(model, loader(), ckpt_path=tmp_path / "run.ckpt")
    np.save(tmp_path / "counts.npy", [2] * ROWS)
    report_of_counts = callback(label_counts=str(tmp_path / "counts.npy"))
    trainer(tmp_path, report_of_counts, max_epochs=2).fit(Model(), loader(), ckpt_path=tmp_path / "run.ckpt")
    assert report_of_counts.frequency.counts.tolist() == [2] * ROWS  # counts that were given win


def test_a_fit_of_another_trainer_counts_its_own_data(tmp_path: Path) -> None:
    """The same callback in two fits; the test that follows the second has nothing to count."""
    report = callback()
    for rows in ([1, 2], [3]):
        trainer(tmp_path, report).fit(Model(), loader(sampler=Given(rows)), loader())
        assert report.frequency.counts.tolist() == each_of(*rows)
        assert sum(row.occurrences for row in report.report.buckets) == len(rows)
    trainer(tmp_path, report).test(Model(), loader(), verbose=False)
    assert report.frequency.counts.tolist() == each_of(3)
