"""Rankings by scores from which a multiple of the logarithm of the training count is taken off.

Source: Menon et al., Long-tail learning via logit adjustment, ICLR 2021.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Literal, TypeAlias, get_args

import torch
from torch import Tensor

from tailmetrics.ranking._device import real_dtype
from tailmetrics.ranking._likely_mistakes import first_rows
from tailmetrics.ranking._ranking import Ranking
from tailmetrics.ranking._reading import retrieved
from tailmetrics.ranking._warnings import warn_of_batch

ScoreKind: TypeAlias = Literal["softmax", "sigmoid", "probabilities"]
"""What scores are: logits of a softmax, logits of a sigmoid for each label, or probabilities."""

ABOVE_ONE = 2.0**-7
"""How far a probability may be above 1: bfloat16 has 8 binary digits."""


LOG_OF_ZERO = -1e38
"""Stands for the logarithm of 0: below every logarithm, and so low that no offset changes it, since 0 / π^τ is 0 for
every τ. Minus infinity would take the label out of the list. The C file has the same number."""


def logarithms(scores: Tensor, kind: ScoreKind) -> Tensor:
    """Return the logarithm of the probability of each score, float64; for a softmax, up to a constant of the row."""
    found = scores.to(real_dtype(scores.device))
    if kind == "softmax":
        return found
    if kind == "sigmoid":
        return torch.nn.functional.logsigmoid(found)
    return found.log().masked_fill(found == 0, LOG_OF_ZERO)


def warn_of_kind(caller: str, ranking: Ranking, kind: ScoreKind) -> None:
    """Warn if scores that are said to be logits lie in [-1, 1]: τ ln(n + 1) would outweigh what they say."""
    scores = ranking.values if ranking.scores is None else first_rows(ranking.context(caller), ranking.scores)
    known = torch.empty(0) if scores is None or kind == "probabilities" else scores[scores > -torch.inf]
    if known.numel() and bool((known.abs() <= 1).all()):
        warn_of_batch(
            ranking.notes,
            f"{caller}: all scores lie in [-1, 1], as probabilities and cosines do, but are read as logits "
            f"(scores={kind!r}), from which the training counts take off more than they hold. Pass "
            "scores='probabilities' if they are; multiply cosines by the scale that the loss gave them.",
        )


def adjusted(
    caller: str, ranking: Ranking, offsets: Tensor, taus: Tensor, kind: ScoreKind, whole: bool
) -> Iterator[Ranking]:
    """Yield the ranking of a batch for each τ. Lists and candidates are ranked among themselves.

    Args:
        caller: Name of the caller, for errors.
        ranking: The batch, as it is ranked without offsets.
        offsets: Shape (L,), float64, at least 0.
        taus: Shape (T,), float64, above 0: so many offsets are taken off the logarithms of the scores.
        kind: What the scores are.
        whole: Whether a metric reads the scores of all labels.

    Raises:
        ValueError: If the batch has no scores of labels, or ``kind`` does not fit the scores.
    """
    scores, values, num_labels = ranking.scores, ranking.values, len(offsets)
    if values is None:
        raise ValueError(
            f"{caller}: preds are ranked ids, which have no scores; pass scores, or scored candidates (scores, ids)."
        )
    if ranking.documents is not None:
        raise ValueError(
            f"{caller}: preds are documents without labels; pass scores [N, L], or scored candidates (scores, ids)."
        )
    if ranking.num_labels not in (None, num_labels) or bool((ranking.ids >= num_labels).any()):
        raise ValueError(
            f"{caller}: training counts are of {num_labels:,} labels, but preds have more, or fewer; bind counts of "
            "the same labels."
        )
    if kind == "probabilities" and values.shape[1] and bool((values[:, 0] > 1 + ABOVE_ONE).any()):
        raise _outside(caller, float(values[:, 0].max()))
    device = ranking.ids.device
    offsets, taus = offsets.to(device, real_dtype(device)), taus.to(device, real_dtype(device))
    ranked = _of_candidates if scores is None else partial(_of_matrix, whole=whole)
    for one in ranked(ranking, offsets, taus, kind):
        assert one.values is not None
        below = one.values[:, :1].isnan().any(dim=1)
        if kind == "probabilities" and bool((below if ranking.row_mask is None else below & ranking.row_mask).any()):
            raise _outside(caller, "a number below 0")
        yield one


def _outside(caller: str, found: float | str) -> ValueError:
    found = found if isinstance(found, str) else f"{found:.4g}"
    return ValueError(
        f"{caller}: preds holds {found}, but probabilities lie between 0 and 1; pass scores='softmax' or 'sigmoid' for "
        "logits."
    )


def _of_matrix(ranking: Ranking, offsets: Tensor, taus: Tensor, kind: ScoreKind, whole: bool) -> Iterator[Ranking]:
    scores, kernels, context = ranking.scores, ranking.targets.kernels, ranking.context("adjusted")
    assert scores is not None
    number, of_kind = get_args(ScoreKind).index(kind), partial(logarithms, kind=kind)
    found = kernels.top_k_adjusted(scores, offsets, taus, number, ranking.depth, of_kind)
    for tau, (values, ids, distinct, numbers) in zip(taus, found, strict=True):
        filled = numbers and ranking.row_mask is None
        yield replace(
            ranking,
            ids=ids if filled else retrieved(context, values[:, : ranking.depth], ids),
            values=values,
            scores=logarithms(scores, kind) - tau * offsets if whole else None,
            distinct=distinct and filled,
            filled=filled,
        )


def _of_candidates(ranking: Ranking, offsets: Tensor, taus: Tensor, kind: ScoreKind) -> Iterator[Ranking]:
    given, kernels = ranking.values, ranking.targets.kernels
    assert given is not None
    known = logarithms(given[:, : ranking.depth], kind).masked_fill(ranking.ids < 0, -torch.inf)
    of_listed = offsets[ranking.ids.clamp(min=0)]
    for tau in taus:
        adjusted = known - tau * of_listed
        values, ids, distinct = kernels.best_first(adjusted, ranking.ids)
        yield replace(
            ranking,
            ids=torch.where(values > -torch.inf, ids, -1),
            values=values,
            repeated=None if ranking.repeated is None else kernels.repeated(ids),
            distinct=distinct and ranking.filled,
            filled=False,
        )
