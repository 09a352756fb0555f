"""Functions by which the callback uses Lightning and its loggers: loaders, folders, logged values and figures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Any
from warnings import warn

import torch
from torch import Tensor
from torch.utils.data import BatchSampler, DistributedSampler, RandomSampler, SubsetRandomSampler

from tailmetrics.collection import TopKCollection
from tailmetrics.ranking import Ranking
from tailmetrics.report import Report
from tailmetrics.report.pictures import picture
from tailmetrics.report.text import markdown

PACKAGES = ("pytorch_lightning", "lightning.pytorch")
KNOWN = "2.2 to 2.6"
"""Versions of Lightning that have the private attributes which :func:`evaluated_loaders` reads."""

# -- the two packages ---------------------------------------------------------------------------------------------


def callback_bases() -> tuple[type, ...]:
    """Return the class ``Callback`` of each installed Lightning package."""
    return tuple(import_module(name).Callback for name in installed())


def installed() -> list[str]:
    """Return the names of the Lightning packages that can be imported.

    Each package is imported: a mere search would also find any folder called "lightning".
    """
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
    """Restore the random state of the run, of a loader and of its samplers when the context ends."""
    batches, sampler = getattr(loader, "batch_sampler", None), getattr(loader, "sampler", None)
    owners = (loader, sampler, batches, getattr(batches, "sampler", None))
    generators = [getattr(owner, "generator", None) for owner in owners]
    before = [(one, one.get_state()) for one in generators if isinstance(one, torch.Generator)]
    with import_module(f"{installed()[0]}.utilities.seed").isolate_rng():
        yield
    for generator, state in before:
        generator.set_state(state)


def _class_of_lightning(owner: Any, method: str) -> type:
    """Return the first base class of ``owner`` that belongs to Lightning and has ``method``."""
    bases = (base for base in type(owner).__mro__ if base.__module__.startswith(PACKAGES))
    return next(base for base in bases if method in dir(base))


def outline(value: Any) -> str:
    """Return the type of a batch or output, and the keys of a dict, for a message."""
    return f"a {type(value).__name__}" + (f" with {', '.join(map(repr, value))}" if isinstance(value, dict) else "")


# -- loaders ------------------------------------------------------------------------------------------------------


def training_loaders(trainer: Any, pl_module: Any) -> list[Any]:
    """Return the training loaders of the running fit; without a fit, of the data module, or else of the model."""
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
    """Return the loaders of the running validation or test; ``[None]`` if a step gets batches of several loaders.

    ``trainer.val_dataloaders`` would be wrong: it holds the loaders of the fit, even in a later ``trainer.validate``.
    """
    try:
        loop = trainer._evaluation_loop
        return list(loop._combined_loader.flattened) if loop._is_sequential else [None]
    except AttributeError as error:  # with guessed loaders, repeated rows would be counted
        package = type(trainer).__module__.split(".")[0]
        raise RuntimeError(
            f"HeadToTailReport: {package} {import_module(package).__version__} does not say which loaders are "
            f"evaluated; Lightning {KNOWN} does. Install one of these, or a newer tailmetrics."
        ) from error


def loaders_without_rows(trainer: Any) -> bool:
    """Return whether a fit has validation loaders of which none has a batch; Lightning then validates nothing."""
    return bool(trainer.val_dataloaders is not None and trainer.limit_val_batches and not sum(trainer.num_val_batches))


class SamplerPadding:
    """Finds in each batch the rows that a distributed sampler repeats to fill its last round.

    With n rows and w processes, process r gets the places r, r + w, r + 2w, …. Places from n on hold repeated rows,
    whether or not the sampler shuffles.

    Args:
        loader: The loader; None if a step gets batches of several loaders.

    Attributes:
        sampler: The distributed sampler; None if the loader has none, so that no row is repeated.
    """

    def __init__(self, loader: Any) -> None:
        batches = getattr(loader, "batch_sampler", None)
        samplers = (getattr(loader, "sampler", None), getattr(batches, "sampler", None))
        self.sampler = next((one for one in samplers if isinstance(one, DistributedSampler)), None)
        size = batches.batch_size if type(batches) is BatchSampler else None
        self._batch_size = size if isinstance(size, int) else None
        self._before = 0

    def first_seen(self, rows: int, step: str, masked: bool) -> Tensor | None:
        """Return a mask of the next batch that is False for repeated rows; None if this mask is not needed.

        Args:
            rows: Number of rows that the step returned.
            step: Name of the step, for the error message.
            masked: Whether the step returned a row mask. If it also changed the number of rows, its mask has to drop
                repeated rows.

        Raises:
            ValueError: If the batch holds repeated rows, and the step changed the number of rows without a row mask.
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

    def skip(self, step: str) -> None:
        """Move on by a batch for which the step returned None.

        Raises:
            ValueError: If a batch sampler of the user's own decides how many rows the batch has.
        """
        if self.sampler is None:
            return
        if self._batch_size is None:
            raise ValueError(
                f"HeadToTailReport: {step} returned None, and the batch sampler does not say how many rows the batch "
                "has, which is needed to find the rows that the distributed sampler repeats; return the batch with a "
                "row mask that is False for all of its rows."
            )
        self._before += min(self._batch_size, self.sampler.num_samples - self._before)


# -- processes that rank the same rows ----------------------------------------------------------------------------


class UnsplitCheck:
    """Finds out once whether several processes rank the same rows of a loader, which then count several times.

    A distributed sampler splits the rows. Without one, the processes compare what they ranked: of loaders in random
    order the states of the metrics, which do not depend on the order of rows; of other loaders the first batch.

    Args:
        loader: The loader; None if a step gets batches of several loaders.

    Attributes:
        is_open: Whether the processes have still to compare what they ranked.
        in_random_order: Whether the order of rows may differ between processes.
        number: A number that depends on what this process ranked, shape (), int64; None before the first batch.
    """

    def __init__(self, loader: Any) -> None:
        sampler = getattr(loader, "sampler", None)
        self.is_open = SamplerPadding(loader).sampler is None
        self.in_random_order = isinstance(sampler, (RandomSampler, SubsetRandomSampler))
        self.number: Tensor | None = None
        self._has_rows = False

    def read_batch(self, ranking: Ranking) -> None:
        """Read the first batch that has rows; no value leaves its device."""
        if not self.is_open or self._has_rows or not ranking.num_rows:
            return
        self._has_rows = True
        if not self.in_random_order:
            parts = [ranking.ids, *ranking.targets.kernels.occurrences(ranking.targets)]
            if ranking.scores is not None and ranking.scores.layout == torch.strided:
                parts.append(ranking.scores.detach().sum(dim=1, dtype=torch.float32).view(torch.int32))
            self.number = number_of(parts)

    def read_states(self, collection: TopKCollection) -> None:
        """Read the states of this process at the end of an epoch."""
        if self.is_open and self.in_random_order and self._has_rows:
            states = []
            for metric in collection.members().values():
                states += [getattr(metric, name) for name in metric._defaults]
            self.number = number_of(states)


def number_of(parts: Sequence[Tensor]) -> Tensor:
    """Return a number that depends on every whole number of some tensors and on its place, shape (), int64."""
    number = torch.zeros((), dtype=torch.int64, device=parts[0].device)
    for part in parts:
        numbers = part.reshape(-1).to(torch.int64)
        weights = 2 * torch.arange(len(numbers), device=part.device) + 1
        number = 31 * number + (numbers * weights).sum()
    return number


def processes_with_equal_numbers(trainer: Any, checks: Sequence[UnsplitCheck]) -> list[bool]:
    """Return for each loader whether two processes ranked the same rows; call it in every process.

    It takes one collective, and closes the checks of the loaders that several processes have ranked.
    """
    device = trainer.strategy.root_device
    pairs = torch.zeros(len(checks), 2, dtype=torch.int64, device=device)
    for loader, check in enumerate(checks):
        if check.is_open and check.number is not None:
            pairs[loader, 0] = 1
            pairs[loader, 1] = check.number.to(device)

    gathered = trainer.strategy.all_gather(pairs).tolist()
    are_equal = []
    for loader, check in enumerate(checks):
        numbers = [process[loader][1] for process in gathered if process[loader][0]]
        are_equal.append(len(set(numbers)) < len(numbers))
        if len(numbers) > 1:
            check.is_open = False
    return are_equal


# -- logged values ------------------------------------------------------------------------------------------------


class _Unchecked(str):
    """A name that hides "/dataloader_idx_" from Lightning before 2.6, which refuses names with this text."""

    __slots__ = ()

    def __contains__(self, part: str) -> bool:  # type: ignore[override] # the signature of str
        return part != "/dataloader_idx_" and super().__contains__(part)


def log_values(pl_module: Any, values: Mapping[str, float]) -> None:
    """Log values that are equal in all processes, without communication and without waiting for a device.

    Lightning gets tensors on the CPU, which it reads without waiting. ``sync_dist`` with ``rank_zero_only`` makes
    Lightning reduce nothing and warn of nothing. ``reduce_fx="max"`` keeps a single value unchanged, while a mean would
    divide. Names are plain strings where possible: launchers send names between processes, and
    ``torch.load(weights_only=True)`` refuses other types.
    """
    package = import_module(_class_of_lightning(pl_module, "log_dict").__module__.split(".")[0])
    before = tuple(map(int, package.__version__.split(".")[:2])) < (2, 6)
    names = [_Unchecked(name) if before and "/dataloader_idx_" in name else name for name in values]
    logged = dict(zip(names, torch.tensor(list(values.values()), dtype=torch.float32), strict=True))
    pl_module.log_dict(logged, sync_dist=True, rank_zero_only=True, reduce_fx="max", add_dataloader_idx=False)


def apart(values: Mapping[str, float], loggers: Sequence[Any]) -> Mapping[str, float]:
    """Return values with names that are no folders of other names, if a logger stores a file for each name.

    MLflow's file store does so: ``val/recall@10`` becomes ``val/recall@10/all`` beside ``val/recall@10/decile_1``.
    """
    if not any(hasattr(logger, "run_id") and getattr(logger, "save_dir", None) is not None for logger in loggers):
        return values
    folders = {name[:end] for name in values for end in range(len(name)) if name[end] == "/"}
    return {f"{name}/all" if name in folders else name: value for name, value in values.items()}


def run_folder(trainer: Any) -> Path | None:
    """Return the folder of a Trainer's run; None if it is not local. Call it on the first process only.

    It is the parent of Lightning's folder of checkpoints; without a logger, ``reports`` in ``default_root_dir``.
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
    logger.experiment  # noqa: B018 - the property starts the run; some loggers know their version only then
    version = logger.version
    return Path(root, str(logger.name), version if isinstance(version, str) else f"version_{version}")


def best_checkpoint(trainer: Any) -> tuple[str, float | None] | None:
    """Return path and score of the checkpoint that is the best by a logged value; None without such a checkpoint.

    The score is None if Lightning has restored the path alone, as in a resumed fit with another folder of checkpoints,
    and in the process that started the processes of a fit.
    """
    for callback in trainer.checkpoint_callbacks:
        if getattr(callback, "monitor", None) and getattr(callback, "best_model_path", ""):
            score = callback.best_model_score
            if score is None:
                return callback.best_model_path, None
            return callback.best_model_path, float(score)
    return None


def runs_in_started_processes(trainer: Any) -> bool:
    """Return whether Lightning started this process for one run, as ``ddp_spawn`` and ``ddp_notebook`` do."""
    return hasattr(getattr(trainer.strategy, "launcher", None), "_start_method")


def show_in_loggers(loggers: list[Any], report: Report, name: str, step: int) -> None:
    """Send a report to every logger that takes figures and text; call it on the first process.

    Loggers are recognised by their methods, so that no logger has to be installed. A logger without methods for
    figures and text, such as ``CSVLogger``, is skipped.

    Args:
        loggers: The loggers of the trainer.
        report: The report to show.
        name: Name of the report in the loggers.
        step: The training step.
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
