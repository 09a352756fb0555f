"""What the callback asks of Lightning and of loggers: loaders, folders, logged values and figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any
from warnings import warn

import torch
from torch import Tensor
from torch.utils.data import BatchSampler, DistributedSampler

from tailmetrics.report import Report
from tailmetrics.report.pictures import picture
from tailmetrics.report.text import markdown

PACKAGES = ("pytorch_lightning", "lightning.pytorch")
KNOWN = "2.2 to 2.6"
"""Versions of Lightning whose private parts were read for :func:`evaluated_loaders`."""

# -- the two packages ---------------------------------------------------------------------------------------------


def callback_bases() -> tuple[type, ...]:
    """Return the class ``Callback`` of every package that is installed."""
    return tuple(import_module(name).Callback for name in installed())


def installed() -> list[str]:
    """Return the names of the packages that can be imported; any folder called "lightning" is found as a package."""
    found = []
    for name in PACKAGES:
        with suppress(ModuleNotFoundError):
            found.append(import_module(name).__name__)
    if not found:
        raise ImportError(
            "tailmetrics.lightning needs Lightning; install it with: pip install 'tailmetrics[lightning]'"
        )
    return found


@contextmanager
def same_random_numbers(loader: Any) -> Iterator[None]:
    """Leave the random numbers of the run, and those of a loader and its samplers, as they were."""
    batches, sampler = getattr(loader, "batch_sampler", None), getattr(loader, "sampler", None)
    owners = (loader, sampler, batches, getattr(batches, "sampler", None))
    generators = [getattr(owner, "generator", None) for owner in owners]
    before = [(one, one.get_state()) for one in generators if isinstance(one, torch.Generator)]
    with import_module(f"{installed()[0]}.utilities.seed").isolate_rng():
        yield
    for generator, state in before:
        generator.set_state(state)


def _class_of_lightning(owner: Any, method: str) -> type:
    """Return the class of Lightning that ``owner`` has ``method`` from, unless it has one of its own."""
    bases = (base for base in type(owner).__mro__ if base.__module__.startswith(PACKAGES))
    return next(base for base in bases if method in dir(base))


def outline(value: Any) -> str:
    """Return the type of a batch or output, and the keys of a dict, for a message."""
    return f"a {type(value).__name__}" + (f" with {', '.join(map(repr, value))}" if isinstance(value, dict) else "")


# -- loaders ------------------------------------------------------------------------------------------------------


def training_loaders(trainer: Any, pl_module: Any) -> list[Any]:
    """Return the training loaders of the running fit, or else those of the data module or of the model."""
    loaders: Any = trainer.train_dataloader
    if loaders is None:
        datamodule: Any = getattr(trainer, "datamodule", None)
        owners = [owner for owner in (datamodule, pl_module) if owner is not None and _has_training_data(owner)]
        if not owners:
            raise ValueError(
                "HeadToTailReport: there is no training data to count labels in; pass label_counts= to the callback, "
                "or a data module that has a train_dataloader."
            )
        if owners[0] is datamodule:
            datamodule.setup("fit")
        loaders = owners[0].train_dataloader()
    combined = import_module(f"{installed()[0]}.utilities.combined_loader").CombinedLoader
    return list(combined(getattr(loaders, "iterables", loaders)).flattened)


def _has_training_data(owner: Any) -> bool:
    inherited = getattr(_class_of_lightning(owner, "train_dataloader"), "train_dataloader")  # noqa: B009 - of either package
    return type(owner).train_dataloader is not inherited


def evaluated_loaders(trainer: Any) -> list[Any]:
    """Return the loaders of the validation or test under way; ``[None]`` where their batches come together.

    Not ``trainer.val_dataloaders``: those are the loaders of the fit, also in a later ``trainer.validate``.
    """
    try:
        loop = trainer._evaluation_loop
        return list(loop._combined_loader.flattened) if loop._is_sequential else [None]
    except AttributeError as error:  # guessing would count rows that a sampler repeats
        package = type(trainer).__module__.split(".")[0]
        raise RuntimeError(
            f"HeadToTailReport: {package} {import_module(package).__version__} does not say which loaders are "
            f"evaluated; Lightning {KNOWN} does. Install one of these, or a newer tailmetrics."
        ) from error


class SamplerPadding:
    """Tells the rows that a distributed sampler repeats to fill its last round, batch by batch.

    Of ``n`` rows over ``w`` processes, process ``r`` gets the places r, r + w, r + 2w, …; places from n on are
    repeats, shuffled or not.

    Args:
        loader: What gives the batches; None where that is not one loader.

    Attributes:
        sampler: The distributed sampler; None where there is none, and no row is repeated.
    """

    def __init__(self, loader: Any) -> None:
        batches = getattr(loader, "batch_sampler", None)
        samplers = (getattr(loader, "sampler", None), getattr(batches, "sampler", None))
        self.sampler = next((one for one in samplers if isinstance(one, DistributedSampler)), None)
        size = batches.batch_size if type(batches) is BatchSampler else None
        self._batch_size = size if isinstance(size, int) else None
        self._before = 0

    def first_seen(self, rows: int, step: str, masked: bool) -> Tensor | None:
        """Return a mask of the rows of the next batch that are not repeated; None where no row is.

        Args:
            rows: Number of rows that the step returned.
            step: Its name, for the message.
            masked: Whether it returned a row mask, too.

        Raises:
            ValueError: If a batch holds repeats, and the step returned another number of rows than it got.
        """
        if self.sampler is None:
            return None
        drawn = rows if self._batch_size is None else min(self._batch_size, self.sampler.num_samples - self._before)
        places = (self._before + torch.arange(drawn)) * self.sampler.num_replicas + self.sampler.rank
        self._before += drawn
        kept: Tensor = places < len(self.sampler.dataset)  # type: ignore[arg-type] # a sampler needs a length
        if bool(kept.all()) or (rows != drawn and masked):
            return None
        if rows != drawn:
            raise ValueError(
                f"HeadToTailReport: {step} returned {rows} rows for a batch of {drawn}, of which the distributed "
                f"sampler repeats {int((~kept).sum())}; return one row for each row of the batch, or also a row mask "
                "that is False for rows made from repeated ones (row_mask= of the callback names its key)."
            )
        return kept


# -- logged values ------------------------------------------------------------------------------------------------


class _Unchecked(str):
    """A name in which Lightning before 2.6 does not find "/dataloader_idx_", which it would refuse."""

    __slots__ = ()

    def __contains__(self, part: str) -> bool:  # type: ignore[override] # as str has it
        return part != "/dataloader_idx_" and super().__contains__(part)


def log_values(pl_module: Any, values: Mapping[str, float]) -> None:
    """Log values that all processes have alike, without a collective and without a read of the device.

    They are tensors on the CPU, where reading them makes no device wait. ``sync_dist`` with ``rank_zero_only`` is how
    Lightning is told that there is nothing to reduce, and nothing to warn of; the maximum of one value is that value,
    where a mean would divide. Names are plain strings: launchers send them between processes, and
    ``torch.load(weights_only=True)`` knows no other kind.
    """
    package = import_module(_class_of_lightning(pl_module, "log_dict").__module__.split(".")[0])
    before = tuple(map(int, package.__version__.split(".")[:2])) < (2, 6)
    names = [_Unchecked(name) if before and "/dataloader_idx_" in name else name for name in values]
    logged = dict(zip(names, torch.tensor(list(values.values()), dtype=torch.float32), strict=True))
    pl_module.log_dict(logged, sync_dist=True, rank_zero_only=True, reduce_fx="max", add_dataloader_idx=False)


def apart(values: Mapping[str, float], loggers: Sequence[Any]) -> Mapping[str, float]:
    """Return values under names of which none is a folder of another, where a logger keeps a file for each name.

    MLflow's file store does: ``val/recall@10`` beside ``val/recall@10/decile_1`` is then ``val/recall@10/all``.
    """
    if not any(hasattr(logger, "run_id") and getattr(logger, "save_dir", None) is not None for logger in loggers):
        return values
    folders = {name[:end] for name in values for end in range(len(name)) if name[end] == "/"}
    return {f"{name}/all" if name in folders else name: value for name, value in values.items()}


def run_folder(trainer: Any) -> Path | None:
    """Return where the run of a Trainer keeps its files, None where that is no folder; for the first process only.

    It is the folder in which Lightning keeps the folder of the run's checkpoints; without a logger, ``reports``.
    """
    logger = trainer.logger
    root = str(getattr(logger, "save_dir", None) or trainer.default_root_dir)
    if "://" in root:
        warn(
            f"HeadToTailReport: reports are not written, because {root} is no local folder; give the Trainer a local "
            "default_root_dir or a logger with a local save_dir, or pass files=False.",
            stacklevel=2,
        )
        return None
    if logger is None:
        return Path(root, "reports")
    logger.experiment  # noqa: B018 - a property that begins the run; some know their version only then
    version = logger.version
    return Path(root, str(logger.name), version if isinstance(version, str) else f"version_{version}")


def show_in_loggers(loggers: list[Any], report: Report, name: str, step: int) -> None:
    """Hand a report to every logger that takes figures and text; call it on the first process.

    Loggers are told apart by what they can do, so that none has to be installed. One that takes neither, such as a
    ``CSVLogger``, is passed over.

    Args:
        loggers: Those of the trainer.
        report: What they are to show.
        name: Under which they show it.
        step: Of the training.
    """
    for logger in loggers:
        experiment: Any = getattr(logger, "experiment", None)
        if hasattr(logger, "log_image") and hasattr(logger, "log_table"):
            for number, table in enumerate(report.document().tables):
                logger.log_table(f"{name}/{number}_{table.name}", columns=table.header, data=table.lines, step=step)
            if report.by_bucket:
                logger.log_image(f"{name}/figure", [picture(report)], step=step)
        elif hasattr(experiment, "add_figure") and hasattr(experiment, "add_text"):
            experiment.add_text(name, markdown(report), step)
            if report.by_bucket:
                experiment.add_figure(name, picture(report), step)
        elif hasattr(experiment, "log_figure") and hasattr(experiment, "log_text") and hasattr(logger, "run_id"):
            place, run = f"{name}/step_{step:08d}", logger.run_id
            experiment.log_text(run, markdown(report), f"{place}.md")
            if report.labels is not None:
                experiment.log_text(run, report.labels.csv(), f"{place}_labels.csv")
            if report.by_bucket:
                experiment.log_figure(run, picture(report), f"{place}.png")
