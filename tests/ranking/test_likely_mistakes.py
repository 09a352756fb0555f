"""What the first batch of a user's loop looks like is told once, and what only looks similar stays quiet."""

import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import tailmetrics as tm
from tailmetrics import Ranking, rank

TOKENS = torch.tensor([[5, 9, 2], [7, 1, 4]])
"""Predicted labels of two sequences."""
TRUE_TOKENS = torch.tensor([[5, 2, 9], [7, 1, 3]])
"""Their true labels: half of them are equal."""


def warnings_of(metric: Any, *batches: tuple[Any, ...]) -> list[str]:
    """The warnings that updates bring, but for those on short lists."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for batch in batches:
            metric.update(*batch)
    texts = [str(warning.message) for warning in caught]
    return [text for text in texts if "most lists end before that" not in text]


def random_lists(rows: int, width: int, labels: int, seed: int) -> Tensor:
    """Distinct ids in each row."""
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(rows, labels, generator=generator).argsort(dim=1)[:, :width]


# labels of tokens


def test_labels_of_tokens_as_lists_are_told_once() -> None:
    """The warning names both readings and the cure, with which the value is the accuracy of the tokens, a half."""
    metric = tm.AccuracyAtK(k=1)
    (text,) = warnings_of(metric, (TOKENS, TRUE_TOKENS), (TOKENS, TRUE_TOKENS))
    assert "are read as a ranked list and a set of relevant labels" in text
    assert "pass preds[..., None]" in text
    cured = tm.AccuracyAtK(k=1)
    assert warnings_of(cured, (TOKENS[..., None], TRUE_TOKENS)) == []
    assert float(cured.compute()) == 0.5


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8])
@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
def test_labels_of_tokens_of_many_sequences_are_told(dtype: torch.dtype, share: float) -> None:
    """Of any integer type, in a collection and by rank, whether the model is bad or good."""
    true = random_lists(40, 12, 200, seed=1)
    wrong = torch.rand(true.shape, generator=torch.Generator().manual_seed(2)) >= share
    preds = torch.where(wrong, 200 + torch.arange(12), true).to(dtype)
    for metric in (tm.AccuracyAtK(k=1), tm.TopKCollection([tm.RecallAtK(k=3)])):
        if dtype == torch.uint8:
            preds = torch.where(preds > 199, preds, true.to(dtype))
        (text,) = warnings_of(metric, (preds, true.to(dtype)))
        assert "preds[..., None]" in text
    with pytest.warns(UserWarning, match=r"rank: preds and target, .*preds\[\.\.\., None\]"):
        rank(preds, true.to(dtype))


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("rows", "width"), [(8, 3), (64, 5), (64, 10), (200, 20)])
def test_rankings_beside_sets_of_equal_width_stay_quiet(rows: int, width: int, seed: int) -> None:
    """A model that finds most of them, in sets of any order, sorted by id, or padded."""
    true = random_lists(rows, width, 60, seed)
    scores = torch.rand(rows, 60, generator=torch.Generator().manual_seed(seed + 100))
    scores.scatter_add_(1, true, torch.full(true.shape, 0.5))
    preds = scores.topk(width).indices
    for target in (true, true.sort(dim=1).values, true.where(torch.arange(width) < width - 1, -1)):
        assert warnings_of(tm.RecallAtK(k=width), (preds, target)) == []


@pytest.mark.parametrize("rows", [5, 500])
def test_few_common_ids_say_nothing(rows: int) -> None:
    """Three ids are common, and stand at the same of three places, as in one of 27 such batches."""
    true = torch.arange(3 * rows).reshape(rows, 3)
    preds = true + 3 * rows
    preds[:3, 1] = true[:3, 1]
    assert warnings_of(tm.RecallAtK(k=3), (preds, true)) == []


def test_right_lists_stay_quiet() -> None:
    """Where preds are the target, both readings have the same value."""
    lists = random_lists(20, 5, 60, seed=3)
    assert warnings_of(tm.RecallAtK(k=5), (lists, lists.clone())) == []


@pytest.mark.parametrize("side", ["preds", "target"])
def test_tokens_that_repeat_are_refused_with_the_cure(side: str) -> None:
    """Of both sides; lists of another width are not taken for tokens."""
    repeated = torch.tensor([[5, 5, 2], [7, 1, 4]])
    pair = (repeated, TRUE_TOKENS) if side == "preds" else (TOKENS, repeated)
    with pytest.raises(ValueError, match=rf"{side} names the label 5 twice in row 0; .*pass preds\[\.\.\., None\]"):
        tm.AccuracyAtK(k=1).update(*pair)
    with pytest.raises(ValueError, match="twice in row 0") as error:
        tm.AccuracyAtK(k=1).update(repeated, TRUE_TOKENS[:, :2])
    assert "[..., None]" not in str(error.value)


def test_the_hint_for_one_class_of_each_row_leads_to_the_accuracy() -> None:
    """Two of four classes are right."""
    preds, target = torch.tensor([3, 1, 2, 0]), torch.tensor([3, 1, 0, 2])
    with pytest.raises(ValueError, match=r"pass preds\[:, None\]"):
        tm.AccuracyAtK(k=1).update(preds, target)
    for call in (tm.AccuracyAtK(k=1).update, tm.evaluate):
        for form in (target, target[:, None]):
            with pytest.raises(ValueError, match=r"pass preds\[:, None\]"):
                call(preds, form)
    metric = tm.AccuracyAtK(k=1)
    metric.update(preds[:, None], target)
    assert float(metric.compute()) == 0.5


# queries that find themselves


def embeddings(rows: int = 12) -> tuple[Tensor, Tensor]:
    """Similarities of rows to each other, and a class of each row as a multi-hot of the rows of that class."""
    points = torch.nn.functional.normalize(torch.randn(rows, 6, generator=torch.Generator().manual_seed(1)), dim=1)
    classes = torch.arange(rows) % 3
    return points @ points.T, classes[:, None] == classes


@pytest.mark.parametrize("form", ["scores", "ids", "candidates"])
@pytest.mark.parametrize("itself", [True, False])
def test_queries_that_find_themselves_are_told_once(form: str, itself: bool) -> None:
    """Whether the query counts as relevant or not; without the diagonal nothing is said."""
    scores, relevant = embeddings()
    relevant = relevant if itself else relevant & ~torch.eye(12, dtype=torch.bool)
    preds: Any = {
        "scores": scores,
        "ids": scores.argsort(dim=1, descending=True)[:, :5],
        "candidates": tuple(scores.topk(5)),
    }[form]
    (text,) = warnings_of(tm.HitRateAtK(k=1, num_labels=12), (preds, relevant), (preds, relevant))
    assert "the first label of each row is the row itself" in text
    assert "fill_diagonal_(-torch.inf)" in text and "ids[:, 1:]" in text
    cured = preds[:, 1:] if form == "ids" else scores.fill_diagonal_(-torch.inf)
    assert warnings_of(tm.HitRateAtK(k=1, num_labels=12), (cured, relevant)) == []


def test_rows_whose_label_is_their_own_number_stay_quiet() -> None:
    """Images and their captions, and a few classes in order."""
    scores, _ = embeddings()
    assert warnings_of(tm.HitRateAtK(k=1), (scores, torch.arange(12))) == []
    assert warnings_of(tm.HitRateAtK(k=1), (scores, torch.eye(12, dtype=torch.bool))) == []
    assert warnings_of(tm.HitRateAtK(k=1), (torch.eye(4)[:3] + 0.1, torch.tensor([0, 1, 3]))) == []


# integers that may be ids or gains


@pytest.mark.parametrize(
    ("target", "ids"),
    [
        ([[1, 0, 0]], "target.masked_fill(target == 0, -1)"),
        ([[2, 1, 0, 0], [3, 0, 0, 0], [1, 2, 3, 0]], "target.masked_fill(target == 0, -1)"),
        ([[2, 0, 1], [1, 2, 0]], "target"),
    ],
)
def test_integers_that_may_be_lists_of_ids_are_told(target: list[list[int]], ids: str) -> None:
    """Padded by 0, or with every label once; the cure reads them as ids."""
    labels = torch.tensor(target)
    scores = torch.rand(labels.shape) * 0.9
    (text,) = warnings_of(tm.RecallAtK(k=1), (scores, labels))
    assert "is read as a gain for each label" in text
    assert f"Ranking.from_scores(preds, target_ids={ids})" in text
    assert "target.bool()" in text
    assert Ranking.from_scores(scores, target_ids=eval(ids, {"target": labels})).n_relevant.tolist() == [
        len({*row} - {0}) if ids != "target" else len(row) for row in target
    ]


@pytest.mark.parametrize(
    "target",
    [
        [[1, 0, 0], [0, 1, 0]],
        [[1, 1, 0], [1, 0, 0]],
        [[0, 0, 0], [0, 2, 0]],
        [[3, 0, 0, 1], [0, 0, 2, 0]],
        [[0, 1], [1, 0]],
        [[5, 0, 0], [4, 1, 0]],
    ],
)
def test_integers_that_can_only_be_gains_stay_quiet(target: list[list[int]]) -> None:
    """Multi-hot rows, grades, numbers beyond the labels."""
    labels = torch.tensor(target)
    assert warnings_of(tm.RecallAtK(k=1), (torch.rand(labels.shape) * 0.9, labels)) == []
    assert warnings_of(tm.RecallAtK(k=1), (torch.rand(1, 3) * 0.9, torch.tensor([[1.0, 0, 0]]))) == []


# cells that are not known, and outputs of several classifiers


def cells() -> tuple[Tensor, Tensor]:
    """Scores, and a multi-hot of 200 rows and 14 labels, of which a tenth of the cells is not known."""
    generator = torch.Generator().manual_seed(5)
    scores = torch.rand(200, 14, generator=generator)
    target = (torch.rand(200, 14, generator=generator) < 0.3).long()
    return scores, target.masked_fill(torch.rand(200, 14, generator=generator) < 0.1, -1)


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32])
def test_cells_that_are_not_known_are_refused_with_the_cure(dtype: torch.dtype) -> None:
    """The hint for ids alone led to another number."""
    scores, target = cells()
    with pytest.raises(ValueError, match=r"not known cells .*preds.masked_fill\(target < 0, -torch.inf\)"):
        tm.RecallAtK(k=3).update(scores, target.to(dtype))


def test_without_cells_that_are_not_known_values_are_those_of_a_loop_and_of_torchmetrics() -> None:
    """Recall@3 and precision at a threshold of one half."""
    from torchmetrics.classification import MultilabelPrecision

    scores, target = cells()
    preds, relevant = scores.masked_fill(target < 0, -torch.inf), target.clamp(min=0)
    metrics = tm.TopKCollection(
        [
            tm.RecallAtK(k=3, empty_target_action="skip"),
            tm.PrecisionAtThreshold(0.5, average="micro"),
        ]
    )
    metrics.update(preds, relevant)
    recalls = []
    for row_scores, row_target in zip(scores.tolist(), target.tolist(), strict=True):
        labels = [label for label in range(14) if row_target[label] >= 0]
        best = sorted(labels, key=lambda label: -row_scores[label])[:3]
        n_relevant = sum(row_target[label] == 1 for label in labels)
        if n_relevant:
            recalls.append(sum(row_target[label] == 1 for label in best) / n_relevant)
    values = [float(value) for value in metrics.compute().values()]
    assert values[0] == pytest.approx(sum(recalls) / len(recalls), abs=1e-12)
    peer = MultilabelPrecision(14, threshold=0.5, average="micro", ignore_index=-1)
    assert values[1] == pytest.approx(float(peer(scores, target)), abs=1e-6)


@pytest.mark.parametrize("labels", [2, 3])
def test_the_list_of_arrays_of_predict_proba_is_refused_with_the_cure(labels: int) -> None:
    """As scikit-learn returns it for several binary outputs, of two too, which are no pair of scores and ids."""
    preds = [np.full((4, 2), 0.5) for _ in range(labels)]
    with pytest.raises((TypeError, ValueError), match=r"np.stack\(\[p\[:, 1\] for p in preds\], 1\)"):
        tm.RecallAtK(k=1).update(preds, torch.zeros(4, labels, dtype=torch.bool))
