"""Inputs that were once read wrong, in silence or with a crash: each is read right or refused in words."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from threading import Thread
from typing import Any

import numpy as np
import pytest
import scipy.sparse
import torch

from tailmetrics import LabelBuckets, LabelFrequency, PopularityAtK, RecallAtK, functional, rank
from tailmetrics.ranking import LabelWeights
from tailmetrics.ranking._device import force_plain

SCORES = np.array([[0.9, 0.5, 0.1], [0.2, 0.3, 0.4]])
TARGET = torch.tensor([[True, False, False], [False, True, False]])


def test_products_of_large_counts_do_not_overflow() -> None:
    """A label with 10^8 training rows, shown 10^11 times, has the popularity 10^8."""
    shown, counts = torch.tensor([10**11, 0]), torch.tensor([10**8, 5])
    assert functional.popularity(shown, counts) == 10**8
    metric = PopularityAtK(k=1, label_counts=counts)
    metric.update(torch.tensor([[0]]), torch.tensor([0]))
    metric._state("shown_at_1").mul_(10**11)
    assert float(metric.compute()) == 10**8


def test_counts_that_64_bits_cannot_add_up_are_refused() -> None:
    """Nine counts of 2^61 are more than 2^63; three buckets of nine counts of 2^59 hold three labels each."""
    with pytest.raises(ValueError, match=r"LabelBuckets.quantiles: counts adds up to \d+; 64-bit sums end at 2\^63"):
        LabelBuckets.quantiles([2**61] * 9, 3)
    assert LabelBuckets.quantiles([2**59] * 9, 3).label_counts.tolist() == [3, 3, 3, 0]


@pytest.mark.parametrize(
    ("preds", "message"),
    [
        (np.ma.masked_array(SCORES, SCORES > 0.8), r"preds is a masked array, .*\.filled\(-np.inf\)"),
        (scipy.sparse.bsr_matrix(SCORES), "preds is in the BSR format, whose blocks store zeros"),
        (scipy.sparse.csr_matrix((2, 2**62)), r"preds is sparse of shape \[2, 4611686018427387904\], more than 2\^63"),
    ],
    ids=["masked", "bsr", "wide"],
)
def test_what_would_be_read_wrong_is_refused(preds: Any, message: str) -> None:
    """A mask that would be lost, zeros that were never given, more cells than can be counted."""
    with pytest.raises((TypeError, ValueError), match=f"RecallAtK: {message}"):
        RecallAtK(k=1).update(preds, TARGET)


def test_a_tensor_with_the_negative_bit_is_read_as_its_values() -> None:
    """The imaginary part of a conjugate is a view with that bit: minus the scores, so that the order is turned."""
    scores = torch.complex(torch.zeros(2, 3), torch.from_numpy(SCORES).float()).conj().imag
    assert scores.is_neg()
    assert rank(scores, TARGET, depth=3).ids.tolist() == [[2, 1, 0], [0, 1, 2]]


def test_threads_lose_no_row() -> None:
    """Four threads of 300 batches of 5 rows each count 6,000 rows and labels."""
    frequency = LabelFrequency(4, validate_args=False)
    batch = torch.tensor([0, 1, 1, 2, 3])

    def count() -> None:
        for _ in range(300):
            frequency.update(batch)

    threads = [Thread(target=count) for _ in range(4)]
    often = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(often)
    assert (frequency.num_rows, frequency.compute().tolist()) == (6000, [1200, 2400, 1200, 1200])


@pytest.mark.parametrize("form", [nullcontext, force_plain])
def test_weights_in_a_vector_are_not_taken_for_those_of_an_earlier_one(form: Any) -> None:
    """Three vectors that take one another's place in memory, and one whose numbers change."""
    with form():
        ranking = rank(torch.eye(2, 4), torch.tensor([0, 1]))
        kept = torch.ones(4)
        for weight in (1.0, 5.0, 7.0):
            kept.fill_(weight)
            for vector in (torch.full((4,), weight), kept):
                weights = LabelWeights.of(vector)
                assert ranking.best(1, weights).tolist() == [[weight], [weight]]
                assert ranking.weights_at_targets(weights)[:, 0].tolist() == [weight, weight]
