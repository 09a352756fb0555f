"""The fast selection gives the bits of sorting everything."""

import pytest
import torch
from torch import Tensor

from tailmetrics.ranking import _packed, _row_threads, _selection
from tailmetrics.ranking._device import force_plain
from tailmetrics.ranking._packed import packed_top_k
from tailmetrics.ranking._selection import plain_top_k, stable_top_k, top_k

SHAPES = [(3, 17), (4, 1000), (5, 10_007), (3, 131_072), (2, 200_003)]
KS = [1, 5, 10, 15, 16, 100, 900]


def _scores(kind: str, shape: tuple[int, int]) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    random = torch.randn(shape, generator=generator)
    columns = torch.arange(shape[1], dtype=torch.float32).expand(shape)
    return {
        "random": lambda: random,
        "tied": lambda: random.round(),
        "constant": lambda: torch.zeros(shape),
        "ascending": lambda: columns.clone(),
        "descending": lambda: -columns,
        "mostly -inf": lambda: random.masked_fill(random < 2, -torch.inf),
        "all -inf": lambda: torch.full(shape, -torch.inf),
        "signed zeros": lambda: torch.where(random > 0, 0.0, -0.0),
        "infinite": lambda: torch.where(random > 1, torch.inf, random),
        "one chunk": lambda: torch.where(columns < 40, columns, -columns),
        "tied in the tail": lambda: random.masked_fill(random < 1, 0.25),
        "a few above a tie": lambda: torch.where(
            columns % (shape[1] // 3) == shape[1] // 4, 2.0, random.clamp(max=0.5)
        ),
    }[kind]()


KINDS = [
    "random", "tied", "constant", "ascending", "descending", "mostly -inf", "all -inf", "signed zeros", "infinite",
    "one chunk", "tied in the tail", "a few above a tie",
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_two_stages_choose_what_sorting_everything_chooses(
    kind: str, shape: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Values to the bit, ids with ties to the lower one, for widths that no chunk divides and rows full of ties."""
    monkeypatch.setattr(_selection, "SMALL", 0)
    monkeypatch.setattr(_row_threads, "LEAST", 1)
    scores = _scores(kind, shape)
    for k in sorted({min(k, shape[1]) for k in KS}):
        wanted_values, wanted_ids = plain_top_k(scores, k)
        listed = wanted_values[:, :k] > -torch.inf
        for threads in (1, 4):
            torch.set_num_threads(threads)
            values, ids, _ = top_k(scores, k)
            assert torch.equal(values, wanted_values)
            assert torch.equal(ids[listed], wanted_ids[listed])


@pytest.mark.parametrize("chunk", [32, 256])
def test_chunks_chosen_one_way_and_searched_another_give_the_same(chunk: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few wide chunks or many narrow ones: the first found by scanning and searched by packing, or the reverse."""
    monkeypatch.setattr(_selection, "_chunk_size", lambda *_: chunk)
    torch.set_num_threads(2)
    for kind in ("tied", "constant", "a few above a tie"):
        for shape in ((4, 5000), (2, 200_003)):
            scores = _scores(kind, shape)
            for k in (5, 12):
                assert torch.equal(_selection._two_stage_top_k(scores, k + 1)[0], plain_top_k(scores, k)[0])
                monkeypatch.setattr(_selection, "SMALL", 0)
                assert torch.equal(top_k(scores, k)[1], plain_top_k(scores, k)[1])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_other_precisions_choose_the_same(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half types, which tie all the time, and float64, whose differences float32 would lose."""
    monkeypatch.setattr(_selection, "SMALL", 0)
    scores = torch.randn(4, 50_000, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    scores = (1 + scores * 1e-12).to(dtype) if dtype == torch.float64 else scores.to(dtype)
    values, ids, _ = top_k(scores, 20)
    wanted_values, wanted_ids = plain_top_k(scores, 20)
    assert torch.equal(ids, wanted_ids)
    assert torch.equal(values.to(torch.float64), wanted_values.to(torch.float64))


def test_memory_layout_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Transposed, sliced and expanded scores rank as their contiguous copies."""
    monkeypatch.setattr(_selection, "SMALL", 0)
    base = torch.randn(20_000, 6, generator=torch.Generator().manual_seed(2))
    for scores in (base.t(), base.t()[::2], base.t()[:, 3:-5], base[:, :1].t().expand(4, -1)):
        assert torch.equal(top_k(scores, 7)[1], plain_top_k(scores.contiguous(), 7)[1])


def test_only_the_row_that_is_tied_is_repaired() -> None:
    """A tie at the cut takes the lowest ids: of 9 equal scores behind one better, the first two."""
    scores = torch.tensor([[1.0, 1, 1, 1, 5, 1, 1, 1, 1, 1], [9.0, 8, 7, 6, 5, 4, 3, 2, 1, 0]])
    values, ids, _ = top_k(scores, 3)
    assert ids.tolist() == [[4, 0, 1], [0, 1, 2]]
    assert values.tolist() == [[5, 1, 1, 1], [9, 8, 7, 6]]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_packing_scores_with_their_places_is_a_stable_sort(
    kind: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole rows and parts of them, a few rows at a time: the first of a stable descending sort."""
    monkeypatch.setattr(_packed, "BLOCK_ELEMENTS", 2000)
    for width in (1000, 1023):
        scores = _scores(kind, (12, width)).to(dtype)
        wanted_values, wanted_places = torch.sort(scores, dim=1, descending=True, stable=True)
        for k in (1, 2, 17, 300, width - 1, width):
            values, places = packed_top_k(scores, k)
            assert torch.equal(places, wanted_places[:, :k])
            assert torch.equal(values, wanted_values[:, :k].float())


@pytest.mark.parametrize("width", [96, 97, 101, 103])
def test_the_best_of_a_row_are_found_in_any_column(width: int) -> None:
    """The three best, NaN among them, side by side at each place of a row, also where halves of a row are uneven."""
    scores = torch.randn(width - 2, width, generator=torch.Generator().manual_seed(width))
    for best in (torch.tensor([9.0, 8.0, 7.0]), torch.tensor([9.0, torch.nan, 7.0])):
        for row in range(len(scores)):
            scores[row, row : row + 3] = best
        wanted = [[row + 1, row] if best.isnan().any() else [row, row + 1] for row in range(len(scores))]
        assert packed_top_k(scores, 3)[1].tolist() == [[*two, row + 2] for row, two in enumerate(wanted)]


def test_nan_of_either_sign_comes_first() -> None:
    """0 / 0 is a negative NaN on x86, which as bits would rank last and not be seen."""
    for nan in (float("nan"), -float("nan")):
        scores = torch.zeros(2, 40)
        scores[1, 30] = torch.tensor(nan)
        for k in (1, 20, 40):
            assert top_k(scores, k)[0][:, 0].isnan().tolist() == [False, True]
            assert packed_top_k(scores, k)[1][1, 0] == 30


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("shape", "sorted_width"), [((3, 17), 4), ((4, 1000), 16), ((5, 10_007), 64), ((2, 131_073), 4096)]
)
def test_a_tournament_of_stable_sorts_chooses_what_sorting_everything_chooses(
    kind: str, shape: tuple[int, int], sorted_width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one round, in two and in many, for widths that no chunk divides and rows full of ties."""
    monkeypatch.setattr(_selection, "SORTED", sorted_width)
    scores = _scores(kind, shape)
    for k in (1, 15, 100, 900) if shape[1] > 1000 else range(1, shape[1] + 1, 7):
        assert_same_choice(scores, k)


def assert_same_choice(scores: Tensor, k: int) -> None:
    """The form for devices returns the values and ids of the definition, NaN for NaN, and keeps no more alive."""
    values, ids = stable_top_k(scores, k)
    wanted_values, wanted_ids = plain_top_k(scores, k)
    assert values.dtype == wanted_values.dtype and ids.dtype == wanted_ids.dtype
    torch.testing.assert_close(values, wanted_values, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(ids, wanted_ids)
    assert values.untyped_storage().nbytes() == values.numel() * values.element_size()
    assert ids.untyped_storage().nbytes() == len(ids) * values.shape[1] * ids.element_size()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("kind", ["random", "tied", "constant", "signed zeros", "mostly -inf", "infinite"])
def test_a_tournament_of_other_precisions_chooses_the_same(
    kind: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half types tie all the time; differences of float64 that float32 would lose decide."""
    monkeypatch.setattr(_selection, "SORTED", 64)
    scores = _scores(kind, (3, 5003)).to(dtype)
    if dtype == torch.float64:
        scores = 1 + scores.nan_to_num(posinf=9, neginf=-9) * 1e-12
    for k in (1, 10, 99):
        assert_same_choice(scores, k)


def test_a_tournament_of_any_layout_rows_and_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """Transposed, sliced and expanded scores, no row, one row, rows a few at a time, a last chunk of one label."""
    monkeypatch.setattr(_selection, "SORTED", 64)
    base = torch.randn(2000, 6, generator=torch.Generator().manual_seed(2)).round(decimals=1)
    for elements in (1, 3 * 2000, 2**28):
        monkeypatch.setattr(_selection, "ROUND_ELEMENTS", elements)
        for scores in (base.t(), base.t()[::2], base.t()[:, 3:-5], base[:, :1].t().expand(4, -1), base.t()[:1]):
            assert_same_choice(scores, 7)
    for width in range(65, 200):
        assert_same_choice(base.t()[:, :width], 3)
    with force_plain():
        for shape in ((0, 100), (0, 0), (3, 0)):
            values, ids, _ = top_k(torch.zeros(shape), 0 if shape[1] == 0 else 7)
            assert len(values) == len(ids) == shape[0]


def test_a_tournament_puts_nan_first() -> None:
    """Of either sign, wherever it stands, and before infinity, so that a look at the first value finds it."""
    for nan in (float("nan"), -float("nan")):
        for place in (0, 4999, 9_999, 10_002):
            scores = torch.randn(3, 10_003, generator=torch.Generator().manual_seed(place))
            scores[0, 17] = scores[1, 17] = torch.inf
            scores[1, place] = nan
            for k in (1, 20, 600):
                values, ids = stable_top_k(scores, k)
                assert values[:, 0].isnan().tolist() == [False, True, False]
                assert ids[1, 0] == place
