"""Buckets of labels by frequency."""

import copy
import pickle
import re

import numpy as np
import pytest
import torch
from hypothesis import given, settings, strategies as st

from oracle import deciles
from tailmetrics import (
    LabelBuckets,
    LabelFrequency,
    NoveltyAtK,
    PrecisionAtK,
    Ranking,
    rank,
)
from tailmetrics.buckets import buckets_of_kind

counts_of_labels = st.lists(
    st.integers(0, 30) | st.integers(0, 5000) | st.integers(2**53, 2**55), max_size=80
)
"""Counts of labels, with masses that float sums would round."""


@given(counts_of_labels)
@settings(max_examples=300, deadline=None)
def test_deciles_follow_the_rule_label_by_label(counts: list[int]) -> None:
    """Deciles equal a walk over the labels one by one, in which a bucket closes once
    its mass m has m·b >= R.
    """
    buckets = LabelBuckets.deciles(torch.tensor(counts, dtype=torch.int64))
    assert buckets.assignment.tolist() == deciles(counts)


@given(counts_of_labels, st.integers(1, 12))
@settings(max_examples=200, deadline=None)
def test_no_bucket_is_empty_while_labels_last(counts: list[int], n: int) -> None:
    """Seen labels fill the first buckets without an empty one between, also if one
    label exceeds its share; unseen labels are in the last bucket, and nowhere else.
    """
    buckets = LabelBuckets.quantiles(torch.tensor(counts, dtype=torch.int64), n)
    num_seen = sum(count > 0 for count in counts)
    num_filled = len(
        {
            bucket
            for bucket, count in zip(buckets.assignment.tolist(), counts, strict=True)
            if count
        }
    )
    assert num_filled <= min(n, num_seen)
    assert (buckets.assignment == n).tolist() == [count == 0 for count in counts]
    if num_seen:
        assert set(buckets.assignment[torch.tensor(counts) > 0].tolist()) == set(
            range(num_filled)
        )


def test_equal_counts_can_stay_together() -> None:
    """ties="together" keeps labels of equal counts in one bucket.

    Counts 4, 2, 2, 2, 2 in two buckets are split after 4 + 2 of 12, and together the
    boundary moves behind the 2s.
    """
    counts = torch.tensor([4, 2, 2, 2, 2])
    assert LabelBuckets.quantiles(counts, 2).assignment.tolist() == [0, 0, 1, 1, 1]
    assert LabelBuckets.quantiles(counts, 2, ties="together").assignment.tolist() == [
        0,
        0,
        0,
        0,
        0,
    ]


def test_by_labels_every_seen_label_weighs_one() -> None:
    """With by="labels" every seen label weighs one: six seen labels are in three
    buckets of two, by falling count.
    """
    buckets = LabelBuckets.quantiles(
        torch.tensor([1, 100, 7, 7, 3, 0, 50]), 3, by="labels"
    )
    assert buckets.assignment.tolist() == [2, 0, 1, 1, 2, 3, 0]
    assert buckets.names == ("quantile_3", "quantile_2", "quantile_1", "unseen")


@pytest.mark.parametrize("by", ["mass", "labels"])
def test_only_deciles_are_called_deciles(by):
    """Ten quantiles are called quantiles: a decile holds a tenth of the occurrences."""
    counts = [9, 5, 1, 0]
    ten_quantiles = LabelBuckets.quantiles(counts, 10, by=by)
    assert ten_quantiles.names == (
        *[f"quantile_{n}" for n in range(10, 0, -1)],
        "unseen",
    )
    assert buckets_of_kind(f"quantiles:10:{by}", counts) == ten_quantiles
    assert LabelBuckets.deciles(counts).names[0] == "decile_10"


def test_buckets_text_equals_the_call() -> None:
    """A text such as "quantiles:3:labels" makes the buckets of the call, with names
    head first, one for each bucket.

    Other texts are refused.
    """
    counts = [150, 100, 101, 20, 3, 3, 0]
    for text, buckets in {
        "deciles": LabelBuckets.deciles(counts),
        "quantiles:3:labels": LabelBuckets.quantiles(counts, 3, by="labels"),
        "quantiles:2:mass:together": LabelBuckets.quantiles(counts, 2, ties="together"),
        "quantiles:2:popular,rare": LabelBuckets.quantiles(
            counts, 2, names=["popular", "rare"]
        ),
        "quantiles:3:labels:together:a,b,c": LabelBuckets.quantiles(
            counts, 3, by="labels", ties="together", names=["a", "b", "c"]
        ),
        "quantiles:1:seen": LabelBuckets.from_assignment(
            [0] * 6 + [1], ["seen", "unseen"]
        ),
        "deciles:" + ",".join("abcdefghij"): LabelBuckets.deciles(
            counts, list("abcdefghij")
        ),
        "thresholds:1,20,101:many,medium,few": LabelBuckets.from_assignment(
            [0, 1, 0, 1, 2, 2, 3], ["many", "medium", "few", "unseen"]
        ),
    }.items():
        assert buckets_of_kind(text, counts) == buckets
    for text in (
        "fifths",
        "deciles:5",
        "quantiles",
        "quantiles:x",
        "quantiles:2:rows",
        "thresholds:1,x",
    ):
        with pytest.raises(ValueError, match="cannot be read; pass 'deciles'"):
            buckets_of_kind(text, counts)
    with pytest.raises(
        ValueError,
        match=r"names=\['many', 'few'\] are 2 for the buckets 101\+, 20-100, 1-19",
    ):
        buckets_of_kind("thresholds:20,101:many,few", counts)


@pytest.mark.parametrize(
    "names", ["tail,torso,head", "few-shot,medium-shot,many-shot", "mid,rare,Frequent"]
)
def test_names_of_thresholds_that_start_at_the_rare_end_are_refused(names: str) -> None:
    """Names of thresholds that start at the rare end are refused with the reversed
    names: edges ascend and names descend, so that ``tail`` would be the labels from 51.
    """
    reversed_names = ",".join(reversed(names.split(",")))
    with pytest.raises(
        ValueError,
        match=rf"to the bucket 51\+; names begin with .*: pass {reversed_names}\.$",
    ):
        buckets_of_kind(f"thresholds:1,6,51:{names}", [60, 7, 1])
    assert buckets_of_kind(
        f"thresholds:1,6,51:{reversed_names}", [60, 7, 1]
    ).assignment.tolist() == [0, 1, 2]
    assert buckets_of_kind("thresholds:1,6,51:a,b,tail", [60]).names == (
        "a",
        "b",
        "tail",
        "unseen",
    )


@pytest.mark.parametrize(
    ("names", "problem", "corrected_names"),
    [
        ("1-19,20-100,101+", "'1-19' to the bucket 101+", "101+,20-100,1-19"),
        ("<20,20-100,>100", "'<20' to the bucket 101+", ">100,20-100,<20"),
        (
            "low (1-19),20 to 100,≥101",
            "'low (1-19)' to the bucket 101+",
            "≥101,20 to 100,low (1-19)",
        ),
        ("101+,1-19,20-100", "'1-19' to the bucket 20-100", "101+,20-100,1-19"),
        ("100+,5-99,1-4", "'5-99' to the bucket 20-100", "101+,20-100,1-19"),
    ],
)
def test_names_of_thresholds_that_state_other_counts_are_refused(
    names: str, problem: str, corrected_names: str
) -> None:
    """Names of thresholds that state other counts are refused with corrected names:
    written in the order of the edges, ``1-19`` would be the labels from 101.
    """
    with pytest.raises(
        ValueError,
        match=f"gives the name {re.escape(problem)}; names begin with .*: pass {re.escape(corrected_names)}\\.$",
    ):
        buckets_of_kind(f"thresholds:1,20,101:{names}", [101, 20, 19])
    assert buckets_of_kind(
        f"thresholds:1,20,101:{corrected_names}", [101, 20, 19]
    ).names == (
        *corrected_names.split(","),
        "unseen",
    )


@pytest.mark.parametrize(
    "names",
    ["100+,20-100,1-20", "101-5000,20-100,0-19", "tier 1,tier 2,tier 3", "1,2,3"],
)
def test_names_of_thresholds_that_state_their_counts_or_none_are_accepted(
    names: str,
) -> None:
    """Names of thresholds that state their counts, or none, are accepted.

    A bound may be off by one, as "more than 100" is the edge 101, and the last bound of
    the head is free.
    """
    assert buckets_of_kind(f"thresholds:1,20,101:{names}", [101]).names == (
        *names.split(","),
        "unseen",
    )


def test_thresholds_put_a_label_into_the_last_edge_it_reaches() -> None:
    """Thresholds put a label into the bucket of the last edge that its count reaches:
    edges 5 and 100 give 100 and more, 5 to 99, 1 to 4, and unseen.
    """
    counts = torch.tensor([0, 1, 4, 5, 99, 100, 7000])
    buckets = LabelBuckets.thresholds(counts, [5, 100])
    assert (
        buckets
        == LabelBuckets.thresholds(counts, torch.tensor([5, 100]))
        == LabelBuckets.thresholds(counts, np.array([5, 100]))
    )
    assert buckets.names == ("100+", "5-99", "1-4", "unseen")
    assert buckets.assignment.tolist() == [3, 2, 2, 1, 1, 0, 0]


def test_quantiles_take_names() -> None:
    """Quantiles and deciles take a name for each bucket, the most frequent first.

    A name that means rare labels before one that means frequent labels is refused, and
    so are missing and repeated names.
    """
    counts = [9, 5, 1, 1, 0]
    buckets = LabelBuckets.quantiles(counts, 2, names=("popular", "rare"))
    assert buckets.names == ("popular", "rare", "unseen")
    assert (
        buckets.assignment.tolist()
        == LabelBuckets.quantiles(counts, 2).assignment.tolist()
    )
    frequency = LabelFrequency.from_counts(counts, num_rows=16)
    assert frequency.quantiles(2, names=("popular", "rare")) == buckets
    assert frequency.deciles(list("abcdefghij")).names[:2] == ("a", "b")
    metric = PrecisionAtK(1, buckets="quantiles:2:popular,rare").bind(frequency)
    assert list(metric.keys()) == [
        "precision@1/popular",
        "precision@1/rare",
        "precision@1/unseen",
    ]
    with pytest.raises(
        ValueError,
        match=r"names=\['popular'\] are 1 for the buckets quantile_2, quantile_1; name each",
    ):
        LabelBuckets.quantiles(counts, 2, names=["popular"])
    with pytest.raises(
        ValueError,
        match="gives the name 'rare' to the bucket quantile_2; .* pass popular,rare",
    ):
        buckets_of_kind("quantiles:2:rare,popular", counts)
    with pytest.raises(ValueError, match="must be one distinct name per bucket"):
        LabelBuckets.quantiles(counts, 2, names=["a", "unseen"])
    with pytest.raises(
        TypeError, match="names='ab' is of type str; pass a list of texts"
    ):
        LabelBuckets.quantiles(counts, 2, names="ab")
    with pytest.raises(
        ValueError,
        match=r"LabelBuckets.deciles: names=\['popular'\] are 1 for the buckets decile_10",
    ):
        LabelBuckets.deciles(counts, names=["popular"])


@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_buckets_are_on_the_cpu_for_any_default_device(device: str) -> None:
    """Buckets are on the CPU for any default device, such as ``torch.device("meta")``,
    under which models are often built.
    """
    with torch.device(device):
        buckets = LabelBuckets.thresholds([9, 5, 1, 0], [2, 6], ["a", "b", "c"])
        deciles = LabelBuckets.deciles([9, 5, 1, 0])
        frequency = LabelFrequency.from_counts([9, 5, 1, 0], num_rows=15)
        assert frequency.quantiles(2) == LabelBuckets.quantiles([9, 5, 1, 0], 2)
        assert buckets.label_counts.tolist() == [1, 1, 1, 1]
    assert buckets.assignment.tolist() == [0, 1, 2, 3]
    assert deciles.of(torch.tensor([0, 3, -1])).tolist() == [0, 10, 11]


def test_copies_of_metrics_share_their_buckets() -> None:
    """clone and deepcopy of a metric keep the same buckets object; pickled buckets are
    equal.
    """
    buckets = LabelBuckets.deciles(torch.arange(50))
    metric = PrecisionAtK(k=1, buckets=buckets)
    assert metric.clone().buckets is buckets
    assert copy.deepcopy(buckets) is buckets
    assert pickle.loads(pickle.dumps(buckets)) == buckets


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        (
            lambda: LabelBuckets.deciles(torch.tensor([1.5])),
            "whole numbers, one per label",
        ),
        (lambda: LabelBuckets.deciles(torch.tensor([-1])), "counts cannot be negative"),
        (lambda: LabelBuckets.quantiles([1], 0), "n=0 is too small"),
        (
            lambda: LabelBuckets.quantiles([2**61] * 9, 3),
            r"counts adds up to 2\.08e\+19, more than .*: divide all counts",
        ),
        (lambda: LabelBuckets.quantiles([1], 2, by="rows"), "by='rows' is not known"),
        (lambda: LabelBuckets.thresholds([1], [5, 2]), "must ascend"),
        (
            lambda: LabelBuckets.from_assignment([0, 2], ["a", "b"]),
            "holds 2, but there are 2 names",
        ),
        (
            lambda: LabelBuckets.from_assignment([0, -1], ["a", "b"]),
            "assignment holds -1, but buckets are numbered",
        ),
        (
            lambda: LabelBuckets.from_assignment([0, 0.5], ["a", "b"]),
            "the number of each label's bucket, from 0",
        ),
        (
            lambda: LabelBuckets.from_assignment([0, 1], ["a", "a"]),
            "one distinct name per bucket",
        ),
        (
            lambda: LabelBuckets.quantiles([3, 1], 2, names=["a", "a"]),
            "LabelBuckets.quantiles: .* one distinct name",
        ),
        (
            lambda: LabelBuckets.thresholds([3, 1], [1], names=["unseen"]),
            "LabelBuckets.thresholds: .* distinct name",
        ),
        (
            lambda: LabelFrequency(4).update(torch.tensor(3)),
            r"target is int64 \[\], one number without an axis of rows",
        ),
        (
            lambda: LabelBuckets.from_assignment([0, 1], ["a", "b"], counts=[1]),
            "one count per label",
        ),
        (
            lambda: LabelBuckets.deciles(PrecisionAtK(k=1)),
            r"LabelBuckets.deciles: counts is float64 .* LabelFrequency.compute",
        ),
    ],
)
def test_invalid_arguments_of_buckets_are_refused(
    factory: object, message: str
) -> None:
    """Invalid arguments of buckets and counts raise one error that names the argument
    and the reason.
    """
    with pytest.raises((TypeError, ValueError), match=message):
        factory()  # type: ignore[operator]


def test_empty_counts_are_accepted() -> None:
    """Empty counts make buckets of no labels, as a list without a type of numbers as
    well.
    """
    assert LabelBuckets.deciles([]) == LabelBuckets.deciles(
        torch.zeros(0, dtype=torch.int64)
    )


def test_counts_of_a_series_follow_its_index() -> None:
    """Counts in a Series follow its index, because ``value_counts()`` sorts by
    frequency.

    An index that lacks labels is refused, and the error says how to fill it.
    """
    pandas = pytest.importorskip("pandas")
    counts = pandas.Series([2, 2, 2, 0, 1]).value_counts()
    assert list(counts.index) != [0, 1, 2]
    assert LabelBuckets.deciles(counts).counts.tolist() == [1, 1, 3]
    counts = pandas.Series([2, 2, 2, 0, 5]).value_counts()
    for factory in (
        LabelBuckets.deciles,
        lambda series: LabelFrequency.from_counts(series, num_rows=5),
    ):
        with pytest.raises(
            ValueError,
            match=r"whose index is not the labels 0 to 2; pass counts\.reindex\(range",
        ):
            factory(counts)
    with pytest.raises(ValueError, match="whose index is not the labels 0 to 1"):
        LabelBuckets.deciles(pandas.Series([3, 1], index=["a", "b"]))


def test_repr_of_buckets_shows_numbers_and_names() -> None:
    """repr of buckets shows, in one line, the numbers of labels and buckets, and all
    names or the first and the last of many.
    """
    two_buckets = LabelBuckets.from_assignment([0, 1, 1], ["head", "tail"])
    assert repr(two_buckets) == "LabelBuckets(3 labels in 2 buckets: head, tail)"
    deciles = LabelBuckets.deciles(torch.arange(50))
    assert (
        repr(deciles)
        == "LabelBuckets(50 labels in 11 buckets: decile_10 … decile_1, unseen)"
    )
    assert repr(LabelFrequency(50)) == "LabelFrequency(num_labels=50)"


def test_frequency_counts_are_equal_for_every_form_of_target() -> None:
    """LabelFrequency counts ids, multi-hot, integers of width L, gains, CSR and
    rankings equally: counts 2, 0, 1, 1 and 3 rows. Buckets may be made of it.
    """
    hot = torch.tensor([[1, 0, 1, 0], [1, 0, 0, 1], [0, 0, 0, 0]])
    ids = torch.tensor([[0, 2], [3, 0], [-1, -1]])
    ranking = Ranking.from_scores(torch.rand(3, 4), target_mask=hot.bool())
    for target in (
        ids,
        hot.bool(),
        hot,
        hot.float() * 2.5,
        hot.float().to_sparse_csr(),
        ranking,
    ):
        frequency = LabelFrequency(4)
        frequency.update(target)
        assert frequency.compute().tolist() == [2, 0, 1, 1]
        assert frequency.num_rows == 3
        assert LabelBuckets.deciles(frequency) == LabelBuckets.deciles([2, 0, 1, 1])


def test_tokens_of_width_l_are_ids_with_ignore_index() -> None:
    """Tokens as wide as there are labels are ids if ignore_index is passed, and each
    token is a row; lists passed as target_ids are a row each.
    """
    # as wide as there are labels
    tokens = torch.tensor([[0, 1, 1, 3], [2, 1, -100, -100]])
    frequency = LabelFrequency(4)
    frequency.update(tokens, ignore_index=-100)
    frequency.update(target_ids=tokens[:, :2], ignore_index=-100)
    frequency.update(
        tokens.reshape(-1)[:3], torch.tensor([True, False, False]), ignore_index=-100
    )
    frequency.update(torch.eye(4) > 0, ignore_index=-100)
    assert frequency.compute().tolist() == [1 + 1 + 1 + 1, 3 + 2 + 1, 1 + 1 + 1, 1 + 1]
    assert frequency.num_rows == 6 + 2 + 1 + 4  # lists given as ids are a row each


def test_novelty_warns_of_tokens_counted_as_lists() -> None:
    """Binding a metric that divides by training rows warns if a label occurs more often
    than there are rows.

    Novelty of 6 tokens as 6 rows, 3 of label 0, is -log2(3 / 6); as 2 rows label 0
    would be in all.
    """
    tokens, preds = torch.tensor([[0, 0, 1], [0, 1, 2]]), torch.tensor([[0]])
    novelty, frequency = NoveltyAtK(k=1), LabelFrequency(4)
    frequency.update(tokens)
    # counts are right, and it divides by no rows
    PrecisionAtK(k=1, buckets="deciles").bind(frequency)
    with pytest.warns(
        UserWarning,
        match=r"label 0 occurs 3 times in 2 training rows.* ignore_index=-100, .*flatten",
    ) as caught:
        novelty.bind(frequency)
    assert [warning.filename for warning in caught] == [__file__]
    for batch, keywords in ((tokens, {"ignore_index": -100}), (tokens.flatten(), {})):
        novelty, frequency = NoveltyAtK(k=1), LabelFrequency(4)
        frequency.update(batch, **keywords)
        novelty.bind(frequency).update(preds, torch.tensor([0]))
        # -log2(3 / 6)
        assert (frequency.num_rows, float(novelty.compute())) == (6, 1.0)


@pytest.mark.parametrize("form", ["bool", "float", "csr", "ranking"])
def test_frequency_leaves_the_ignored_label_out_of_every_form(form: str) -> None:
    """ignore_index leaves a label out of every form of target.

    Of four rows the one with label 0 alone does not count, and the one without labels
    does.
    """
    target = torch.tensor(
        [[1, 0, 1, 0, 0], [1, 0, 0, 0, 0], [0, 0, 0, 0, 0], [0, 1, 0, 0, 1]]
    )
    targets = {
        "bool": target.bool(),
        "float": target * 0.5,
        "csr": target.double().to_sparse_csr(),
        "ranking": rank(torch.rand(4, 5), target.bool()),
    }
    frequency = LabelFrequency(num_labels=5)
    frequency.update(targets[form], ignore_index=0)
    assert (frequency.compute().tolist(), frequency.num_rows) == ([0, 1, 1, 0, 1], 3)


def test_error_of_padded_tokens_offers_ignore_index_first() -> None:
    """The error about targets padded with -100 offers ignore_index first, and clamping
    only for rows of several labels, because clamped texts would be one row each.
    """
    with pytest.raises(
        ValueError,
        match=r"ignore_index=-100, which .*LabelFrequency.update\(\) take; if it pads rows of",
    ):
        LabelFrequency(9).update(torch.tensor([[0, 1, 1], [2, -100, -100]]))


@pytest.mark.parametrize("integer", [2, -100])
def test_integers_that_may_be_ids_or_gains_are_refused(integer: int) -> None:
    """Integer targets as wide as there are labels that may be ids or gains are refused;
    a bool matrix, a flat vector and target_ids are accepted. Read as gains, tokens
    would count all labels about equally.
    """
    ambiguous = torch.tensor([[0, 1, 1], [integer, 0, 1]])
    message = f"LabelFrequency: target is .*, as wide as there are labels, and holds {integer}: these may be label ids"
    with pytest.raises(ValueError, match=message):
        LabelFrequency(3).update(ambiguous)
    ways_out = [(ambiguous > 0,), (ambiguous.clamp(min=-1).reshape(-1),)]
    for arguments in ways_out:
        LabelFrequency(3).update(*arguments)
    LabelFrequency(3).update(target_ids=ambiguous.clamp(min=-1))


def test_a_metric_keeps_its_kind_when_other_buckets_of_these_names_are_bound() -> None:
    """A metric by quantiles of labels does not take quantiles of occurrences that have
    the same names: of counts 8, 1, 1, 1, 1 the first half of the labels has three.

    It takes the bound buckets themselves if they are of its kind, or hold no counts.
    Those of its kind may have other labels of equal counts, but no rarer ones.
    """
    counts = [8, 1, 1, 1, 1, 0]
    of_occurrences = LabelBuckets.quantiles(counts, 2)
    of_labels = LabelBuckets.quantiles(counts, 2, by="labels")
    without_counts = LabelBuckets.from_assignment([1] * 6, of_labels.names)
    rarest_first = LabelBuckets.from_assignment(
        [1, 0, 0, 0, 1, 2], of_labels.names, counts=counts
    )
    equal_counts_swapped = LabelBuckets.from_assignment(
        [0, 1, 0, 0, 1, 2], of_labels.names, counts=counts
    )
    for bound, taken in (
        (of_occurrences, [0, 0, 0, 1, 1, 2]),
        (rarest_first, [0, 0, 0, 1, 1, 2]),
        (of_labels, [0, 0, 0, 1, 1, 2]),
        (equal_counts_swapped, [0, 1, 0, 0, 1, 2]),
        (without_counts, [1] * 6),
    ):
        metric = PrecisionAtK(k=1, buckets="quantiles:2:labels").bind(bound)
        assert isinstance(metric.buckets, LabelBuckets)
        assert metric.buckets.assignment.tolist() == taken
        is_of_other_kind = bound in (of_occurrences, rarest_first)
        assert (metric.buckets is bound) != is_of_other_kind


def test_buckets_are_immutable() -> None:
    """Buckets never change: neither by tensors that the caller changes later, nor by
    changes of the tensors that they return; attributes cannot be set.
    """
    counts, assignment = torch.tensor([9, 5, 1]), torch.tensor([0, 1, 1])
    buckets = LabelBuckets.from_assignment(assignment, ["head", "tail"], counts)
    equal_buckets = LabelBuckets.from_assignment([0, 1, 1], ["head", "tail"], [9, 5, 1])
    counts.zero_(), assignment.zero_()
    assert buckets == equal_buckets
    assert buckets.digest == equal_buckets.digest
    assert buckets.counts is not None
    assert buckets.counts.tolist() == [9, 5, 1]
    for name in ("names", "assignment"):
        with pytest.raises(
            AttributeError,
            match=f"LabelBuckets: {name} cannot be set; make other buckets",
        ):
            setattr(buckets, name, ("a", "b"))
    before = buckets.digest
    buckets.assignment[0] = 1
    buckets.counts[0] = 0
    buckets.label_counts[0] = 5
    buckets.labels[0][0] = 2
    assert buckets.counts.tolist() == [9, 5, 1]
    assert buckets.assignment.tolist() == [0, 1, 1]
    assert buckets.of(torch.tensor([0, 1, 2])).tolist() == [0, 1, 1]
    assert (
        LabelBuckets.from_assignment(buckets.assignment, buckets.names).digest == before
    )
    assert pickle.loads(pickle.dumps(buckets)) == equal_buckets


@pytest.mark.parametrize("name", ["", "gap", "adjusted_gap", "spread"])
def test_reserved_names_of_buckets_are_refused(name):
    """Names that keys use otherwise are refused as names of buckets: recall@10/gap is
    the gap of all buckets, and recall@10 the value over all labels.
    """
    with pytest.raises(ValueError, match=f"a bucket cannot be called '{name}'"):
        LabelBuckets.from_assignment([0, 1], ["head", name])
