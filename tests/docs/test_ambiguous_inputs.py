"""Inputs that can be read in two ways are refused, bring a warning, or stand in the table of docs/inputs.md."""

import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tailmetrics import MRR, F1AtThreshold, PrecisionAtK, Ranking, RecallAtK, TopKCollection, rank
from tailmetrics.functional import precision_at_k

PAGE = Path(__file__).parents[2] / "docs" / "inputs.md"
ROW = re.compile(r"^\| `(?P<given>[^`]+)`.* \| .* \| `(?P<instead>[^`]+)` \|$")

SCORES = torch.rand(5, 12, generator=torch.Generator().manual_seed(4)) * 0.98 + 0.01
CLASSES = torch.tensor([3, 0, 2, 1, 3])
EVERYTHING = SCORES.argsort(dim=1, descending=True)


def csr(matrix: Tensor) -> Tensor:
    """A matrix as CSR of floats."""
    return matrix.float().to_sparse_csr()


with warnings.catch_warnings():  # torch says once in a process that CSR is new
    warnings.simplefilter("ignore")
    csr(SCORES)

NAMES: dict[str, Any] = {
    "torch": torch,
    "Ranking": Ranking,
    "csr": csr,
    "scores": SCORES,
    "relevant": (torch.arange(12) == CLASSES[:, None]) | (torch.arange(12) == 11),
    "classes": CLASSES,
    "padded": torch.tensor([[3, 11, -1], [0, 11, -1], [2, 11, -1], [1, 11, -1], [3, 11, -1]]),
    "blocks": torch.randn(2, 12, 12, generator=torch.Generator().manual_seed(5)),
    "tokens": EVERYTHING[:2],
    "sampled": torch.rand(30, 101, generator=torch.Generator().manual_seed(6)),
    "first": torch.zeros(30, dtype=torch.int64),
    "ids": EVERYTHING[:, :5],
    "everything": EVERYTHING,
    "ranks": EVERYTHING.argsort(dim=1),
    "zeros_behind": torch.nn.functional.pad(torch.tensor([[3, 11], [1, 0], [2, 10], [4, 0], [3, 5]]), (0, 10)),
    "classes_of_tokens": EVERYTHING[:, :4],
    "guesses": EVERYTHING[:, :4].where(torch.arange(4) < 3, 30),
    "itself": SCORES[:, :5].clone().fill_diagonal_(2.0),
    "others": SCORES[:, :5].clone().fill_diagonal_(-torch.inf),
    "similar": (torch.arange(5) % 2 == torch.arange(5)[:, None] % 2) & ~torch.eye(5, dtype=torch.bool),
}

REFUSED = [
    ("scores > 0.5, relevant", "Decisions go to a metric with a threshold", "scores, relevant"),
    ("(scores * 9).long(), relevant", "names the label .* twice .* pass scores as floats", "scores, relevant"),
    ("ids + 1, relevant", "holds the id 12, .* ids that start at 1 need - 1", "ids, relevant"),
    ("scores, classes.float()", "label ids are integers .* pass target.long", "scores, classes"),
    ("scores, padded.float()", "pass one column per label, or label ids, which are integers", "scores, padded"),
    (
        "scores[:, :3], padded",
        "a gain cannot be negative; label ids of this width go to",
        "Ranking.from_scores(scores, target_ids=padded)",
    ),
    ("ids, relevant.long()", "names the label 0 twice .* pass a multi-hot target as bool", "ids, relevant"),
    ("scores, classes - 100", "leave them out with row_mask=target != -100", "scores, classes"),
    ("scores, padded * 100", "if it pads rows of several labels, pass target.clamp\\(min=-1\\)", "scores, padded"),
    ("relevant.float(), scores - 0.5", "look whether preds and target are swapped", "scores, relevant"),
    ("relevant, scores", "a target comes second", "scores, relevant"),
    ("classes, scores", "a target, such as class indices, comes second", "scores, classes"),
]
"""What has no meaning in the form that it is read in: what is passed, words of the error, what to pass instead."""


WARNED = [
    ("(scores > 0.5).float(), relevant", "preds, .* hold only 0 and 1", "scores, relevant"),
    ("ranks.float(), relevant", "hold each number from 0 to 11 once in a row, as ranks do", "-ranks.float(), relevant"),
    ("ranks, relevant", "hold each number from 0 to 11 once", "-ranks.float(), relevant"),
    (
        "everything, relevant",
        "hold each number from 0 to 11 once",
        "Ranking.from_ids(everything, target_mask=relevant)",
    ),
    ("(scores * 100000).long(), ranks", "no row has an id in common", "scores, ranks.float()"),
    (
        "(scores.sort().values, scores.argsort()), relevant",
        "rise from the first place of each row to the last",
        "(-scores.sort().values, scores.argsort()), relevant",
    ),
    ("guesses, classes_of_tokens", "as labels of tokens do", "guesses[..., None], classes_of_tokens"),
    ("itself, similar", "the first label of each row is the row itself", "others, similar"),
    ("scores, ranks", "may also be a list of label ids", "Ranking.from_scores(scores, target_gains=ranks)"),
    (
        "scores, zeros_behind",
        "may also be a list of label ids, padded by 0",
        "Ranking.from_scores(scores, target_ids=zeros_behind.masked_fill(zeros_behind == 0, -1))",
    ),
    ("sampled, first", "as where it stands beside 100 sampled negatives", "scores, classes"),
    ("relevant.float(), scores", "if preds and target are swapped", "scores, relevant"),
    ("relevant.float(), ids", "if preds and target are swapped", "ids, relevant"),
    ("ranks + 1, classes", "hold each number from 1 to 12 once", "-ranks.float(), classes"),
]
"""What may mean something else: what is passed, words of the warning, what to pass instead."""


def rows() -> Iterator[Any]:
    """What is refused, what brings a warning, and each row of the table of the page, by what is passed."""
    for kind, cases in (("error", REFUSED), ("warning", WARNED)):
        for code, words, instead in cases:
            yield pytest.param(code, kind, words, instead, id=code)
    for line in PAGE.read_text().partition("## How a file is read")[0].splitlines():
        if line.startswith("| `"):
            row = ROW.match(line)
            assert row, line
            yield pytest.param(row["given"], "nothing", None, row["instead"], id=row["given"])


def arguments(code: str) -> tuple[Any, ...]:
    """What is passed to ``update``, of other memory each time."""
    value = eval(code, dict(NAMES))
    return value if isinstance(value, tuple) else (value,)


def update_in_silence(metric: PrecisionAtK, code: str) -> None:
    """The other argument of what is refused may be doubted."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        metric.update(*arguments(code))


@pytest.mark.parametrize(("code", "kind", "words", "instead"), list(rows()))
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_every_row_of_the_table_is_true(code: str, kind: str, words: str | None, instead: str) -> None:
    """The input gives the warning or error, or neither if it stands in the table; what is to be passed instead gives neither."""
    metric = PrecisionAtK(k=1)
    if kind == "error":
        with pytest.raises((TypeError, ValueError), match=f"PrecisionAtK: .*{words}"):
            update_in_silence(metric, code)
        assert not any(state.any() for state in metric.metric_state.values())
    elif kind == "warning":
        with pytest.warns(UserWarning, match=f"PrecisionAtK: .*{words}") as caught:
            metric.update(*arguments(code))
        assert [Path(warning.filename) for warning in caught] == [Path(__file__)] * len(caught)
    else:
        assert kind == "nothing"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if kind != "error":
            metric = metric if kind == "warning" else PrecisionAtK(k=1)
            metric.update(*arguments(code))  # the second batch of a metric that has warned says nothing
        PrecisionAtK(k=1).update(*arguments(instead))


def test_the_tables_hold_every_kind() -> None:
    """So that a table that is not found does not pass for one that is true."""
    kinds = [row.values[1] for row in rows()]
    assert {kind: kinds.count(kind) > 3 for kind in ("error", "warning", "nothing")} == dict.fromkeys(
        ("error", "warning", "nothing"), True
    )
    assert len(kinds) >= 25


def test_sampled_negatives_turn_two_models_around() -> None:
    """The numbers of the page: .20 and .10 among 10,000 labels, .28 and 1.00 beside 100 negatives, to sampling error."""
    generator, rows, labels = torch.Generator().manual_seed(7), 1000, 10_000
    a = torch.randint(1, labels + 1, (rows,), generator=generator)
    ranks = a.where(torch.arange(rows) % 5 > 0, 1), torch.randint(1, 101, (rows,), generator=generator)
    for rank_of, among_all, sampled in zip(ranks, (0.2, 0.1), (0.28, 1.0), strict=True):
        assert float((rank_of <= 10).double().mean()) == pytest.approx(among_all, abs=0.03)
        own = 1 - (rank_of[:, None] - 0.5) / labels  # the share of all labels below it
        scores = torch.cat([own, torch.rand(rows, 100, generator=generator)], dim=1)
        metric = RecallAtK(k=10)
        with pytest.warns(UserWarning, match="label of each row is 0, as where it stands beside 100 sampled negatives"):
            metric.update(scores, torch.zeros(rows, dtype=torch.int64))
        assert float(metric.compute()) == pytest.approx(sampled, abs=0.03)


@pytest.mark.parametrize("place", [0, 100])
@pytest.mark.parametrize("form", ["ids", "one column", "mask", "gains"])
def test_a_target_beside_sampled_negatives(place: int, form: str) -> None:
    """First or last of 101, in every form of target; 19 rows, or one row with another label, are not doubted."""

    def target(labels: Tensor) -> Tensor:
        mask = torch.nn.functional.one_hot(labels, 101)
        return {"ids": labels, "one column": labels[:, None], "mask": mask.bool(), "gains": mask * 2.5}[form]

    scores, labels = NAMES["sampled"], torch.full((30,), place)
    with pytest.warns(UserWarning, match=f"PrecisionAtK: the relevant label of each row is .*{place}, as where"):
        PrecisionAtK(k=1).update(scores, target(labels))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PrecisionAtK(k=1).update(scores[:19], target(labels[:19]))
        PrecisionAtK(k=1).update(scores, target(labels.where(torch.arange(30) > 0, 50)))


def swapped() -> tuple[Tensor, Tensor]:
    """Target and scores in the wrong order."""
    return NAMES["relevant"].float(), SCORES


def test_a_collection_asks_once_for_all_members() -> None:
    """Two members, two batches: one warning, in the name of the collection; a clone that has not seen a batch asks again."""
    collection = TopKCollection([PrecisionAtK(k=1), RecallAtK(k=2)])
    fresh = collection.clone()
    with pytest.warns(UserWarning, match="TopKCollection: preds, float32") as caught:
        collection.update(*swapped())
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        collection.update(*swapped())
    with pytest.warns(UserWarning, match="TopKCollection: preds, float32"):
        fresh.update(*swapped())


@pytest.mark.parametrize(
    ("caller", "call"),
    [
        ("rank", lambda: rank(*swapped())),
        ("precision_at_k", lambda: precision_at_k(*swapped(), k=2)),
        ("MRR", lambda: MRR(k=2).update(*(tensor.reshape(1, 5, 12) for tensor in swapped()))),
        (
            "PrecisionAtK",
            lambda: PrecisionAtK(k=1).update(*map(torch.flatten, swapped()), indexes=torch.arange(60) // 12),
        ),
        ("PrecisionAtK", lambda: PrecisionAtK(k=1).update(*(tensor.numpy() for tensor in swapped()))),
    ],
    ids=["rank", "functional", "sequences", "flat", "numpy"],
)
def test_every_entry_asks(caller: str, call: Any) -> None:
    """Whoever reads a batch in a form that is guessed."""
    with pytest.warns(UserWarning, match=f"{caller}: preds, float32 .* hold only 0 and 1"):
        call()


def test_what_leaves_nothing_to_guess_is_not_doubted() -> None:
    """Named forms, metrics that do not check, decisions for a threshold, and 0 and 1 among other scores."""
    relevant = NAMES["relevant"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Ranking.from_scores(relevant.float(), target_gains=SCORES)
        Ranking.from_ids(EVERYTHING, target_mask=relevant)
        PrecisionAtK(k=2, validate_args=False).update(*swapped())
        F1AtThreshold(0.5).update((SCORES > 0.5).float(), relevant)
        PrecisionAtK(k=1).update(SCORES.where(SCORES > 0.1, 0.0).where(SCORES < 0.9, 1.0), relevant)
        PrecisionAtK(k=1).update(torch.zeros(5, 12), relevant)
        PrecisionAtK(k=1).update(SCORES, relevant * 0.5)


def test_no_batch_is_read_whole() -> None:
    """Of 3,000 rows of 100 scores, all 0 or 1 but in the last rows, the first 655 are read: they hold 0 and 1 alone."""
    scores = (torch.rand(3000, 100, generator=torch.Generator().manual_seed(1)) < 0.5).float()
    scores[655:] += 0.25
    with pytest.warns(UserWarning, match="hold only 0 and 1"):
        PrecisionAtK(k=1).update(scores, torch.arange(3000) % 100)
    scores[654, 99] = 0.25
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PrecisionAtK(k=1).update(scores, torch.arange(3000) % 100)
