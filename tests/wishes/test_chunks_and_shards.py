"""Labels in pieces: ``rank_chunks``, ``rank_shards`` on two and three processes and ``Ranking.from_shards`` give the
bits of ``rank``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, multiprocessing
from torch.utils._python_dispatch import TorchDispatchMode

import cases
import processes
import tailmetrics
from tailmetrics import MRR, CrossEntropy, PrecisionAtK, Ranking, RecallAtK, RecallAtThreshold
from tailmetrics.evaluation import Evaluation
from tailmetrics.evaluation.row_values import RowValues
from tailmetrics.ranking._device import force_plain
from wishes import shards
from wishes.rows import DECILES, NUM_LABELS, bits, csr, fed, padded_ids, sets
from wishes.shards import DEPTH, KINDS, PAIRS, REFUSED, SHARES, WORLDS, WRONG, batch, depth_of, every_metric, read

WIDTHS = {
    "one": (18,),
    "two": (9, 9),
    "uneven": (1, 2, 11, 4),
    "one by one": (1,) * 18,
    "with an empty one": (5, 0, 13),
}


def pieces(scores: Tensor, widths: tuple[int, ...]) -> Iterator[Tensor]:
    """A generator that can be read once, of copies that are spoilt after use."""
    for piece in scores.split(list(widths), dim=1):
        copy = piece.clone(memory_format=torch.contiguous_format)
        yield copy
        copy.fill_(torch.nan)


def rank_pieces(scores: Tensor, target: Any, widths: tuple[int, ...], **more: Any) -> Ranking:
    given = {"depth": DEPTH, "num_labels": NUM_LABELS, **more}
    return tailmetrics.rank_chunks(lambda: pieces(scores, widths), target, **given)


def differing(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> list[str]:
    assert found.keys() == wanted.keys()
    return [key for key in found if bits(found[key]) != bits(wanted[key])]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("widths", WIDTHS.values(), ids=WIDTHS)
@pytest.mark.parametrize("depth", [5, 7, 18, 500])
def test_chunks_have_the_bits_of_the_whole(kind: str, widths: tuple[int, ...], depth: int) -> None:
    """Ids, gains, numbers of relevant labels, and every metric, MRR without a cut-off included."""
    scores, gains = batch(kind)
    if depth < DEPTH:
        ours = rank_pieces(scores, gains, widths, depth=depth)
        assert bits(ours.ids) == bits(tailmetrics.rank(scores, gains, depth=depth).ids)
        return
    wanted = read(tailmetrics.rank(scores, gains, depth=depth))
    assert differing(read(rank_pieces(scores, gains, widths, depth=depth)), wanted) == []


@pytest.mark.parametrize("plain", [False, True], ids=["CPU", "forms of a device"])
@pytest.mark.parametrize("widths", [(13, 27), (1,) * 40], ids=["two", "one by one"])
def test_every_metric_has_the_bits_of_the_whole(widths: tuple[int, ...], plain: bool) -> None:
    """All of the registry, overall and by bucket in both scopes, over rows with ties, gaps and nothing to find."""
    rows = cases.data(seed=3, graded=True)
    metrics = dict(every_metric(skipped=("LabelAUC", "LabelAP")))
    depths = {depth_of(metric) for metric in metrics.values()}
    whole = {depth: tailmetrics.rank(rows.scores, rows.target, depth=depth) for depth in depths}
    wanted = {name: bits(fed(metric, whole[depth_of(metric)]).compute()) for name, metric in metrics.items()}
    found = {}
    with force_plain() if plain else nullcontext():
        given = {depth: {"depth": depth, "num_labels": cases.NUM_LABELS} for depth in depths}
        ranked = {
            depth: tailmetrics.rank_chunks(lambda: pieces(rows.scores, widths), rows.target, **given[depth])
            for depth in depths
        }
        for name, metric in metrics.items():
            metric.reset()
            found[name] = bits(fed(metric, ranked[depth_of(metric)]).compute())
    assert [name for name in metrics if found[name] != wanted[name]] == []


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16, torch.bfloat16])
def test_chunks_of_every_type(dtype: torch.dtype) -> None:
    """Ties that half types make are broken by label across chunks too."""
    scores, gains = batch("plain")
    scores = scores.to(dtype)
    wanted = read(tailmetrics.rank(scores, gains, depth=DEPTH))
    assert differing(read(rank_pieces(scores, gains, (4, 14))), wanted) == []


def test_every_form_of_target() -> None:
    """Multi-hot, ids, CSR and class indices, as ``rank`` takes them; lists of chunks as well as callables."""
    scores, gains = batch("ties")
    for target in (gains > 0, padded_ids(sets(gains)), csr(gains, gains > 0), torch.arange(len(gains)) % NUM_LABELS):
        wanted = read(tailmetrics.rank(scores, target, depth=DEPTH))
        chunks = list(scores.split([10, 8], dim=1))
        found = tailmetrics.rank_chunks(chunks, target, depth=DEPTH, num_labels=NUM_LABELS)
        assert differing(read(found), wanted) == []


def test_chunks_in_any_order_with_their_first_labels() -> None:
    """Pairs of first label and scores; of equal scores the lower label is first, whichever came first."""
    scores, gains = batch("ties")
    wanted = read(tailmetrics.rank(scores, gains, depth=DEPTH))
    for order in ((0, 5, 6, 14), (14, 6, 5, 0), (5, 14, 0, 6)):
        ends = {0: 5, 5: 6, 6: 14, 14: 18}
        chunks = [(first, scores[:, first : ends[first]]) for first in order]
        found = tailmetrics.rank_chunks(chunks, gains, depth=DEPTH, num_labels=NUM_LABELS)
        assert differing(read(found), wanted) == []


def test_rows_are_those_of_rank() -> None:
    """Row mask, ignored rows, groups, weights and leading axes."""
    scores = torch.randn(2, 5, NUM_LABELS, generator=torch.Generator().manual_seed(4))
    target = torch.randint(0, NUM_LABELS, (2, 5), generator=torch.Generator().manual_seed(5))
    target[1, 3] = -100
    more: dict[str, Any] = {
        "row_mask": torch.arange(10).view(2, 5) != 2,
        "row_groups": torch.arange(10).view(2, 5) % 2,
        "row_weights": torch.arange(10).view(2, 5) / 2,
        "ignore_index": -100,
    }
    spoilt = scores.clone()
    spoilt[0, 2, 4] = torch.nan  # in a row that does not count
    chunks = list(spoilt.split([7, 11], dim=2))
    metric = MRR(row_groups=["a", "b"], weighted=True)
    wanted = fed(metric, tailmetrics.rank(scores, target, depth=3, **more)).compute()
    metric.reset()
    found = tailmetrics.rank_chunks(chunks, target, depth=3, num_labels=NUM_LABELS, **more)
    assert bits(fed(metric, found).compute()) == bits(wanted)


def test_exact_ranks_beyond_the_depth() -> None:
    """A relevant label below the list keeps its rank: MRR of depth 1 is that of all labels."""
    scores, gains = batch("plain")
    whole = fed(MRR(), scores, gains).compute()
    shallow = fed(MRR(), rank_pieces(scores, gains, (6, 6, 6), depth=1)).compute()
    assert bits(shallow) == bits(whole)


def test_what_can_be_read_once_has_metrics_with_a_cut_off() -> None:
    """The others say what to pass; the metric is then as before."""
    scores, gains = batch("ties")
    ranking = tailmetrics.rank_chunks(pieces(scores, (6, 12)), gains, depth=DEPTH, num_labels=NUM_LABELS)
    recall = RecallAtK(k=[1, 5], buckets=DECILES, depth=DEPTH)
    wanted = fed(recall, tailmetrics.rank(scores, gains, depth=DEPTH)).compute()
    recall.reset()
    assert bits(fed(recall, ranking).compute()) == bits(wanted)
    mrr = MRR()
    with pytest.raises(ValueError, match=r"rank_chunks: chunks can be read only once.*pass a callable"):
        mrr.update(ranking)
    assert mrr.update_count == 0


def test_areas_of_labels_are_refused() -> None:
    """A label's area needs one label alone: a metric for each piece says more with less."""
    scores, gains = batch("plain")
    for ranking in (rank_pieces(scores, gains, (9, 9)), rank_pieces(scores, gains, (9, 9), depth=500)):
        with pytest.raises(ValueError, match="LabelAUC: the labels came in pieces; make one metric for each piece"):
            fed(tailmetrics.LabelAUC(num_labels=NUM_LABELS), ranking)


def test_another_second_reading_is_refused() -> None:
    """As a model that drops units at random would make it."""
    scores, gains = batch("plain")
    number = iter(range(10))
    ranking = tailmetrics.rank_chunks(
        lambda: iter([scores + 0.5 * next(number)]), gains, depth=DEPTH, num_labels=NUM_LABELS
    )
    with pytest.raises(ValueError, match="a second reading of the chunks has other scores than the first"):
        fed(MRR(), ranking)


def test_chunks_are_read_at_most_twice_for_ranks_and_cross_entropy() -> None:
    """Once for cut-offs; once more for everything that has none."""
    scores, gains = batch("plain")
    readings = []

    def chunks() -> Iterator[Tensor]:
        readings.append(1)
        yield from scores.split(5, dim=1)

    ranking = tailmetrics.rank_chunks(chunks, gains, depth=DEPTH, num_labels=NUM_LABELS)
    fed(PrecisionAtK(k=5), ranking)
    assert len(readings) == 1
    for metric in (MRR(), CrossEntropy(), MRR(min_gain=2), tailmetrics.RowAUC(), tailmetrics.CalibrationErrorAtK()):
        fed(metric, ranking)
    assert len(readings) == 2


@pytest.mark.parametrize(
    "wrong", ["too few", "too many", "rows", "nan", "types", "none", "twice", "negative", "a tensor", "ids"]
)
def test_wrong_chunks_are_refused(wrong: str) -> None:
    """The error names the chunk and what is needed."""
    scores, gains = batch("plain")
    left, right = scores[:, :10], scores[:, 10:]
    given: dict[str, Any] = {
        "too few": [left],
        "too many": [left, right, right],
        "rows": [left, right[1:]],
        "nan": [left, right.masked_fill(torch.arange(8) == 2, float("nan"))],
        "types": [left, right.double()],
        "none": [],
        "twice": [(0, left), (9, scores[:, 9:])],
        "negative": [(-1, scores)],
        "a tensor": scores,
        "ids": [left.long(), right.long()],
    }
    with pytest.raises((TypeError, ValueError), match="rank_chunks: "):
        tailmetrics.rank_chunks(given[wrong], gains, depth=DEPTH, num_labels=NUM_LABELS)


class Largest(TorchDispatchMode):
    """The most elements that any tensor had that was made."""

    elements = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        made = func(*args, **(kwargs or {}))
        for one in made if isinstance(made, (tuple, list)) else [made]:
            if isinstance(one, Tensor):
                self.elements = max(self.elements, one.untyped_storage().nbytes() // one.element_size())
        return made


def test_nothing_of_the_size_of_all_scores_is_made() -> None:
    """Neither in ranking nor in any metric without a cut-off: chunks of 500 of 20,000 labels, 100 rows."""
    num_rows, num_labels, width = 100, 20_000, 500

    def chunks() -> Iterator[Tensor]:
        for first in range(0, num_labels, width):
            yield torch.randn(num_rows, width, generator=torch.Generator().manual_seed(first))

    target = torch.randint(0, num_labels, (num_rows, 3), generator=torch.Generator().manual_seed(1))
    with Largest() as largest:
        ranking = tailmetrics.rank_chunks(chunks, target, depth=20, num_labels=num_labels)
        for metric in (MRR(), CrossEntropy(), tailmetrics.RowAUC(), tailmetrics.F1AtThreshold(3.0, num_labels=None)):
            fed(metric, ranking)
    assert largest.elements <= 4 * num_rows * width  # the whole matrix has forty chunks


def test_chunks_are_made_on_all_threads_of_the_program_whenever_they_are_read() -> None:
    """Making chunks is the program's work: for an update, a report and a table of rows, all on one thread themselves."""
    seen: list[int] = []

    def chunks() -> Iterator[Tensor]:
        seen.append(torch.get_num_threads())
        yield torch.randn(6, NUM_LABELS, generator=torch.Generator().manual_seed(0))

    ranking = tailmetrics.rank_chunks(chunks, torch.arange(6), depth=DEPTH, num_labels=NUM_LABELS)
    evaluation = Evaluation([RecallAtThreshold(0.5, average="samples")], intervals=0.95)
    rows = RowValues(evaluation.collection)
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        evaluation.collection.update(ranking)
        evaluation.update(ranking)
        rows.add(ranking)
    finally:
        torch.set_num_threads(before)
    assert len(seen) > 4
    assert set(seen[1:]) == {3}


@pytest.fixture(scope="module")
def of_processes(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[int, int], dict[str, Any]]:
    """What each of two and of three gloo processes found; one start of processes for both."""
    folder = tmp_path_factory.mktemp("shards")
    start = processes.context().get_start_method()
    multiprocessing.start_processes(shards.work, args=(str(folder),), nprocs=max(WORLDS), start_method=start)
    return {
        (world, process): torch.load(Path(folder) / f"{world}-{process}.pt", weights_only=True)
        for world in WORLDS
        for process in range(world)
    }


@pytest.mark.slow
@pytest.mark.parametrize("world", WORLDS)
def test_shards_have_the_bits_of_the_whole(of_processes: Any, world: int) -> None:
    """On every process, whatever its share of the labels."""
    for kind in KINDS:
        wanted = read(tailmetrics.rank(*batch(kind), depth=DEPTH))
        for process in range(world):
            for share in SHARES[world]:
                assert differing(of_processes[world, process][f"{share} {kind}"], wanted) == [], (kind, share, process)


@pytest.mark.slow
@pytest.mark.parametrize("world", WORLDS)
def test_every_metric_of_shards_has_the_bits_of_the_whole_or_says_why_not(of_processes: Any, world: int) -> None:
    """Ranks, cross-entropy, calibration and areas; thresholds and pairs within buckets need scores again."""
    rows = cases.data(seed=3, graded=True)
    for name, metric in every_metric():
        wanted = fed(metric, tailmetrics.rank(rows.scores, rows.target, depth=depth_of(metric))).compute()
        for process in range(world):
            found = of_processes[world, process]["all"][name]
            if name.startswith(REFUSED) or (name.startswith(PAIRS) and name.endswith("bucket")):
                assert isinstance(found, str), name
                assert re.search("which no process holds|came in pieces", found), found
            else:
                assert bits(found) == bits(wanted), name


@pytest.mark.slow
@pytest.mark.parametrize("what", WRONG)
def test_shards_that_do_not_belong_together_raise_on_every_process(of_processes: Any, what: str) -> None:
    """None waits for the others; the process whose arguments are refused says why."""
    words = {"nan": "NaN in row 2", "rows": "number of rows", "target": "target or row_mask differ", "type": "type of"}
    both = [of_processes[2, process][f"wrong {what}"] for process in range(2)]
    assert all(error.startswith("rank_shards: ") for error in both), both
    wanted = words.get(what, "each label once" if what in ("overlap", "gap") else what)
    assert wanted in both[1]
    assert (wanted if what != "nan" else "process 1 of the group refused its arguments") in both[0]


@pytest.mark.slow
def test_shards_send_three_times_and_nothing_of_the_size_of_the_scores(of_processes: Any) -> None:
    """Ten numbers; two for each place of a list and one for each target; a few for each target and row."""
    rows, depth = 20, DEPTH + 1
    assert of_processes[2, 0]["collectives"] == [10, 2 * rows * depth + rows, 3 * rows + 2 * rows]


def test_lists_of_index_shards_are_the_list_of_the_whole() -> None:
    """As deep as the shortest list; MRR without a cut-off is refused unless nothing was cut."""
    scores, gains = batch("ties")
    ends = ((0, 4), (4, 13), (13, 18))
    wanted = tailmetrics.rank(scores, gains, depth=3)
    parts = [scores[:, first:stop].sort(dim=1, descending=True, stable=True) for first, stop in ends]
    lists = [(part.values[:, :3], part.indices[:, :3]) for part in parts]
    ranking = Ranking.from_shards(
        lists, first_labels=[first for first, _ in ends], num_labels=NUM_LABELS, target_gains=gains
    )
    assert bits(ranking.ids) == bits(wanted.ids)
    assert not ranking.complete
    for metric in (RecallAtK(k=3), tailmetrics.NDCGAtK(k=2), tailmetrics.TieRateAtK(k=2)):
        value = fed(metric, wanted).compute()
        metric.reset()
        assert bits(fed(metric, ranking).compute()) == bits(value)
    with pytest.raises(ValueError, match="RecallAtK: k=4 is deeper"):
        fed(RecallAtK(k=4), ranking)
    with pytest.raises(ValueError, match="k=None reads whole lists"):
        fed(MRR(), ranking)
    whole = [(part.values, part.indices + first) for part, (first, _) in zip(parts, ends, strict=True)]
    everything = Ranking.from_shards(whole, num_labels=NUM_LABELS, target_gains=gains, complete=True)
    assert bits(fed(MRR(), everything).compute()) == bits(fed(MRR(), scores, gains).compute())


def test_a_padded_list_of_a_shard_was_cut_at_its_padding() -> None:
    """The first shard may hold labels behind its one: the merged list is one deep; rows masked out do not matter."""
    padded = torch.tensor([[0.9, 0.1, 0.0], [0.9, 0.5, 0.4]]), torch.tensor([[0, -1, -1], [0, 1, 2]])
    whole = torch.tensor([[0.8, 0.7, 0.6], [0.8, 0.7, 0.6]]), torch.tensor([[3, 4, 5], [3, 4, 5]])
    given: dict[str, Any] = {"target_ids": torch.tensor([3, 3]), "num_labels": 6}
    assert Ranking.from_shards([padded, whole], **given).depth == 1
    assert Ranking.from_shards([padded, whole], **given, row_mask=torch.tensor([False, True])).depth == 3
    assert Ranking.from_shards([padded, whole], **given, complete=True).ids[0].tolist() == [0, 3, 4, 5, -1, -1]


def _pair(rows: int = 2, columns: int = 3) -> tuple[Tensor, Tensor]:
    return torch.zeros(rows, columns), torch.arange(columns).expand(rows, columns)


@pytest.mark.parametrize(
    ("lists", "more", "words"),
    [
        (torch.zeros(2, 3), {}, "shards is float32"),
        ([], {}, "shards is list"),
        ([_pair(), torch.zeros(2, 3)], {}, "shards is list"),
        ([_pair(), _pair(3)], {}, "shard 1 is .*float32 \\[3, 3\\]"),
        ([(torch.zeros(2, 3), torch.zeros(2, 4, dtype=torch.int64))], {}, "shard 0 is"),
        ([_pair()], {"first_labels": [0, 3]}, "1 shards and 2 first_labels"),
        ([_pair(), _pair()], {}, "names the label 0 twice"),
        ([_pair()], {"num_labels": 2}, "holds the id 2"),
    ],
)
def test_wrong_lists_of_index_shards_are_refused(lists: Any, more: dict[str, Any], words: str) -> None:
    """The error names the shard."""
    with pytest.raises((TypeError, ValueError), match=f"Ranking.from_shards: .*{words}"):
        Ranking.from_shards(lists, target_ids=torch.tensor([0, 1]), **more)
