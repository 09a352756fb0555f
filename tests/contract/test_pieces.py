"""The best labels of each piece of the labels, ranked as candidates, have the bits of
the whole, or are refused.
"""

import pytest
import torch
from torch import Tensor

import tailmetrics as tm
from exactness.bits import bits_of
from tailmetrics import Ranking, rank

NUM_ROWS, NUM_LABELS = 12, 40


def tied_scores() -> Tensor:
    """Return scores of few values, so that ties cross the edges of pieces."""
    return torch.randint(
        0, 12, (NUM_ROWS, NUM_LABELS), generator=torch.Generator().manual_seed(3)
    ).float()


def best_of_pieces(scores: Tensor, k: int, pieces: int = 4) -> tuple[Tensor, Tensor]:
    """Return the best labels of each piece, as in docs/distributed.md."""
    candidates = []
    for number, piece in enumerate(scores.chunk(pieces, dim=1)):
        best = piece.sort(dim=1, descending=True, stable=True)
        candidates.append(
            (best.values[:, :k], best.indices[:, :k] + number * NUM_LABELS // pieces)
        )
    values, ids = zip(*candidates, strict=True)
    return torch.cat(values, dim=1), torch.cat(ids, dim=1)


@pytest.mark.parametrize("k", [1, 5, 10])
@pytest.mark.parametrize("pieces", [1, 2, 4])
def test_the_best_of_pieces_have_the_bits_of_the_whole(k: int, pieces: int) -> None:
    """A ranking of the best labels of pieces has the ids of the ranking of all labels,
    and metrics of it have the same bits.
    """
    scores, target = tied_scores(), torch.arange(NUM_ROWS)
    merged = rank(
        best_of_pieces(scores, k, pieces),
        target,
        num_labels=NUM_LABELS,
        depth=k,
        complete=False,
    )
    whole = rank(scores, target, depth=k)
    assert torch.equal(merged.ids, whole.ids)
    for metric in (tm.RecallAtK(k=k), tm.NDCGAtK(k=k), tm.MRR(k=k)):
        from_pieces, from_whole = metric.clone(), metric.clone()
        from_pieces.update(merged)
        from_whole.update(whole)
        assert bits_of(from_pieces.compute()) == bits_of(from_whole.compute())


@pytest.mark.parametrize("complete", [True, False])
def test_depth_cuts_candidates(complete: bool) -> None:
    """depth cuts candidates: forty candidates of four pieces are right down to rank 10,
    so that recall@40 and MRR of them are refused.
    """
    pair = best_of_pieces(tied_scores(), k=10)
    target = torch.arange(NUM_ROWS)
    for ranking in (
        rank(pair, target, num_labels=NUM_LABELS, depth=10, complete=complete),
        Ranking.from_scores(pair, target_ids=target, depth=10, complete=complete),
    ):
        assert (ranking.depth, ranking.max_k, ranking.complete) == (10, 10, False)
        with pytest.raises(ValueError, match="k=40 is deeper than the ranking"):
            tm.RecallAtK(k=40).update(ranking)
        with pytest.raises(ValueError, match="MRR: .*rank"):
            tm.MRR().update(ranking)


def test_depth_cuts_csr_scores() -> None:
    """depth cuts the stored entries of CSR scores, which are candidates."""
    matrix = tied_scores().to_sparse_csr()
    ranking = rank(matrix, torch.arange(NUM_ROWS), depth=3)
    assert (ranking.depth, ranking.complete) == (3, False)
    assert torch.equal(ranking.ids, rank(matrix, torch.arange(NUM_ROWS)).ids[:, :3])


def test_without_a_depth_candidates_are_whole() -> None:
    """Candidates without a depth keep all places, more than the 500 of dense scores.
    Lists of ids ignore the depth.
    """
    ids = torch.arange(600)[None]
    assert rank((torch.rand(1, 600), ids), torch.tensor([0])).max_k > 600
    assert rank(ids, torch.tensor([0]), depth=5).depth == 600


def test_ties_at_the_cut_of_merged_pieces_are_refused() -> None:
    """tied_at refuses the cut of merged pieces, because a piece may have left out the
    label that comes next.
    """
    merged = rank(
        best_of_pieces(tied_scores(), 2),
        torch.arange(NUM_ROWS),
        depth=2,
        complete=False,
    )
    with pytest.raises(ValueError, match="the ranking was cut at 2"):
        merged.tied_at(2)
