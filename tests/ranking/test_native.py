"""The C form of the steps gives what plain loops over numpy arrays give, on any number of threads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from hatch_build import compile_native
from tailmetrics.ranking import native
from tailmetrics.ranking._hits import NOT_RANKED, Hits
from tailmetrics.testing import show_versions

THREADS = [1, 2, 3, 4, 40]
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]


@pytest.fixture(scope="module", autouse=True)
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The C file as it is, compiled so that any work is worth a thread and a block of rows is short."""
    path = tmp_path_factory.mktemp("native") / "_native.so"
    if compile_native(path, ("-DWORTH_A_THREAD=1", "-DBLOCK=1")) is None:
        pytest.skip("no C compiler")
    loaded = native.load(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "_loaded", lambda: loaded)
        assert native.available()
        yield path


def _scores(kind: str, shape: tuple[int, int]) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    random = torch.randn(shape, generator=generator)
    columns = torch.arange(shape[1], dtype=torch.float32).expand(shape)
    return {
        "random": lambda: random,
        "tied": lambda: random.round(),
        "constant": lambda: torch.full(shape, 0.5),
        "ascending": lambda: columns,
        "descending": lambda: -columns,
        "infinite": lambda: torch.where(random > 1, torch.inf, torch.where(random < 0, -torch.inf, random)),
        "all -inf": lambda: torch.full(shape, -torch.inf),
        "signed zeros": lambda: torch.where(random > 0, 0.0, -0.0),
        "subnormal": lambda: random * 1e-7,
        "one above a tie": lambda: torch.where(columns == shape[1] - 1, 2.0, random.clamp(max=0.5)),
        "NaN": lambda: torch.where(random > 1.5, torch.nan, random),
        "-NaN": lambda: torch.where(random > 1.5, -torch.nan, random),
    }[kind]()


KINDS = [
    "random", "tied", "constant", "ascending", "descending", "infinite", "all -inf", "signed zeros", "subnormal",
    "one above a tie", "NaN", "-NaN",
]  # fmt: skip


def _best(scores: Tensor, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Values and ids of the best of each row by a stable sort of numpy, NaN first."""
    numbers = scores.to(torch.float64).numpy()
    ids = np.argsort(np.where(np.isnan(numbers), -np.inf, -numbers), axis=1, kind="stable")
    order = np.argsort(~np.isnan(np.take_along_axis(numbers, ids, 1)), axis=1, kind="stable")
    ids = np.take_along_axis(ids, order, 1)
    return np.take_along_axis(numbers, ids, 1)[:, : k + 1], ids[:, :k]


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_top_k_is_a_stable_sort(kind: str, dtype: torch.dtype) -> None:
    """Values, ids, whether all fall and are numbers: for rows shorter and longer than a tile, k from 1 to L, threads 1 to 40."""
    for number, (shape, ks) in enumerate(
        {(5, 1): [1], (7, 63): [1, 5, 63], (3, 1000): [1, 10, 64, 1000], (5, 9001): [1, 10, 500, 4600]}.items()
    ):
        scores = _scores(kind, shape).to(dtype)
        for k in ks:
            values, ids, distinct, numbers = native.top_k(scores, k, THREADS[(number + k) % len(THREADS)])
            wanted, wanted_ids = _best(scores, k)
            assert values.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
            np.testing.assert_array_equal(values.numpy(), wanted)
            np.testing.assert_array_equal(ids.numpy(), wanted_ids)
            assert distinct == bool((wanted[:, :-1] > wanted[:, 1:]).all())
            assert numbers == bool((wanted[:, :k] > -np.inf).all())


def test_top_k_of_any_layout() -> None:
    """Rows and columns that lie apart, one row repeated, a transposed matrix, no rows, no labels, k = 0."""
    scores = _scores("tied", (40, 300))
    for view in (scores[::3, :200], scores[:, ::2], scores.t(), scores[:1].expand(9, 300), scores[:0], scores[:, 7:8]):
        values, ids, *_ = native.top_k(view, 1, 3)
        for found, wanted in zip((values, ids), _best(view, 1), strict=True):
            np.testing.assert_array_equal(found.numpy(), wanted)
    assert native.top_k(scores[:, :0], 0, 2)[0].shape == (40, 0)
    assert native.top_k(scores, 0, 2)[1].shape == (40, 0)


def test_every_half_is_read_as_the_number_it_is() -> None:
    """All 65,536 patterns of bits of either half type, subnormal ones and NaN included, sorted."""
    every = torch.arange(-(2**15), 2**15, dtype=torch.int32).to(torch.int16)[None]
    for dtype in (torch.float16, torch.bfloat16):
        scores = every.view(dtype)
        values, ids, *_ = native.top_k(scores, 2**16, 1)
        wanted, wanted_ids = _best(scores, 2**16)
        np.testing.assert_array_equal(values.numpy(), wanted)
        np.testing.assert_array_equal(ids.numpy(), wanted_ids)


def _lists(num_rows: int, length: int, num_labels: int, repeats: bool, seed: int = 0) -> np.ndarray:
    """Lists with -1 in some places, all -1 in some rows."""
    random = np.random.default_rng(seed)
    ids = np.stack([random.choice(num_labels, length, replace=repeats) for _ in range(num_rows)])
    ids[random.random(ids.shape) < 0.2] = -1
    ids[random.random(num_rows) < 0.1] = -1
    return ids


def _placed(found: list[list[tuple[int, int, float]]]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Lists of (rank, label, gain) as padded arrays, as wide as the longest list."""
    width = max(1, *map(len, found))
    cells = [row + [(NOT_RANKED, -1, 0.0)] * (width - len(row)) for row in found]
    parts = zip(*(zip(*row, strict=True) for row in cells), strict=True)
    ranks, labels, gains = (np.array(part).reshape(len(cells), width) for part in parts)
    return ranks, labels, gains


def _equal(found: Hits, wanted: tuple[np.ndarray, ...]) -> None:
    for one, other in zip((found.ranks, found.ids, found.gains), wanted, strict=True):
        if one is not None:
            np.testing.assert_array_equal(one.numpy(), other)


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize(("length", "most"), [(1, 1), (10, 3), (100, 5), (5, 40), (30, 0), (0, 4)])
def test_hits_are_where_the_wanted_labels_stand(length: int, most: int, threads: int) -> None:
    """Of padded labels, of labels one below the other with gains, and of a matrix: the first place of each."""
    random = np.random.default_rng(length)
    ids = _lists(37, length, 60, repeats=True)
    wanted = _lists(37, most, 60, repeats=False, seed=1)
    gains = random.random(wanted.shape)
    found: list[list[tuple[int, int, float]]] = []
    for row in range(37):
        gain_of = {label: gain for label, gain in zip(wanted[row], gains[row], strict=True) if label >= 0}
        places = {label: list(ids[row]).index(label) + 1 for label in gain_of if label in ids[row]}
        found.append(sorted((place, label, gain_of[label]) for label, place in places.items()))
    preds, target, weights = torch.tensor(ids), torch.tensor(wanted), torch.tensor(gains)
    expected = _placed(found)
    _equal(native.hits(preds, target, most, threads), expected)
    _equal(native.hits(preds, target, most, threads, gains=weights), expected)
    wide = torch.full((37, most + 3), 3)
    wide[:, :most] = target
    _equal(native.hits(preds, wide[:, :most], most, threads, gains=weights), expected)
    starts = torch.arange(38) * most
    _equal(native.hits(preds, target.view(-1), most, threads, starts, weights.view(-1)), expected)
    if most:
        with pytest.raises(IndexError, match="larger than the labels"):
            native.hits(preds, target.view(-1), most - 1, threads, starts)


def test_hits_of_a_mask_are_its_true_cells() -> None:
    """In rows that lie apart too; an id that is no column is refused, and no memory behind the mask is read."""
    ids, target = _lists(20, 12, 30, repeats=False), torch.tensor(np.random.default_rng(4).random((20, 30)) < 0.5)
    found = [
        [(place + 1, label, 1.0) for place, label in enumerate(ids[row]) if label >= 0 and target[row, label]]
        for row in range(20)
    ]
    wide = torch.zeros(20, 50, dtype=torch.bool)
    wide[:, :30] = target
    for threads in (1, 4):
        for form in (target, wide[:, :30], target.t().contiguous().t()):
            _equal(native.hits(torch.tensor(ids), form, 30, threads), _placed(found))
    with pytest.raises(IndexError, match="larger than the labels"):
        native.hits(torch.full((1, 3), 30), target[:1], 30, 1)


@pytest.mark.parametrize("threads", THREADS)
@pytest.mark.parametrize("scale", [1, 10**6, 2**61])
def test_check_finds_what_lists_must_not_hold(scale: int, threads: int) -> None:
    """The bounds, the first row with an id behind -1, and the first with a repeat, of more rows than a byte numbers."""
    ids = np.tile(np.arange(1200).reshape(40, 30) % 90, (15, 1))
    ids[ids >= 0] *= scale if scale < 2**61 else 1
    ids += (ids > 0) * (scale if scale == 2**61 else 0)
    check = native.check_lists(torch.tensor(ids), threads)
    assert check == (ids.min(), ids.max(), None, None)
    ids[531, 5], ids[533, 5] = -7, -1
    ids[538, 9], ids[538, 17], ids[537, 4], ids[537, 3] = ids[538, 2], ids[538, 2], ids[537, 20], -1
    assert native.check_lists(torch.tensor(ids), threads) == (-7, ids.max(), 531, 537)


def test_check_of_what_holds_no_id() -> None:
    """No rows, no places, and nothing but -1, which may stand any number of times."""
    for shape in ((0, 4), (4, 0)):
        assert native.check_lists(torch.empty(shape, dtype=torch.int64), 2) == (0, -1, None, None)
    assert native.check_lists(torch.full((9, 5), -1), 2) == (-1, -1, None, None)


@pytest.mark.parametrize("table", [torch.uint8, torch.int32], ids=str)
@pytest.mark.parametrize("threads", [1, 4])
def test_ranks_within_buckets_count_the_listed_labels_of_the_same(threads: int, table: torch.dtype) -> None:
    """One by one along each list; ranks of the whole list where there is no list; hits below the depth are left out."""
    num_buckets, depth = 4, 20
    ids = _lists(33, 25, 60, repeats=False)
    bucket_of = np.random.default_rng(5).integers(num_buckets, size=60)
    target, gains = torch.tensor(_lists(33, 12, 60, repeats=False, seed=2)), torch.rand(33, 12, dtype=torch.float64)
    hits = native.hits(torch.tensor(ids), target, 12, 1, gains=gains)
    assert hits.gains is not None
    within: list[list[tuple[int, int, float]]] = [[] for _ in range(33 * num_buckets)]
    kept: list[list[tuple[int, int, float]]] = [[] for _ in range(33 * num_buckets)]
    lengths = np.zeros((33, num_buckets), int)
    for row in range(33):
        gain_at = dict(zip(hits.ranks[row].tolist(), hits.gains[row].tolist(), strict=True))
        for place, label in enumerate(ids[row]):
            bucket = bucket_of[label]
            lengths[row, bucket] += label >= 0 and place < depth
            if place + 1 in gain_at:
                kept[row * num_buckets + bucket].append((place + 1, label, gain_at[place + 1]))
                if place < depth:
                    hit = (lengths[row, bucket], label, gain_at[place + 1])
                    within[row * num_buckets + bucket].append(hit)
    buckets = torch.tensor(bucket_of).to(table)
    for wanted, listed in ((within, torch.tensor(ids)[:, :depth]), (kept, None)):
        found, length = native.within_buckets(listed, buckets, num_buckets, hits, threads)
        assert found.gains is not None
        flat = Hits(found.ranks.flatten(0, 1), found.ids.flatten(0, 1), found.gains.flatten(0, 1))
        _equal(flat, _placed(wanted))
        np.testing.assert_array_equal(length.numpy(), lengths if listed is not None else 0 * lengths)
    without = Hits(hits.ranks, hits.ids, None)
    assert native.within_buckets(None, buckets, num_buckets, without, threads)[0].gains is None
    for table_of, number in ((buckets[:9], num_buckets), (buckets, num_buckets - 1)):
        with pytest.raises(IndexError):
            native.within_buckets(torch.tensor(ids), table_of, number, without, threads)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_rank_counts_compare_each_score_with_each_wanted_one(kind: str, dtype: torch.dtype) -> None:
    """With few wanted labels in a row and with so many that rows are sorted; in one piece and in two with known scores."""
    for shape, most, threads in (((9, 31), 4, 1), ((5, 5000), 3, 4), ((4, 200), 70, 3), ((2, 0), 0, 1)):
        scores = _scores(kind, shape).to(dtype)
        lists = _lists(shape[0], most, max(1, shape[1]), repeats=most > 4, seed=7)[:, : 0 if not shape[1] else None]
        wanted, starts = torch.tensor(lists.reshape(-1)), torch.arange(shape[0] + 1) * lists.shape[1]
        numbers = scores.to(torch.float64).numpy()
        expected, own = np.zeros((3, wanted.numel()), int), np.full(wanted.numel(), np.nan)
        for t, label in enumerate(wanted.tolist()):
            row = numbers[t // lists.shape[1]]
            if label >= 0:
                own[t] = row[label]
                equal = row == own[t]
                expected[:, t] = (row > own[t]).sum(), equal.sum(), equal[:label].sum()
        given, half = torch.tensor(own), shape[1] // 2
        whole = native.rank_counts(scores, starts, wanted, given, threads)
        np.testing.assert_array_equal(whole.numpy(), expected)
        left = native.rank_counts(scores[:, :half], starts, wanted, given, threads)
        right = native.rank_counts(scores[:, half:], starts, wanted - half, given, threads)
        np.testing.assert_array_equal((left + right).numpy(), expected)


def test_labels_are_counted_by_bucket() -> None:
    """As lists without hits."""
    bucket_of, labels = np.random.default_rng(6).integers(5, size=66), _lists(21, 6, 66, repeats=True)
    expected = np.stack([np.bincount(bucket_of[row[row >= 0]], minlength=5) for row in labels])
    nothing = torch.empty(21, 0, dtype=torch.int64)
    table, none = torch.tensor(bucket_of, dtype=torch.int32), Hits(nothing, nothing, None)
    np.testing.assert_array_equal(native.within_buckets(torch.tensor(labels), table, 5, none, 3)[1].numpy(), expected)


def test_versions_say_which_form_reads_batches(capsys: pytest.CaptureFixture[str]) -> None:
    """A report of a bug names the versions and the form."""
    show_versions()
    lines = capsys.readouterr().out.splitlines()
    assert f"torch {torch.__version__}" in lines
    assert lines[-1].startswith(f"batches on the CPU are read in {'C' if native.available() else 'torch'} (")


def test_a_library_of_another_text_is_not_used(library: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor one that is not there, nor what is no library: the forms of torch run, and the description says why."""
    assert native.load(library)[1] == f"C ({library})"
    (tmp_path / "_native.so").write_bytes(b"no library")
    assert native.load(tmp_path / "_native.so")[0] is None
    assert native.load(tmp_path / "nothing.so") == (None, "torch (installed without a C compiler)")
    monkeypatch.setattr(native, "crc32", lambda text: 1)
    assert native.load(library) == (None, "torch (_native.c has changed since it was compiled: make native)")


def test_without_a_compiler_one_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whether there is none or it fails; a library that stood there does not stay behind."""
    for compiler, reason in (("no-such-compiler", "No such file"), ("false", "failed")):
        (tmp_path / "_native.so").write_bytes(b"old")
        monkeypatch.setenv("CC", compiler)
        assert compile_native(tmp_path / "_native.so") is None
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert reason in said
        assert not list(tmp_path.iterdir())
