"""Real numbers are summed as whole numbers: the error of a value is bounded, and sums
have none.
"""

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings, strategies as st

from cases import data
from exactness.bits import CASES_OF_A_KIND
from tailmetrics import CGAtK, CrossEntropy, NDCGAtK, rank
from tailmetrics.metrics import _states
from tailmetrics.metrics._states import (
    COUNT,
    REAL,
    SUMS_OF_WEIGHTS,
    UNIT,
    WEIGHT,
    FixedPoint,
    weighted,
)
from tailmetrics.ranking._device import force_plain
from tailmetrics.ranking._kernels import Kernels
from tailmetrics.ranking._kernels_cpu import CpuKernels

unit_values = st.floats(0, 1, allow_subnormal=True)
real_values = st.floats(0, 2.0**130, allow_subnormal=True)


def total(kind: FixedPoint, values: list[float]) -> Fraction:
    """Return the states after the values, as a fraction."""
    state = kind.add_up(torch.tensor(values, dtype=torch.float64)[:, None])
    return Fraction(kind.totals(state)[0]) / kind.unit


@given(unit_values)
@settings(max_examples=500, deadline=None)
def test_value_in_the_unit_interval_has_an_error_below_2_to_the_minus_78(
    value: float,
) -> None:
    """A value in [0, 1] is stored with an error below 2^-78, and exactly from 2^-25 up,
    where the last of 53 bits is 2^-78 or more.
    """
    error = abs(total(UNIT, [value]) - Fraction(value))
    assert error < Fraction(1, 2**78)
    assert error == 0 or value < 2.0**-25


@given(real_values)
@settings(max_examples=500, deadline=None)
def test_real_value_has_a_relative_error_below_1e_12(value: float) -> None:
    """A real value from 1e-34 to 1e39 is stored with a relative error below 1e-12, and
    exactly above 1e-30.
    """
    error = abs(total(REAL, [value]) - Fraction(value))
    assert value < 1e-34 or error < Fraction(value) / 10**12
    assert value < 1e-30 or error == 0


@given(
    st.lists(real_values, min_size=1, max_size=30), st.randoms(use_true_random=False)
)
@settings(max_examples=200, deadline=None)
def test_sums_do_not_depend_on_order_and_lose_nothing(
    values: list[float], random: object
) -> None:
    """A sum of many values is the sum of their fixed-point values, in any order."""
    shuffled = list(values)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert (
        total(REAL, values)
        == total(REAL, shuffled)
        == sum(total(REAL, [value]) for value in values)
    )


def test_differences_from_chance_are_added_up_exactly_with_their_sign() -> None:
    """Differences from chance, some of them below 0, are summed exactly, for few rows
    and for many, which C sums.
    """
    for rows in (7, 5_000):
        values = (
            torch.rand(
                rows, dtype=torch.float64, generator=torch.Generator().manual_seed(1)
            )
            - 0.5
        ).tolist()
        assert total(REAL, values) == sum(map(Fraction, values))


@given(st.lists(real_values, min_size=1, max_size=9))
@settings(max_examples=200, deadline=None)
def test_limbs_leave_room_for_a_hundred_billion_rows(values: list[float]) -> None:
    """Every limb of a value is in [0, 2^26], so that an int64 holds the sum of 10^11 <
    2^37 of them.
    """
    limbs = REAL.digits(torch.tensor(values, dtype=torch.float64))
    assert limbs.dtype == torch.int64
    assert 0 <= int(limbs.min()) <= int(limbs.max()) <= 2**26
    assert 2**26 * 10**11 < 2**63


@pytest.mark.parametrize("case", CASES_OF_A_KIND, ids=str)
def test_every_state_is_integral_and_bounded(case: object) -> None:
    """Every state is int64 with sums, or uint8 flags with a maximum, and keeps its
    shape; a metric has no buffers or parameters.
    """
    metric = case.metric()  # type: ignore[attr-defined]
    shapes = {name: state.shape for name, state in metric.metric_state.items()}
    batch = data(seed=0, num_rows=30, graded=True)
    metric.update(batch.scores, batch.target)
    for name, state in metric.metric_state.items():
        assert isinstance(state, torch.Tensor)
        assert state.dtype == (
            torch.uint8
            if any(flag in name for flag in ("hit_at_", "observed"))
            else torch.int64
        )
        assert metric._reductions[name].__name__ == (
            "dim_zero_max" if state.dtype == torch.uint8 else "dim_zero_sum"
        ) or (
            name.endswith("num_labels")
            and metric._reductions[name].__name__ == "dim_zero_max"
        )
        assert state.shape == shapes[name]
    assert not list(metric.buffers()) and not list(metric.parameters())


@pytest.mark.parametrize("gain", [1e-28, 1e-12, 1.0, 1e12, 1e30])
def test_gains_of_any_size_keep_twelve_digits(gain: float) -> None:
    """CG of one hit is its gain to twelve digits, for gains from 1e-28 to 1e30."""
    metric = CGAtK(k=1)
    metric.update(torch.tensor([[0]]), torch.tensor([[gain]], dtype=torch.float64))
    assert metric.compute().item() == pytest.approx(gain, rel=1e-12, abs=0)


@pytest.mark.parametrize("gain", [1e-9, 1e-3, 0.25, 0.5, 1.5, 3.0, 20.25])
def test_exponential_gains_keep_twelve_digits(gain: float) -> None:
    """The exponential gain 2^g - 1 keeps twelve digits for small g, as expm1 does."""
    metric = CGAtK(k=1, gain="exponential")
    metric.update(torch.tensor([[0]]), torch.tensor([[gain]], dtype=torch.float64))
    assert metric.compute().item() == pytest.approx(
        math.expm1(gain * math.log(2)), rel=1e-12, abs=0
    )


@pytest.mark.parametrize("gain", ["linear", "exponential"])
@pytest.mark.parametrize("grade", [131.0, 2000.0, 1e40, 1e308])
def test_gains_that_no_state_can_hold_are_an_error_or_right(
    gain: str, grade: float
) -> None:
    """A finite gain never becomes infinite: it is refused, or the nDCG of the perfect
    row is 1.
    """
    metric = NDCGAtK(k=1, gain=gain)
    target = torch.tensor([[grade, 0.0]], dtype=torch.float64)
    try:
        metric.update(torch.tensor([[0]]), target)
    except ValueError as error:
        assert "NDCGAtK" in str(error) or "gain" in str(error)
        assert metric._update_count == 0
    else:
        assert metric.compute().item() == 1.0


@pytest.mark.slow
def test_a_row_value_has_the_same_bits_wherever_it_stands() -> None:
    """A row value has the same bits in a batch and alone: no vectorised tail
    differs.
    """
    batch = data(seed=4, num_rows=33, graded=True)
    names = (
        "NDCGAtK",
        "DCGAtK",
        "CGAtK",
        "MAP",
        "MRR",
        "CrossEntropy",
        "PropensityScoredNDCGAtK",
        "F1AtK",
    )
    for case in CASES_OF_A_KIND:
        if (
            case.name not in names
            or case.arguments.get("average") in ("macro", "weighted")
            or case.by == "global"
        ):
            continue
        metric = case.metric()
        together = metric.row_values(rank(batch.scores, batch.target))
        alone = [
            metric.row_values(rank(batch.scores[[row]], batch.target[[row]]))
            for row in range(33)
        ]
        for key, values in together.items():
            columns = values if isinstance(values, tuple) else (values,)
            columns_of_rows = [
                row[key] if isinstance(row[key], tuple) else (row[key],)
                for row in alone
            ]
            for number, column in enumerate(columns):
                rows = torch.cat(
                    [row_columns[number] for row_columns in columns_of_rows]
                )
                assert column.numpy().tobytes() == rows.numpy().tobytes(), (
                    f"{case} {key}"
                )


@pytest.mark.parametrize("kind", [UNIT, REAL, WEIGHT], ids=["UNIT", "REAL", "WEIGHT"])
def test_limbs_computed_at_once_equal_those_computed_one_by_one(
    kind: FixedPoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Limbs computed at once equal those computed one by one, for the smallest number
    to beyond the largest, in any shape and in blocks of any size.
    """
    random = torch.rand(
        50, generator=torch.Generator().manual_seed(3), dtype=torch.float64
    )
    values = torch.cat(
        [random * 2.0**exponent for exponent in range(-1080, 140, 7)]
    ).clamp(max=kind.top)
    values = torch.cat(
        [values, torch.tensor([0.0, 5e-324, 1.0, kind.top], dtype=torch.float64)]
    )
    if not kind.bounded:
        values = torch.cat(
            [values, torch.tensor([torch.inf, torch.nan, 1e300], dtype=torch.float64)]
        )
    beyond = ~(values <= kind.top)
    expected = torch.stack(
        [
            *kind._one_by_one(values.masked_fill(beyond, 0.0)),
            *([] if kind.bounded else [beyond]),
        ]
    )
    limbs, too_large = kind._limbs(values)
    assert torch.equal(
        limbs if too_large is None else torch.cat([limbs, too_large.unsqueeze(0)]),
        expected,
    )
    for block in (2**23, 700, 1):
        monkeypatch.setattr(_states, "FEW_LIMBS", 1)
        for form in (Kernels, CpuKernels):
            monkeypatch.setattr(form, "LIMBS", block)
        part = values if block > 1 else values[-20:]
        sums = expected[:, -len(part) :].to(torch.int64).sum(dim=1)
        assert torch.equal(kind.add_up(part), sums)
        assert torch.equal(
            kind.add_up(part.expand(2, 3, -1), dim=2), sums.expand(2, 3, -1)
        )
        with force_plain():
            assert torch.equal(kind.add_up(part), sums)
    assert kind.add_up(values[:0]).tolist() == [0] * kind.columns


@pytest.mark.parametrize("kind", [UNIT, REAL], ids=["UNIT", "REAL"])
def test_limbs_of_a_device_without_float64_lose_nothing(kind: FixedPoint) -> None:
    """Limbs of float32 values, for devices without float64, lose nothing; infinity
    stays infinite.
    """
    values = torch.rand(200, generator=torch.Generator().manual_seed(4))
    assert Fraction(kind.totals(kind.add_up(values))[0]) / kind.unit == sum(
        map(Fraction, values.tolist())
    )
    if not kind.bounded:
        assert kind.totals(kind.add_up(torch.tensor([1.0, torch.inf]))) == [
            float("inf")
        ]


def test_values_without_bounds_keep_their_format_with_row_weights() -> None:
    """Values without bounds keep their fixed-point format with row weights, so that an
    infinite value stays infinite.

    Shares and counts use a format for sums of weights.
    """
    assert weighted(REAL) == REAL
    assert weighted(UNIT) == weighted(COUNT) == SUMS_OF_WEIGHTS
    scores, target = torch.tensor([[0.0, -torch.inf]]), torch.tensor([1])
    metric = CrossEntropy(weighted=True)
    metric.update(scores, target, row_weights=torch.tensor([2.0]))
    assert metric.compute() == torch.inf
