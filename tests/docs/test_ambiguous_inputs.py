"""Inputs that can be read in two ways are refused, bring a warning, or are in the table
of docs/inputs.md.
"""

import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tailmetrics import (
    MRR,
    F1AtThreshold,
    PrecisionAtK,
    Ranking,
    RecallAtK,
    TopKCollection,
    rank,
)
from tailmetrics.functional import precision_at_k

PAGE = Path(__file__).parents[2] / "docs" / "inputs.md"
ROW = re.compile(r"^\| `(?P<input>[^`]+)`.* \| .* \| `(?P<instead>[^`]+)` \|$")

SCORES = torch.rand(5, 12, generator=torch.Generator().manual_seed(4)) * 0.98 + 0.01
CLASSES = torch.tensor([3, 0, 2, 1, 3])
EVERYTHING = SCORES.argsort(dim=1, descending=True)


def csr(matrix: Tensor) -> Tensor:
    """Return a matrix as CSR of floats."""
    return matrix.float().to_sparse_csr()


with warnings.catch_warnings():  # torch warns once in a process that CSR is new
    warnings.simplefilter("ignore")
    csr(SCORES)

NAMES: dict[str, Any] = {
    "torch": torch,
    "Ranking": Ranking,
    "csr": csr,
    "scores": SCORES,
    "relevant": (torch.arange(12) == CLASSES[:, None]) | (torch.arange(12) == 11),
    "classes": CLASSES,
    "padded": torch.tensor(
        [[3, 11, -1], [0, 11, -1], [2, 11, -1], [1, 11, -1], [3, 11, -1]]
    ),
    "blocks": torch.randn(2, 12, 12, generator=torch.Generator().manual_seed(5)),
    "tokens": EVERYTHING[:2],
    "sampled": torch.rand(30, 101, generator=torch.Generator().manual_seed(6)),
    "first": torch.zeros(30, dtype=torch.int64),
    "ids": EVERYTHING[:, :5],
    "everything": EVERYTHING,
    "ranks": EVERYTHING.argsort(dim=1),
    "zeros_behind": torch.nn.functional.pad(
        torch.tensor([[3, 11], [1, 0], [2, 10], [4, 0], [3, 5]]), (0, 10)
    ),
    "classes_of_tokens": EVERYTHING[:, :4],
    "guesses": EVERYTHING[:, :4].where(torch.arange(4) < 3, 30),
    "itself": SCORES[:, :5].clone().fill_diagonal_(2.0),
    "others": SCORES[:, :5].clone().fill_diagonal_(-torch.inf),
    "similar": (torch.arange(5) % 2 == torch.arange(5)[:, None] % 2)
    & ~torch.eye(5, dtype=torch.bool),
}

REFUSED = [
    (
        "scores > 0.5, relevant",
        "Decisions go to a metric with a threshold",
        "scores, relevant",
    ),
    (
        "(scores * 9).long(), relevant",
        "names the label .* twice .* pass scores as floats",
        "scores, relevant",
    ),
    (
        "ids + 1, relevant",
        "holds the id 12, .* ids that start at 1 need - 1",
        "ids, relevant",
    ),
    (
        "scores, classes.float()",
        "label ids are integers .* pass target.long",
        "scores, classes",
    ),
    (
        "scores, padded.float()",
        "pass one column per label, or label ids, which are integers",
        "scores, padded",
    ),
    (
        "scores[:, :3], padded",
        "a gain cannot be negative; label ids of this width go to",
        "Ranking.from_scores(scores, target_ids=padded)",
    ),
    (
        "ids, relevant.long()",
        "names the label 0 twice .* pass a multi-hot target as bool",
        "ids, relevant",
    ),
    (
        "scores, classes - 100",
        "leave them out with row_mask=target != -100",
        "scores, classes",
    ),
    (
        "scores, padded * 100",
        "if it pads rows of several labels, pass target.clamp\\(min=-1\\)",
        "scores, padded",
    ),
    (
        "relevant.float(), scores - 0.5",
        "look whether preds and target are swapped",
        "scores, relevant",
    ),
    ("relevant, scores", "a target comes second", "scores, relevant"),
    (
        "classes, scores",
        "a target, such as class indices, comes second",
        "scores, classes",
    ),
]
"""Inputs without a meaning in the form in which they are read: input, words of the
error, and what to pass instead.
"""


WARNED = [
    (
        "(scores > 0.5).float(), relevant",
        "preds, .* hold only 0 and 1",
        "scores, relevant",
    ),
    (
        "ranks.float(), relevant",
        "hold each number from 0 to 11 once in a row, as ranks do",
        "-ranks.float(), relevant",
    ),
    (
        "ranks, relevant",
        "hold each number from 0 to 11 once",
        "-ranks.float(), relevant",
    ),
    (
        "everything, relevant",
        "hold each number from 0 to 11 once",
        "Ranking.from_ids(everything, target_mask=relevant)",
    ),
    (
        "(scores * 100000).long(), ranks",
        "no row has an id in common",
        "scores, ranks.float()",
    ),
    (
        "(scores.sort().values, scores.argsort()), relevant",
        "rise from the first place of each row to the last",
        "(-scores.sort().values, scores.argsort()), relevant",
    ),
    (
        "guesses, classes_of_tokens",
        "as labels of tokens do",
        "guesses[..., None], classes_of_tokens",
    ),
    (
        "itself, similar",
        "the first label of each row is the row itself",
        "others, similar",
    ),
    (
        "scores, ranks",
        "may also be a list of label ids",
        "Ranking.from_scores(scores, target_gains=ranks)",
    ),
    (
        "scores, zeros_behind",
        "may also be a list of label ids, padded by 0",
        "Ranking.from_scores(scores, target_ids=zeros_behind.masked_fill(zeros_behind == 0, -1))",
    ),
    (
        "sampled, first",
        "as where it stands beside 100 sampled negatives",
        "scores, classes",
    ),
    ("relevant.float(), scores", "if preds and target are swapped", "scores, relevant"),
    ("relevant.float(), ids", "if preds and target are swapped", "ids, relevant"),
    (
        "ranks + 1, classes",
        "hold each number from 1 to 12 once",
        "-ranks.float(), classes",
    ),
]
"""Inputs that may mean something else: input, words of the warning, and what to pass
instead.
"""


def rows() -> Iterator[Any]:
    """Yield the inputs that are refused, those that bring a warning, and each row of
    the table of the page.
    """
    for kind, cases in (("error", REFUSED), ("warning", WARNED)):
        for code, words, instead in cases:
            yield pytest.param(code, kind, words, instead, id=code)
    for line in PAGE.read_text().partition("## How a file is read")[0].splitlines():
        if line.startswith("| `"):
            row = ROW.match(line)
            assert row, line
            yield pytest.param(
                row["input"], "nothing", None, row["instead"], id=row["input"]
            )


def arguments(code: str) -> tuple[Any, ...]:
    """Return the arguments of ``update``, in other memory each time."""
    value = eval(code, dict(NAMES))
    return value if isinstance(value, tuple) else (value,)


def update_in_silence(metric: PrecisionAtK, code: str) -> None:
    """Update a metric without warnings, which the other argument may bring."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        metric.update(*arguments(code))


@pytest.mark.parametrize(("code", "kind", "words", "instead"), list(rows()))
@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_ambiguous_inputs_are_refused_warned_of_or_documented(
    code: str, kind: str, words: str | None, instead: str
) -> None:
    """Each input brings the expected error or warning, or neither if docs/inputs.md
    lists it, and what is to be passed instead brings neither. A metric that has warned
    does not warn of the next batch.
    """
    metric = PrecisionAtK(k=1)
    if kind == "error":
        with pytest.raises((TypeError, ValueError), match=f"PrecisionAtK: .*{words}"):
            update_in_silence(metric, code)
        assert not any(state.any() for state in metric.metric_state.values())
    elif kind == "warning":
        with pytest.warns(UserWarning, match=f"PrecisionAtK: .*{words}") as caught:
            metric.update(*arguments(code))
        assert [Path(warning.filename) for warning in caught] == [Path(__file__)] * len(
            caught
        )
    else:
        assert kind == "nothing"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if kind != "error":
            metric = metric if kind == "warning" else PrecisionAtK(k=1)
            # a metric that has warned does not warn again
            metric.update(*arguments(code))
        PrecisionAtK(k=1).update(*arguments(instead))


def test_the_tables_of_inputs_are_complete() -> None:
    """The tables hold inputs of every kind, so that a table that is not parsed does not
    pass.
    """
    kinds = [row.values[1] for row in rows()]
    for kind in ("error", "warning", "nothing"):
        assert kinds.count(kind) > 3
    assert len(kinds) >= 25


def test_sampled_negatives_reverse_the_order_of_two_models() -> None:
    """The numbers of docs/inputs.md hold to sampling error: recall at 10 of two models
    is .20 and .10 among 10,000 labels, and .28 and 1.00 beside 100 sampled negatives,
    which brings a warning.
    """
    generator, rows, labels = torch.Generator().manual_seed(7), 1000, 10_000
    a = torch.randint(1, labels + 1, (rows,), generator=generator)
    ranks = (
        a.where(torch.arange(rows) % 5 > 0, 1),
        torch.randint(1, 101, (rows,), generator=generator),
    )
    for rank_of, among_all, sampled in zip(ranks, (0.2, 0.1), (0.28, 1.0), strict=True):
        assert float((rank_of <= 10).double().mean()) == pytest.approx(
            among_all, abs=0.03
        )
        # the share of labels with lower scores
        scores_of_relevant = 1 - (rank_of[:, None] - 0.5) / labels
        scores = torch.cat(
            [scores_of_relevant, torch.rand(rows, 100, generator=generator)], dim=1
        )
        metric = RecallAtK(k=10)
        with pytest.warns(
            UserWarning,
            match="label of each row is 0, as where it stands beside 100 sampled negatives",
        ):
            metric.update(scores, torch.zeros(rows, dtype=torch.int64))
        assert float(metric.compute()) == pytest.approx(sampled, abs=0.03)


@pytest.mark.parametrize("label", [0, 100])
@pytest.mark.parametrize("form", ["ids", "one column", "mask", "gains"])
def test_targets_beside_sampled_negatives_bring_a_warning(
    label: int, form: str
) -> None:
    """A target whose relevant label is the first or the last of 101 in each of 30 rows
    brings a warning in every form.

    19 rows, and rows of which one has another label, bring none.
    """

    def target(labels: Tensor) -> Tensor:
        mask = torch.nn.functional.one_hot(labels, 101)
        return {
            "ids": labels,
            "one column": labels[:, None],
            "mask": mask.bool(),
            "gains": mask * 2.5,
        }[form]

    scores, labels = NAMES["sampled"], torch.full((30,), label)
    with pytest.warns(
        UserWarning,
        match=f"PrecisionAtK: the relevant label of each row is .*{label}, as where",
    ):
        PrecisionAtK(k=1).update(scores, target(labels))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PrecisionAtK(k=1).update(scores[:19], target(labels[:19]))
        PrecisionAtK(k=1).update(scores, target(labels.where(torch.arange(30) > 0, 50)))


def swapped() -> tuple[Tensor, Tensor]:
    """Return target and scores in the wrong order."""
    return NAMES["relevant"].float(), SCORES


def test_a_collection_warns_once_for_all_members() -> None:
    """A collection warns once, in its own name, for all members and batches; a clone
    that has read no batch warns again.
    """
    collection = TopKCollection([PrecisionAtK(k=1), RecallAtK(k=2)])
    clone = collection.clone()
    with pytest.warns(UserWarning, match="TopKCollection: preds, float32") as caught:
        collection.update(*swapped())
    assert len(caught) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        collection.update(*swapped())
    with pytest.warns(UserWarning, match="TopKCollection: preds, float32"):
        clone.update(*swapped())


@pytest.mark.parametrize(
    ("caller", "call"),
    [
        ("rank", lambda: rank(*swapped())),
        ("precision_at_k", lambda: precision_at_k(*swapped(), k=2)),
        (
            "MRR",
            lambda: MRR(k=2).update(
                *(tensor.reshape(1, 5, 12) for tensor in swapped())
            ),
        ),
        (
            "PrecisionAtK",
            lambda: PrecisionAtK(k=1).update(
                *map(torch.flatten, swapped()), indexes=torch.arange(60) // 12
            ),
        ),
        (
            "PrecisionAtK",
            lambda: PrecisionAtK(k=1).update(*(tensor.numpy() for tensor in swapped())),
        ),
    ],
    ids=["rank", "functional", "sequences", "flat", "numpy"],
)
def test_every_function_that_reads_a_batch_warns(caller: str, call: Any) -> None:
    """Every function and method that reads a batch in a guessed form warns of it, for
    sequences, flat rows and NumPy as well.
    """
    with pytest.warns(
        UserWarning, match=f"{caller}: preds, float32 .* hold only 0 and 1"
    ):
        call()


def test_unambiguous_inputs_bring_no_warning() -> None:
    """Inputs in a named form, metrics with validate_args=False, decisions for a
    threshold, and scores that are 0 and 1 among others bring no warning.
    """
    relevant = NAMES["relevant"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Ranking.from_scores(relevant.float(), target_gains=SCORES)
        Ranking.from_ids(EVERYTHING, target_mask=relevant)
        PrecisionAtK(k=2, validate_args=False).update(*swapped())
        F1AtThreshold(0.5).update((SCORES > 0.5).float(), relevant)
        PrecisionAtK(k=1).update(
            SCORES.where(SCORES > 0.1, 0.0).where(SCORES < 0.9, 1.0), relevant
        )
        PrecisionAtK(k=1).update(torch.zeros(5, 12), relevant)
        PrecisionAtK(k=1).update(SCORES, relevant * 0.5)


def test_the_check_of_inputs_reads_a_part_of_a_batch() -> None:
    """Of 3,000 rows of 100 scores the check reads the first 655: if these hold only 0
    and 1 it warns, whatever the other rows hold.
    """
    scores = (
        torch.rand(3000, 100, generator=torch.Generator().manual_seed(1)) < 0.5
    ).float()
    scores[655:] += 0.25
    with pytest.warns(UserWarning, match="hold only 0 and 1"):
        PrecisionAtK(k=1).update(scores, torch.arange(3000) % 100)
    scores[654, 99] = 0.25
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        PrecisionAtK(k=1).update(scores, torch.arange(3000) % 100)
