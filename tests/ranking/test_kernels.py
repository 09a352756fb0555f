"""Every step of ranking has the bits of its definition: plain, on the CPU, and in C on
any number of threads.

Invalid arguments of the C file are refused, and a missing or damaged one is not used.
"""

import os
import re
import sys
import warnings
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

import processes
import tailmetrics
from hatch_build import compile_native
from tailmetrics import HitRateAtK, LabelBuckets, Ranking
from tailmetrics.metrics._states import EqualRows
from tailmetrics.metrics._tie_counts import tied_across
from tailmetrics.ranking import (
    NOT_RANKED,
    _hits,
    _kernels_cpu,
    _kernels_of_scores,
    _matrices,
    _threads,
    native,
)
from tailmetrics.ranking._hits import Entries
from tailmetrics.ranking._kernels import PLAIN, Kernels, RelevantLabels, Targets
from tailmetrics.ranking._kernels_cpu import LONGEST_IN_C, CpuKernels, NativeKernels
from tailmetrics.ranking._matrices import plain_top_k
from tailmetrics.ranking._reading import Lists
from tailmetrics.ranking._warnings import warn_of_speed
from tailmetrics.testing import show_versions

FORMS = {
    "plain": PLAIN,
    "torch": CpuKernels(),
    **({"C": NativeKernels()} if native.available() else {}),
}
THREADS = [1, 2, 3, 4, 40]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


@pytest.fixture(params=FORMS)
def kernels(request: pytest.FixtureRequest) -> Kernels:
    torch.set_num_threads(3)
    if request.param == "C":
        request.getfixturevalue("library")
    return FORMS[request.param]


def _random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


SCORES = {
    "random": lambda scores: scores,
    "tied": lambda scores: scores.round(),
    "constant": torch.zeros_like,
    "ascending": lambda scores: torch.arange(
        scores.shape[1], dtype=torch.float32
    ).expand(scores.shape),
    "signed zeros": lambda scores: torch.where(scores > 0, 0.0, -0.0),
    "zeros and smallest numbers": lambda scores: torch.where(
        scores > 0, 0.0, scores.sign() * 1e-45
    ),
    "mostly -inf": lambda scores: scores.masked_fill(scores < 1, -torch.inf),
    "falling to -inf": lambda scores: (
        torch.arange(scores.shape[1]).flip(0).log().expand(scores.shape)
    ),
    "infinite": lambda scores: torch.where(scores > 1, torch.inf, scores),
    "one above a tie": lambda scores: scores.clamp(max=0.5).index_fill(
        1, torch.tensor([scores.shape[1] - 1]), 2.0
    ),
    "tied in the tail": lambda scores: scores.masked_fill(scores < 1, 0.25),
}


@cache
def _scores(kind: str, dtype: torch.dtype, rows: int, width: int) -> Tensor:
    """Return scores of a kind, created once for all forms of a step."""
    return SCORES[kind](_random(rows, width, seed=width)).to(dtype)


@cache
def _sorted(
    kind: str, dtype: torch.dtype, rows: int, width: int
) -> tuple[Tensor, Tensor]:
    """Return values and ids of all labels, the best first."""
    values, ids, *_ = plain_top_k(_scores(kind, dtype, rows, width), width)
    return values, ids


def _same_choice(
    kernels: Kernels, scores: Tensor, k: int, whole: tuple[Tensor, Tensor] | None = None
) -> None:
    torch.set_num_threads(THREADS[k % 5] if isinstance(kernels, NativeKernels) else 3)
    values, ids, distinct, numbers = kernels.top_k(scores, k)
    expected_values, expected_ids, *_ = plain_top_k(scores, k)
    if whole is not None:
        expected_values, expected_ids = whole[0][:, : k + 1], whole[1][:, :k]
    assert torch.equal(ids, expected_ids)
    assert torch.equal(values.to(torch.float64), expected_values.to(torch.float64))

    is_distinct = bool((expected_values[:, :-1] > expected_values[:, 1:]).all())
    are_numbers = bool((expected_values[:, :k] > -torch.inf).all())
    if isinstance(kernels, NativeKernels):
        assert (distinct, numbers) == (is_distinct, are_numbers)
    else:
        assert is_distinct or not distinct
        assert are_numbers or not numbers


@pytest.mark.parametrize("kind", SCORES)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_the_best_labels_are_those_of_a_stable_sort(
    kernels: Kernels, kind: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """top_k returns the values and ids of a stable sort, for widths around those of
    chunks, for one label, some and all, in rounds of any size.
    """
    monkeypatch.setattr(_matrices, "WIDTH_OF_ONE_SORT", 64)
    for rows, width in ((3, 17), (5, 1003), (2, 5003)):
        scores, whole = (
            _scores(kind, dtype, rows, width),
            _sorted(kind, dtype, rows, width),
        )
        for k in sorted({1, 10, min(99, width), width}):
            _same_choice(kernels, scores, k, whole)


@pytest.mark.parametrize("width", range(1, 12))
def test_a_network_that_sorts_zeros_and_ones_sorts_all(width: int) -> None:
    """The sorting network sorts all rows of zeros and ones, and so any rows.

    Source: Knuth, The Art of Computer Programming 3, 5.3.4, the zero-one principle.
    """
    rows = np.arange(2**width)[:, None] >> np.arange(width) & 1
    columns = rows.T.copy()
    _kernels_cpu.sort_columns(columns)
    assert np.array_equal(columns, -np.sort(-rows, axis=1).T)


@pytest.mark.skipif(not native.available(), reason="only the C file tells it")
def test_distinct_lists_have_no_ties() -> None:
    """Lists that C reports as distinct have the tie counts that their values give.

    Lists with equal scores, -inf or NaN are not distinct.
    """
    scores = _random(40, 300)
    ranking = tailmetrics.rank(scores, torch.arange(40), depth=5)
    assert ranking.distinct
    others = [scores.masked_fill(scores > 2, level) for level in (2.0, torch.nan)]
    others.append(scores.masked_fill(scores < 2.5, -torch.inf))
    for other_scores in others:
        assert not tailmetrics.rank(
            other_scores, ranking.ids[:, 0], depth=5, validate_args=False
        ).distinct
    for cuts in ((1,), (2, 4, 5)):
        from_flag = tied_across(ranking, cuts)
        from_values = tied_across(replace(ranking, distinct=False), cuts)
        assert isinstance(from_flag, EqualRows) and from_values is not None
        assert torch.equal(from_flag.values, from_values.values.to(torch.int64))
        assert torch.equal(from_flag.total.view(-1), from_values.values.sum(dim=0))


def test_best_labels_of_any_layout_are_those_of_a_stable_sort(
    kernels: Kernels, monkeypatch: pytest.MonkeyPatch
) -> None:
    """top_k equals a stable sort for transposed, sliced and expanded scores, no row, no
    label, few rows at a time, and differences that only float64 has.
    """
    monkeypatch.setattr(_matrices, "WIDTH_OF_ONE_SORT", 64)
    base = _random(2000, 6, seed=2).round(decimals=1)
    for scores_per_round in (1, 2**28):
        monkeypatch.setattr(
            _kernels_of_scores, "SCORES_OF_A_TOURNAMENT", scores_per_round
        )
        for scores in (
            base.t(),
            base.t()[::2],
            base.t()[:, 3:-5],
            base[:, :1].t().expand(4, -1),
            base.t()[:1],
        ):
            _same_choice(kernels, scores, 7)
    for shape in ((0, 100), (0, 0), (3, 0)):
        values, ids, *_ = kernels.top_k(torch.zeros(shape), min(7, shape[1]))
        assert len(values) == len(ids) == shape[0]
    _same_choice(kernels, 1 + _random(3, 5003).double() * 1e-12, 20)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_the_largest_score_of_groups_is_that_of_a_loop(
    kernels: Kernels, dtype: torch.dtype
) -> None:
    """The largest score of groups of labels is that of a loop: one group, few, or as
    many as labels, adjacent or not, with -inf and NaN, in any layout.
    """
    for width, num in ((1, 1), (1003, 1), (1003, 7), (1003, 400), (1003, 1003)):
        scores = _random(5, width, seed=num)
        scores = (
            scores.masked_fill(scores < -1, -torch.inf)
            .masked_fill(scores > 3, torch.nan)
            .to(dtype)
        )
        neighbours = torch.arange(width) * num // width
        for groups in (
            neighbours,
            neighbours[
                torch.randperm(width, generator=torch.Generator().manual_seed(0))
            ],
        ):
            maxima = torch.stack(
                [scores[:, groups == group].amax(dim=1) for group in range(num)], dim=1
            )
            for layout in (scores, scores.t().contiguous().t()):
                largest = kernels.largest(layout, groups, num)
                torch.testing.assert_close(
                    largest, maxima, rtol=0, atol=0, equal_nan=True
                )


def test_nan_of_either_sign_comes_first(kernels: Kernels) -> None:
    """NaN of either sign comes first, so that the first or largest value shows it; 0 /
    0 is a negative NaN on x86.
    """
    for nan in (float("nan"), -float("nan")):
        scores = torch.zeros(2, 40)
        scores[1, 30] = torch.tensor(nan)
        for k in (1, 20, 40):
            values = kernels.top_k(scores, k)[0]
            first = values[:, 0] if kernels.can_read_values else scores.amax(dim=1)
            assert first.isnan().tolist() == [False, True]


@pytest.mark.parametrize("groups", [6, 16, 40, 512])
@pytest.mark.parametrize("kind", [*SCORES, "nan", "nan at the end"])
def test_best_labels_by_groups_are_those_of_a_stable_sort(
    kind: str, groups: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without C the best labels, which are searched among candidates of groups, equal a
    stable sort for any number of groups and any height of blocks.
    """
    torch.set_num_threads(3)
    monkeypatch.setattr(_kernels_cpu, "SCORES_RANKED_AT_ONCE", 2**9)
    monkeypatch.setattr(_kernels_cpu, "LABEL_GROUPS", groups)
    kernels = FORMS["torch"]
    for rows, width in ((5, 1003), (2, 5000)):
        scores = _random(rows, width, seed=width)
        for k in (1, 2, 10, 99, width):
            if kind in SCORES:
                _same_choice(kernels, SCORES[kind](scores), k)
            else:
                label = -1 if kind == "nan at the end" else 7
                with_nan = scores.index_fill(1, torch.tensor([label]), torch.nan)
                assert kernels.top_k(with_nan, k)[0][:, 0].isnan().all()


def _targets(kernels: Kernels, form: str, target: Tensor) -> Targets:
    """Return a matrix (N, L) of gains in the named form."""
    rows, ids = target.nonzero().unbind(1)
    if form == "mask":
        return Targets(*target.shape, None, kernels, dense=target > 0)
    if form == "padded":
        width = int((target > 0).sum(1).max())
        padded = torch.stack(
            [
                torch.cat([row.nonzero()[:, 0], torch.full((width,), -1)])[:width]
                for row in target
            ]
        )
        return Targets(*target.shape, None, kernels, padded=padded)
    gains = None if form == "entries" else target[rows, ids].double()
    targets = Targets(
        *target.shape, None, kernels, flat=Entries(rows, ids, gains, target.shape[1])
    )
    return (
        replace(targets, flat=None, dense=target)
        if form == "gains" and not kernels.can_read_values
        else targets
    )


def test_labels_that_share_their_last_bits_are_different_labels(
    kernels: Kernels,
) -> None:
    """Labels that share their last bits are found and counted as different ones, also
    beside the padding -1 and -2.
    """
    ends = torch.tensor([5, 2**16 - 1, 2**16 - 2, 2**15, 2**32 - 1])
    for high in (2**16, 2**32, 2**40):
        ids = torch.cat([ends, ends + high, torch.tensor([-1, -1])]).expand(3, -1)
        target = torch.tensor(
            [[5 + high, 2**16 - 1, -1], [2**32 - 1, 2**16 - 2 + high, 7], [-1, -1, -1]]
        )
        hits = Ranking(
            *Lists(ids, None, True),
            Targets(3, None, None, kernels, padded=target),
            None,
        ).hits
        ranks_of_labels = {
            label: rank for rank, label in enumerate(ids[0].tolist(), 1) if label >= 0
        }
        for row, labels in enumerate(target.tolist()):
            ranks = set(hits.ranks[row].tolist()) - {NOT_RANKED}
            assert ranks == {
                ranks_of_labels[label] for label in labels if label in ranks_of_labels
            }
        distinct = ids[:, :10].clone()
        assert kernels.check_lists(distinct) == (5, 2**32 - 1 + high, None, None)
        distinct[2, 4] = distinct[2, 1]
        assert kernels.check_lists(distinct) == (5, 2**32 - 1 + high, None, 2)


@pytest.mark.parametrize("dtype", FLOATS)
def test_rows_that_do_not_fall_are_those_of_a_loop(
    kernels: Kernels, dtype: torch.dtype
) -> None:
    """rows_not_falling returns the rows of a loop: equal, rising and NaN scores stop a
    fall, -inf does not; views and rows of no or one score are read.
    """
    inf, nan = torch.inf, torch.nan
    rows = [
        [3, 2, 1],
        [9, 9, 8],
        [1, 2, 0],
        [2, -inf, -inf],
        [-inf, -inf, -inf],
        [2, -inf, 1],
        [nan, 2, 1],
        [3, 2, nan],
    ]
    for values in (
        torch.tensor(rows, dtype=dtype),
        torch.tensor(rows, dtype=dtype).repeat(1, 2)[:, 3:],
    ):
        for width in range(4):
            falls = [
                all(
                    value > after or after == -inf
                    for value, after in pairwise(row[:width])
                )
                for row in rows
            ]
            not_falling = [
                number for number, is_falling in enumerate(falls) if not is_falling
            ]
            assert kernels.rows_not_falling(values[:, :width]).tolist() == not_falling


@pytest.mark.parametrize("form", ["mask", "padded", "entries", "gains"])
@pytest.mark.parametrize(
    ("density", "names"),
    [(0.3, 5), (0.02, 300)],
    ids=["many relevant", "few, many buckets"],
)
def test_hits_are_those_of_a_loop_overall_and_by_bucket(
    kernels: Kernels,
    form: str,
    density: float,
    names: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ranks, labels, gains and lengths equal a loop.

    They are those of the list, within buckets, of the first places, and of lists that
    end early. Three threads look up the rows.
    """
    monkeypatch.setattr(_threads, "NUMBERS_PER_THREAD", 100)
    monkeypatch.setattr(_threads, "num_threads", lambda: 3)
    draw = torch.Generator().manual_seed(3)
    ids = torch.stack([torch.randperm(60, generator=draw)[:25] for _ in range(12)])
    ids[4, 9:] = ids[5] = -1
    target = (torch.rand(12, 60, generator=draw) < density) * (
        torch.arange(60) % 3 + 1.0 if form == "gains" else 1.0
    )
    target[2] = 0
    assignment = torch.randint(0, 4, (60,), generator=draw)
    buckets = LabelBuckets.from_assignment(assignment, [*map(str, range(names))])
    ranking = Ranking(*Lists(ids, None, True), _targets(kernels, form, target), 60)

    def hits_of(ranks: object, *place: int) -> list[tuple[int, int, float]]:
        parts = (
            getattr(ranks, name)[place].tolist()
            for name in ("target_ranks", "target_ids", "target_gains")
        )
        return [hit for hit in zip(*parts, strict=True) if hit[0] < NOT_RANKED]

    for row, listed in enumerate(ids.tolist()):
        hits = [
            (r, i, float(target[row, i]))
            for r, i in enumerate(listed, 1)
            if i >= 0 and target[row, i]
        ]
        assert hits_of(ranking, row) == hits
        assert hits_of(ranking.up_to(3), row) == [
            hit for hit in hits if hit[0] <= ranking.up_to(3).deepest
        ]
        for bucket in range(5):
            for depth in (25, 7):
                within = ranking.by_bucket(buckets, depth=depth)
                members = [
                    i for i in listed[:depth] if i >= 0 and assignment[i] == bucket
                ]
                ranked = [
                    (r, i, float(target[row, i]))
                    for r, i in enumerate(members, 1)
                    if target[row, i]
                ]
                assert hits_of(within, row, bucket) == ranked
                assert within.length[row, bucket] == len(members)
                assert within.n_relevant[row, bucket] == int(
                    (target[row] > 0)[assignment == bucket].sum()
                )
            whole = ranking.by_bucket(buckets, scope="global")
            assert hits_of(whole, row, bucket) == [
                hit for hit in hits if assignment[hit[1]] == bucket
            ]
    best = target.sort(dim=1, descending=True).values
    for k in (1, 5, 40):
        assert torch.equal(
            ranking.best(k), best[:, : ranking.best(k).shape[1]].double()
        )
        assert not best[:, ranking.best(k).shape[1] : k].any()
    best_by_bucket = ranking.by_bucket(buckets).best(5)
    for bucket in range(5):
        bucket_gains = (
            target[:, assignment == bucket]
            .sort(dim=1, descending=True)
            .values[:, :5]
            .double()
        )
        width = min(bucket_gains.shape[1], best_by_bucket.shape[-1])
        assert torch.equal(best_by_bucket[:, bucket, :width], bucket_gains[:, :width])
        assert (
            not bucket_gains[:, width:].any()
            and not best_by_bucket[:, bucket, width:].any()
        )


@pytest.mark.parametrize("kind", SCORES)
@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_ranks_and_counts_are_those_of_a_stable_sort(
    kernels: Kernels, kind: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exact ranks and counts of higher and equal scores equal a stable sort, with one
    relevant label per row, some, or more than are counted one by one, for widths around
    a chunk and for blocks of rows.
    """
    for width, targets in ((1, 1), (63, 3), (64, 1), (65, 3), (300, 40), (300, 1)):
        scores, order = (
            _scores(kind, dtype, 5, width),
            _sorted(kind, dtype, 5, width)[1],
        )
        places = torch.empty_like(order).scatter_(
            1, order, torch.arange(1, width + 1).expand_as(order)
        )
        columns = [
            torch.randperm(width, generator=torch.Generator().manual_seed(row))[
                :targets
            ]
            for row in range(5)
        ]
        rows, ids = (
            torch.arange(5).repeat_interleave(min(targets, width)),
            torch.cat(columns),
        )
        is_kept = rows != 2
        for entries in (
            Entries(rows, ids, None, len(columns[0])),
            Entries(rows[is_kept], ids[is_kept], None, width),
        ):
            entry_scores = scores[entries.rows, entries.ids]
            expected = torch.where(
                entry_scores > -torch.inf, places[entries.rows, entries.ids], NOT_RANKED
            )
            row_scores = scores[entries.rows]
            equal = row_scores == entry_scores[:, None]
            flags = (
                row_scores > entry_scores[:, None],
                equal,
                equal & (torch.arange(width) < entries.ids[:, None]),
            )
            for rows_together, entries_together in ((2, 20), (9, 999)):
                monkeypatch.setattr(
                    _matrices, "SCORES_SORTED_AT_ONCE", rows_together * width
                )
                monkeypatch.setattr(
                    _matrices, "SCORES_COMPARED_AT_ONCE", entries_together * width
                )
                ranks, num_equal = kernels.exact_ranks(scores, entries, entry_scores)
                assert torch.equal(ranks, expected)
                assert num_equal is None or torch.equal(num_equal, equal.sum(dim=1))
                counts = kernels.counts_above(
                    scores, entries.rows, entry_scores, entries.ids
                )
                assert torch.equal(
                    counts, torch.stack([flag.sum(dim=1) for flag in flags])
                )


@pytest.mark.parametrize("dtype", [*FLOATS, torch.bool], ids=str)
def test_cells_above_a_limit_are_those_of_torch(
    kernels: Kernels, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Cells above a limit are those of torch: a score equal to the limit in its own
    type is not above it.

    Rows are transposed, sliced, and few at a time.
    """
    monkeypatch.setattr(_threads, "NUMBERS_PER_THREAD", 1)
    monkeypatch.setattr(_kernels_of_scores, "BLOCK_SCORES", 200)
    scores = _random(6, 90).mul(10).round().div(10).to(dtype)
    by_label = _random(90, seed=1).mul(10).round().div(10)
    for layout in (scores, scores[:, :33], scores[::2], scores.t(), scores[:0]):
        limits = [0.1, -torch.inf, by_label[torch.arange(layout.shape[1]) % 90]]
        cells = [torch.zeros_like(layout, dtype=torch.bool) for _ in limits]
        for number, rows, ids in kernels.above(layout, limits):
            cells[number][rows[ids >= 0], ids[ids >= 0]] = True
        for limit, cells_above in zip(limits, cells, strict=True):
            expected = layout
            if dtype != torch.bool:
                expected = layout > torch.as_tensor(limit, dtype=dtype)
            assert torch.equal(cells_above, expected)
            assert torch.equal(kernels.num_above(layout, limit), expected.sum(dim=1))


@pytest.mark.parametrize("width", [0, 7, 2047, 2048, 5000])
@pytest.mark.parametrize("transposed", [False, True])
def test_true_cells_of_rows_are_counted(
    kernels: Kernels, width: int, transposed: bool
) -> None:
    """count_true equals a loop over the rows, for any width and layout."""
    mask = torch.rand(width, 5).T < 0.3 if transposed else torch.rand(5, width) < 0.3
    assert kernels.count_true(mask).tolist() == [sum(row) for row in mask.tolist()]


def test_repeated_ids_and_true_cells_are_counted(kernels: Kernels) -> None:
    """repeated marks later places of an id, and not of -1; count_true counts a bool
    with another byte once, for any width and layout.
    """
    ids = torch.tensor([[3, 1, 3, -1, -1], [0, 1, 2, 3, 4], [2, 2, 2, 2, -1]])
    assert kernels.repeated(ids).int().tolist() == [
        [0, 0, 1, 0, 0],
        [0] * 5,
        [0, 1, 1, 1, 0],
    ]
    assert kernels.repeated(ids[:0]).shape == (0, 5)
    odd = torch.full((2, 64), 4, dtype=torch.uint8).view(torch.bool)
    assert kernels.count_true(odd).tolist() == [64, 64]
    for width in (0, 1, 63, 64, 2048, 20_001):
        mask = _random(5, width, seed=width) > 0
        for layout in (mask, mask.t().contiguous().t(), mask[:, ::2]):
            assert kernels.count_true(layout).tolist() == [
                sum(row) for row in layout.tolist()
            ]


@pytest.mark.parametrize("threads", THREADS)
def test_any_number_of_threads_gives_the_same_ranking(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any number of threads gives the ranking of a stable sort, also more threads than
    rows, and leaves the number unchanged.
    """
    monkeypatch.setattr(_threads, "NUMBERS_PER_THREAD", 1)
    scores, target = _random(23, 5000).mul(3).round(), torch.arange(46).view(23, 2)
    torch.set_num_threads(threads)
    ranking = tailmetrics.rank(scores, target, depth=100)
    assert torch.equal(
        ranking.ids, scores.sort(dim=1, descending=True, stable=True).indices[:, :100]
    )
    places = scores.argsort(dim=1, descending=True, stable=True).argsort(dim=1) + 1
    assert torch.equal(
        ranking.exact.target_ranks, places.gather(1, target).sort(dim=1).values
    )
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize("factor", [1, 2**54])
def test_lists_are_checked_over_threads(
    kernels: Kernels, factor: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Checking lists over threads finds the smallest and largest id, and the first row
    with a fault of all rows; -1 is no repeated id.
    """
    monkeypatch.setattr(_threads, "NUMBERS_PER_THREAD", 1)
    ids = torch.arange(7 * 30).view(30, 7) * factor
    assert kernels.check_lists(ids) == (0, 209 * factor, None, None)
    ids[11, 5:], ids[25, 2] = -1, -1
    ids[17, 6] = ids[28, 3] = ids[17, 0]
    ids[28, 5] = ids[28, 3]
    assert kernels.check_lists(ids) == (-1, 209 * factor, 25, 17)


def test_time_to_check_long_lists_is_not_quadratic(
    library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time to check a long list does not grow with its square: C does not compare
    the first list with itself, and lists of more than ``LONGEST_IN_C`` ids do not go to
    C.
    """
    kernels, lengths_in_c = NativeKernels(), list[int]()
    in_c = native.check_lists
    monkeypatch.setattr(
        native,
        "check_lists",
        lambda ids: lengths_in_c.append(ids.shape[1]) or in_c(ids),
    )
    # the square of the longest list in C is 3·10^10 comparisons
    for length in (LONGEST_IN_C, LONGEST_IN_C + 1):
        ids = torch.arange(length).expand(2, -1).clone()
        assert kernels.check_lists(ids) == (0, length - 1, None, None)
        ids[1, -1] = 7
        assert kernels.check_lists(ids) == (0, length - 1, None, 1)
    assert lengths_in_c == [LONGEST_IN_C] * 2


@pytest.mark.parametrize("preds", ["scores", "ids", "candidates"])
def test_error_of_a_repeated_label_names_its_row(preds: str) -> None:
    """The error about a repeated label names its row in the batch, where masked rows
    count: the fourth row is row 3.
    """
    mask = torch.tensor([False, True, True, True])
    repeated = torch.tensor([[0, 1], [1, 2], [2, 3], [4, 4]])
    forms = {
        "scores": _random(4, 9),
        "ids": repeated,
        "candidates": (torch.rand(4, 2), repeated),
    }
    target = repeated if preds == "scores" else torch.zeros(4, dtype=torch.int64)
    with pytest.raises(ValueError, match="names the label 4 twice in row 3"):
        tailmetrics.rank(forms[preds], target, row_mask=mask)


@pytest.mark.parametrize("shape", [(1, 1), (5, 2), (40, 9), (9, 33), (3, 70)])
@pytest.mark.parametrize(
    "many_rows", [1, 2**11], ids=["sorted by columns", "sorted by rows"]
)
def test_the_best_values_of_rows_are_those_of_sorting_all_of_them(
    kernels: Kernels,
    shape: tuple[int, int],
    many_rows: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """best returns the largest gains or weights of relevant labels, followed by zeros,
    as sorting all of them does, for rows with few labels and with many.
    """
    monkeypatch.setattr(_kernels_cpu, "MANY_ROWS", many_rows)
    ids = torch.stack(
        [
            torch.randperm(100, generator=torch.Generator().manual_seed(row))
            for row in range(shape[0])
        ]
    )
    gains = _random(*shape).clamp(min=0).round(decimals=1).double()
    relevant = torch.where(gains > 0, ids[:, : shape[1]], -1)
    rows = torch.arange(shape[0]).repeat_interleave(shape[1])
    entries = kernels.without_void(
        Entries(rows, relevant.reshape(-1), gains.reshape(-1), shape[1])
    )
    targets = Targets(shape[0], 100, None, kernels, flat=entries)
    weights = _random(100, seed=1).abs().double()
    weights_of_relevant = torch.where(gains > 0, weights[ids[:, : shape[1]]], 0.0)
    for k in (1, 3, 20):
        for label_weights, values in (
            (None, gains),
            (_hits.LabelWeights(weights), weights_of_relevant),
        ):
            best = kernels.best(RelevantLabels(targets, None), k, label_weights)[:, :k]
            expected = values.sort(dim=1, descending=True).values[:, : best.shape[1]]
            assert torch.equal(best, expected)
            assert (
                bool((values.sum(dim=1) - expected.sum(dim=1) < 1e-9).all())
                or best.shape[1] == k
            )


@pytest.mark.usefixtures("library")
def test_every_16_bit_float_is_read_correctly() -> None:
    """C reads all 65,536 patterns of both 16-bit types correctly, with subnormal
    numbers and NaN, in rows of 1,024 in random order.
    """
    patterns = (
        torch.randperm(2**16, generator=torch.Generator().manual_seed(0))
        .sub(2**15)
        .to(torch.int16)
        .view(64, -1)
    )
    for scores in (patterns.view(torch.float16), patterns.view(torch.bfloat16)):
        values, ids, *_ = native.top_k(scores, 1024)
        expected, expected_ids, *_ = plain_top_k(scores, 1024)
        torch.testing.assert_close(
            values.double(), expected.double(), rtol=0, atol=0, equal_nan=True
        )
        assert torch.equal(ids, expected_ids)


@pytest.mark.usefixtures("library")
def test_out_of_range_ids_do_not_read_beyond_tables() -> None:
    """The C functions refuse ids beyond a mask, more labels than a row may have, and
    labels or buckets out of range, instead of reading beyond a table.
    """
    ids, mask = torch.tensor([[3, 30]]), torch.ones(1, 30, dtype=torch.bool)
    starts, no_hits = (
        torch.tensor([0, 2]),
        _hits.Hits(torch.empty(1, 0).long(), torch.empty(1, 0).long(), None),
    )
    for call in (
        lambda: native.hits(ids, mask, 30),
        lambda: native.hits(ids, ids.view(-1), 1, starts),
        lambda: native.within_buckets(
            ids, torch.zeros(9, dtype=torch.uint8), 1, no_hits
        ),
        lambda: native.within_buckets(
            ids, torch.full((31,), 4, dtype=torch.int32), 4, no_hits
        ),
    ):
        with pytest.raises(IndexError, match="larger than the labels"):
            call()
    with pytest.raises(IndexError, match="3 columns of scores, but 2 labels in groups"):
        native.largest(torch.zeros(1, 3), torch.zeros(2, dtype=torch.int64), 1)


@pytest.mark.usefixtures("library")
def test_lists_without_ids_are_accepted() -> None:
    """The check of lists accepts no rows, no places, and only -1, which may be
    repeated.
    """
    for shape in ((0, 4), (4, 0)):
        assert native.check_lists(torch.empty(shape, dtype=torch.int64)) == (
            0,
            -1,
            None,
            None,
        )
    assert native.check_lists(torch.full((9, 5), -1)) == (-1, -1, None, None)


def test_show_versions_names_the_form_that_reads_batches(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """show_versions names the versions and the form that reads batches, for reports of
    bugs.
    """
    show_versions()
    lines = capsys.readouterr().out.splitlines()
    assert f"torch {torch.__version__}" in lines
    assert lines[-1].startswith(
        f"batches on the CPU are read in {'C' if native.available() else 'torch'} ("
    )


def test_a_library_of_another_text_is_not_used(
    library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A library of another source text is not used, nor a missing one: the forms of
    torch run, and the description says why.
    """
    assert native.load(library)[1] == f"C ({library})"
    assert native.load(tmp_path / "nothing.so") == (
        None,
        "torch (installed without a C compiler)",
    )
    (tmp_path / "_native.c").write_text((native.FOLDER / "_native.c").read_text() + " ")
    monkeypatch.setattr(native, "FOLDER", tmp_path)
    description = "torch (_native.so is damaged, or of another _native.c: install again, or make native)"
    assert native.load(library) == (None, description)


NUM_DAMAGED = int(os.environ.get("TAILMETRICS_FUZZ_CASES", "20"))
"""Number of truncated files, and of files with a changed bit."""
LOAD_DAMAGED = """
import os, random, signal
from pathlib import Path
from tailmetrics.ranking import native

library, folder, number = Path(LIBRARY), Path(FOLDER), NUMBER
data, digest, chance, result = library.read_bytes(), library.with_suffix(".sha256").read_text(), random.Random(0), []
for case in range(2 * number + 2):
    place = chance.randrange(len(data))
    wrong = data[:place] if case < number else data[:place] + bytes([data[place] ^ 1 << case % 8]) + data[place + 1 :]
    (folder / "_native.so").write_bytes(data if case >= 2 * number else wrong)
    (folder / "_native.sha256").write_text(digest if case < 2 * number else digest[: case - 2 * number])
    child = os.fork()
    if not child:
        loaded = native.load(folder / "_native.so")[0]
        os._exit(loaded is not None)
    result.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_a_damaged_library_is_never_loaded(library: Path, tmp_path: Path) -> None:
    """A damaged library is never loaded and raises no signal: truncated anywhere, with
    any bit changed, or with a truncated digest.
    """
    code = LOAD_DAMAGED.replace("LIBRARY", repr(str(library))).replace(
        "FOLDER", repr(str(tmp_path))
    )
    assert set(processes.run_in_process(code.replace("NUMBER", str(NUM_DAMAGED)))) == {
        0
    }


@pytest.mark.parametrize(
    ("path", "environment", "times"),
    [("none", "1", 1), ("none", "0", 0), ("library", "1", 0)],
)
def test_missing_library_brings_one_warning(
    path: str,
    environment: str,
    times: int,
    library: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A missing library brings one warning, at the first batch on the CPU, that says
    how slow batches are and what to do. TAILMETRICS_NATIVE=0 brings none.
    """
    monkeypatch.setenv("TAILMETRICS_NATIVE", environment)
    monkeypatch.setattr(
        native,
        "_loaded",
        lambda: native.load(library if path == "library" else Path(path)),
    )
    monkeypatch.setattr(_kernels_cpu, "CPU", CpuKernels())
    warn_of_speed.cache_clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for metric in (HitRateAtK(k=1), HitRateAtK(k=2)):
            metric.update(torch.tensor([[0.1, 0.4, 0.7]]), torch.tensor([0]))
    assert len(caught) == times
    for warning in caught:
        assert warning.filename == __file__
        assert re.search(
            "installed without a C compiler.* 8 times as fast. Install a C compiler",
            str(warning.message),
        )


def test_missing_compiler_prints_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A missing or failing compiler prints one line with the reason, and leaves no old
    library behind.
    """
    monkeypatch.delenv("TAILMETRICS_NATIVE", raising=False)
    failing = f"'{Path(sys.executable).as_posix()}' -c 'raise SystemExit(1)'"
    for compiler, reason in (
        ("no-such-compiler", "no-such-compiler: "),
        (failing, "failed"),
    ):
        for kind in ("so", "sha256"):
            (tmp_path / f"_native.{kind}").write_bytes(b"old")
        monkeypatch.setenv("CC", compiler)
        assert compile_native(tmp_path / "_native.so") is None
        output = capsys.readouterr().err
        assert output.count("\n") == 1
        assert reason in output
        assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not native.available(), reason="only the C file reads memory")
@pytest.mark.filterwarnings("ignore:Accessing the data pointer of FakeTensor")
def test_tensors_without_numbers_are_refused() -> None:
    """Tensors that stand for no numbers, in FakeTensorMode and within torch.func, are
    refused: at their address the C file would read memory of nobody.
    """
    scores, target = torch.eye(3), torch.arange(3)
    words = "a tensor holds no numbers.* update metrics outside of it"
    metric = HitRateAtK(k=1)

    def loss(scores: Tensor) -> Tensor:
        metric.update(scores, target)
        return scores.sum()

    with pytest.raises(TypeError, match=words):
        torch.func.grad(loss)(scores)
    with FakeTensorMode() as mode, pytest.raises(TypeError, match=words):
        metric.update(mode.from_tensor(scores), mode.from_tensor(target))
