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
    train_target: Annotated[str | None, "File of training targets. Their labels are counted."] = None
    label_counts: Annotated[
        str | None,
        "File of training counts: .npy, .pt, .txt, .csv or .tsv. Of two columns the one "
        "of whole numbers is the count, whatever their names. A label that is left out has the count 0.",
    ] = None
    num_train: Annotated[int | None, "Number of training rows; it goes with --label-counts."] = None
    num_labels: Annotated[int | None, "Number of labels, if no file says it."] = None
    label_names: Annotated[
        str | None,
        "Text file with the name of each label, one per line. Targets may then hold names beside a matrix of scores.",
    ] = None
    filter: Annotated[
        str | None, "File of pairs that do not count: lines of row and label, or of query and item, as in train.csv."
    ] = None
    missing: Annotated[Literal["skip", "zero"], "Leave queries without predictions out, or count them as 0."] = "skip"
    duplicates: Annotated[
        Literal["error", "first"], "A label that a row lists twice: refuse it, or count the second as a miss."
    ] = "error"
    min_gain: Annotated[
        float | None,
        "The least gain that counts as relevant, like -l of trec_eval. CG, DCG and nDCG still add all gains.",
    ] = None
    ignore_index: Annotated[
        int | None, "Rows with this label do not count, such as -100 or the 0 that pads. Each row then has one label."
    ] = None
    train_min_gain: Annotated[
        float | None, "The least gain of training targets that counts; by default any above 0."
    ] = None
    buckets: Annotated[
        str | None,
        "Buckets of labels: deciles, quantiles:5, quantiles:5:labels for equally many labels in each, or "
        "thresholds:1,20,101 for ranges of the training count. Names go from the most frequent bucket to the rarest: "
        "thresholds:1,20,101:many,medium,few. Each metric is then reported by bucket too, for the one list that a row "
        "shows (scope global). A metric with buckets of its own keeps its scope.",
    ] = None
    probabilities: Annotated[bool, "Scores are probabilities: CrossEntropy and the like read their logarithm."] = False
    row_groups: Annotated[
        str | None, "The group of each row, such as its language: a column of the targets, or a file."
    ] = None
    format: Annotated[
        str | None, f"Format of all files; by default each file tells it. One of {', '.join(FORMATS)}."
    ] = None
    preds_format: Annotated[str | None, "Format of the predictions, where it is not that of the other files."] = None
    columns: Annotated[Columns, "Names of columns."] = field(default_factory=Columns)
    preds_columns: Annotated[Columns | None, "Names of columns of the predictions alone."] = None
    string_ids: Annotated[bool | None, "true: whole numbers are names, too; false: they are label ids."] = None
    batch_rows: Annotated[int, "Most rows of a batch."] = 2048
    memory: Annotated[str, "Memory for lines that name their query, such as 2GB. The rest goes to TMPDIR."] = MEMORY


@dataclass(frozen=True, kw_only=True)
class ResamplingOptions:
    """How confidence intervals and tests draw."""

    confidence: Annotated[float, "Confidence of intervals; 1 - confidence is the level of tests."] = 0.95
    resamples: Annotated[int, "Number of resamples and swaps. A strict level takes more."] = 10_000
    resample: Annotated[Resample, "What is drawn: rows, or rows,labels for averages over labels."] = "rows"
    seed: Annotated[int, "The same seed gives the same numbers."] = 0


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions:
    """What ``tailmetrics evaluate`` reads and writes."""

    preds: Annotated[
        str | None, "Predictions: a file, a folder of parts, a pattern in quotes, or an address such as s3://."
    ] = None
    out: Annotated[str | None, "Folder for the report."] = None
    per_row: Annotated[str | None, "Parquet file to write, for compare: the value of every metric in every row."] = None
    intervals: Annotated[
        bool, "Compute confidence intervals by resampling, which takes longer than the usual ones."
    ] = False
    clusters: Annotated[
        str | None,
        "The cluster of each row, such as its user, where rows of a cluster are alike: a column of the targets, or a "
        "file as for --row-groups. Intervals then take clusters, not rows, for independent.",
    ] = None
    no_intervals: Annotated[bool, "Leave confidence intervals out, which is faster."] = False
    labels: Annotated[
        bool, "Write labels.csv with the values of each label. The report then names the worst labels."
    ] = False
    examples: Annotated[bool, "Show, for each bucket, one row that misses a label of it."] = False
    title: Annotated[str | None, "Title of the report."] = None
    device: Annotated[Literal["cpu", "cuda"], "Where metrics are computed."] = "cpu"
    engine: Annotated[
        Literal["ray", "spark", "dask"] | None, "Evaluate shares of the rows on a cluster: ray, spark or dask."
    ] = None
    shares: Annotated[int | None, "Number of shares; by default twice the processors of the cluster."] = None
    overwrite: Annotated[bool, "Replace existing files."] = False
    quiet: Annotated[bool, "Print neither tables nor the notes below them."] = False


@dataclass(frozen=True, kw_only=True)
class CompareOptions:
    """What ``tailmetrics compare`` reads and writes."""

    preds: Annotated[list[str] | None, "Files of predictions, two or more, instead of tables."] = None
    names: Annotated[list[str] | None, "Names of the runs; by default those of the files."] = None
    baseline: Annotated[str | None, "The run to compare the others with. By default all pairs are compared."] = None
    clusters: Annotated[
        str | None,
        "The cluster of each row, such as its user, where rows of a cluster are alike: a column of the tables, or of "
        "--target, or a file as for --row-groups. By default what evaluate --clusters wrote into the tables.",
    ] = None
    only: Annotated[
        list[str] | None,
        "What to compare, such as recall@10, or recall@10/decile_1. The verdict is about the first one by bucket.",
    ] = None
    correction: Annotated[Correction, "How p-values are corrected for the number of comparisons."] = "holm"
    title: Annotated[str | None, "Title of the comparison."] = None
    out: Annotated[str | None, "Folder for the comparison as a page, a picture, JSON, Markdown and CSV."] = None
    overwrite: Annotated[bool, "Replace existing files."] = False
    quiet: Annotated[bool, "Print neither tables nor the notes below them."] = False
