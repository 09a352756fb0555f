"""Notes on averages over labels that depend on the number of rows, against the truth of simulations."""

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
    """The note on these averages, or an empty text."""
    halves = {key: at_half_the_rows(average, clusters) for key, average in averages.items()}
    estimates = intervals(averages, clusters=clusters, resamples=0, unbounded=list(averages))
    return "".join(on_number_of_rows(averages, halves, estimates, clusters))


def rows_of_classes(
    rng: np.random.Generator, num_rows: int, popularity: NDArray[Any], recalls: NDArray[Any], **options: Any
) -> LabelRows:
    """Rows of one label each, that list their label, or another one by its popularity."""
    shares = popularity / popularity.sum()
    labels, others = rng.choice(shares.size, (2, num_rows), p=shares)
    listed = np.where(rng.random(num_rows) < recalls[labels], labels, others)
    table = np.zeros((2, num_rows, shares.size), bool)
    table[0, np.arange(num_rows), labels] = table[1, np.arange(num_rows), listed] = True
    rows, columns = np.nonzero(table.any(axis=0))
    relevant, predicted = table[:, rows, columns]
    return LabelRows(rows, columns, predicted, relevant, np.ones(num_rows, bool), shares.size, **options)


@pytest.mark.parametrize(
    ("shares", "recalls"),
    [((0.55, 0.25, 0.15, 0.05), (0.8, 0.6, 0.4, 0.2)), ((0.5, 0.43, 0.04, 0.03), (0.9, 0.8, 0.2, 0.1))],
)
def test_averages_over_labels_that_all_have_rows_do_not_move(shares: Any, recalls: Any) -> None:
    """The mean of macro recall at 60 and 600 rows is the truth where all four labels have rows: no note in 60 samples."""
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
def test_means_over_all_labels_have_a_bound_that_holds(num_rows: int, options: dict[str, Any]) -> None:
    """100 labels, of which many have no row: the value rises up to the bound, or further, in 95 % of notes or more."""
    rng = np.random.default_rng(1)
    truth = rows_of_classes(rng, 100_000, POPULARITY, RECALLS, over="all", **options).value()
    bounds = []
    for _ in range(40):
        text = notes_of({"mean": rows_of_classes(rng, num_rows, POPULARITY, RECALLS, over="all", **options)})
        assert "mean rises with more rows" in text
        for bound, direction in BOUND.findall(text):
            assert direction == "more"
            bounds.append(float(bound))
    assert len(bounds) > 20
    assert np.mean(np.array(bounds) <= truth) >= 0.95


@pytest.mark.parametrize("options", [F1, {"below": (1.0, 0.0)}, {**F1, "of_averages": True}], ids=str)
def test_means_over_labels_with_rows_have_no_bound_and_no_direction(options: dict[str, Any]) -> None:
    """Precision and F1 fall while rare labels come, and rise when these have rows: half of the rows do not tell it."""
    rng = np.random.default_rng(2)
    texts = [notes_of({"mean": rows_of_classes(rng, 400, POPULARITY, RECALLS, **options)}) for _ in range(20)]
    assert sum("mean (" in text for text in texts) >= 5
    assert not any(re.search("rises|falls|with many", text) for text in texts)


def test_weighted_recall_does_not_move() -> None:
    """It is the share of hits, whatever labels come; weighted F1 of labels of few rows may move."""
    rng = np.random.default_rng(3)
    for _ in range(20):
        average = rows_of_classes(rng, 60, POPULARITY, RECALLS, weighted=True)
        assert not average.moves_with_rows()
    assert rows_of_classes(rng, 60, POPULARITY, RECALLS, weighted=True, **F1).moves_with_rows()


def test_coverage_at_its_maximum_does_not_rise() -> None:
    """All 12 labels are shown, some by one row alone: at half of the rows they are fewer, and more there cannot be."""
    shown = torch.tensor([[0, label] for label in range(1, 12)] * 1 + [[0, 1]] * 29)
    report = tm.evaluate(shown, torch.zeros(40, dtype=torch.long), metrics=[tm.CatalogCoverageAtK(2, num_labels=12)])
    assert report.scalars["catalog_coverage@2"] == 1
    assert report.at_half_the_rows["catalog_coverage@2"] < 0.9
    assert not any("depend on the number of rows" in note for note in report.notes)
    fewer = tm.evaluate(shown, torch.zeros(40, dtype=torch.long), metrics=[tm.CatalogCoverageAtK(2, num_labels=13)])
    assert any("catalog_coverage@2 rises with more rows" in note for note in fewer.notes)


def test_copies_bring_no_labels_and_lack_none() -> None:
    """Eleven labels in one row each, of 20: with each row five times, as a cluster, labels may come as of rows alone."""
    relevant = np.concatenate([np.eye(12, 20, dtype=bool), np.eye(1, 20, dtype=bool).repeat(18, axis=0)])
    for times in (1, 5):
        rows, labels = np.nonzero(np.repeat(relevant, times, axis=0))
        held, clusters = np.ones(rows.size, bool), np.repeat(np.arange(30), times)
        shown = ShownRows(rows, labels, held, held, np.ones(30 * times, bool), 20, "coverage", 20, np.ones(20))
        recall = LabelRows(rows, labels, held, held, np.ones(30 * times, bool), 20)
        assert shown.moves_with_rows(clusters)
        assert recall.moves_with_rows(clusters)
        assert recall.moves_with_rows() == (times == 1)
        assert "number of clusters" in notes_of({"coverage": shown}, clusters)
