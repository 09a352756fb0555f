"""Training labels counted on a device: the counts of the CPU, without an entry for
every cell.
"""

import pytest
import torch

from tailmetrics import LabelFrequency
from tailmetrics.ranking._device import force_plain


@pytest.mark.parametrize("dtype", [torch.bool, torch.float32, torch.int64])
@pytest.mark.parametrize("has_mask", [False, True])
def test_label_frequency_counts_a_matrix_on_a_device(
    dtype: torch.dtype, has_mask: bool
) -> None:
    """LabelFrequency counts a matrix on a device by columns, over the rows that count,
    as a loop does.
    """
    generator = torch.Generator().manual_seed(0)
    target = (torch.rand(50, 30, generator=generator) < 0.2).to(dtype)
    mask = torch.rand(50, generator=generator) < 0.7 if has_mask else None
    frequency = LabelFrequency(30)
    with force_plain():
        frequency.update(target, mask)
    rows = [
        row
        for number, row in enumerate(target.tolist())
        if mask is None or mask[number]
    ]
    assert frequency.compute().tolist() == [
        sum(row[label] > 0 for row in rows) for label in range(30)
    ]
    assert frequency.num_rows == len(rows)
