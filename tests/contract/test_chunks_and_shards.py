"""Labels in pieces: ``rank_chunks`` and ``Ranking.from_shards`` give the bits of ``rank``; shards: test_processes.py."""

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

import tailmetrics
from cases import BUCKETS, FEW, NUM_LABELS, data, fed, padded_ids
from contract.forms import csr_target
from exactness.bits import bits_of
from tailmetrics import MRR, CrossEntropy, LabelAUC, PrecisionAtK, Ranking, RecallAtK, RecallAtThreshold
from tailmetrics._arguments import arguments
from tailmetrics.evaluation import Evaluation
from tailmetrics.evaluation.row_values import RowValues
from tailmetrics.metrics import REGISTRY
from tailmetrics.ranking._device import force_plain

DEPTH = 7
BATCHES = {"plain": data(seed=1, num_rows=30, graded=True, ties=False), "ties": data(seed=1, num_rows=30, graded=True)}
TIED = BATCHES["ties"]
WIDTHS = {"one": (40,), "uneven": (1, 2, 11, 26), "one by one": (1,) * 40, "with an empty one": (5, 0, 35)}


def pieces(scores: Tensor, widths: tuple[int, ...]) -> Iterator[Tensor]:
    """A generator that can be read once, of copies that are spoilt after use."""
    for piece in scores.split(list(widths), dim=1):
        copy = piece.clone(memory_format=torch.contiguous_format)
        yield copy
        copy.fill_(torch.nan)


def rank_pieces(scores: Tensor, target: Any, widths: tuple[int, ...], **more: Any) -> Ranking:
    """The ranking of pieces that can be made again."""
    return tailmetrics.rank_chunks(
        lambda: pieces(scores, widths), target, **{"depth": DEPTH, "num_labels": NUM_LABELS, **more}
    )


def read(ranking: Ranking) -> list[Any]:
    """All that metrics of ranks read: the list, its gains, what is relevant, and the rank of each, far down too."""
    return [bits_of(one) for one in (ranking.ids, ranking.gains, ranking.n_relevant, ranking.target_ranks)]


@pytest.mark.parametrize("kind", BATCHES)
@pytest.mark.parametrize("widths", WIDTHS.values(), ids=WIDTHS)
@pytest.mark.parametrize("depth", [1, 7, 40, 500])
def test_chunks_have_the_bits_of_the_whole(kind: str, widths: tuple[int, ...], depth: int) -> None:
    """Of every type of scores; ties across every edge, labels that are not retrieved, ranks beyond the depth."""
    batch = BATCHES[kind]
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
        scores = batch.scores.to(dtype)
        wanted = read(tailmetrics.rank(scores, batch.target, depth=depth))
        assert read(rank_pieces(scores, batch.target, widths, depth=depth)) == wanted


def every_metric(**more: Any) -> Iterator[tuple[str, Any, int]]:
    """One of each metric and way of bucketing, with a depth that cuts the list where it does not read all of it."""
    for case in FEW:
        if more.keys() <= arguments(REGISTRY[case.name]).keys():
            metric = case.metric(sync_on_compute=False, **more)
            yield str(case), metric, min(metric.reading.reads.ranked or 1, NUM_LABELS)


@pytest.mark.parametrize("more", [{}, {"min_gain": 1.5}], ids=["all gains", "some gains"])
@pytest.mark.parametrize("form", [nullcontext, force_plain])
@pytest.mark.slow
def test_every_metric_has_the_bits_of_the_whole(form: Any, more: dict[str, Any]) -> None:
    """All of the registry, overall and by bucket in both scopes, over rows with ties, gaps and nothing to find."""
    for name, metric, depth in every_metric(**more):
        if name.startswith("Label"):
            continue  # refused, below
        wanted = bits_of(fed(metric, tailmetrics.rank(TIED.scores, TIED.target, depth=depth)).compute())
        metric.reset()
        with form():
            found = fed(metric, rank_pieces(TIED.scores, TIED.target, (13, 27), depth=depth)).compute()
        assert bits_of(found) == wanted, name


def test_every_form_of_target_and_order_of_chunks() -> None:
    """Multi-hot, ids, CSR and class indices; lists of chunks, and pairs of first label and scores in any order."""
    classes = torch.arange(len(TIED.target)) % NUM_LABELS
    for target in (TIED.target > 0, padded_ids(TIED.target), csr_target(TIED.target), classes):
        wanted = read(tailmetrics.rank(TIED.scores, target, depth=DEPTH))
        ends = {0: 5, 5: 6, 6: 40}
        for order in ((0, 5, 6), (6, 5, 0), (5, 0, 6)):
            chunks = [(first, TIED.scores[:, first : ends[first]]) for first in order]
            assert read(tailmetrics.rank_chunks(chunks, target, depth=DEPTH, num_labels=NUM_LABELS)) == wanted
        listed = list(TIED.scores.split([10, 30], dim=1))
        assert read(tailmetrics.rank_chunks(listed, target, depth=DEPTH, num_labels=NUM_LABELS)) == wanted


def test_what_can_be_read_once_has_metrics_with_a_cut_off() -> None:
    """The others say what to pass; the metric is then as before. Areas of labels need one label alone."""
    ranking = tailmetrics.rank_chunks(pieces(TIED.scores, (6, 34)), TIED.target, depth=DEPTH, num_labels=NUM_LABELS)
    recall = RecallAtK(k=[1, 5], buckets=BUCKETS, depth=DEPTH)
    wanted = bits_of(fed(recall, tailmetrics.rank(TIED.scores, TIED.target, depth=DEPTH)).compute())
    recall.reset()
    assert bits_of(fed(recall, ranking).compute()) == wanted
    mrr = MRR()
    with pytest.raises(ValueError, match=r"rank_chunks: chunks can be read only once.*pass a callable"):
        mrr.update(ranking)
    assert mrr.update_count == 0
    for depth in (DEPTH, 500):
        with pytest.raises(ValueError, match="LabelAUC: the labels came in pieces; make one metric for each piece"):
            fed(LabelAUC(num_labels=NUM_LABELS), rank_pieces(TIED.scores, TIED.target, (9, 31), depth=depth))


def test_chunks_are_read_at_most_twice_and_alike() -> None:
    """Once for cut-offs, once more for all that has none; a second reading with other scores is refused."""
    readings = []

    def chunks() -> Iterator[Tensor]:
        readings.append(1)
        yield from BATCHES["plain"].scores.clamp(min=-9).split(5, dim=1)

    ranking = tailmetrics.rank_chunks(chunks, TIED.target, depth=DEPTH, num_labels=NUM_LABELS)
    fed(PrecisionAtK(k=5), ranking)
    assert len(readings) == 1
    for metric in (MRR(), CrossEntropy(), MRR(min_gain=2), tailmetrics.RowAUC(), tailmetrics.CalibrationErrorAtK()):
        fed(metric, ranking)
    assert len(readings) == 2
    number = iter(range(10))
    other = tailmetrics.rank_chunks(
        lambda: iter([TIED.scores + 0.5 * next(number)]), TIED.target, depth=DEPTH, num_labels=NUM_LABELS
    )
    with pytest.raises(ValueError, match="a second reading of the chunks has other scores than the first"):
        fed(MRR(), other)


LEFT, RIGHT = TIED.scores[:, :10], TIED.scores[:, 10:]
WRONG_CHUNKS: dict[str, Any] = {
    "too few": [LEFT],
    "too many": [LEFT, RIGHT, RIGHT],
    "rows": [LEFT, RIGHT[1:]],
    "nan": [LEFT, RIGHT.masked_fill(torch.arange(30) == 2, torch.nan)],
    "types": [LEFT, RIGHT.double()],
    "none": [],
    "twice": [(0, LEFT), (9, TIED.scores[:, 9:])],
    "negative": [(-1, TIED.scores)],
    "a tensor": TIED.scores,
    "ids": [torch.zeros(30, 10, dtype=torch.int64), torch.zeros(30, 30, dtype=torch.int64)],
}


@pytest.mark.parametrize("wrong", WRONG_CHUNKS)
def test_wrong_chunks_are_refused(wrong: str) -> None:
    """The error names the chunk and what is needed."""
    with pytest.raises((TypeError, ValueError), match="rank_chunks: "):
        tailmetrics.rank_chunks(WRONG_CHUNKS[wrong], TIED.target, depth=DEPTH, num_labels=NUM_LABELS)


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


def test_lists_of_index_shards_are_the_list_of_the_whole() -> None:
    """As deep as the shortest list; MRR without a cut-off is refused unless nothing was cut."""
    scores, gains = TIED.scores.clamp(min=-9), TIED.target
    ends = ((0, 4), (4, 13), (13, 40))
    wanted = tailmetrics.rank(scores, gains, depth=3)
    parts = [scores[:, first:stop].sort(dim=1, descending=True, stable=True) for first, stop in ends]
    lists = [(part.values[:, :3], part.indices[:, :3]) for part in parts]
    ranking = Ranking.from_shards(
        lists, first_labels=[first for first, _ in ends], num_labels=NUM_LABELS, target_gains=gains
    )
    assert bits_of(ranking.ids) == bits_of(wanted.ids)
    assert not ranking.complete
    for metric in (RecallAtK(k=3), tailmetrics.NDCGAtK(k=2), tailmetrics.TieRateAtK(k=2)):
        assert bits_of(fed(metric.clone(), ranking).compute()) == bits_of(fed(metric, wanted).compute())
    for metric, words in ((RecallAtK(k=4), "RecallAtK: k=4 is deeper"), (MRR(), "k=None reads whole lists")):
        with pytest.raises(ValueError, match=words):
            fed(metric, ranking)
    whole = [(part.values, part.indices + first) for part, (first, _) in zip(parts, ends, strict=True)]
    everything = Ranking.from_shards(whole, num_labels=NUM_LABELS, target_gains=gains, complete=True)
    assert bits_of(fed(MRR(), everything).compute()) == bits_of(fed(MRR(), scores, gains).compute())


def test_what_ties_beyond_the_cut_of_a_shard_is_not_told() -> None:
    """Three labels of one shard have the same score, and two of them were sent: whether rank 2 ties, nobody knows."""
    cut = torch.tensor([[0.5, 0.5]]), torch.tensor([[0, 1]])
    other = torch.tensor([[0.2, 0.1]]), torch.tensor([[3, 4]])
    ranking = Ranking.from_shards([cut, other], num_labels=5, target_ids=torch.tensor([0]))
    assert ranking.tied_at(1).tolist() == [True]
    for k in (2, 3):
        with pytest.raises(ValueError, match=rf"k={k} asks for the place .* cut at 2; rank with depth={k + 1}"):
            ranking.tied_at(k)
    metric = tailmetrics.TieRateAtK(k=[1, 2])
    for refused in (metric, tailmetrics.TopKCollection([metric])):
        with pytest.raises(ValueError, match="k=2 asks for the place behind the top 2"):
            fed(refused, ranking)
    assert metric.update_count == 0
    whole = Ranking.from_shards([cut, other], num_labels=5, target_ids=torch.tensor([0]), complete=True)
    assert [whole.tied_at(k).tolist() for k in (1, 2, 3, 4, 5)] == [[True], [False], [False], [False], [False]]


@pytest.mark.parametrize(
    ("scores", "ids"), [([0.9, 0.1, 0.0], [0, -1, -1]), ([0.9, -torch.inf, -torch.inf], [0, 1, 2])]
)
def test_a_padded_list_of_a_shard_was_cut_at_its_padding(scores: list[float], ids: list[int]) -> None:
    """The first shard may hold labels behind its one: the merged list is one deep; rows masked out do not matter."""
    padded = torch.tensor([scores, [0.9, 0.5, 0.4]]), torch.tensor([ids, [0, 1, 2]])
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
        ([_pair(), _pair(3)], {}, "shard 1 has float32 \\[3, 3\\]"),
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
