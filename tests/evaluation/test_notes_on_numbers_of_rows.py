"""Notes on averages over labels that depend on the number of rows agree with
simulations.
"""

import re
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

import tailmetrics as tm
from tailmetrics.evaluation.notes import on_number_of_rows
from tailmetrics.significance import LabelRows, ShownRows, intervals
from tailmetrics.significance.halves import at_half_the_rows

F1 = {"top": 2.0, "below": (1.0, 1.0)}
POPULARITY = (np.arange(100) + 3.0) ** -1.4
RECALLS = np.linspace(0.9, 0.1, 100)
BOUND = re.compile(r"([\d.]+) or (less|more) with many")


def notes_of(averages: dict[str, Any], clusters: Any = None) -> str:
    """Return the note on these averages, or an empty text."""
    halves = {
        key: at_half_the_rows(average, clusters) for key, average in averages.items()
    }
    estimates = intervals(
        averages, clusters=clusters, resamples=0, unbounded=list(averages)
    )
    return "".join(on_number_of_rows(averages, halves, estimates, clusters))


def rows_of_classes(
    rng: np.random.Generator,
    num_rows: int,
    popularity: NDArray[Any],
    recalls: NDArray[Any],
    **options: Any,
) -> LabelRows:
    """Return rows of one label each, which list their label, or another one by its
    popularity.
    """
    shares = popularity / popularity.sum()
    labels, others = rng.choice(shares.size, (2, num_rows), p=shares)
    listed = np.where(rng.random(num_rows) < recalls[labels], labels, others)
    table = np.zeros((2, num_rows, shares.size), bool)
    table[0, np.arange(num_rows), labels] = table[1, np.arange(num_rows), listed] = True
    rows, columns = np.nonzero(table.any(axis=0))
    relevant, predicted = table[:, rows, columns]
    return LabelRows(
        rows,
        columns,
        predicted,
        relevant,
        np.ones(num_rows, bool),
        shares.size,
        **options,
    )


@pytest.mark.parametrize(
    ("shares", "recalls"),
    [
        ((0.55, 0.25, 0.15, 0.05), (0.8, 0.6, 0.4, 0.2)),
        ((0.5, 0.43, 0.04, 0.03), (0.9, 0.8, 0.2, 0.1)),
    ],
)
def test_averages_over_labels_that_all_have_rows_get_no_note(
    shares: Any, recalls: Any
) -> None:
    """Macro recall of samples in which all four labels have rows gets no note, because
    its mean over samples of 60 rows is the true value.
    """
    rng, values = np.random.default_rng(0), []
    for _ in range(60):
        average = rows_of_classes(rng, 60, np.array(shares), np.array(recalls))
        if np.unique(average.labels[average.relevant]).size < 4:
            continue
        values.append(average.value())
        assert not notes_of({"recall": average})
    assert len(values) > 30
    # a row that does not list its label by its recall may list it by its popularity
    truth = np.array(recalls) + (1 - np.array(recalls)) * np.array(shares)
    assert np.mean(values) == pytest.approx(truth.mean(), abs=0.05)


@pytest.mark.parametrize("num_rows", [100, 400])
@pytest.mark.parametrize("options", [{}, F1], ids=["recall", "f1"])
def test_means_over_all_labels_have_a_bound_that_holds(
    num_rows: int, options: dict[str, Any]
) -> None:
    """The note on a mean over all labels says that it rises, to a bound or further; the
    bound is at most the true value in 95 % of notes. Many of the 100 labels have no
    row.
    """
    rng = np.random.default_rng(1)
    truth = rows_of_classes(
        rng, 100_000, POPULARITY, RECALLS, over="all", **options
    ).value()
    bounds = []
    for _ in range(40):
        text = notes_of(
            {
                "mean": rows_of_classes(
                    rng, num_rows, POPULARITY, RECALLS, over="all", **options
                )
            }
        )
        assert "mean rises with more rows" in text
        for bound, direction in BOUND.findall(text):
            assert direction == "more"
            bounds.append(float(bound))
    assert len(bounds) > 20
    assert np.mean(np.array(bounds) <= truth) >= 0.95


@pytest.mark.parametrize(
    "options", [F1, {"below": (1.0, 0.0)}, {**F1, "of_averages": True}], ids=str
)
def test_means_over_labels_with_rows_have_no_bound_and_no_direction(
    options: dict[str, Any],
) -> None:
    """The note on precision and F1 over labels with rows names no bound and no
    direction: they fall while rare labels appear, and rise when these have rows.
    """
    rng = np.random.default_rng(2)
    texts = [
        notes_of({"mean": rows_of_classes(rng, 400, POPULARITY, RECALLS, **options)})
        for _ in range(20)
    ]
    assert sum("mean (" in text for text in texts) >= 5
    assert not any(re.search("rises|falls|with many", text) for text in texts)


def test_weighted_recall_does_not_depend_on_the_number_of_rows() -> None:
    """Weighted recall does not depend on the number of rows, because it is the share of
    hits.

    Weighted F1 of labels with few rows does.
    """
    rng = np.random.default_rng(3)
    for _ in range(20):
        average = rows_of_classes(rng, 60, POPULARITY, RECALLS, weighted=True)
        assert not average.moves_with_rows()
    assert rows_of_classes(
        rng, 60, POPULARITY, RECALLS, weighted=True, **F1
    ).moves_with_rows()


def test_coverage_at_its_maximum_gets_no_note() -> None:
    """Catalogue coverage of 1 gets no note, although it is lower at half of the rows,
    because it cannot rise.

    With one label that is never shown it gets a note.
    """
    lists = torch.tensor([[0, label] for label in range(1, 12)] * 1 + [[0, 1]] * 29)
    report = tm.evaluate(
        lists,
        torch.zeros(40, dtype=torch.long),
        metrics=[tm.CatalogCoverageAtK(2, num_labels=12)],
    )
    assert report.scalars["catalog_coverage@2"] == 1
    assert report.at_half_the_rows["catalog_coverage@2"] < 0.9
    assert not any("depend on the number of rows" in note for note in report.notes)
    incomplete = tm.evaluate(
        lists,
        torch.zeros(40, dtype=torch.long),
        metrics=[tm.CatalogCoverageAtK(2, num_labels=13)],
    )
    assert any(
        "catalog_coverage@2 rises with more rows" in note for note in incomplete.notes
    )


def test_clusters_of_copied_rows_count_as_single_rows() -> None:
    """With clusters, five copies of each row depend on the number of clusters as single
    rows depend on the number of rows. Without clusters, copied rows hide it.
    """
    relevant = np.concatenate(
        [np.eye(12, 20, dtype=bool), np.eye(1, 20, dtype=bool).repeat(18, axis=0)]
    )
    for times in (1, 5):
        rows, labels = np.nonzero(np.repeat(relevant, times, axis=0))
        flags, clusters = np.ones(rows.size, bool), np.repeat(np.arange(30), times)
        coverage = ShownRows(
            rows,
            labels,
            flags,
            flags,
            np.ones(30 * times, bool),
            20,
            "coverage",
            20,
            np.ones(20),
        )
        recall = LabelRows(rows, labels, flags, flags, np.ones(30 * times, bool), 20)
        assert coverage.moves_with_rows(clusters)
        assert recall.moves_with_rows(clusters)
        assert recall.moves_with_rows() == (times == 1)
        assert "number of clusters" in notes_of({"coverage": coverage}, clusters)
