"""Rows split over threads give what one thread gives, and leave the program its threads."""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from typing import TypeVar

import pytest
import torch
from torch import Tensor

from tailmetrics.ranking import _row_threads, _suggestions, rank
from tailmetrics.ranking._device import one_thread
from tailmetrics.ranking._exact import exact_ranks
from tailmetrics.ranking._lanes import count_true, true_cells
from tailmetrics.ranking._log_sum import log_sum
from tailmetrics.ranking._row_threads import over_threads
from tailmetrics.ranking._selection import plain_top_k, top_k
from tailmetrics.ranking._suggestions import suggested_per_row, suggestions
from tailmetrics.ranking._targets import Entries

Found = TypeVar("Found")

ROWS, LABELS = 11, 104
SCORES = torch.randn(ROWS, LABELS, generator=torch.Generator().manual_seed(3)).mul(4).round()
TARGETS = torch.tensor([[row, label] for row in range(ROWS) if row != 4 for label in range(row, LABELS, 9 * row + 7)])


def _exact_ranks() -> Tensor:
    return exact_ranks(SCORES, Entries(TARGETS[:, 0], TARGETS[:, 1], None, LABELS))


def _wanted_ranks() -> Tensor:
    order = SCORES.sort(dim=1, descending=True, stable=True).indices
    return torch.stack([(order[row] == label).nonzero()[0, 0] + 1 for row, label in TARGETS.tolist()])


def _log_normaliser() -> Tensor:
    largest, rest = log_sum(SCORES)
    return largest + rest


def _suggested_cells() -> Tensor:
    ranking = rank(SCORES, torch.zeros(ROWS, dtype=torch.int64))
    parts = [torch.stack([one.rows, one.ids]) for one in suggestions(ranking, [2.0])]
    return torch.cat(parts, dim=1)


FORMS: dict[str, tuple[Callable[[], Tensor], Callable[[], Tensor]]] = {
    "top k": (lambda: top_k(SCORES, 9)[1], lambda: plain_top_k(SCORES, 9)[1]),
    "values of the top k": (lambda: top_k(SCORES, 9)[0], lambda: plain_top_k(SCORES, 9)[0]),
    "exact ranks": (_exact_ranks, _wanted_ranks),
    "relevant labels": (lambda: count_true(SCORES > 2), lambda: (SCORES > 2).sum(dim=1)),
    "places of relevant labels": (lambda: torch.stack(true_cells(SCORES > 2)), lambda: (SCORES > 2).nonzero().T),
    "places of gains": (lambda: torch.stack(true_cells(SCORES)), lambda: (SCORES > 0).nonzero().T),
    "places above a threshold": (_suggested_cells, lambda: (SCORES > 2).nonzero().T),
    "suggested labels": (lambda: suggested_per_row(SCORES, None, [2.0])[:, 0], lambda: (SCORES > 2).sum(dim=1)),
}


@pytest.mark.parametrize("threads", [1, 2, 3, 4, 40])
@pytest.mark.parametrize("name", FORMS)
def test_every_form_gives_its_definition_on_any_number_of_threads(
    name: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ties, a row without a target, parts of one row and more threads than rows."""
    monkeypatch.setattr(_row_threads, "LEAST", 1)
    monkeypatch.setattr(_suggestions, "BLOCK_SCORES", LABELS)
    torch.set_num_threads(threads)
    found, wanted = FORMS[name]
    assert torch.equal(found(), wanted())
    with torch.inference_mode():
        assert torch.equal(found(), wanted())


@pytest.mark.parametrize("threads", [2, 3, 4])
def test_the_log_normaliser_has_the_same_bits_on_any_number_of_threads(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each row is added up by itself; the value is that of torch, to rounding."""
    torch.set_num_threads(1)
    wanted = _log_normaliser()
    monkeypatch.setattr(_row_threads, "LEAST", 1)
    torch.set_num_threads(threads)
    assert torch.equal(_log_normaliser(), wanted)
    assert torch.allclose(wanted, SCORES.double().logsumexp(dim=1), rtol=1e-14)


def test_parts_cover_the_rows_in_order_and_each_has_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three threads of the program's, also within ``one_thread``; afterwards the program has its number again."""
    monkeypatch.setattr(_row_threads, "LEAST", 1)
    torch.set_num_threads(3)

    def seen(part: Tensor, first: int) -> tuple[Tensor, list[int], int]:
        return part, list(range(first, first + len(part))), torch.get_num_threads()

    for parts in (over_threads(seen, SCORES), _within_one_thread(seen)):
        assert torch.equal(torch.cat([part for part, _, _ in parts]), SCORES)
        assert [row for _, rows, _ in parts for row in rows] == list(range(ROWS))
        assert [threads for *_, threads in parts] == [1, 1, 1]
        assert torch.get_num_threads() == 3


def _within_one_thread(seen: Callable[[Tensor, int], Found]) -> list[Found]:
    with one_thread(torch.device("cpu")):
        return over_threads(seen, SCORES)


def test_a_small_matrix_starts_no_thread() -> None:
    """Starting a thread takes longer than a small batch."""
    torch.set_num_threads(4)
    ((part, first, thread),) = over_threads(lambda part, first: (part, first, get_ident()), SCORES)
    assert part is SCORES
    assert (first, thread) == (0, get_ident())


def test_an_error_in_any_part_is_raised_and_leaves_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The last part fails, then the first one."""
    monkeypatch.setattr(_row_threads, "LEAST", 1)
    torch.set_num_threads(3)
    for failing in (ROWS - 1, 0):

        def work(part: Tensor, first: int, failing: int = failing) -> None:
            if first <= failing < first + len(part):
                raise ValueError("as intended")

        with pytest.raises(ValueError, match="as intended"):
            over_threads(work, SCORES)
        assert torch.get_num_threads() == 3
