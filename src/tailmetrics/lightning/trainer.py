"""What the callback asks of Lightning: packages, loaders, folders and checkpoints."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from io import BytesIO
from pathlib import Path
from typing import Any
from warnings import warn

import torch

PACKAGES = ("pytorch_lightning", "lightning.pytorch")
KNOWN = "2.6"
"""Versions of Lightning with the private attributes of :func:`evaluated_loaders`."""
BYTES_IN_PIPE = 60_000
"""Bytes of values, beside other results, in a pipe of Linux, which has 65,536 bytes."""

# -- the two packages ------------------------------------------------------------------


def callback_bases() -> tuple[type, ...]:
    """Return the class ``Callback`` of each installed Lightning package."""
    return tuple(import_module(name).Callback for name in installed())


def installed() -> list[str]:
    """Return the names of the Lightning packages that can be imported.

    Each package is imported: a mere search would find any folder "lightning", too.
    """
    names = []
    for name in PACKAGES:
        with suppress(ModuleNotFoundError):
            names.append(import_module(name).__name__)
    if not names:
        raise ImportError(
            "tailmetrics.lightning needs Lightning; install it with: pip install "
            "'tailmetrics[lightning]'"
        )
    return names


@contextmanager
def same_random_numbers(loader: Any) -> Iterator[None]:
    """Restore the random states of run, loader and samplers when the context ends."""
    sampler = getattr(loader, "sampler", None)
    batch_sampler = getattr(loader, "batch_sampler", None)
    states = []
    for owner in (
        loader,
        sampler,
        batch_sampler,
        getattr(batch_sampler, "sampler", None),
    ):
        generator = getattr(owner, "generator", None)
        if isinstance(generator, torch.Generator):
            states.append((generator, generator.get_state()))
    with import_module(f"{installed()[0]}.utilities.seed").isolate_rng():
        yield
    for generator, state in states:
        generator.set_state(state)


def outline(value: Any) -> str:
    """Return the type of a batch or output, and the keys of a dict, for a message."""
    if not isinstance(value, dict):
        return f"a {type(value).__name__}"
    if not value:
        return "an empty dict"
    keys = ", ".join(map(repr, value))
    return f"a dict with {keys}"


# -- loaders ---------------------------------------------------------------------------


def training_loaders(trainer: Any, pl_module: Any) -> list[Any]:
    """Return the training loaders of the fit, or else of the data module or model."""
    loaders: Any = trainer.train_dataloader
    if loaders is None:
        loaders = _loaders_of_owner(getattr(trainer, "datamodule", None), pl_module)
    combined_loader = import_module(
        f"{installed()[0]}.utilities.combined_loader"
    ).CombinedLoader
    return list(combined_loader(getattr(loaders, "iterables", loaders)).flattened)


def _loaders_of_owner(datamodule: Any, pl_module: Any) -> Any:
    if datamodule is not None and _has_training_data(datamodule):
        datamodule.setup("fit")
        return datamodule.train_dataloader()
    if _has_training_data(pl_module):
        return pl_module.train_dataloader()
    raise ValueError(
        "HeadToTailReport: there is no training data to count labels in; pass "
        "label_counts= to the callback, or a data module that has a train_dataloader."
    )


def _has_training_data(owner: Any) -> bool:
    """Whether a data module or model defines a ``train_dataloader`` of its own."""
    return not type(owner).train_dataloader.__module__.startswith(PACKAGES)


def evaluated_loaders(trainer: Any) -> list[Any]:
    """Return the loaders of the running validation or test.

    They are ``[None]`` if a step gets batches of several loaders.

    ``trainer.val_dataloaders`` would be wrong: it holds the loaders of the fit, even in
    a later ``trainer.validate``.
    """
    try:
        loop = trainer._evaluation_loop
        if not loop._is_sequential:
            return [None]
        return list(loop._combined_loader.flattened)
    except AttributeError as error:
        # with guessed loaders, repeated rows would be counted
        package = type(trainer).__module__.split(".")[0]
        raise RuntimeError(
            f"HeadToTailReport: {package} {import_module(package).__version__} does "
            f"not say which loaders are evaluated; Lightning {KNOWN} does. Install one "
            "of these, or a newer tailmetrics."
        ) from error


def has_only_empty_loaders(trainer: Any) -> bool:
    """Return whether a fit has validation loaders of which none has a batch.

    Lightning then validates nothing.
    """
    if trainer.val_dataloaders is None or not trainer.limit_val_batches:
        return False
    return not any(trainer.num_val_batches)


# -- the run ---------------------------------------------------------------------------


def run_folder(trainer: Any) -> Path | None:
    """Return the folder of a Trainer's run; None if the folder is not local.

    The folder is the parent of Lightning's folder of checkpoints; without a logger,
    ``reports`` in ``default_root_dir``. Call this function on the first process only.
    """
    logger = trainer.logger
    root = str(getattr(logger, "save_dir", None) or trainer.default_root_dir)
    if "://" in root:
        warn(
            f"HeadToTailReport: reports are not written, because {root} is no local "
            "folder; give the Trainer a local default_root_dir or a logger with a "
            "local save_dir, or pass files=False.",
            stacklevel=2,
        )
        return None
    if logger is None:
        return Path(root, "reports")
    logger.experiment  # noqa: B018 - the property starts the run; some loggers know their version only then
    version = logger.version
    if not isinstance(version, str):
        version = f"version_{version}"
    return Path(root, str(logger.name), version)


def best_checkpoint(trainer: Any) -> tuple[str, float | None] | None:
    """Return path and score of the checkpoint that is best by a logged value, or None.

    The score is None if Lightning has restored the path alone, as in a resumed fit with
    another folder of checkpoints, and in the process that started those of a fit.
    """
    for callback in trainer.checkpoint_callbacks:
        if getattr(callback, "monitor", None) and getattr(
            callback, "best_model_path", ""
        ):
            score = callback.best_model_score
            if score is None:
                return callback.best_model_path, None
            return callback.best_model_path, float(score)
    return None


def runs_in_started_processes(trainer: Any) -> bool:
    """Return whether Lightning started this process for one run, as ``ddp_spawn`` does.

    ``ddp_notebook`` does so too.
    """
    return hasattr(getattr(trainer.strategy, "launcher", None), "_start_method")


def fit_values_into_pipe(trainer: Any, keys: Iterable[str]) -> bool:
    """Return whether Lightning can hand values to the process that started this one.

    The values are those of ``trainer.callback_metrics``. Lightning writes them into a
    pipe, which is read only after this process has ended: with too many values, it
    would wait without end. So the values of ``keys`` are put into one tensor, which
    needs a third of the room, and are deleted if they still do not fit.
    """
    metrics = trainer.callback_metrics
    own_keys = [key for key in keys if key in metrics]
    values = torch.tensor(
        [float(metrics[key]) for key in own_keys], dtype=torch.float64
    )
    metrics.update(zip(own_keys, values, strict=True))

    file = BytesIO()
    torch.save(dict(metrics), file)
    if file.tell() <= BYTES_IN_PIPE:
        return True
    for key in own_keys:
        del metrics[key]
    return False
