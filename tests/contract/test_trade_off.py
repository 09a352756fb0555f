"""``HeadTailTradeOff``: the values of a collection on adjusted scores, used as a collection is, refused where it cannot be."""

import math
import pickle
import warnings

import pytest
import torch
from torch.nn.functional import logsigmoid

import tailmetrics as tm
from exactness import bits as exact
from tailmetrics.ranking._device import force_plain

N, L, TAUS = 240, 300, (0.0, 0.25, 1.0)
COUNTS = (900 / (torch.arange(L) + 1.0)).long()
FREQUENCY = tm.LabelFrequency.from_counts(COUNTS, 900)
LOGARITHMS = {
    "softmax": lambda scores: scores,
    "sigmoid": logsigmoid,
    "probabilities": torch.log,
}


def bits_of(values: dict[str, torch.Tensor]) -> dict[str, object]:
    return {key: exact.bits_of(one) for key, one in values.items()}


def metrics() -> list[tm.TopKMetric]:
    """Return metrics of each way to read a ranking."""
    buckets = FREQUENCY.deciles()
    return [
        tm.PrecisionAtK(k=[1, 5]),
        tm.RecallAtK(k=10, buckets=buckets, scope="global"),
        tm.NDCGAtK(k=10, buckets=buckets),
        tm.MRR(),
        tm.MAP(k=5, ties="expected"),
        tm.RecallAtK(k=10, average="macro", num_labels=L),
        tm.PredictionProportionAtK(k=10, buckets=buckets),
    ]


def data(kind: str, dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    scores = 3 * torch.randn(N, L, generator=generator)
    target = torch.stack([torch.randperm(L, generator=generator)[:4] for _ in range(N)])
    return (scores.sigmoid() if kind == "probabilities" else scores).to(dtype), target


def made(kind: str = "softmax", taus: tuple[float, ...] = TAUS) -> tm.HeadTailTradeOff:
    found = tm.HeadTailTradeOff(metrics(), taus=taus, scores=kind)
    assert found.bind(FREQUENCY) is found
    return found


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("kind", LOGARITHMS)
@pytest.mark.parametrize("plain", [False, True])
def test_values_are_those_of_a_collection_on_adjusted_scores(kind: str, dtype: torch.dtype, plain: bool) -> None:
    """Bit for bit, in any batches, with the kernels of the CPU and with the plain ones; at τ = 0 on the scores themselves."""
    scores, target = data(kind, dtype)
    found = made(kind)
    for rows in torch.arange(N).split(97):
        if plain:
            with force_plain():
                found.update(scores[rows], target[rows])
        else:
            found.update(scores[rows], target[rows])
    values = found.compute()
    for tau in TAUS:
        alone, adjusted = tm.TopKCollection(metrics()), scores
        if tau:
            adjusted = LOGARITHMS[kind](scores.double()) - tau * (COUNTS.double() + 1).log()
        alone.update(adjusted, target)
        expected = alone.compute()
        assert bits_of({key: values[f"tau={tau:g}/{key}"] for key in expected}) == bits_of(expected)
    assert len(values) == len(TAUS) * len(expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
@pytest.mark.parametrize("kind", LOGARITHMS)
def test_lists_of_wide_rows_lack_no_label(kind: str, dtype: torch.dtype) -> None:
    """Labels are left out by bounds of their logarithms: the lists are those of a sort of all of them."""
    generator, wide = torch.Generator().manual_seed(1), 6000
    spread = torch.tensor([0.3, 1.0, 4.0, 12.0]).repeat(10)[:, None]  # the last ones saturate a sigmoid
    scores = torch.randn(40, wide, generator=generator) * spread
    scores = (scores.sigmoid() if kind == "probabilities" else scores).to(dtype)
    counts = (9000 / (torch.randperm(wide, generator=generator) + 1.0)).long()
    found = tm.HeadTailTradeOff([tm.RecallAtK(5)], TAUS, kind).bind(tm.LabelFrequency.from_counts(counts, 9000))
    rankings = found.by_tau(found.rank(scores, torch.zeros(40, dtype=torch.int64)))
    for tau in TAUS[1:]:
        adjusted = LOGARITHMS[kind](scores.double()) - tau * (counts.double() + 1).log()
        expected = adjusted.sort(dim=1, descending=True, stable=True).indices[:, :5]
        assert torch.equal(rankings[tau].ids, expected)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32, torch.float64])
@pytest.mark.parametrize("k", [5, 60, 400])
def test_a_probability_of_zero_stays_in_the_list(k: int, dtype: torch.dtype) -> None:
    """0 / π^τ is 0 at every τ: such labels come last, by their ids, dense, as candidates and with the plain kernels."""
    generator, wide = torch.Generator().manual_seed(2), 500
    scores = (6 * torch.randn(30, wide, generator=generator)).softmax(dim=1).to(torch.float16).to(dtype)
    assert 0.3 < float((scores == 0).double().mean()) < 0.95
    counts = (9000 / (torch.randperm(wide, generator=generator) + 1.0)).long()
    found = tm.HeadTailTradeOff([tm.RecallAtK(k)], TAUS, "probabilities")
    found.bind(tm.LabelFrequency.from_counts(counts, 9000))
    logs = (counts.double() + 1).log()
    everything = scores.sort(dim=1, descending=True, stable=True)
    target = torch.zeros(30, dtype=torch.int64)
    with force_plain():
        plain = found.by_tau(found.rank(scores, target))
    dense = found.by_tau(found.rank(scores, target))
    listed = found.by_tau(found.rank((everything.values, everything.indices), target))
    for tau in TAUS[1:]:
        for row in range(30):
            values = scores[row].tolist()
            order = sorted(
                range(wide),
                key=lambda i, values=values, tau=tau: (
                    -(math.log(values[i]) - tau * float(logs[i])) if values[i] else math.inf, i
                )
            )  # fmt: skip
            for one in (dense, plain, listed):
                assert one[tau].ids[row, :k].tolist() == order[:k]


def test_candidates_and_csr_are_ranked_anew_within_what_is_listed() -> None:
    """Each list by its adjusted scores, in Python; what is not listed stays out."""
    scores, target = data("softmax")
    values, ids = scores.topk(20)
    expected = {}
    for tau in TAUS:
        hits = 0
        for row in range(N):
            order = sorted(
                range(20), key=lambda i, row=row, tau=tau: (
                    -(float(values[row, i]) - tau * float((COUNTS[ids[row, i]].double() + 1).log())), int(ids[row, i])
                )
            )  # fmt: skip
            hits += len({int(ids[row, i]) for i in order[:3]} & set(target[row].tolist()))
        expected[f"tau={tau:g}/recall@3"] = pytest.approx(hits / 4 / N, abs=1e-12)
    csr = torch.full_like(scores, 0).scatter(1, ids, values).to_sparse_csr()
    for preds in ((values, ids), csr):
        found = tm.HeadTailTradeOff([tm.RecallAtK(3)], taus=TAUS).bind(FREQUENCY)
        found.update(preds, target)
        assert {key: float(value) for key, value in found.compute().items()} == expected


def test_it_is_merged_copied_sent_and_reset_as_a_collection_is() -> None:
    """Parts added up, a copy, a pickle and bytes have the bits of the whole; after a reset nothing is left."""
    scores, target = data("softmax")
    whole, first, second = made(), made(), made()
    whole.update(scores, target)
    first.update(scores[:50], target[:50])
    second.update(scores[50:], target[50:])
    first.merge_state(second)
    sent = made()
    sent.load_state_bytes(whole.state_bytes())
    expected = bits_of(whole.compute())
    for one in (first, sent, whole.clone(), pickle.loads(pickle.dumps(whole))):
        assert bits_of(one.compute()) == expected
    whole.persistent(True)
    loaded = made()
    loaded.persistent(True)
    loaded.load_state_dict(whole.state_dict())
    assert bits_of(loaded.compute()) == expected
    whole.reset()
    whole.update(scores[:50], target[:50])
    batch = made()(scores[:50], target[:50])
    assert bits_of(whole.compute()) == bits_of(batch)


def test_states_of_other_counts_or_scores_are_not_put_together() -> None:
    """Counts and the kind of scores change every value: merging is refused, and nothing is changed."""
    others = [
        tm.HeadTailTradeOff(metrics(), taus=TAUS).bind(tm.LabelFrequency.from_counts(COUNTS + 1, 900)),
        made("sigmoid"),
        made(taus=(0.0, 0.5, 1.0)),
    ]
    for other in others:
        with pytest.raises(ValueError, match="other states"):
            made().merge_state(other)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: tm.HeadTailTradeOff([tm.CrossEntropy()]), "reads the scores themselves"),
        (lambda: tm.HeadTailTradeOff([tm.LabelAUC(num_labels=L)]), "reads the scores themselves"),
        (lambda: tm.HeadTailTradeOff([tm.RecallAtK(1)], taus=[]), "no distinct numbers"),
        (lambda: tm.HeadTailTradeOff([tm.RecallAtK(1)], taus=[0.5, 0.5]), "no distinct numbers"),
        (lambda: tm.HeadTailTradeOff([tm.RecallAtK(1)], taus=[-1]), "between 0.0 and 10.0"),
        (lambda: tm.HeadTailTradeOff([tm.RecallAtK(1)], scores="logits"), "choose one of 'softmax'"),
        (lambda: tm.HeadTailTradeOff([tm.RecallAtK(1)]).update(*data("softmax")), r"bind\(frequency\)"),
        (lambda: made("probabilities").update(*data("softmax")), "probabilities lie between 0 and 1"),
        (lambda: made("probabilities").update(data("probabilities")[0] - 0.9, data("softmax")[1]), "a number below 0"),
        (lambda: made().update(data("softmax")[1], data("softmax")[1]), "ranked ids, which have no scores"),
        (
            lambda: tm.evaluate(*data("softmax"), metrics=tm.HeadTailTradeOff([tm.RecallAtK(1)])),
            "pass a TopKCollection",
        ),
    ],
)
def test_what_has_no_meaning_is_refused(make: object, message: str) -> None:
    """One error that says what to do."""
    with pytest.raises((ValueError, TypeError), match=message):
        make()


def test_probabilities_read_as_logits_are_warned_of_once() -> None:
    """A score in [0, 1] is outweighed by ln(n + 1)."""
    found = made()
    with pytest.warns(UserWarning, match="Pass scores='probabilities'"):
        found.update(*data("probabilities"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found.update(*data("probabilities"))


def test_after_an_error_all_taus_are_as_before() -> None:
    """A batch that is refused at one τ changes none."""
    scores, target = data("probabilities")
    found = made("probabilities")
    found.update(scores, target)
    before = bits_of(found.compute())
    with pytest.raises(ValueError, match="a number below 0"):
        found.update(scores - 0.9, target)
    assert bits_of(found.compute()) == before
