"""Training labels counted on a device: the same counts as on the CPU, without an entry for every cell."""

import pytest
import torch

from tailmetrics import LabelFrequency
from tailmetrics.ranking._device import force_plain


@pytest.mark.parametrize("dtype", [torch.bool, torch.float32, torch.int64])
@pytest.mark.parametrize("masked", [False, True])
def test_a_matrix_is_counted_by_columns(dtype: torch.dtype, masked: bool) -> None:
    """The counts are sums over the rows that count, computed here by a loop."""
    generator = torch.Generator().manual_seed(0)
    target = (torch.rand(50, 30, generator=generator) < 0.2).to(dtype)
    mask = torch.rand(50, generator=generator) < 0.7 if masked else None
    frequency = LabelFrequency(30)
    with force_plain():
        frequency.update(target, mask)
    rows = [row for number, row in enumerate(target.tolist()) if mask is None or mask[number]]
    assert frequency.compute().tolist() == [sum(row[label] > 0 for row in rows) for label in range(30)]
    assert frequency.num_rows == len(rows)
