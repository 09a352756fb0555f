"""What can be said on the command line and in a config: one field is one option, its line in the docstring the help."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from tailmetrics.io import Columns
from tailmetrics.io.database import MEMORY
from tailmetrics.io.loading import BATCH_ROWS
from tailmetrics.report.pages import Figures
from tailmetrics.significance.comparing import Correction
from tailmetrics.significance.estimating import Resample


@dataclass(frozen=True, kw_only=True)
class DataOptions:
    """Files that every run is evaluated against.

    Attributes:
        target: Targets: a file, a folder of parts, a pattern in quotes, or an address such as s3://.
        train_target: File of training targets. Their labels are counted.
        label_counts: File of training counts: .npy, .pt or .txt in the order of the label ids; or .csv or .tsv, where
            the column of whole numbers is the count, whatever its name, and a label that is left out has the count 0.
        num_train: Number of training rows; it goes with --label-counts.
        num_labels: Number of labels, if no file says it.
        label_names: Text file with the name of each label, one per line. Targets may then hold names beside a matrix of
            scores.
        label_tree: File of lines 'child,parent' under these names: the parent of each label, by name or id.
        filter: File of pairs that do not count: lines of row and label, or of query and item, as in train.csv.
        missing: Leave queries without predictions out, or count them as 0.
        duplicates: A label that a row lists twice: refuse it, or count the second as a miss; in targets count it once.
        min_gain: The least gain that counts as relevant, like -l of trec_eval. CG, DCG and nDCG still add all gains.
        ignore_index: Rows with this label do not count, such as -100 or the 0 that pads. Targets then hold one label
            for each row.
        train_min_gain: The least gain of training targets that counts; by default any above 0.
        buckets: Buckets of labels: deciles, quantiles:5, quantiles:5:labels for equally many labels in each, or
            thresholds:1,20,101 for ranges of the training count. Names go from the most frequent bucket to the rarest:
            thresholds:1,20,101:many,medium,few. Each metric is then reported by bucket too, for the one list that a row
            shows (scope global). A metric with buckets of its own keeps its scope.
        probabilities: Scores are probabilities: CrossEntropy and CalibrationErrorAtK read their logarithm.
        row_groups: The group of each row, such as its language: a column of the targets, or a file of lines
            'query,group', or of one group per row.
        format: Format of all files; by default each file tells it. The formats are listed below.
        preds_format: Format of the predictions, where it is not that of the other files.
        columns: Names of columns.
        preds_columns: Names of columns of the predictions alone, such as --preds-columns.query NAME, in the place
            of all of --columns.
        delimiter: Separator of fields of text files that hold it, such as ';'; by default each file tells it.
        part: Subset and split of predictions of MTEB, such as default/test.
        string_ids: true: whole numbers are names, too; false: they are label ids. By default they are names in files of
            lines, unless --num-labels is given.
        batch_rows: Most rows of a batch.
        memory: Memory for lines that name their query, such as 2GB; the rest goes to TMPDIR. A row may take
            three times as much.
    """

    target: str | None = None
    train_target: str | None = None
    label_counts: str | None = None
    num_train: int | None = None
    num_labels: int | None = None
    label_names: str | None = None
    label_tree: str | None = None
    filter: str | None = None
    missing: Literal["skip", "zero"] = "skip"
    duplicates: Literal["error", "first"] = "error"
    min_gain: float | None = None
    ignore_index: int | None = None
    train_min_gain: float | None = None
    buckets: str | None = None
    probabilities: bool = False
    row_groups: str | None = None
    format: str | None = None
    preds_format: str | None = None
    columns: Columns = field(default_factory=Columns)
    preds_columns: Columns | None = None
    delimiter: str | None = None
    part: str | None = None
    string_ids: bool | None = None
    batch_rows: int = BATCH_ROWS
    memory: str = MEMORY


@dataclass(frozen=True, kw_only=True)
class ResamplingOptions:
    """How confidence intervals and tests draw.

    Attributes:
        confidence: Confidence of intervals; 1 - confidence is the level of tests.
        resamples: Number of resamples and swaps. More are drawn where the level is strict.
        resample: What is drawn: rows, or rows,labels for averages over labels.
        seed: The same seed gives the same numbers.
    """

    confidence: float = 0.95
    resamples: int = 10_000
    resample: Resample = "rows"
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """What both commands show and write.

    Attributes:
        out: Folder for the results: a page, pictures, Markdown, LaTeX, CSV and JSON.
        figures: Write each picture alone too, for a paper: svg or pdf.
        headline: The metric that the results are about, such as recall@10. It is shown first, by bucket. By default
            that of the preset, or else recall.
        title: Title of the results.
        overwrite: Replace existing files.
        words: What rows and labels are called, such as 'users, items'. By default as in the preset.
        verbose: Print all tables and notes, not one look.
        quiet: Print nothing but the paths of the files written.
    """

    out: str | None = None
    figures: Figures | None = None
    headline: str | None = None
    title: str | None = None
    overwrite: bool = False
    words: str | None = None
    verbose: bool = False
    quiet: bool = False


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions:
    """What ``tailmetrics evaluate`` reads and writes.

    Attributes:
        preds: Predictions: a file, a folder of parts, a pattern in quotes, or an address such as s3://.
        per_row: Parquet file to write, for compare: the value of every metric in every row. By default rows.parquet in
            the folder of --out.
        no_rows: Write no table of rows. compare then cannot take the folder.
        intervals: Compute confidence intervals by resampling, which takes longer than the intervals of every report.
        clusters: The cluster of each row, such as its user, where rows of a cluster are alike: a column of the targets,
            or a file as for --row-groups. Intervals then take clusters, not rows, for independent.
        no_intervals: Leave confidence intervals out, which is faster.
        labels: Write labels.csv with the values of each label. The report then names the worst labels.
        show_reading: Print how each file is read and its first two rows as they are understood, and stop.
        device: Where metrics are computed.
        engine: Evaluate shares of the rows on a cluster: ray, spark or dask.
        shares: Number of shares; by default twice the processors of the cluster.
    """

    preds: str | None = None
    per_row: str | None = None
    no_rows: bool = False
    intervals: bool = False
    clusters: str | None = None
    no_intervals: bool = False
    labels: bool = False
    show_reading: bool = False
    device: Literal["cpu", "cuda"] = "cpu"
    engine: Literal["ray", "spark", "dask"] | None = None
    shares: int | None = None


@dataclass(frozen=True, kw_only=True)
class CompareOptions:
    """What ``tailmetrics compare`` reads and writes.

    Attributes:
        preds: Files of predictions, two or more, instead of tables.
        names: Names of the runs; by default those of the files.
        baseline: The run to compare the others with. By default all pairs are compared.
        clusters: The cluster of each row, such as its user, where rows of a cluster are alike: a column of the tables,
            or of --target, or a file as for --row-groups. By default what evaluate --clusters wrote into the tables.
        only: What to compare, such as recall@10 with its values by bucket, or recall@10/decile_1. The first one that is
            by bucket becomes the headline.
        correction: How p-values are corrected for the number of comparisons.
    """

    preds: list[str] | None = None
    names: list[str] | None = None
    baseline: str | None = None
    clusters: str | None = None
    only: list[str] | None = None
    correction: Correction = "holm"


KINDS = DataOptions, ResamplingOptions, OutputOptions, EvaluateOptions, CompareOptions
"""All options of all commands."""
