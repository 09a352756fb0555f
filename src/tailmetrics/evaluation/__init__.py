"""Evaluations of data and comparisons of runs, which return reports.

``import tailmetrics`` alone does not load them.

>>> from tailmetrics.evaluation import Evaluation, compare_runs, evaluate

Where a fact of a report comes from::

    evaluating.py                 evaluate: reads, prepares, accumulates, reports
      inputs.py                   preds and target in any form -> Data, which is read in batches
                                    argument_forms.py     which form a value has, and whether forms fit
                                    tensor_data.py        rankings, scores, ids, candidates and CSR
                                    table_data.py         tables, dicts by query and lists of names
                                    values_by_row.py      groups and clusters -> the order of the rows
      labels.py                   arguments with a value per label -> the order of label ids
      preparing.py                metrics, buckets and counts -> an empty Evaluation
                                    added_metrics.py      metrics over all labels, per label, and by bucket
                                    headline.py           the metric that the report is about
      accumulating.py             Evaluation: ranks a batch, and adds the ranking to three parts:
                                    collection            the states of the metrics and references
                                    row_counts.py         numbers of rows and relevant labels
                                    interval_values.py    row_moments.py, sums over rows; row_labels.py, labels of rows
      values.py                   values by key, with intervals, counts, references and errors
      reporting.py                parts of the Report: a record for each value, buckets, labels
      metric_facts.py             what holds for all values of a metric, such as its caption
      notes.py                    what a reader has to know of the values

    comparing.py                  compare_runs: values per row of each run -> ComparisonReport
      row_values.py               ranking -> columns of values per row -> values of rows by key
      row_tables.py               the same columns in a Parquet file
      row_facts.py                for each key its columns, and what they hold
      label_codes.py              labels of rows as numbers, for averages over labels
      digest.py                   what values depend on, so that only runs on the same data are compared
"""

from tailmetrics.evaluation.accumulating import Evaluation as Evaluation
from tailmetrics.evaluation.comparing import compare_runs as compare_runs
from tailmetrics.evaluation.evaluating import evaluate as evaluate

__all__ = ["Evaluation", "compare_runs", "evaluate"]
