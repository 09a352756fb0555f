"""Each fast form gives the bits of the plain one it stands for."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

import tailmetrics
from tailmetrics import LabelBuckets, Ranking
from tailmetrics.ranking import NOT_RANKED, _exact, _hits, _log_sum
from tailmetrics.ranking._counters import BucketCounters, plain_bucket_ranks
from tailmetrics.ranking._device import force_plain
from tailmetrics.ranking._exact import exact_ranks
from tailmetrics.ranking._log_sum import log_of, log_sum, terms_added_up
from tailmetrics.ranking._suggestions import _flag_above
from tailmetrics.ranking._targets import Entries, count_true


def log_normaliser(scores: Tensor) -> Tensor:
    """log Σ exp(score) of each row, from its largest score and what is above it."""
    largest, above = log_sum(scores)
    return largest + above


def _random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("num_buckets", [1, 2, 11, 40])
@pytest.mark.parametrize("depth", [0, 1, 7, 500])
def test_packed_counters_equal_counting_bucket_by_bucket(num_buckets: int, depth: int) -> None:
    """Ranks within the bucket and totals, with padding, also where all labels fall into one bucket."""
    generator = torch.Generator().manual_seed(depth + num_buckets)
    for listed in (
        torch.randint(0, num_buckets + 1, (9, depth), generator=generator),
        torch.zeros(9, depth, dtype=torch.int64),
        torch.full((9, depth), num_buckets - 1),
    ):
        counters = BucketCounters(listed, num_buckets)
        ranks, totals = plain_bucket_ranks(listed, num_buckets)
        assert torch.equal(counters.totals(), totals)
        inside = (listed < num_buckets).view(-1).nonzero().squeeze(1)
        assert torch.equal(counters.ranks(inside), ranks.view(-1)[inside])


@pytest.mark.parametrize("width", [8, 64, 2040, 2048, 4096, 16_320, 20_000, 63, 1001])
def test_lane_sums_equal_counting(width: int) -> None:
    """Rows all true, all false and mixed, for widths at and around the borders of words and of lanes."""
    mask = _random(5, width) > 0
    mask[0], mask[1] = True, False
    assert count_true(mask).tolist() == [sum(row) for row in mask.tolist()]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("threshold", [0.1, 0.0, -math.inf, math.inf, 1e300, "by label"])
def test_flags_above_a_threshold_equal_those_of_torch(dtype: torch.dtype, threshold: float | str) -> None:
    """Rows side by side and with gaps; scores that equal a threshold are not above it, in their own type."""
    scores = _random(6, 90).mul(10).round().div(10).to(dtype)
    scores[0, :3] = torch.tensor([math.inf, -math.inf, 0.1])
    limit = _random(90, seed=1).mul(10).round().div(10) if isinstance(threshold, str) else threshold
    plain = scores > (limit if isinstance(limit, Tensor) else torch.tensor(limit, dtype=dtype))
    for given, wanted in ((scores, plain), (scores[:, :33], plain[:, :33]), (scores[::2], plain[::2])):
        part = limit[: given.shape[1]] if isinstance(limit, Tensor) else limit
        assert torch.equal(_flag_above(given, part, torch.empty(given.shape, dtype=torch.bool)), wanted)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("targets", [1, 3, 40])
def test_counted_ranks_equal_sorted_ranks(ties: bool, targets: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rank of each target among all labels, by counting better ones, by sorting, and in blocks of any size."""
    scores = _random(7, 300, seed=targets)
    scores = scores.round() if ties else scores
    scores[3, :50] = -torch.inf
    ids = torch.stack([torch.randperm(300, generator=torch.Generator().manual_seed(s))[:targets] for s in range(7)])
    entries = Entries(torch.arange(7).repeat_interleave(targets), ids.view(-1), None, targets)
    wanted = []
    for row, label in zip(entries.rows.tolist(), entries.ids.tolist(), strict=True):
        own = scores[row, label].item()
        better = sum(s > own or (s == own and other < label) for other, s in enumerate(scores[row].tolist()))
        wanted.append(NOT_RANKED if own == -torch.inf else better + 1)
    for block in (1, 700, 2**20):
        monkeypatch.setattr(_exact, "BLOCK_ELEMENTS", block)
        assert exact_ranks(scores, entries).tolist() == wanted
    with force_plain():
        assert exact_ranks(scores, entries).tolist() == wanted


@pytest.mark.parametrize("graded", [False, True])
@pytest.mark.parametrize("above", [0.4, 2.2], ids=["many relevant", "few relevant"])
def test_every_look_up_finds_the_same(graded: bool, above: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a dense matrix, by comparing and by sorting, rows together and one by one, and in the form that never waits."""
    ids = torch.stack([torch.randperm(60, generator=torch.Generator().manual_seed(s))[:25] for s in range(12)])
    ids[4, 9:] = -1
    target = (_random(12, 60, seed=3) > above).float() * (torch.arange(60) % 3 + 1 if graded else 1)
    target[2] = 0
    dense = target if graded else target.bool()
    csr = target.to_sparse_csr()

    def ranks(relevant: Tensor) -> list[list[tuple[int, int, float]]]:
        ranking = Ranking.from_ids(
            ids, num_labels=60, **{"target_mask" if relevant.dtype == torch.bool else "target_gains": relevant}
        )
        columns = zip(
            ranking.target_ranks.tolist(), ranking.target_ids.tolist(), ranking.target_gains.tolist(), strict=True
        )
        return [[entry for entry in zip(*row, strict=True) if entry[0] < NOT_RANKED] for row in columns]

    wanted = [
        [(rank, label, row[label]) for rank, label in enumerate(listed, start=1) if label >= 0 and row[label] > 0]
        for listed, row in zip(ids.tolist(), target.tolist(), strict=True)
    ]
    assert ranks(dense) == wanted
    assert ranks(csr) == wanted
    with force_plain():
        assert ranks(dense) == wanted
        assert ranks(csr) == wanted
    for block in (1, 2**16):
        monkeypatch.setattr(_hits, "BLOCK_ELEMENTS", block)
        for short in (0, 25):
            monkeypatch.setattr(_hits, "SHORT", short)
            assert ranks(csr) == wanted


@pytest.mark.parametrize("as_mask", [False, True])
@pytest.mark.parametrize("kept", [False, True])
def test_small_batches_look_at_all_places_at_once_and_find_the_same(
    as_mask: bool, kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Padded targets or a mask, some rows empty or dropped, lists that end early, with the small form and without."""
    scores = _random(9, 50, seed=5)
    scores[1, 4:] = scores[7] = -torch.inf
    target = torch.stack([torch.randperm(50, generator=torch.Generator().manual_seed(s))[:4] for s in range(9)])
    target[3], target[5, 2:] = -1, -1
    keep = torch.arange(9) != 4 if kept else None
    if as_mask:
        target = torch.zeros(9, 51, dtype=torch.bool).scatter_(1, target + 1, True)[:, 1:]
    small = tailmetrics.rank(scores, target, depth=20, row_mask=keep)
    small.target_ranks
    monkeypatch.setattr(_hits, "SMALL", 0)
    plain = tailmetrics.rank(scores, target, depth=20, row_mask=keep)
    assert "_found" not in vars(small)
    for k in (1, 5, 20):
        assert torch.equal(small.hits_at(k), plain.hits_at(k))
        hits = [ranking.target_ranks <= k for ranking in (small, plain)]
        assert small.target_ids[hits[0]].tolist() == plain.target_ids[hits[1]].tolist()
        assert torch.equal(
            tailmetrics.functional.average_precision(small, k), tailmetrics.functional.average_precision(plain, k)
        )
        assert torch.equal(tailmetrics.functional.ndcg_at_k(small, k), tailmetrics.functional.ndcg_at_k(plain, k))
    assert "_found" in vars(plain)


SCORE_KINDS = {
    "random": lambda scores: scores,
    "tied": lambda scores: scores.round(),
    "constant": torch.zeros_like,
    "signed zeros": lambda scores: torch.where(scores > 0, 0.0, -0.0),
    "zeros and smallest numbers": lambda scores: torch.where(scores > 0, 0.0, scores.sign() * 1e-45),
    "mostly -inf": lambda scores: scores.masked_fill(scores < 1, -torch.inf),
    "infinite": lambda scores: torch.where(scores > 1, torch.inf, scores),
}


@pytest.mark.parametrize("kind", SCORE_KINDS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64], ids=str)
def test_ranks_above_a_bar_are_those_of_sorting(kind: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any width around that of a chunk, one target per row or several, as many in each row or not, blocks of any size."""
    for width in (1, 63, 64, 65, 300):
        scores = SCORE_KINDS[kind](_random(5, width, seed=width)).to(dtype)
        for targets in (1, 3):
            ids = torch.randint(-1, width, (5 * targets,), generator=torch.Generator().manual_seed(width))
            ids[-1] = width - 1
            rows = torch.arange(5).repeat_interleave(targets)
            for given in (slice(None), rows != 2):
                entries = Entries(rows[given], ids[given], None, targets)
                own = scores[rows[given], ids[given].clamp(min=0)]
                wanted = _exact._ranks_by_sorting(scores, entries.rows, entries.ids)
                wanted = torch.where((entries.ids >= 0) & (own > -torch.inf), wanted, NOT_RANKED)
                for together in (1, 700, 2**26):
                    monkeypatch.setattr(_exact, "FLAGGED", together)
                    monkeypatch.setattr(_exact, "COPIED", together)
                    with force_plain():
                        assert torch.equal(exact_ranks(scores, entries), wanted)
                        monkeypatch.setattr(_exact, "FEW_TARGETS", 0)
                        assert torch.equal(exact_ranks(scores, entries), wanted)
                        monkeypatch.setattr(_exact, "FEW_TARGETS", 32)


def test_no_rows_have_no_exact_ranks() -> None:
    """Neither rows nor targets."""
    none = torch.zeros(0, dtype=torch.int64)
    with force_plain():
        assert exact_ranks(torch.zeros(0, 100), Entries(none, none, None, 1)).shape == (0,)


@pytest.mark.parametrize("width", [1, 2, 7, 1024, 1025, 5000])
def test_log_normaliser_of_a_device_has_the_bits_of_the_cpu(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows a few at a time or all at once; -inf, infinity, and no row at all."""
    scores = _random(9, width, seed=width) * 20
    scores[2], scores[3, :1], scores[4, -1:] = -torch.inf, -torch.inf, torch.inf
    for dtype in (torch.float16, torch.float32, torch.float64):
        wanted = log_normaliser(scores.to(dtype))
        for together in (1, 3 * width, 2**23):
            monkeypatch.setattr(_log_sum, "TOGETHER_ON_DEVICE", together)
            with force_plain():
                found = log_normaliser(scores.to(dtype))
                assert log_normaliser(scores[:0]).shape == (0,)
            torch.testing.assert_close(found, wanted, rtol=0, atol=0, equal_nan=True)


def test_log_normaliser_has_the_same_bits_in_any_batch() -> None:
    """Alone, in a batch, shifted in memory, as a column slice; and equals logsumexp to 1e-14."""
    scores = _random(33, 1001, seed=6) * 20
    scores[5] = -torch.inf
    together = log_normaliser(scores)
    assert torch.equal(together, torch.cat([log_normaliser(row[None]) for row in scores]))
    wide = torch.zeros(33, 1100)
    wide[:, 7:1008] = scores
    assert torch.equal(together, log_normaliser(wide[:, 7:1008]))
    torch.testing.assert_close(together, scores.double().logsumexp(1), rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("widths", [(1001,), (1, 1000), (400, 600, 1), (7,) * 143])
def test_log_normaliser_has_the_same_bits_in_pieces(widths: tuple[int, ...]) -> None:
    """Sums over columns add up in any order of the pieces."""
    scores = _random(33, 1001, seed=6) * 20
    largest, wanted = log_sum(scores)
    pieces = reversed(scores.split(list(widths), dim=1))
    sums = torch.stack([terms_added_up(piece, largest, 1001)[1] for piece in pieces]).sum(dim=0)
    assert torch.equal(log_of(sums, 1001), wanted)


def test_log_normaliser_of_a_sure_row_keeps_its_digits() -> None:
    """What all other labels add to a term of 1 is e^-40 and e^-60, of which a sum of floats would leave nothing."""
    largest, above = log_sum(torch.tensor([[3.0, -37.0], [0.0, -60.0], [5.0, -torch.inf]]))
    assert largest.tolist() == [3.0, 0.0, 5.0]
    assert above.tolist() == pytest.approx([math.exp(-40), math.exp(-60), 0.0], rel=1e-3)


def test_buckets_restrict_a_ranking_to_a_ranking_of_their_labels() -> None:
    """What is placed within a bucket is what ranking the bucket's labels alone places."""
    scores = _random(15, 40, seed=7)
    target = _random(15, 40, seed=8) > 0.7
    assignment = torch.arange(40) % 3
    buckets = LabelBuckets.from_assignment(assignment, ["a", "b", "c"])
    within = tailmetrics.rank(scores, target, depth=40).by_bucket(buckets)
    for bucket in range(3):
        alone = tailmetrics.rank(scores[:, assignment == bucket], target[:, assignment == bucket], depth=40)
        for k in range(1, 15):
            assert torch.equal(within.hits_at(k)[:, bucket], alone.hits_at(k))
        assert torch.equal(within.n_relevant[:, bucket], alone.n_relevant)
        assert torch.equal(within.length[:, bucket], alone.length)


def test_masks_of_no_rows_and_of_odd_bytes_are_counted() -> None:
    """No row, also with numpy's stride of 0; bools that are views of other bytes count once each."""
    for empty in (torch.zeros(0, 64, dtype=torch.bool), np.zeros((0, 5000), dtype=bool)):
        assert tailmetrics.rank(torch.zeros(empty.shape), empty, depth=5).n_relevant.tolist() == []
    odd = torch.full((2, 64), 4, dtype=torch.uint8).view(torch.bool)
    assert count_true(odd).tolist() == [64, 64]
    metric = tailmetrics.RecallAtK(k=64)
    metric.update(_random(2, 64), odd)
    assert metric.compute().item() == 1


def test_lists_without_any_target_and_of_any_layout_have_no_hits() -> None:
    """Transposed scores give column-major ids; nothing is relevant."""
    scores = _random(9, 4).t()
    with force_plain():
        for target in (torch.zeros(4, 0, dtype=torch.int64), torch.zeros(4, 9).to_sparse_csr()):
            assert not tailmetrics.rank(scores, target, depth=3).gains.any()


@pytest.mark.parametrize("preds", ["scores", "ids", "candidates"])
def test_a_repeated_label_is_named_with_its_row(preds: str) -> None:
    """Rows that a mask drops are counted too: the fourth row is row 3."""
    mask = torch.tensor([False, True, True, True])
    repeated = torch.tensor([[0, 1], [1, 2], [2, 3], [4, 4]])
    given = {"scores": _random(4, 9), "ids": repeated, "candidates": (torch.rand(4, 2), repeated)}[preds]
    target = repeated if preds == "scores" else torch.zeros(4, dtype=torch.int64)
    with pytest.raises(ValueError, match="names the label 4 twice in row 3"):
        tailmetrics.rank(given, target, row_mask=mask)
