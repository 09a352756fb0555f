"""Labels in pieces: ``rank_chunks`` in one process and ``rank_shards`` on two give the bits of ``rank``.

Readings of the contract where it leaves a choice:

- ``chunks`` is any iterable, read once, of scores (N, l) whose columns follow one another from label 0 on; their widths
  add up to ``num_labels``.
- Every process of ``rank_shards`` holds the whole target and gets the whole ranking. ``Ranking.from_shards`` is not
  tested: its arguments are not written.
- Ranks of the relevant labels are exact, so that MRR without a cut-off has the bits of ``rank`` as well. Cross-entropy
  is not tested.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, multiprocessing

import tailmetrics
from wishes import shards
from wishes.rows import NUM_LABELS, bits, csr, fed, padded_ids, sets
from wishes.shards import DEPTH, KINDS, SHARES, WORLD, batch, read

WIDTHS = {
    "one": (18,),
    "two": (9, 9),
    "uneven": (1, 2, 11, 4),
    "one by one": (1,) * 18,
    "with an empty one": (5, 0, 13),
}


def pieces(scores: Tensor, widths: tuple[int, ...]) -> Iterator[Tensor]:
    """A generator that can be read once, of copies that are spoilt after use."""
    for piece in scores.split(list(widths), dim=1):
        yield piece.contiguous()


def rank_pieces(scores: Tensor, target: Any, widths: tuple[int, ...], **more: Any) -> tailmetrics.Ranking:
    given = {"depth": DEPTH, "num_labels": NUM_LABELS, **more}
    return tailmetrics.rank_chunks(pieces(scores, widths), target, **given)


def differing(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> list[str]:
    assert found.keys() == wanted.keys()
    return [key for key in found if bits(found[key]) != bits(wanted[key])]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("widths", WIDTHS.values(), ids=WIDTHS)
@pytest.mark.parametrize("depth", [5, 7, 18, 500])
def test_chunks_have_the_bits_of_the_whole(kind: str, widths: tuple[int, ...], depth: int) -> None:
    """Ids, gains, numbers of relevant labels, and every metric, MRR without a cut-off included."""
    scores, gains = batch(kind)
    if depth < DEPTH:
        ours = rank_pieces(scores, gains, widths, depth=depth)
        assert bits(ours.ids) == bits(tailmetrics.rank(scores, gains, depth=depth).ids)
        return
    wanted = read(tailmetrics.rank(scores, gains, depth=depth))
    assert differing(read(rank_pieces(scores, gains, widths, depth=depth)), wanted) == []


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_chunks_of_every_type(dtype: torch.dtype) -> None:
    """Ties that half types make are broken by label across chunks too."""
    scores, gains = batch("plain")
    scores = scores.to(dtype)
    wanted = read(tailmetrics.rank(scores, gains, depth=DEPTH))
    assert differing(read(rank_pieces(scores, gains, (4, 14))), wanted) == []


def test_every_form_of_target() -> None:
    """Multi-hot, ids, CSR and class indices, as ``rank`` takes them; lists of chunks as well as generators."""
    scores, gains = batch("ties")
    for target in (gains > 0, padded_ids(sets(gains)), csr(gains, gains > 0), torch.arange(len(gains)) % NUM_LABELS):
        wanted = read(tailmetrics.rank(scores, target, depth=DEPTH))
        chunks = list(pieces(scores, (10, 8)))
        found = tailmetrics.rank_chunks(chunks, target, depth=DEPTH, num_labels=NUM_LABELS)
        assert differing(read(found), wanted) == []


def test_exact_ranks_beyond_the_depth() -> None:
    """A relevant label below the list keeps its rank: MRR of depth 1 is that of all labels."""
    scores, gains = batch("plain")
    whole = fed(tailmetrics.MRR(), scores, gains).compute()
    shallow = fed(tailmetrics.MRR(), rank_pieces(scores, gains, (6, 6, 6), depth=1)).compute()
    assert bits(shallow) == bits(whole)


@pytest.mark.parametrize("wrong", ["too few", "too many", "rows", "nan", "types", "none"])
def test_wrong_chunks_are_refused(wrong: str) -> None:
    """The error names the chunk and what is needed."""
    scores, gains = batch("plain")
    left, right = scores[:, :10], scores[:, 10:]
    given: dict[str, list[Tensor]] = {
        "too few": [left],
        "too many": [left, right, right],
        "rows": [left, right[1:]],
        "nan": [left, right.masked_fill(torch.arange(8) == 2, float("nan"))],
        "types": [left, right.long()],
        "none": [],
    }
    with pytest.raises((TypeError, ValueError), match="rank_chunks: "):
        tailmetrics.rank_chunks(given[wrong], gains, depth=DEPTH, num_labels=NUM_LABELS)


@pytest.fixture(scope="module")
def of_processes(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, dict[str, Tensor]]]:
    """What each of two gloo processes found."""
    if not hasattr(tailmetrics, "rank_shards"):
        raise AttributeError("module 'tailmetrics' has no attribute 'rank_shards'")
    folder = tmp_path_factory.mktemp("shards")
    multiprocessing.spawn(shards.work, args=(str(folder),), nprocs=WORLD)
    return [torch.load(Path(folder) / f"{process}.pt", weights_only=True) for process in range(WORLD)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("process", range(WORLD))
def test_shards_have_the_bits_of_the_whole(of_processes: Any, process: int, share: str, kind: str) -> None:
    """On every process, whatever its share of the labels."""
    wanted = read(tailmetrics.rank(*batch(kind), depth=DEPTH))
    assert differing(of_processes[process][f"{share} {kind}"], wanted) == []


def test_the_comparison_can_fail() -> None:
    """Other scores have other bits: the kinds of batches differ from one another."""
    found = [read(tailmetrics.rank(*batch(kind), depth=DEPTH)) for kind in KINDS]
    assert differing(found[0], found[1])
    assert differing(found[0], found[2])
