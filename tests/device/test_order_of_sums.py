"""No bit depends on the order in which a device sums."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from cases import data
from exactness.bits import CASES_OF_A_KIND, ONE_OF_EACH, compute_all
from tailmetrics import MRR, Ranking, rank
from tailmetrics.ranking._device import force_plain
from tailmetrics.ranking._sums import ordered_prefix_sums, ordered_sum

TERMS = torch.rand(
    4096, 100, generator=torch.Generator().manual_seed(0), dtype=torch.float64
)


class OrderOfADevice(TorchDispatchMode):
    """Sums floats in an order that a device might choose, every other term after the
    rest; and refuses scans of them.

    CUDA cuts the rows of a scan into tiles, whose width depends on the number of rows.
    """

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        name = func.overloadpacket.__name__
        if not (
            args and isinstance(args[0], Tensor) and args[0].is_floating_point()
        ) or (kwargs or {}).get("dtype"):
            return func(*args, **(kwargs or {}))
        assert name != "cumsum" or not args[0].numel(), (
            "a scan of floats depends on the device and on the batch"
        )
        if name == "sum" and func._overloadname == "dim_IntList" and args[1]:
            values = args[0]
            for dim in args[1]:
                order = torch.cat(
                    [torch.arange(start, values.shape[dim], 2) for start in (1, 0)]
                )
                values = values.index_select(dim, order)
            return func(values.contiguous(), *args[1:])
        return func(*args, **(kwargs or {}))


def test_order_of_a_device_changes_plain_sums() -> None:
    """The simulated order of a device changes plain sums of floats, and refuses scans
    of them, so that these tests detect both.
    """
    with OrderOfADevice():
        assert (TERMS.sum(dim=1) != ordered_sum(TERMS)).double().mean() > 0.1
        with pytest.raises(AssertionError, match="a scan of floats"):
            TERMS.cumsum(dim=1)


@pytest.mark.parametrize("width", [1, 2, 3, 5, 10, 64, 100])
def test_an_ordered_sum_depends_on_its_terms_alone(width: int) -> None:
    """An ordered sum depends on its terms alone: on any device, in a batch of any size
    and shape, with zeros after them, and transposed. Its input is unchanged.
    """
    terms = TERMS[:64, :width]
    before, expected = terms.clone(), ordered_sum(terms)
    with OrderOfADevice():
        assert torch.equal(ordered_sum(terms), expected)
        assert torch.equal(
            torch.cat([ordered_sum(row[None]) for row in terms]), expected
        )
        assert torch.equal(ordered_sum(terms.view(4, 16, width)).view(-1), expected)
        assert torch.equal(ordered_sum(terms.t().contiguous().t()), expected)
        for num_zeros in (1, 2, 7, 64):
            assert torch.equal(
                ordered_sum(torch.cat([terms, terms.new_zeros(64, num_zeros)], dim=1)),
                expected,
            )
    assert torch.equal(terms, before)
    torch.testing.assert_close(expected, terms.sum(dim=1), rtol=1e-14, atol=0)


@pytest.mark.parametrize(
    "terms", [[3.0], [1.0, 2.0**-53, 2.0**-53, 2.0**-53], [1.0, 2.0**-53, 2.0**-53]]
)
def test_an_ordered_sum_adds_neighbours_first(terms: list[float]) -> None:
    """An ordered sum adds neighbours first: two halves of the last bit of 1 are lost
    one after the other, and are a bit together.
    """
    pairs = [sum(terms[start : start + 2]) for start in range(0, len(terms), 2)]
    assert ordered_sum(torch.tensor(terms, dtype=torch.float64)).item() == sum(pairs)


@pytest.mark.parametrize("width", [0, 1, 2, 3, 4, 7, 8, 9, 63, 64, 100])
def test_prefix_sums_are_ordered_sums(width: int) -> None:
    """Each ordered prefix sum has the bits of the ordered sum of its prefix."""
    terms = TERMS[0, :width]
    sums = ordered_prefix_sums(terms)
    assert len(sums) == width + 1
    assert sums[0] == 0
    for end in range(1, width + 1):
        assert sums[end] == ordered_sum(terms[:end]), end


def bits_of_each(metrics: dict[str, Any], rankings: list[Ranking]) -> dict[str, Any]:
    """Return the bits of each metric after the rankings."""
    return dict(zip(metrics, compute_all([*metrics.values()], rankings), strict=True))


@pytest.mark.parametrize("graded", [False, True], ids=["binary", "graded"])
@pytest.mark.parametrize("depth", [3, pytest.param(40, marks=pytest.mark.slow)])
def test_no_metric_depends_on_the_order_of_sums_of_a_device(
    graded: bool, depth: int
) -> None:
    """Every metric has the bits of the CPU in the simulated order of a device, in a
    batch and row by row.

    It scans no floats. At depth 40 every metric with every average is tested row by
    row.
    """
    batch = data(seed=61, num_rows=12, graded=graded)
    cut_off_free = [
        case
        for case in CASES_OF_A_KIND
        if case.by is None and not {"k", "min_recall"} & set(case.arguments)
    ]
    cases, fewer = (
        (CASES_OF_A_KIND, ONE_OF_EACH) if depth == 40 else (cut_off_free, cut_off_free)
    )
    metrics = {str(case): case.metric() for case in cases}
    expected = bits_of_each(metrics, [rank(batch.scores, batch.target, depth=depth)])
    with force_plain(), OrderOfADevice():
        together = bits_of_each(
            metrics, [rank(batch.scores, batch.target, depth=depth)]
        )
        rows = [
            rank(batch.scores[[row]], batch.target[[row]], depth=depth)
            for row in range(12)
        ]
        one_by_one = bits_of_each(
            {str(case): metrics[str(case)] for case in fewer}, rows
        )
    for bits_by_case in (together, one_by_one):
        assert [
            case for case, value in bits_by_case.items() if value != expected[case]
        ] == []


def test_targets_without_a_column_have_no_ranks_on_a_device() -> None:
    """Target ids of shape [N, 0] say that no label is relevant: the MRR is 0, on a
    device as on the CPU.
    """
    metric = MRR()
    with force_plain():
        metric.update(torch.rand(6, 20), torch.empty(6, 0, dtype=torch.int64))
    assert metric.compute() == 0
