"""Compare: `python -m examples.recommender` from the root of the repository.

2,474 files, 2,099 modules. Popularity finds 41 % of the hidden imports among its ten
recommendations, which looks like a model. It shows the same 21 modules to everybody
(coverage .010): the 15 modules of the three most frequent deciles make 99 % of that,
and from decile 6 down it finds nothing. EASE finds 64 %, shows a third of all modules
at least once, and pays at the head: .97, .93 and .77 in the first three deciles instead
of 1, 1 and .80.

EASE's average hides a slope of its own: 73 % in decile 6, 25 % in decile 3, 6 % of the
rarest tenth, and none of the modules never seen, which are 4.5 % of what was hidden.
The slope is steeper in files that show many imports: in decile 2 it finds 3 % for them,
and 27 % for files that show few. Coverage, Gini and novelty tell the two models apart,
but not where EASE stops. Its penalty was not tuned. Each file is recommended to after
its other imports were learned from: nothing is said of new files. About 40 seconds on
one core, nearly all of it to read the sources.
"""

from tailmetrics import (
    CatalogCoverageAtK,
    GiniAtK,
    LabelBuckets,
    LabelFrequency,
    NDCGAtK,
    NearMissAtK,
    NoveltyAtK,
    PredictionProportionAtK,
    RecallAtK,
    TieRateAtK,
    TopKCollection,
    evaluate,
)
from tailmetrics.report import Report

from .data import PACKAGES, Interactions, read_interactions
from .models import ease, popularity


def metrics(groups: LabelBuckets) -> TopKCollection:
    """Return metrics of ten recommendations: overall, by decile, by group of files."""
    return TopKCollection(
        [
            RecallAtK(k=10),
            NDCGAtK(k=10),
            CatalogCoverageAtK(k=10),
            GiniAtK(k=10),
            NoveltyAtK(k=10),
            TieRateAtK(k=10),
            NearMissAtK(k=10, buckets="deciles"),
            RecallAtK(k=10, buckets="deciles", scope="global"),
            PredictionProportionAtK(k=10, buckets="deciles"),
        ],
        row_groups=group_names(groups),
    )


def group_names(groups: LabelBuckets) -> list[str]:
    """Return the names of the groups of files, from many shown imports to few."""
    return [f"files_{name}" for name in groups.names]


def reports(data: Interactions) -> dict[str, Report]:
    """Return a report for each model."""
    frequency = LabelFrequency(len(data.modules))
    frequency.update(data.shown)
    scores = {"popularity": popularity(data.shown), "EASE": ease(data.shown)}
    groups = LabelBuckets.quantiles(data.shown.sum(1).int(), 3, ties="together")
    return {
        name: evaluate(
            preds,
            data.hidden,
            metrics=metrics(groups),
            label_counts=frequency,
            row_groups=groups.assignment,
            label_tree=data.tree(),
            title=name,
        )
        for name, preds in scores.items()
    }


def print_side_by_side(reports_by_model: dict[str, Report]) -> None:
    """Print each value of all models in one line.

    Overall values come first, then those from the most frequent modules to the rarest.
    """
    first, *_ = reports_by_model.values()
    print(f"\n{'':28}" + "".join(f"{name:>12}" for name in reports_by_model))
    for key in first.overall:
        print(
            f"{key:28}"
            + "".join(
                f"{report.overall[key]:12.4f}" for report in reports_by_model.values()
            )
        )
    for metric, values in first.by_bucket.items():
        print(
            f"\n{metric:28}"
            + "".join(f"{name:>12}" for name in reports_by_model)
            + f"{'modules':>12}{'hidden':>12}"
        )
        for bucket in first.buckets:
            if bucket.name in values:
                cells = "".join(
                    f"{report.by_bucket[metric][bucket.name]:12.4f}"
                    for report in reports_by_model.values()
                )
                print(
                    f"{bucket.name:28}{cells}{bucket.labels:12,}{bucket.positives:12,}"
                )
    for name, report in reports_by_model.items():
        print_by_activity(name, report)
    for warning in dict.fromkeys(
        warning for report in reports_by_model.values() for warning in report.warnings
    ):
        print(f"! {warning}")


def print_by_activity(name: str, report: Report) -> None:
    """Print the recall of a model by decile, for files with many and few imports."""
    metric = "global_recall@10"
    groups = [group.name for group in report.row_groups if group.rows]
    print(f"\n{f'{name}, {metric}':28}" + "".join(f"{group:>18}" for group in groups))
    for bucket in report.by_bucket[metric]:
        print(
            f"{bucket:28}"
            + "".join(
                f"{report.value(metric, bucket, group):18.4f}" for group in groups
            )
        )


def main(packages: tuple[str, ...] = PACKAGES) -> dict[str, Report]:
    """Print the models side by side, and return their reports."""
    data = read_interactions(packages)
    files, modules = data.shown.shape
    print(
        f"{files:,} files, {modules:,} modules, {int(data.shown.sum()):,} imports shown"
    )
    reports_by_model = reports(data)
    print_side_by_side(reports_by_model)
    return reports_by_model


if __name__ == "__main__":
    main()
