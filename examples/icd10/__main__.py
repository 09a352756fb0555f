"""Fit, test and compare.

Run `python -m examples.icd10 --config configs/icd10.yaml` from the root.
"""

import torch
from pytorch_lightning.cli import LightningArgumentParser, LightningCLI

from tailmetrics.lightning import HeadToTailReport

from .compared import write_comparison
from .data import ICD10Data
from .headline import headline
from .model import BagOfFeatures


class ICD10CLI(LightningCLI):
    """A `LightningCLI` in which the model takes its sizes from the data."""

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Link the sizes, so that a config cannot contradict the data."""
        for size in ("num_features", "num_labels"):
            parser.link_arguments(
                f"data.{size}", f"model.{size}", apply_on="instantiate"
            )


def main() -> None:
    """Run the command line."""
    # sums, and so the numbers, do not depend on the number of cores
    torch.set_num_threads(1)
    cli = ICD10CLI(BagOfFeatures, ICD10Data, run=False)
    cli.trainer.fit(cli.model, datamodule=cli.datamodule)
    cli.trainer.test(cli.model, datamodule=cli.datamodule, verbose=False)
    if not cli.trainer.is_global_zero or cli.trainer.fast_dev_run:
        return
    folder = next(
        callback.folder
        for callback in cli.trainer.callbacks
        if isinstance(callback, HeadToTailReport)
    )
    assert folder is not None
    # several processes would add up what one of them evaluates
    if cli.trainer.world_size == 1:
        print(
            *(
                f"wrote {path}"
                for path in write_comparison(cli.model, cli.datamodule, folder)
            ),
            sep="\n",
        )
    print(headline(folder))


if __name__ == "__main__":
    main()
