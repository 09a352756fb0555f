"""Reals are added up as whole numbers: what is lost of a value is bounded, what is lost by adding is nothing."""

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import data
from exactness.bits import CASES_OF_A_KIND
from tailmetrics import CGAtK, CrossEntropy, NDCGAtK, rank
from tailmetrics.metrics import _states
from tailmetrics.metrics._states import COUNT, REAL, SUMS_OF_WEIGHTS, UNIT, WEIGHT, FixedPoint, weighted
from tailmetrics.ranking._device import force_plain
from tailmetrics.ranking._kernels import Kernels
from tailmetrics.ranking._kernels_cpu import CpuKernels

unit_values = st.floats(0, 1, allow_subnormal=True)
real_values = st.floats(0, 2.0**130, allow_subnormal=True)


def total(kind: FixedPoint, values: list[float]) -> Fraction:
    """What the states hold after the values, as a fraction."""
    state = kind.add_up(torch.tensor(values, dtype=torch.float64)[:, None])
    return Fraction(kind.totals(state)[0]) / kind.unit


@given(unit_values)
@settings(max_examples=500, deadline=None)
def test_a_value_in_the_unit_interval_is_kept_to_the_last_limb(value: float) -> None:
    """Off by less than 2^-78; exactly kept from 2^-25 up, where the last of 53 bits is worth 2^-78 or more."""
    off = abs(total(UNIT, [value]) - Fraction(value))
    assert off < Fraction(1, 2**78)
    assert off == 0 or value < 2.0**-25


@given(real_values)
@settings(max_examples=500, deadline=None)
def test_a_real_value_is_kept_far_below_a_billionth_of_a_thousandth(value: float) -> None:
    """Relative error below 1e-12 for anything from 1e-34 to 1e39, none at all above 1e-31."""
    off = abs(total(REAL, [value]) - Fraction(value))
    assert value < 1e-34 or off < Fraction(value) / 10**12
    assert value < 1e-30 or off == 0


@given(st.lists(real_values, min_size=1, max_size=30), st.randoms(use_true_random=False))
@settings(max_examples=200, deadline=None)
def test_sums_do_not_depend_on_order_and_lose_nothing(values: list[float], random: object) -> None:
    """The sum of many is the sum of their own fixed-point values, in any order."""
    shuffled = list(values)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert total(REAL, values) == total(REAL, shuffled) == sum(total(REAL, [value]) for value in values)


def test_differences_from_chance_are_added_up_exactly_with_their_sign() -> None:
    """Of few rows and of many, which C adds up: some are below 0, and the sum is that of fractions."""
    for rows in (7, 5_000):
        values = (torch.rand(rows, dtype=torch.float64, generator=torch.Generator().manual_seed(1)) - 0.5).tolist()
        assert total(REAL, values) == sum(map(Fraction, values))


@given(st.lists(real_values, min_size=1, max_size=9))
@settings(max_examples=200, deadline=None)
def test_limbs_leave_room_for_a_hundred_billion_rows(values: list[float]) -> None:
    """Every limb of a value lies in [0, 2^26], so that 10^11 < 2^37 of them fit into an int64."""
    limbs = REAL.digits(torch.tensor(values, dtype=torch.float64))
    assert limbs.dtype == torch.int64
    assert 0 <= int(limbs.min()) <= int(limbs.max()) <= 2**26
    assert 2**26 * 10**11 < 2**63


@pytest.mark.parametrize("case", CASES_OF_A_KIND, ids=str)
def test_every_state_is_integral_and_bounded(case: object) -> None:
    """Counts are int64, flags uint8 under a maximum; nothing floats, nothing grows with the rows."""
    metric = case.metric()  # type: ignore[attr-defined]
    shapes = {name: state.shape for name, state in metric.metric_state.items()}
    batch = data(seed=0, num_rows=30, graded=True)
    metric.update(batch.scores, batch.target)
    for name, state in metric.metric_state.items():
        assert isinstance(state, torch.Tensor)
        assert state.dtype == (torch.uint8 if any(flag in name for flag in ("hit_at_", "observed")) else torch.int64)
        assert metric._reductions[name].__name__ == (
            "dim_zero_max" if state.dtype == torch.uint8 else "dim_zero_sum"
        ) or (name.endswith("num_labels") and metric._reductions[name].__name__ == "dim_zero_max")
        assert state.shape == shapes[name]
    assert not list(metric.buffers()) and not list(metric.parameters())


@pytest.mark.parametrize("gain", [1e-28, 1e-12, 1.0, 1e12, 1e30])
def test_gains_of_any_size_keep_twelve_digits(gain: float) -> None:
    """CG of one hit is its gain, between the smallest and largest that anybody could mean."""
    metric = CGAtK(k=1)
    metric.update(torch.tensor([[0]]), torch.tensor([[gain]], dtype=torch.float64))
    assert metric.compute().item() == pytest.approx(gain, rel=1e-12, abs=0)


@pytest.mark.parametrize("gain", [1e-9, 1e-3, 0.25, 0.5, 1.5, 3.0, 20.25])
def test_exponential_gains_keep_twelve_digits(gain: float) -> None:
    """2^g - 1 does not cancel for small g: against the function that is made for it."""
    metric = CGAtK(k=1, gain="exponential")
    metric.update(torch.tensor([[0]]), torch.tensor([[gain]], dtype=torch.float64))
    assert metric.compute().item() == pytest.approx(math.expm1(gain * math.log(2)), rel=1e-12, abs=0)


@pytest.mark.parametrize("gain", ["linear", "exponential"])
@pytest.mark.parametrize("grade", [131.0, 2000.0, 1e40, 1e308])
def test_gains_that_no_state_can_hold_are_an_error_or_right(gain: str, grade: float) -> None:
    """A finite gain never turns into infinity: refused, or nDCG of the perfect row is 1."""
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
    """Row values of a batch are those of batches of one, bit by bit: no vectorised tail differs."""
    batch = data(seed=4, num_rows=33, graded=True)
    names = ("NDCGAtK", "DCGAtK", "CGAtK", "MAP", "MRR", "CrossEntropy", "PropensityScoredNDCGAtK", "F1AtK")
    for case in CASES_OF_A_KIND:
        if case.name not in names or case.arguments.get("average") in ("macro", "weighted") or case.by == "global":
            continue
        metric = case.metric()
        together = metric.row_values(rank(batch.scores, batch.target))
        alone = [metric.row_values(rank(batch.scores[[row]], batch.target[[row]])) for row in range(33)]
        for key, values in together.items():
            columns = values if isinstance(values, tuple) else (values,)
            columns_of_rows = [row[key] if isinstance(row[key], tuple) else (row[key],) for row in alone]
            for number, column in enumerate(columns):
                rows = torch.cat([row_columns[number] for row_columns in columns_of_rows])
                assert column.numpy().tobytes() == rows.numpy().tobytes(), f"{case} {key}"


@pytest.mark.parametrize("kind", [UNIT, REAL, WEIGHT], ids=["UNIT", "REAL", "WEIGHT"])
def test_limbs_made_at_once_are_those_made_one_by_one(kind: FixedPoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the smallest number to the largest there may be and beyond, in any shape, in blocks of any size."""
    random = torch.rand(50, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    values = torch.cat([random * 2.0**exponent for exponent in range(-1080, 140, 7)]).clamp(max=kind.top)
    values = torch.cat([values, torch.tensor([0.0, 5e-324, 1.0, kind.top], dtype=torch.float64)])
    if not kind.bounded:
        values = torch.cat([values, torch.tensor([torch.inf, torch.nan, 1e300], dtype=torch.float64)])
    beyond = ~(values <= kind.top)
    wanted = torch.stack([*kind._one_by_one(values.masked_fill(beyond, 0.0)), *([] if kind.bounded else [beyond])])
    limbs, too_large = kind._limbs(values)
    assert torch.equal(limbs if too_large is None else torch.cat([limbs, too_large.unsqueeze(0)]), wanted)
    for block in (2**23, 700, 1):
        monkeypatch.setattr(_states, "FEW_LIMBS", 1)
        for form in (Kernels, CpuKernels):
            monkeypatch.setattr(form, "LIMBS", block)
        part = values if block > 1 else values[-20:]
        sums = wanted[:, -len(part) :].to(torch.int64).sum(dim=1)
        assert torch.equal(kind.add_up(part), sums)
        assert torch.equal(kind.add_up(part.expand(2, 3, -1), dim=2), sums.expand(2, 3, -1))
        with force_plain():
            assert torch.equal(kind.add_up(part), sums)
    assert kind.add_up(values[:0]).tolist() == [0] * kind.columns


@pytest.mark.parametrize("kind", [UNIT, REAL], ids=["UNIT", "REAL"])
def test_limbs_of_a_device_without_float64_lose_nothing(kind: FixedPoint) -> None:
    """float32, whose numbers end before the powers of two that make limbs at once; infinity stays infinite."""
    values = torch.rand(200, generator=torch.Generator().manual_seed(4))
    assert Fraction(kind.totals(kind.add_up(values))[0]) / kind.unit == sum(map(Fraction, values.tolist()))
    if not kind.bounded:
        assert kind.totals(kind.add_up(torch.tensor([1.0, torch.inf]))) == [float("inf")]


def test_values_without_bounds_keep_their_format_with_row_weights() -> None:
    """An infinite value stays infinite; shares and counts need a format of sums of weights."""
    assert weighted(REAL) == REAL
    assert weighted(UNIT) == weighted(COUNT) == SUMS_OF_WEIGHTS
    scores, target = torch.tensor([[0.0, -torch.inf]]), torch.tensor([1])
    metric = CrossEntropy(weighted=True)
    metric.update(scores, target, row_weights=torch.tensor([2.0]))
    assert metric.compute() == torch.inf
