"""What can be said on the command line and in a config: one field is one option, its annotation the help."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from tailmetrics.io import FORMATS, Columns
from tailmetrics.io.database import MEMORY
from tailmetrics.significance.comparing import Correction
from tailmetrics.significance.estimating import Resample


@dataclass(frozen=True, kw_only=True)
class DataOptions:
    """Files that every run is evaluated against."""

    target: Annotated[
        str | None, "Targets: a file, a folder of parts, a pattern in quotes, or an address such as s3://."
    ] = None
    train_target: Annotated[str | None, "File of training targets: counts labels for buckets and propensities."] = None
    label_counts: Annotated[str | None, "File of training counts instead: .npy, .pt, .txt, .csv or .tsv."] = None
    num_train: Annotated[int | None, "Training rows, beside --label-counts; propensities and novelty ask."] = None
    num_labels: Annotated[int | None, "Number of labels, where no file declares it."] = None
    filter: Annotated[str | None, "File of (row, label) pairs that do not count, as in XMC."] = None
    missing: Annotated[Literal["skip", "zero"], "Leave queries without predictions out, or count them 0."] = "skip"
    duplicates: Annotated[
        Literal["error", "first"], "A label listed again in a row of predictions: refuse it, or leave it as a miss."
    ] = "error"
    min_gain: Annotated[float | None, "The least gain that counts as relevant; trec_eval's -l."] = None
    train_min_gain: Annotated[float | None, "The same for training targets; any above 0 if left out."] = None
    buckets: Annotated[
        str | None, "Buckets in the place of deciles: quantiles:5, or thresholds:1,5,100 of training counts."
    ] = None
    row_groups: Annotated[
        str | None, "Column of the targets, or file, with the group of each row, such as its language."
    ] = None
    cut: Annotated[int | None, "How many labels of each list count; trec_eval's -M."] = None
    format: Annotated[str | None, f"Format of all files; told from each if left out. One of {', '.join(FORMATS)}."] = (
        None
    )
    preds_format: Annotated[str | None, "Format of the predictions, where the other files have another one."] = None
    columns: Annotated[Columns, "Names of columns."] = field(default_factory=Columns)
    preds_columns: Annotated[Columns | None, "Names of columns of the predictions, where they differ."] = None
    string_ids: Annotated[
        bool | None, "true: whole numbers are names too; false: they are label ids without --num-labels."
    ] = None
    batch_rows: Annotated[int, "Rows per batch at most."] = 2048
    memory: Annotated[str, "What is held of lines that name their query, such as 2GB; the rest lies in TMPDIR."] = (
        MEMORY
    )


@dataclass(frozen=True, kw_only=True)
class ResamplingOptions:
    """How confidence intervals and tests draw."""

    confidence: Annotated[float, "Confidence of intervals; 1 - confidence is the level of tests."] = 0.95
    resamples: Annotated[int | None, "Bootstrap resamples and random swaps; 10,000 unless more are needed."] = None
    resample: Annotated[Resample, "What is taken for a sample: rows, or labels too, in averages over labels."] = "rows"
    seed: Annotated[int, "Same seed, same numbers."] = 0


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions:
    """What ``tailmetrics evaluate`` reads and writes."""

    preds: Annotated[
        str | None, "Predictions: a file, a folder of parts, a pattern in quotes, or an address such as s3://."
    ] = None
    out: Annotated[str | None, "Folder for the report."] = None
    per_row: Annotated[str | None, "Parquet file for the value of every metric in every row."] = None
    intervals: Annotated[bool, "Resample for confidence intervals; else sums over the rows give them."] = False
    no_intervals: Annotated[bool, "Leave confidence intervals out, which is faster."] = False
    labels: Annotated[bool, "Write labels.csv, the values of each label; the report names the worst."] = False
    label_names: Annotated[str | None, "Text file of label names, one per line, where files number labels."] = None
    examples: Annotated[bool, "Show a few rows: for each bucket one that misses a label of it."] = False
    title: Annotated[str | None, "Title of the report."] = None
    device: Annotated[Literal["cpu", "cuda"], "Where metrics are computed."] = "cpu"
    engine: Annotated[
        Literal["ray", "spark", "dask"] | None, "Evaluate shares of the rows on a cluster of Ray, Spark or Dask."
    ] = None
    shares: Annotated[int | None, "Shares that --engine makes; twice the processors of the cluster if left out."] = None
    overwrite: Annotated[bool, "Replace files that are there already."] = False
    quiet: Annotated[bool, "Print no tables."] = False


@dataclass(frozen=True, kw_only=True)
class CompareOptions:
    """What ``tailmetrics compare`` reads and writes."""

    preds: Annotated[list[str] | None, "Files of predictions, two or more, instead of tables."] = None
    names: Annotated[list[str] | None, "Names of the runs, in the order of the files; file names if left out."] = None
    baseline: Annotated[str | None, "Name of the run that others are held against; all pairs if left out."] = None
    only: Annotated[list[str] | None, "Metrics to compare, with or without their bucket; all if left out."] = None
    correction: Annotated[Correction, "How p-values are corrected for the number of comparisons."] = "holm"
    title: Annotated[str | None, "Title of the comparison."] = None
    out: Annotated[str | None, "Folder for the comparison as a page, a picture, JSON, Markdown and CSV."] = None
    overwrite: Annotated[bool, "Replace files that are there already."] = False
    quiet: Annotated[bool, "Print no tables."] = False
