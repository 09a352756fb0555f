"""The log-normaliser has the same bits in any batch, on any number of threads, and on a
device.
"""

import math

import pytest
import torch
from torch import Tensor

from tailmetrics.ranking import _threads
from tailmetrics.ranking._all_scores import log_sum
from tailmetrics.ranking._device import force_plain
from tailmetrics.ranking._kernels import Kernels
from tailmetrics.ranking._threads import one_thread, over_threads


def log_normaliser(scores: Tensor) -> Tensor:
    """Return log Σ exp(score) of each row, from its largest score and the terms above
    it.
    """
    largest, above = log_sum(scores)
    return largest + above


def _scores(num_rows: int, width: int) -> Tensor:
    scores = (
        torch.randn(num_rows, width, generator=torch.Generator().manual_seed(width))
        * 20
    )
    scores[2] = -torch.inf
    return scores


@pytest.mark.parametrize("width", [1, 2, 7, 1024, 1025, 5000])
def test_the_plain_form_has_the_bits_of_the_cpu(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The plain form has the bits of the CPU, with few rows at a time or all at once,
    with infinities, and without rows.
    """
    scores = _scores(9, width)
    scores[3, :1], scores[4, -1:] = -torch.inf, torch.inf
    for dtype in (torch.float16, torch.float32, torch.float64):
        on_cpu = log_normaliser(scores.to(dtype))
        for num_terms in (1, 3 * width, 2**23):
            monkeypatch.setattr(Kernels, "TERMS", num_terms)
            with force_plain():
                on_device = log_normaliser(scores.to(dtype))
                assert log_normaliser(scores[:0]).shape == (0,)
            torch.testing.assert_close(
                on_device, on_cpu, rtol=0, atol=0, equal_nan=True
            )


@pytest.mark.parametrize("threads", [1, 3, 40])
def test_log_normaliser_does_not_depend_on_batches_or_threads(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log-normaliser has the same bits for a row alone, in a batch, and in a slice
    of columns, on any number of threads, and equals logsumexp to 1e-14.
    """
    monkeypatch.setattr(_threads, "NUMBERS_PER_THREAD", 1)
    scores = _scores(33, 1001)
    torch.set_num_threads(threads)
    together = log_normaliser(scores)
    assert torch.equal(
        together, torch.cat([log_normaliser(row[None]) for row in scores])
    )
    wide = torch.zeros(33, 1100)
    wide[:, 7:1008] = scores
    assert torch.equal(together, log_normaliser(wide[:, 7:1008]))
    torch.testing.assert_close(
        together, scores.double().logsumexp(1), rtol=1e-14, atol=1e-14
    )


def test_log_sum_keeps_the_digits_of_small_terms() -> None:
    """log_sum keeps the digits of terms far below the largest one: e^-40 and e^-60
    beside 1, which a sum of floats would lose.
    """
    largest, above = log_sum(
        torch.tensor([[3.0, -37.0], [0.0, -60.0], [5.0, -torch.inf]])
    )
    assert largest.tolist() == [3.0, 0.0, 5.0]
    assert above.tolist() == pytest.approx(
        [math.exp(-40), math.exp(-60), 0.0], rel=1e-3
    )


def test_over_threads_splits_rows_and_restores_the_number_of_threads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """over_threads splits the rows into parts in order, each on one thread of torch,
    also within ``one_thread``.

    The number of threads is restored, also after an error in any part.
    """
    scores = _scores(11, 104)
    torch.set_num_threads(3)
    ((part, first),) = over_threads(lambda part, first: (part, first), scores)
    assert part is scores and first == 0  # a small matrix starts no thread
    monkeypatch.setattr(_threads, "NUMBERS_PER_THREAD", 1)
    with one_thread():
        parts = over_threads(
            lambda part, first: (part, first, torch.get_num_threads()), scores
        )
    assert torch.equal(torch.cat([part for part, *_ in parts]), scores)
    assert [first for _, first, _ in parts] == [0, 3, 7]
    assert [threads for *_, threads in parts] == [1, 1, 1]
    for failing in (10, 0):

        def work(part: Tensor, first: int, failing: int = failing) -> None:
            if first <= failing < first + len(part):
                raise ValueError("as intended")

        with pytest.raises(ValueError, match="as intended"):
            over_threads(work, scores)
        assert torch.get_num_threads() == 3
