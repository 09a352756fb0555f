"""Sequences: leading axes are rows, ``ignore_index`` drops rows; per token accuracy, MRR and cross-entropy.

Readings of the contract where it leaves a choice:

- ``ignore_index=-100`` is an argument of metrics, given here by name. Its default is not tested.
- A dropped row is a row that ``row_mask`` drops: its scores are not looked at. -1 stays "no relevant label".
- ``row_mask``, ``row_weights`` and ``row_groups`` have the leading axes too.
- (B, T, L) with (B, T) is told by its shape; a target with an axis more, (B, T, M) ids or (B, T, L) multi-hot, is
  flattened the same way. Where perplexity stands in the API is not written, so that it is not tested.
"""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor

import tailmetrics
from wishes.rows import COUNTS, DECILES, NUM_LABELS, bits, fed, floats, members

METRICS: list[tuple[str, dict[str, Any]]] = [
    ("AccuracyAtK", {"k": [1, 5]}),
    ("MRR", {}),
    ("CrossEntropy", {}),
    ("NDCGAtK", {"k": 5}),
    ("RecallAtK", {"k": 3}),
    ("F1AtK", {"k": 1, "average": "macro"}),
    ("KForRecall", {"min_recall": 1.0}),
    ("PopularityAtK", {"k": 2, "label_counts": COUNTS}),
    ("CatalogCoverageAtK", {"k": 1}),
]
every_metric = pytest.mark.parametrize(("name", "options"), METRICS)


def tokens(seed: int, *axes: int, ignored: bool = True) -> tuple[Tensor, Tensor]:
    """Logits (..., L) and next tokens (...), some of them -100."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(*axes, NUM_LABELS, generator=generator, dtype=torch.float64) * 2
    target = (torch.rand(axes, generator=generator) ** 2 * NUM_LABELS).long()
    if ignored:
        target[torch.rand(axes, generator=generator) < 0.25] = -100
    return logits, target


def made(name: str, options: dict[str, Any], **more: Any) -> Any:
    return getattr(tailmetrics, name)(num_labels=NUM_LABELS, ignore_index=-100, **options, **more)


def kept_rows(logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """The rows that are not ignored, as (N, L) and (N,)."""
    flat = target.flatten()
    return logits.reshape(-1, NUM_LABELS)[flat != -100], flat[flat != -100]


@every_metric
@pytest.mark.parametrize("axes", [(4, 7), (2, 3, 5), (1, 1), (11,)])
@pytest.mark.parametrize("buckets", [None, DECILES], ids=["overall", "deciles"])
def test_leading_axes_are_rows(name: str, options: dict[str, Any], axes: tuple[int, ...], buckets: Any) -> None:
    """(B, T, L) with (B, T) has the bits of its B·T rows that are not -100."""
    logits, target = tokens(1, *axes, ignored=axes != (1, 1))
    way = {} if buckets is None else {"buckets": buckets}
    plain = getattr(tailmetrics, name)(num_labels=NUM_LABELS, **options, **way)
    wanted = fed(plain, *kept_rows(logits, target)).compute()
    assert bits(fed(made(name, options, **way), logits, target).compute()) == bits(wanted)


def test_values_per_token() -> None:
    """Accuracy, reciprocal rank and loss of every token by hand: ranks from a sort, the loss from exponentials."""
    logits, target = tokens(2, 5, 9)
    ranks, losses = [], []
    for row, token in zip(*(part.tolist() for part in kept_rows(logits, target)), strict=True):
        ranks.append(1 + sum(score > row[token] or (score == row[token] and i < token) for i, score in enumerate(row)))
        losses.append(math.log(math.fsum(math.exp(score) for score in row)) - row[token])
    wanted = {
        "AccuracyAtK": sum(rank <= 5 for rank in ranks) / len(ranks),
        "MRR": math.fsum(1 / rank for rank in ranks) / len(ranks),
        "CrossEntropy": math.fsum(losses) / len(losses),
    }
    for name, value in wanted.items():
        options = {"k": 5} if name == "AccuracyAtK" else {}
        found = fed(made(name, options), logits, target).compute()
        assert float(found) == pytest.approx(value, rel=1e-9), name


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_torch_cross_entropy(dtype: torch.dtype) -> None:
    """torch's own loss with its own ignore_index; of bfloat16 logits, in float64."""
    logits, target = tokens(3, 6, 8)
    logits = logits.to(dtype)
    flat = logits.double().flatten(0, 1)
    expected = torch.nn.functional.cross_entropy(flat, target.flatten(), ignore_index=-100)
    found = fed(made("CrossEntropy", {}), logits, target).compute()
    assert float(found) == pytest.approx(float(expected), rel=1e-9)


def test_torch_cross_entropy_by_decile() -> None:
    """The mean loss of the tokens of a decile; a decile without a token is NaN."""
    logits, target = tokens(4, 10, 8)
    rows, kept = kept_rows(logits, target)
    losses = torch.nn.functional.cross_entropy(rows, kept, reduction="none")
    found = floats(fed(made("CrossEntropy", {}, buckets=DECILES), logits, target).compute())
    for value, inside in zip(found, members(DECILES), strict=True):
        own = torch.tensor([token in inside for token in kept.tolist()])
        expected = float(losses[own].mean()) if own.any() else math.nan
        assert value == pytest.approx(expected, rel=1e-9, nan_ok=True)


def test_torchmetrics_multiclass_accuracy_with_ignore_index() -> None:
    """MulticlassAccuracy(ignore_index=-100, average="micro") of (B, L, T) is accuracy@k of (B, T, L)."""
    peers = pytest.importorskip("torchmetrics.classification")
    logits, target = tokens(5, 6, 8)
    for k in (1, 3):
        peer = peers.MulticlassAccuracy(NUM_LABELS, top_k=k, average="micro", ignore_index=-100)
        expected = float(peer(logits.movedim(-1, 1), target))
        assert float(fed(made("AccuracyAtK", {"k": k}), logits, target).compute()) == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("ignored", [-100, -2, 0, 3])
def test_any_number_may_be_ignored(ignored: int) -> None:
    """A token id too: the rows that ask for it are dropped."""
    logits, target = tokens(6, 5, 7, ignored=False)
    if ignored < 0:
        target[::2, 3] = ignored
    kept = target.flatten() != ignored
    wanted = fed(tailmetrics.MRR(), logits.flatten(0, 1)[kept], target.flatten()[kept]).compute()
    assert bits(fed(tailmetrics.MRR(ignore_index=ignored), logits, target).compute()) == bits(wanted)


def test_minus_one_is_still_a_row_without_a_relevant_label() -> None:
    """It counts 0 overall, where -100 counts nothing."""
    logits = torch.tensor([[[2.0, 1.0], [2.0, 1.0], [2.0, 1.0]]])
    metric = fed(tailmetrics.AccuracyAtK(k=1, ignore_index=-100), logits, torch.tensor([[0, -1, -100]]))
    assert float(metric.compute()) == 1 / 2


def test_other_labels_below_minus_one_are_refused() -> None:
    """-100 without ignore_index=-100 given, or another one beside it, is an id out of range."""
    logits, target = tokens(8, 3, 4, ignored=False)
    target[0, 0] = -7
    with pytest.raises(ValueError, match="-7"):
        made("MRR", {}).update(logits, target)


def test_ranked_ids_multi_hot_and_flat_batches() -> None:
    """(B, T, K) ids with (B, T), (B, T, L) multi-hot and gains: the bits of the flattened rows."""
    logits, target = tokens(9, 3, 5, ignored=False)
    ids = logits.argsort(dim=-1, descending=True)[..., :6]
    multi_hot = torch.rand(3, 5, NUM_LABELS, generator=torch.Generator().manual_seed(2)) < 0.2
    for preds, own in ((ids, target), (logits, multi_hot), (logits, multi_hot * 2.0)):
        flat = preds.flatten(0, 1), own.flatten(0, 1)
        wanted = fed(tailmetrics.RecallAtK(k=3, num_labels=NUM_LABELS), *flat).compute()
        found = fed(tailmetrics.RecallAtK(k=3, num_labels=NUM_LABELS), preds, own).compute()
        assert bits(found) == bits(wanted)


def test_masks_weights_and_groups_have_the_leading_axes() -> None:
    """(B, T) each; with -100 dropped besides."""
    logits, target = tokens(10, 4, 6)
    generator = torch.Generator().manual_seed(3)
    mask = torch.rand(4, 6, generator=generator) < 0.7
    weights, groups = torch.rand(4, 6, generator=generator), torch.randint(-1, 2, (4, 6), generator=generator)
    kept = (mask & (target != -100)).flatten()
    rows, labels = logits.flatten(0, 1)[kept], target.flatten()[kept]
    wanted = fed(tailmetrics.MRR(), rows, labels).compute()
    assert bits(fed(made("MRR", {}), logits, target, row_mask=mask).compute()) == bits(wanted)
    wanted = fed(tailmetrics.MRR(weighted=True), rows, labels, row_weights=weights.flatten()[kept]).compute()
    found = fed(made("MRR", {}, weighted=True), logits, target, row_mask=mask, row_weights=weights).compute()
    assert bits(found) == bits(wanted)
    plain = fed(tailmetrics.MRR(row_groups=["a", "b"]), rows, labels, row_groups=groups.flatten()[kept]).scalars()
    grouped = fed(made("MRR", {}, row_groups=["a", "b"]), logits, target, row_mask=mask, row_groups=groups).scalars()
    assert {key: bits(value) for key, value in grouped.items()} == {key: bits(value) for key, value in plain.items()}


def test_a_collection_ranks_a_sequence_once() -> None:
    """All members see the same rows; training counts are taken from (B, T) tokens too."""
    logits, target = tokens(11, 4, 6)
    frequency = tailmetrics.LabelFrequency.from_counts(COUNTS, int(COUNTS.sum()))
    members_of = [made("AccuracyAtK", {"k": 1}, buckets="deciles"), made("MRR", {}), made("CrossEntropy", {})]
    collection = tailmetrics.TopKCollection(members_of)
    collection.bind(frequency)
    found = fed(collection, logits, target).compute()
    rows = kept_rows(logits, target)
    for key, alone in (("mrr", tailmetrics.MRR()), ("cross_entropy", tailmetrics.CrossEntropy())):
        assert bits(found[key]) == bits(fed(alone, *rows).compute())
    accuracy = fed(tailmetrics.AccuracyAtK(k=1, buckets=DECILES), *rows).scalars()
    assert all(bits(found[key]) == bits(value) for key, value in accuracy.items())


@pytest.mark.parametrize("wrong", ["lengths", "axes", "rows only"])
def test_shapes_that_do_not_fit_are_refused(wrong: str) -> None:
    """The error says what arrived; nothing is counted."""
    logits, target = tokens(12, 4, 6, ignored=False)
    given = {"lengths": target[:, :5], "axes": target.T, "rows only": target[0]}[wrong]
    metric = made("MRR", {})
    with pytest.raises(ValueError, match="MRR: "):
        metric.update(logits, given)
    assert metric.update_count == 0
