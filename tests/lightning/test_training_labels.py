"""Training labels are counted as the loaders yield them, by their workers, and without
an effect on the run.
"""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numbered_rows import (
    ROWS,
    FixedOrder,
    Model,
    Numbered,
    Stream,
    callback,
    counts_of_fit,
    counts_of_rows,
    loader,
    trainer,
)
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

from tailmetrics import NoveltyAtK, RecallAtK

ALL = counts_of_rows(*range(ROWS))
TRAINED_ROWS = range(15)
pytestmark = pytest.mark.filterwarnings(
    "ignore:::pytorch_lightning",
    "ignore:::lightning",
    "ignore:HeadToTailReport. labels are counted over the rows that "
    "(FixedOrder|list|Shuffled|Weighted|limit_|max_|the Comb)",
)


@pytest.mark.filterwarnings(
    "ignore:HeadToTailReport. labels are counted over the rows that drop_last:UserWarning"
)
@pytest.mark.parametrize(
    ("arguments", "rows"),
    [
        ({}, range(ROWS)),
        ({"shuffle": True}, range(ROWS)),
        ({"sampler": SubsetRandomSampler(TRAINED_ROWS)}, TRAINED_ROWS),
        (
            {
                "batch_sampler": BatchSampler(
                    SequentialSampler(TRAINED_ROWS), 4, drop_last=True
                )
            },
            range(12),
        ),
        ({"sampler": FixedOrder([8, 4, 2])}, [2, 4, 8]),
        ({"sampler": torch.tensor([8, 2]).tolist()}, [2, 8]),
        ({"batch_sampler": FixedOrder([[1, 2], [9]])}, [1, 2, 9]),
        ({"drop_last": True, "batch_size": 8}, range(16)),
    ],
)
def test_the_rows_of_an_epoch_are_counted(
    arguments: Any, rows: Any, tmp_path: Path
) -> None:
    """The rows that the loader yields in an epoch are counted, whatever its sampler;
    rows that it leaves out are not.
    """
    assert counts_of_fit(loader(**arguments), tmp_path) == counts_of_rows(*rows)


def test_an_epoch_without_labels_brings_a_warning(tmp_path: Path) -> None:
    """If no training label is counted, for instance because train_target returns None
    for each batch, a warning says that all labels are unseen.
    """
    report = callback(train_target=lambda batch: None)
    with pytest.warns(
        UserWarning,
        match="no training label was counted, so that every label is unseen",
    ):
        trainer(tmp_path, report).fit(Model(), loader())


def test_a_row_counts_as_often_as_a_sampler_draws_it(tmp_path: Path) -> None:
    """A row counts as often as a sampler draws it, as training sees it: a row that is
    drawn 7 times counts 7.
    """
    weighted_loader = loader(sampler=WeightedRandomSampler(torch.eye(ROWS)[3], 7))
    assert counts_of_fit(weighted_loader, tmp_path) == [
        7 * rows for rows in counts_of_rows(3)
    ]


def test_labels_of_held_out_rows_are_unseen(tmp_path: Path) -> None:
    """Labels of rows that the training sampler leaves out are unseen: labels 0 to 9 are
    trained, 10 to 19 are unseen, and 5 of these are relevant.
    """
    report = callback()
    rows = loader(sampler=SubsetRandomSampler(range(10)))
    trainer(tmp_path, report).fit(
        Model(), rows, DataLoader(torch.utils.data.Subset(Numbered(), range(15)), 5)
    )
    labels_and_positives = {
        row.name: (row.labels, row.positives) for row in report.report.buckets
    }
    assert labels_and_positives == {
        **{f"decile_{place}": (1, 1) for place in range(1, 11)},
        "unseen": (10, 5),
    }


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
def test_limit_train_batches_limits_the_counted_rows(
    arguments: Any, limit: Any, rows: Any, tmp_path: Path
) -> None:
    """limit_train_batches limits the counted rows: two batches of 4, or two fifths of
    five batches, are 8 rows.
    """
    assert counts_of_fit(
        loader(**arguments), tmp_path, limit_train_batches=limit
    ) == counts_of_rows(*rows)


@pytest.mark.parametrize(
    ("rows", "cause", "arguments"),
    [
        (
            loader(sampler=WeightedRandomSampler([1.0] * ROWS, ROWS)),
            "WeightedRandomSampler",
            {},
        ),
        (
            loader(sampler=RandomSampler(range(ROWS), replacement=True)),
            "RandomSampler",
            {},
        ),
        (loader(sampler=FixedOrder([1, 1, 2])), "FixedOrder", {}),
        (loader(batch_sampler=FixedOrder([[1, 1], [2]])), "FixedOrder", {}),
        (DataLoader(Subset(Subset(Numbered(), [1, 1, 2]), [0, 1]), 4), "Subset", {}),
        # 4 of 20 rows
        (DataLoader(Numbered(), batch_size=16, drop_last=True), "drop_last=True", {}),
        (loader(), "limit_train_batches=2", {"limit_train_batches": 2}),
    ],
)
def test_a_note_names_samplers_that_may_change_the_counts(
    rows: Any, cause: str, arguments: Any, tmp_path: Path
) -> None:
    """If a sampler or an option may yield rows several times or not at all, a warning
    and a note name it and label_counts=, because the counts may not be those of the
    data set.
    """
    report, text = callback(), f"labels are counted over the rows that {cause} shows"
    with pytest.warns(
        UserWarning, match=f"{text}.* label_counts= replaces what is counted"
    ):
        trainer(tmp_path, report, **arguments).fit(Model(), rows, loader())
    assert any(text in note for note in report.report.notes)


def test_drop_last_without_a_partial_batch_brings_no_note(tmp_path: Path) -> None:
    """drop_last=True with batches of 5 drops none of 20 rows, and brings no warning."""
    assert (
        counts_of_fit(DataLoader(Numbered(), batch_size=5, drop_last=True), tmp_path)
        == ALL
    )


@pytest.mark.parametrize("kind", ["mixup", "smoothing", "sparse"])
def test_fractional_targets_are_refused(kind: str, tmp_path: Path) -> None:
    """Targets between 0 and 1, as Mixup and label smoothing make them, are refused,
    because each would count as a label. One-hot targets are counted.
    """
    targets = torch.eye(ROWS)
    mixed = (
        0.7 * targets + 0.3 * targets.roll(1, 0)
        if kind == "mixup"
        else 0.9 * targets + 0.1 / ROWS
    )
    mixed = (0.7 * targets).to_sparse_csr() if kind == "sparse" else mixed
    with pytest.raises(
        ValueError,
        match="counting training labels.*numbers between 0 and 1, such as those of Mixup",
    ):
        counts_of_fit(loader(), tmp_path, lambda batch: mixed)
    assert (
        counts_of_fit(loader(), tmp_path, lambda batch: targets[batch["target"]]) == ALL
    )


def test_ignore_index_of_metrics_is_not_counted(tmp_path: Path) -> None:
    """With ignore_index=-100 each label of a text counts as a row: of [[0, 1, -100],
    [1, -100, -100]] three rows count.
    """
    texts = torch.tensor([[0, 1, -100], [1, -100, -100]])
    # as many columns as labels
    padded_texts = torch.nn.functional.pad(texts, (0, ROWS - 3), value=-100)
    for target in (texts, texts.reshape(-1), texts.to(torch.int32), padded_texts):
        metrics = [RecallAtK(k=5, buckets="deciles", ignore_index=-100)]
        report = callback(metrics, train_target=lambda batch, target=target: target)
        trainer(tmp_path, report).fit(Model(), loader(sampler=SubsetRandomSampler([3])))
        counts = [1, 2] + [0] * (ROWS - 2)
        assert report.frequency.counts.tolist() == counts
        assert report.frequency.num_rows == sum(counts)


@pytest.mark.parametrize(
    "texts", [[[0, 1, 1], [2, 3, 4]], [[0, 1, -100], [2, -100, -100]]]
)
def test_metrics_of_training_rows_refuse_targets_that_may_be_tokens(
    texts: Any, tmp_path: Path
) -> None:
    """If a metric reads the number of training rows, targets that may be tokens are
    refused, because each token is a row, while a list of labels is one row. A repeated
    label, or ignore_index, indicates tokens.
    """
    ignore_index = -100 if -100 in texts[1] else None
    metrics = [NoveltyAtK(k=5, ignore_index=ignore_index)]
    report = callback(metrics, train_target=lambda batch: torch.tensor(texts))
    with pytest.raises(
        ValueError,
        match="may hold tokens, of which each is a row, or lists of labels of one row",
    ):
        trainer(tmp_path, report).fit(Model(), loader(sampler=SubsetRandomSampler([3])))


def test_fast_dev_run_counts_one_batch(tmp_path: Path) -> None:
    """With fast_dev_run only one batch is counted."""
    assert sum(counts_of_fit(loader(shuffle=True), tmp_path, fast_dev_run=True)) == 4


class ManualOptimization(Model):
    """A model that decides in its step how often the optimizer steps."""

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
def test_an_endless_stream_is_counted_as_far_as_training_reads_it(
    arguments: dict[str, Any], batches: int, tmp_path: Path
) -> None:
    """Of an endless stream as many batches are counted as training reads: the steps
    times the batches of a step, or limit_train_batches. A warning says that only these
    are counted.
    """
    stream = Stream()
    report = callback()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trainer(tmp_path, report, **arguments).fit(Model(), DataLoader(stream, 4))
    assert report.frequency.num_rows == 4 * batches
    texts = " ".join(str(warning.message) for warning in caught)
    assert ("labels are counted over the rows that" in texts) != (
        "fast_dev_run" in arguments
    )


@pytest.mark.parametrize(
    ("arguments", "model"),
    [
        ({"max_time": "00:00:00:05", "max_epochs": -1}, Model),
        ({"max_time": "00:00:00:05"}, Model),
        ({"max_epochs": -1}, Model),
        ({"max_steps": 3}, ManualOptimization),
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
def test_a_stream_of_unknown_length_is_refused_before_it_is_counted(
    arguments: dict[str, Any], model: type[Model], tmp_path: Path
) -> None:
    """A stream is refused if training has no limit or one of time, or if its step or
    early stopping decides.

    Only the batch that Lightning reads ahead is read.
    """
    stream = Stream()
    callbacks = arguments.pop("callbacks", [])
    run = trainer(tmp_path, callback(), *callbacks, **arguments)
    with pytest.raises(
        ValueError,
        match="no length.*label_counts=.*limit_train_batches=.*train_target=",
    ):
        run.fit(model(), DataLoader(stream, 4), loader())
    assert stream.rows_read == 4


def test_a_test_without_a_fit_refuses_a_stream_unread(tmp_path: Path) -> None:
    """A test without a fit refuses a training stream without reading it, because
    nothing says how much of it is the training data.
    """

    class Streamed(Model):
        def train_dataloader(self) -> Any:
            return DataLoader(self.stream, 4)

    model = Streamed()
    model.stream = Stream()
    with pytest.raises(ValueError, match="the training loader has no length"):
        trainer(tmp_path, callback()).test(model, loader(), verbose=False)
    assert model.stream.rows_read == 0


@pytest.mark.parametrize(
    ("mode", "arguments", "batches"),
    [("min_size", {}, 5), ("max_size_cycle", {"max_steps": 2}, 2)],
)
def test_a_stream_beside_a_loader_is_counted_by_the_combined_mode(
    mode: str, arguments: dict[str, Any], batches: int, tmp_path: Path
) -> None:
    """With the mode ``min_size`` the five batches of a loader limit the stream beside
    it; with ``max_size_cycle`` the number of steps does.
    """
    stream = Stream()
    report = callback(
        train_target=lambda batch: batch["target"] if "worker" not in batch else None
    )
    loaders = CombinedLoader([DataLoader(stream, 4), loader()], mode)
    trainer(tmp_path, report, **arguments).fit(Model(), loaders)
    assert report.frequency.num_rows == 4 * batches


def test_a_stream_with_an_end_is_counted_once(tmp_path: Path) -> None:
    """A stream of ten rows that ends is counted in full, and once for a fit of two
    epochs.
    """
    report = callback()
    trainer(tmp_path, report, max_epochs=2).fit(Model(), DataLoader(Stream(end=10), 4))
    assert report.frequency.num_rows == 10


def test_a_generator_as_training_loader_is_refused(tmp_path: Path) -> None:
    """A generator as training loader is refused, because counting would use it up."""
    batches = (batch for batch in loader())
    with pytest.raises(
        ValueError,
        match="the training loader is a generator, which can be read only once",
    ):
        trainer(tmp_path, callback()).fit(Model(), batches)


def test_data_without_row_numbers_are_counted(tmp_path: Path) -> None:
    """A stream is counted up to limit_train_batches, and rows of a dict, which a
    sampler chooses by key, are counted.
    """
    assert counts_of_fit(
        DataLoader(Stream(), batch_size=4), tmp_path, limit_train_batches=2
    ) == counts_of_rows(*range(8))
    rows_by_key: Any = {"a": {"x": 3, "target": 3}, "b": {"x": 5, "target": 5}}
    assert counts_of_fit(
        DataLoader(rows_by_key, sampler=FixedOrder(["b", "a"])), tmp_path
    ) == counts_of_rows(3, 5)


@pytest.mark.parametrize(
    ("loaders", "train_target", "rows"),
    [
        (
            [loader(sampler=FixedOrder([1])), loader(sampler=FixedOrder([2, 3]))],
            "target",
            [1, 2, 3],
        ),
        (
            {
                "a": loader(sampler=FixedOrder([1])),
                "b": loader(sampler=FixedOrder([4])),
            },
            lambda batch: batch["target"] if batch["target"] < 2 else None,
            [1],
        ),
        (
            CombinedLoader({"a": loader(sampler=FixedOrder([6]))}, "min_size"),
            lambda batch: batch["target"],
            [6],
        ),
    ],
)
def test_the_rows_of_all_training_loaders_are_counted(
    loaders: Any, train_target: Any, rows: Any, tmp_path: Path
) -> None:
    """The rows of all training loaders are counted, in a list, a dict or a
    CombinedLoader; a batch for which train_target returns None has no labels.
    """
    assert counts_of_fit(loaders, tmp_path, train_target) == counts_of_rows(*rows)


def test_a_train_target_that_batches_lack_is_refused(tmp_path: Path) -> None:
    """A train_target that the batch lacks is refused, and the error lists the keys of
    the batch.
    """
    message = (
        r"train_target='label' is not in a training batch \(a dict with 'x', 'target'"
    )
    with pytest.raises(ValueError, match=f"HeadToTailReport: {message}"):
        counts_of_fit({"b": loader()}, tmp_path, "label")


def test_the_workers_of_the_loader_read_the_counted_rows(tmp_path: Path) -> None:
    """The counted rows are read by the two workers of the loader, each row once."""
    workers: set[int] = set()

    def target(batch: Any) -> Any:
        workers.update(batch["worker"].tolist())
        return batch["target"]

    assert counts_of_fit(loader(num_workers=2), tmp_path, target) == ALL
    assert workers == {0, 1}


def test_counting_shows_its_progress_and_names_label_counts(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    log_messages: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Counting shows a progress bar on a terminal and logs a line, which both name
    label_counts= as the way to avoid it.
    """
    monkeypatch.setenv("FORCE_COLOR", "1")  # makes rich assume a terminal
    report = callback()
    trainer(tmp_path, report, enable_progress_bar=True).fit(Model(), loader())
    printed = capfd.readouterr().err
    line = "counting the training labels in 5 batches; pass label_counts= to leave this out"
    assert any(line in message for message in log_messages)
    assert "Counting training labels (pass label_counts= to leave this out)" in printed
    assert "100%" in printed


@pytest.mark.parametrize("generator", [False, True])
@pytest.mark.parametrize("sampler", [RandomSampler, SubsetRandomSampler])
def test_counting_does_not_change_random_numbers(
    sampler: Any, generator: bool, tmp_path: Path
) -> None:
    """Rows are shuffled alike and draw the same random numbers, whether labels are
    counted or label_counts= is passed.
    """

    class Noisy(Numbered):
        def __getitem__(self, row: int) -> dict[str, Any]:
            return {"x": torch.rand(()) + row, "target": row}

    class Shuffled(FixedOrder):
        generator = None

        def __iter__(self) -> Any:
            order = torch.randperm(len(self), generator=self.generator).tolist()
            return (self.rows[index] for index in order)

    def rows_seen(kind: Any, **arguments: Any) -> list[Any]:
        seed_everything(3)
        source = torch.Generator().manual_seed(5) if generator else None
        rows = (
            kind(range(ROWS))
            if kind is Shuffled
            else kind(range(ROWS), generator=source)
        )
        rows.generator = source
        model = Model()
        trainer(tmp_path, callback(**arguments)).fit(
            model, DataLoader(Noisy(), 4, sampler=rows)
        )
        return model.rows_seen

    for kind in (sampler, Shuffled):
        assert rows_seen(kind) == rows_seen(kind, label_counts=ALL, num_train=ROWS)


def test_a_checkpoint_of_another_number_of_labels_is_refused(tmp_path: Path) -> None:
    """A checkpoint with counts of another number of labels than num_labels= or the
    model has is refused, and the error names both. label_counts= replaces the counts of
    the checkpoint.
    """
    run = trainer(tmp_path, callback())
    run.fit(Model(), loader())
    run.save_checkpoint(tmp_path / "run.ckpt")
    message = "HeadToTailReport: the checkpoint holds training counts of 20 labels, but there are 60 by num_labels{}; load"
    with pytest.raises(ValueError, match=message.format("")):
        trainer(tmp_path, callback(num_labels=60), max_epochs=2).fit(
            Model(), loader(), ckpt_path=tmp_path / "run.ckpt"
        )
    model = Model()
    model.num_labels = 60
    resumed = trainer(tmp_path, callback(num_labels=None), max_epochs=2)
    with pytest.raises(ValueError, match=message.format(" of the model")):
        resumed.fit(model, loader(), ckpt_path=tmp_path / "run.ckpt")
    np.save(tmp_path / "counts.npy", [2] * ROWS)
    report_of_counts = callback(label_counts=str(tmp_path / "counts.npy"))
    trainer(tmp_path, report_of_counts, max_epochs=2).fit(
        Model(), loader(), ckpt_path=tmp_path / "run.ckpt"
    )
    # label_counts= wins
    assert report_of_counts.frequency.counts.tolist() == [2] * ROWS


def test_each_fit_counts_its_own_data(tmp_path: Path) -> None:
    """The same callback in two fits counts the training labels of each, and a test
    after the second uses its counts.
    """
    report = callback()
    for rows in ([1, 2], [3]):
        trainer(tmp_path, report).fit(
            Model(), loader(sampler=FixedOrder(rows)), loader()
        )
        assert report.frequency.counts.tolist() == counts_of_rows(*rows)
        assert sum(row.occurrences for row in report.report.buckets) == len(rows)
    trainer(tmp_path, report).test(Model(), loader(), verbose=False)
    assert report.frequency.counts.tolist() == counts_of_rows(3)
