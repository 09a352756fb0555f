"""Fit, then test: `python -m examples.icd10 --config configs/icd10.yaml` from the root of the repository."""

from pytorch_lightning.cli import LightningArgumentParser, LightningCLI

from .data import ICD10Data
from .model import BagOfFeatures


class ICD10CLI(LightningCLI):
    """A `LightningCLI` in which the model takes its sizes from the data."""

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Link the sizes, so that a config cannot contradict the data."""
        for size in ("num_features", "num_labels"):
            parser.link_arguments(f"data.{size}", f"model.{size}", apply_on="instantiate")


def main() -> None:
    """Run the command line."""
    cli = ICD10CLI(BagOfFeatures, ICD10Data, run=False)
    cli.trainer.fit(cli.model, datamodule=cli.datamodule)
    cli.trainer.test(cli.model, datamodule=cli.datamodule, verbose=False)


if __name__ == "__main__":
    main()
