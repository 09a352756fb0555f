"""The options of the command line.

Each field is one option, with its type, its default and one sentence for the help.

An option has the name of the argument of ``evaluate`` or ``compare_runs``:
``row_groups`` is ``--row-groups`` on the command line, and ``row_groups:`` in a config.
So an error that names an argument also names the option.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from tailmetrics._parameters import SHARED_PARAMETERS
from tailmetrics.io import Columns
from tailmetrics.io.database import MEMORY
from tailmetrics.io.loading import BATCH_ROWS
from tailmetrics.report.files import Figures
from tailmetrics.significance.comparing import Correction
from tailmetrics.significance.estimating import Resample

PATHS = frozenset(
    {
        "clusters",
        "filter",
        "label_counts",
        "label_names",
        "label_tree",
        "out",
        "per_row",
        "preds",
        "row_groups",
        "target",
        "train_target",
    }
)
"""Options that name files or folders."""
OPPOSITES = {
    "intervals": "no_intervals",
    "no_intervals": "intervals",
    "no_rows": "per_row",
    "per_row": "no_rows",
    "quiet": "verbose",
    "verbose": "quiet",
}
"""Opposite options: one on the command line replaces the other in a config."""


@dataclass(frozen=True, kw_only=True)
class DataOptions:
    """The files to evaluate against, how they are read, and options of all metrics."""

    target: Annotated[
        str | None,
        (
            "Targets: a file, a folder of parts, a pattern in quotes, or an address "
            "such as s3://."
        ),
    ] = None
    train_target: Annotated[
        str | None,
        "File of training targets. Their labels are counted.",
    ] = None
    label_counts: Annotated[
        str | None,
        "File of training counts: .npy, .pt or .txt in the order of the label ids; or "
        ".csv or .tsv, where the column of whole numbers is the count, whatever its "
        "name, and a label that is left out has the count 0.",
    ] = None
    num_train: Annotated[
        int | None,
        "Number of training rows; it goes with --label-counts.",
    ] = None
    num_labels: Annotated[
        int | None,
        "Number of labels, if no file says it.",
    ] = None
    label_names: Annotated[
        str | None,
        "Text file with the name of each label, one per line. Values by label, such as "
        "thresholds, follow its order. Targets may hold names beside a matrix of "
        "scores, whose columns it names.",
    ] = None
    label_tree: Annotated[
        str | None,
        (
            "File of lines 'child,parent' under these names: the parent of each "
            "label, by name or id."
        ),
    ] = None
    filter: Annotated[
        str | None,
        (
            "File of pairs that do not count: lines of row and label, or of query and "
            "item, as in train.csv."
        ),
    ] = None
    missing: Annotated[
        Literal["skip", "zero"],
        "Leave queries without predictions out, or count them as 0.",
    ] = "skip"
    duplicates: Annotated[
        Literal["error", "first"],
        SHARED_PARAMETERS["duplicates"].text,
    ] = SHARED_PARAMETERS["duplicates"].default
    min_gain: Annotated[
        float | None,
        SHARED_PARAMETERS["min_gain"].text,
    ] = SHARED_PARAMETERS["min_gain"].default
    ignore_index: Annotated[
        int | None,
        SHARED_PARAMETERS["ignore_index"].text,
    ] = SHARED_PARAMETERS["ignore_index"].default
    train_min_gain: Annotated[
        float | None,
        "The least gain of training targets that counts; by default any above 0.",
    ] = None
    buckets: Annotated[
        str | None,
        "Buckets of labels: deciles, quantiles:5, quantiles:5:labels for equally many "
        "labels in each, or thresholds:1,20,101 for ranges of the training count. "
        "Names go from the most frequent bucket to the rarest: "
        "thresholds:1,20,101:many,medium,few. Each metric is then reported by bucket "
        "too, for the one list that a row shows (scope global). A metric with buckets "
        "of its own keeps its scope, and takes these.",
    ] = None
    without: Annotated[
        list[str] | None,
        (
            "Metrics of the preset or config to leave out, by key or class, such as "
            "cross_entropy."
        ),
    ] = None
    probabilities: Annotated[
        bool,
        (
            "Scores are probabilities: CrossEntropy and CalibrationErrorAtK read "
            "their logarithm."
        ),
    ] = False
    row_groups: Annotated[
        str | None,
        "The group of each row, such as its language: a column of the targets, or a "
        "file of lines 'query,group', or of one group per row.",
    ] = None
    format: Annotated[
        str | None,
        (
            "Format of all files; by default the suffix of a file names it. The "
            "formats are listed below."
        ),
    ] = None
    preds_format: Annotated[
        str | None,
        "Format of the predictions.",
    ] = None
    target_format: Annotated[
        str | None,
        "Format of the targets.",
    ] = None
    train_format: Annotated[
        str | None,
        "Format of the training targets.",
    ] = None
    columns: Annotated[
        Columns,
        "Name of the column that is the {field}, in all files.",
    ] = field(default_factory=Columns)
    preds_columns: Annotated[
        Columns | None,
        (
            "Name of the column of the predictions that is the {field}, added "
            "to --columns."
        ),
    ] = None
    target_columns: Annotated[
        Columns | None,
        "Name of the column of the targets that is the {field}, added to --columns.",
    ] = None
    train_columns: Annotated[
        Columns | None,
        (
            "Name of the column of the training targets that is the {field}, added "
            "to --columns."
        ),
    ] = None
    delimiter: Annotated[
        str | None,
        (
            "Separator of fields of CSV, such as ';'; by default a comma, or what the "
            "line of names holds."
        ),
    ] = None
    preds_delimiter: Annotated[
        str | None,
        "Separator of fields of the predictions.",
    ] = None
    target_delimiter: Annotated[
        str | None,
        "Separator of fields of the targets.",
    ] = None
    train_delimiter: Annotated[
        str | None,
        "Separator of fields of the training targets.",
    ] = None
    list_delimiter: Annotated[
        str | None,
        "Separator of the entries of lists in CSV and TSV, such as ' '.",
    ] = None
    preds_list_delimiter: Annotated[
        str | None,
        "Separator of the entries of lists of the predictions.",
    ] = None
    target_list_delimiter: Annotated[
        str | None,
        "Separator of the entries of lists of the targets.",
    ] = None
    train_list_delimiter: Annotated[
        str | None,
        "Separator of the entries of lists of the training targets.",
    ] = None
    judged_only: Annotated[
        bool,
        "Leave predictions out that the targets do not judge, like -J of trec_eval.",
    ] = False
    part: Annotated[
        str | None,
        "Subset and split of predictions of MTEB, such as default/test.",
    ] = None
    string_ids: Annotated[
        bool | None,
        "true: whole numbers are names, too; false: they are label ids. By default "
        "they are names in files of lines, unless --num-labels is given.",
    ] = None
    batch_rows: Annotated[
        int,
        "Most rows of a batch.",
    ] = BATCH_ROWS
    memory: Annotated[
        str,
        "Memory for lines that name their query, such as 2GB; the rest goes to TMPDIR. "
        "A row may take three times as much.",
    ] = MEMORY


@dataclass(frozen=True, kw_only=True)
class ResamplingOptions:
    """How confidence intervals and tests draw."""

    confidence: Annotated[
        float,
        "Confidence of intervals; 1 - confidence is the level of tests.",
    ] = 0.95
    resamples: Annotated[
        int,
        "Number of resamples and swaps. More are drawn where the level is strict.",
    ] = 10_000
    resample: Annotated[
        Resample,
        "What is drawn: rows, or rows,labels for averages over labels.",
    ] = "rows"
    seed: Annotated[
        int,
        "The same seed gives the same numbers.",
    ] = 0


@dataclass(frozen=True, kw_only=True)
class OutputOptions:
    """What both commands show and write."""

    out: Annotated[
        str | None,
        "Folder for the results: a page, pictures, Markdown, LaTeX, CSV and JSON.",
    ] = None
    figures: Annotated[
        Figures | None,
        "Write each picture alone too, for a paper: svg or pdf.",
    ] = None
    headline: Annotated[
        str | None,
        "The metric that the results are about, such as recall@10. It is shown first, "
        "by bucket. By default that of the preset, or else recall.",
    ] = None
    title: Annotated[
        str | None,
        "Title of the results.",
    ] = None
    overwrite: Annotated[
        bool,
        "Replace existing files.",
    ] = False
    words: Annotated[
        str | None,
        (
            "What rows and labels are called, such as 'users, items'. By default as "
            "in the preset."
        ),
    ] = None
    verbose: Annotated[
        bool,
        "Print all tables and notes, not one look.",
    ] = False
    quiet: Annotated[
        bool,
        (
            "Print only the paths of the files written. How files are read, and "
            "warnings, still go to stderr."
        ),
    ] = False


@dataclass(frozen=True, kw_only=True)
class EvaluateOptions:
    """What ``tailmetrics evaluate`` reads and writes."""

    preds: Annotated[
        str | None,
        (
            "Predictions: a file, a folder of parts, a pattern in quotes, or an "
            "address such as s3://."
        ),
    ] = None
    per_row: Annotated[
        str | None,
        "Parquet file to write, for compare: the value of every metric in every row. "
        "By default rows.parquet in the folder of --out.",
    ] = None
    no_rows: Annotated[
        bool,
        "Write no table of rows. compare then cannot take the folder.",
    ] = False
    intervals: Annotated[
        bool,
        (
            "Compute confidence intervals by resampling, which takes longer than the "
            "intervals of every report."
        ),
    ] = False
    clusters: Annotated[
        str | None,
        "The cluster of each row, such as its user, where rows of a cluster are alike: "
        "a column of the targets, or a file as for --row-groups. Intervals then take "
        "clusters, not rows, for independent.",
    ] = None
    no_intervals: Annotated[
        bool,
        "Leave confidence intervals out, which is faster.",
    ] = False
    labels: Annotated[
        bool,
        (
            "Write labels.csv with the values of each label. The report then names "
            "the worst labels."
        ),
    ] = False
    show_reading: Annotated[
        bool,
        (
            "Print how each file is read and its first two rows as they are "
            "understood, and stop."
        ),
    ] = False
    device: Annotated[
        Literal["cpu", "cuda"],
        "Where metrics are computed.",
    ] = "cpu"
    engine: Annotated[
        Literal["ray", "spark", "dask"] | None,
        "Evaluate shares of the rows on a cluster: ray, spark or dask.",
    ] = None
    shares: Annotated[
        int | None,
        "Number of shares; by default twice the processors of the cluster.",
    ] = None


@dataclass(frozen=True, kw_only=True)
class CompareOptions:
    """What ``tailmetrics compare`` reads and writes."""

    preds: Annotated[
        list[str] | None,
        "Files of predictions, two or more, instead of tables.",
    ] = None
    names: Annotated[
        list[str] | None,
        "Names of the runs; by default those of the files.",
    ] = None
    baseline: Annotated[
        str | None,
        "The run to compare the others with. By default all pairs are compared.",
    ] = None
    clusters: Annotated[
        str | None,
        "The cluster of each row, such as its user, where rows of a cluster are alike: "
        "a column of the tables, or of --target, or a file as for --row-groups. By "
        "default what evaluate --clusters wrote into the tables.",
    ] = None
    only: Annotated[
        list[str] | None,
        "The questions that are tested, as keys or patterns: precision@5 over all "
        "labels alone, recall@10/decile_1, 'ndcg@5/*'. Other values are shown with "
        "their intervals, untested. The first one that is by bucket becomes the "
        "headline. By default all values and gaps are tested.",
    ] = None
    correction: Annotated[
        Correction,
        "How p-values are corrected for the number of comparisons.",
    ] = "max-t"
