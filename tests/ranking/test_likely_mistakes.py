"""Likely mistakes in the first batch of a loop bring one warning, and inputs that only
look similar bring none.
"""

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
    """Return the warnings that updates bring, without those on short lists."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for batch in batches:
            metric.update(*batch)
    texts = [str(warning.message) for warning in caught]
    return [text for text in texts if "most lists end before that" not in text]


def random_lists(rows: int, width: int, labels: int, seed: int) -> Tensor:
    """Return lists of distinct ids."""
    generator = torch.Generator().manual_seed(seed)
    return torch.rand(rows, labels, generator=generator).argsort(dim=1)[:, :width]


# labels of tokens


def test_token_labels_as_lists_bring_one_warning() -> None:
    """Predicted labels of tokens that are passed as lists bring one warning, with both
    readings and the remedy.

    With the remedy the value is the accuracy of the tokens, 1/2.
    """
    metric = tm.AccuracyAtK(k=1)
    (text,) = warnings_of(metric, (TOKENS, TRUE_TOKENS), (TOKENS, TRUE_TOKENS))
    assert "are read as a ranked list and a set of relevant labels" in text
    assert "pass preds[..., None]" in text
    corrected = tm.AccuracyAtK(k=1)
    assert warnings_of(corrected, (TOKENS[..., None], TRUE_TOKENS)) == []
    assert float(corrected.compute()) == 0.5


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.uint8])
@pytest.mark.parametrize("share", [0.3, 0.6, 0.95])
def test_token_labels_of_many_sequences_bring_a_warning(
    dtype: torch.dtype, share: float
) -> None:
    """Labels of tokens of many sequences bring the warning for any integer type, in a
    metric, a collection and rank, whether the model is bad or good.
    """
    true_labels = random_lists(40, 12, 200, seed=1)
    is_wrong = (
        torch.rand(true_labels.shape, generator=torch.Generator().manual_seed(2))
        >= share
    )
    preds = torch.where(is_wrong, 200 + torch.arange(12), true_labels).to(dtype)
    for metric in (tm.AccuracyAtK(k=1), tm.TopKCollection([tm.RecallAtK(k=3)])):
        if dtype == torch.uint8:
            preds = torch.where(preds > 199, preds, true_labels.to(dtype))
        (text,) = warnings_of(metric, (preds, true_labels.to(dtype)))
        assert "preds[..., None]" in text
    with pytest.warns(
        UserWarning, match=r"rank: preds and target, .*preds\[\.\.\., None\]"
    ):
        rank(preds, true_labels.to(dtype))


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("rows", "width"), [(8, 3), (64, 5), (64, 10), (200, 20)])
def test_rankings_and_sets_of_equal_width_bring_no_warning(
    rows: int, width: int, seed: int
) -> None:
    """Rankings beside sets of relevant labels of equal width bring no warning, although
    most labels are found: sets in any order, sorted by id, or padded.
    """
    relevant = random_lists(rows, width, 60, seed)
    scores = torch.rand(rows, 60, generator=torch.Generator().manual_seed(seed + 100))
    scores.scatter_add_(1, relevant, torch.full(relevant.shape, 0.5))
    preds = scores.topk(width).indices
    for target in (
        relevant,
        relevant.sort(dim=1).values,
        relevant.where(torch.arange(width) < width - 1, -1),
    ):
        assert warnings_of(tm.RecallAtK(k=width), (preds, target)) == []


@pytest.mark.parametrize("rows", [5, 500])
def test_few_common_ids_bring_no_warning(rows: int) -> None:
    """Few common ids at equal places bring no warning: three ids at the same of three
    places occur by chance in one of 27 batches.
    """
    target = torch.arange(3 * rows).reshape(rows, 3)
    preds = target + 3 * rows
    preds[:3, 1] = target[:3, 1]
    assert warnings_of(tm.RecallAtK(k=3), (preds, target)) == []


def test_preds_equal_to_target_bring_no_warning() -> None:
    """preds equal to target bring no warning, because both readings have the same
    value.
    """
    lists = random_lists(20, 5, 60, seed=3)
    assert warnings_of(tm.RecallAtK(k=5), (lists, lists.clone())) == []


@pytest.mark.parametrize("side", ["preds", "target"])
def test_repeated_tokens_are_refused_with_the_remedy(side: str) -> None:
    """Tokens that repeat within a sequence are refused with the remedy for tokens, on
    either side.

    Lists of another width are refused without it.
    """
    repeated = torch.tensor([[5, 5, 2], [7, 1, 4]])
    pair = (repeated, TRUE_TOKENS) if side == "preds" else (TOKENS, repeated)
    with pytest.raises(
        ValueError,
        match=rf"{side} names the label 5 twice in row 0; .*pass preds\[\.\.\., None\]",
    ):
        tm.AccuracyAtK(k=1).update(*pair)
    with pytest.raises(ValueError, match="twice in row 0") as error:
        tm.AccuracyAtK(k=1).update(repeated, TRUE_TOKENS[:, :2])
    assert "[..., None]" not in str(error.value)


def test_the_hint_for_one_class_of_each_row_leads_to_the_accuracy() -> None:
    """Predicted classes of rows are refused with a hint, in metrics and evaluate;
    following it gives the accuracy: two of four classes.
    """
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
    """Return similarities of rows to each other, and the rows of the same class as a
    multi-hot matrix.
    """
    points = torch.nn.functional.normalize(
        torch.randn(rows, 6, generator=torch.Generator().manual_seed(1)), dim=1
    )
    classes = torch.arange(rows) % 3
    return points @ points.T, classes[:, None] == classes


@pytest.mark.parametrize("form", ["scores", "ids", "candidates"])
@pytest.mark.parametrize("is_self_relevant", [True, False])
def test_queries_that_find_themselves_bring_one_warning(
    form: str, is_self_relevant: bool
) -> None:
    """Queries that find themselves first bring one warning, whether the query is
    relevant or not.

    With the remedy there is none.
    """
    scores, relevant = embeddings()
    relevant = (
        relevant if is_self_relevant else relevant & ~torch.eye(12, dtype=torch.bool)
    )
    preds: Any = {
        "scores": scores,
        "ids": scores.argsort(dim=1, descending=True)[:, :5],
        "candidates": tuple(scores.topk(5)),
    }[form]
    (text,) = warnings_of(
        tm.HitRateAtK(k=1, num_labels=12), (preds, relevant), (preds, relevant)
    )
    assert "the first label of each row is the row itself" in text
    assert "fill_diagonal_(-torch.inf)" in text and "ids[:, 1:]" in text
    corrected = preds[:, 1:] if form == "ids" else scores.fill_diagonal_(-torch.inf)
    assert warnings_of(tm.HitRateAtK(k=1, num_labels=12), (corrected, relevant)) == []


def test_rows_whose_label_is_their_own_number_bring_no_warning() -> None:
    """Rows whose relevant label is their own number bring no warning, as images and
    their captions, and a few classes in order.
    """
    scores, _ = embeddings()
    assert warnings_of(tm.HitRateAtK(k=1), (scores, torch.arange(12))) == []
    assert (
        warnings_of(tm.HitRateAtK(k=1), (scores, torch.eye(12, dtype=torch.bool))) == []
    )
    assert (
        warnings_of(
            tm.HitRateAtK(k=1), (torch.eye(4)[:3] + 0.1, torch.tensor([0, 1, 3]))
        )
        == []
    )


# integers that may be ids or gains


@pytest.mark.parametrize(
    ("target", "ids"),
    [
        ([[1, 0, 0]], "target.masked_fill(target == 0, -1)"),
        (
            [[2, 1, 0, 0], [3, 0, 0, 0], [1, 2, 3, 0]],
            "target.masked_fill(target == 0, -1)",
        ),
        ([[2, 0, 1], [1, 2, 0]], "target"),
    ],
)
def test_integers_that_may_be_ids_bring_a_warning(
    target: list[list[int]], ids: str
) -> None:
    """Integer targets that may be lists of ids, padded with 0 or with every label once,
    bring a warning.

    With the remedy they are read as ids.
    """
    labels = torch.tensor(target)
    scores = torch.rand(labels.shape) * 0.9
    (text,) = warnings_of(tm.RecallAtK(k=1), (scores, labels))
    assert "is read as a gain for each label" in text
    assert f"Ranking.from_scores(preds, target_ids={ids})" in text
    assert "target.bool()" in text
    assert Ranking.from_scores(
        scores, target_ids=eval(ids, {"target": labels})
    ).n_relevant.tolist() == [
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
def test_integers_that_can_only_be_gains_bring_no_warning(
    target: list[list[int]],
) -> None:
    """Integer targets that can only be gains bring no warning: multi-hot rows, grades,
    numbers beyond the labels.
    """
    labels = torch.tensor(target)
    assert (
        warnings_of(tm.RecallAtK(k=1), (torch.rand(labels.shape) * 0.9, labels)) == []
    )
    assert (
        warnings_of(
            tm.RecallAtK(k=1), (torch.rand(1, 3) * 0.9, torch.tensor([[1.0, 0, 0]]))
        )
        == []
    )


# unknown cells, and outputs of several classifiers


def cells() -> tuple[Tensor, Tensor]:
    """Return scores, and a multi-hot target of 200 rows and 14 labels, of which a tenth
    of the cells is unknown.
    """
    generator = torch.Generator().manual_seed(5)
    scores = torch.rand(200, 14, generator=generator)
    target = (torch.rand(200, 14, generator=generator) < 0.3).long()
    return scores, target.masked_fill(
        torch.rand(200, 14, generator=generator) < 0.1, -1
    )


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32])
def test_unknown_cells_are_refused_with_the_remedy(dtype: torch.dtype) -> None:
    """Unknown cells of -1 are refused with their own remedy, because the one for ids
    would give another number.
    """
    scores, target = cells()
    with pytest.raises(
        ValueError,
        match=r"not known cells .*preds.masked_fill\(target < 0, -torch.inf\)",
    ):
        tm.RecallAtK(k=3).update(scores, target.to(dtype))


def test_remedy_for_unknown_cells_gives_the_values_of_a_loop_and_of_torchmetrics() -> (
    None
):
    """With the remedy for unknown cells, recall@3 equals a loop over the known cells,
    and precision at a threshold equals TorchMetrics.
    """
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
def test_predict_proba_of_several_outputs_is_refused_with_the_remedy(
    labels: int,
) -> None:
    """The list of arrays that scikit-learn's predict_proba returns for several outputs
    is refused with the remedy, also of two arrays, which are no pair of scores and ids.
    """
    preds = [np.full((4, 2), 0.5) for _ in range(labels)]
    with pytest.raises(
        (TypeError, ValueError), match=r"np.stack\(\[p\[:, 1\] for p in preds\], 1\)"
    ):
        tm.RecallAtK(k=1).update(preds, torch.zeros(4, labels, dtype=torch.bool))
