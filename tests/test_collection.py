"""Many metrics side by side."""

import pytest
import torch

import tailmetrics
from cases import BUCKETS, CASES, NUM_LABELS, data, training_counts
from tailmetrics import LabelBuckets, LabelFrequency, TopKCollection
from tailmetrics.ranking import _ranking


def _members() -> list[tailmetrics.metrics.TopKMetric]:
    members: dict[str, tailmetrics.metrics.TopKMetric] = {}
    for case in CASES:
        metric = case.metric()
        if not set(metric.keys()) & set(members):
            members.update(dict.fromkeys(metric.keys(), metric))
    return list(dict.fromkeys(members.values()))


@pytest.mark.slow
def test_members_compute_what_they_compute_alone() -> None:
    """Every case of the table at once, over three batches: each key has the bits of the metric by itself."""
    collection = TopKCollection(_members(), prefix="val/")
    alone = _members()
    for seed in (0, 1, 2):
        batch = data(seed, graded=seed == 1, ties=False)
        collection.update(batch.scores, batch.target)
        for metric in alone:
            metric.update(batch.scores, batch.target)
    together = collection.compute()
    separate = {f"val/{key}": value for metric in alone for key, value in metric.scalars().items()}
    assert together.keys() == separate.keys()
    for key, value in separate.items():
        assert torch.equal(together[key].nan_to_num(-1), value.nan_to_num(-1)), key
        assert together[key].shape == ()


def test_a_batch_is_ranked_once_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten members, one call of the ranking."""
    calls = []
    read = _ranking.read_batch
    monkeypatch.setattr(_ranking, "read_batch", lambda *args, **kwargs: calls.append(1) or read(*args, **kwargs))
    collection = TopKCollection([tailmetrics.PrecisionAtK(k=k) for k in range(1, 11)])
    collection.update(torch.randn(4, 20), torch.tensor([1, 2, 3, 4]))
    assert len(calls) == 1


def test_metrics_that_need_the_same_counts_per_label_share_them() -> None:
    """Coverage, Gini and entropy at one k keep one vector of L numbers."""
    kinds = (tailmetrics.CatalogCoverageAtK, tailmetrics.GiniAtK, tailmetrics.EntropyAtK)
    collection = TopKCollection([kind(k=2, num_labels=9) for kind in kinds])
    collection.update(torch.arange(9.0)[None], torch.tensor([3]))
    states = [state for metric in collection.members().values() for state in metric.metric_state.values()]
    assert len({state.data_ptr() for state in states if state.numel() == 9}) == 1
    assert float(collection.compute()["catalog_coverage@2"]) == 2 / 9


def test_two_members_with_one_key_are_refused() -> None:
    """At construction, naming the key; another name= resolves it."""
    metrics = [tailmetrics.PrecisionAtK(k=5), tailmetrics.PrecisionAtK(k=[1, 5])]
    with pytest.raises(ValueError, match="both have the key 'precision@5'"):
        TopKCollection(metrics)
    TopKCollection([metrics[0], tailmetrics.PrecisionAtK(k=[1, 5], name="p")])


def test_a_config_is_completed_by_bind() -> None:
    """buckets='deciles' and counts left open: an update before is an error that says so; after, all is as given directly."""
    frequency = LabelFrequency(NUM_LABELS)
    frequency.counts = training_counts()
    frequency.rows = torch.tensor([200])
    opened = TopKCollection([
        tailmetrics.PrecisionAtK(k=3, buckets="deciles"),
        tailmetrics.PropensityScoredPrecisionAtK(k=3),
        tailmetrics.NoveltyAtK(k=3),
        tailmetrics.RecallAtK(k=3, average="macro"),
    ])  # fmt: skip
    batch = data(4)
    with pytest.raises(ValueError, match=r"call bind\(frequency\)"):
        opened.update(batch.scores, batch.target)
    opened.bind(frequency)
    counts = {"label_counts": training_counts(), "num_train": 200}
    given = TopKCollection([
        tailmetrics.PrecisionAtK(k=3, buckets=BUCKETS),
        tailmetrics.PropensityScoredPrecisionAtK(k=3, **counts),
        tailmetrics.NoveltyAtK(k=3, **counts),
        tailmetrics.RecallAtK(k=3, average="macro", num_labels=NUM_LABELS),
    ])  # fmt: skip
    for collection in (opened, given):
        collection.update(batch.scores, batch.target)
    found = opened.compute()
    for key, value in given.compute().items():
        assert torch.equal(found[key].nan_to_num(-1), value.nan_to_num(-1)), key
    with pytest.raises(ValueError, match="reset first"):
        opened.bind(frequency)


def test_repr_lists_the_members_as_they_were_written() -> None:
    """One per line."""
    collection = TopKCollection([tailmetrics.RecallAtK(k=[1, 5]), tailmetrics.MRR(buckets=BUCKETS)], prefix="val/")
    assert repr(collection).splitlines() == [
        "TopKCollection(",
        "  (recall_1_recall_5): RecallAtK(k=[1, 5])",
        "  (mrr_by_bucket): MRR(11 buckets),",
        "  prefix=val/",
        ")",
    ]


def test_metrics_side_by_side_and_classes_are_refused_with_the_list_to_pass() -> None:
    """TypeErrors that say what to write instead."""
    one, two = tailmetrics.PrecisionAtK(k=1), tailmetrics.RecallAtK(k=1)
    with pytest.raises(TypeError, match=r"pass the metrics as one list, TopKCollection\(\[a, b\]\)"):
        TopKCollection(one, two)
    for classes in (tailmetrics.RecallAtK, [tailmetrics.RecallAtK], {"recall": tailmetrics.RecallAtK}):
        with pytest.raises(TypeError, match=r"RecallAtK is a class, not a metric; pass .* \[RecallAtK\(k=5\)\]"):
            TopKCollection(classes)


def test_what_buckets_do_not_tell_is_named_with_where_to_get_it() -> None:
    """Bound to buckets, novelty lacks the number of training rows; of buckets without counts, the counts too."""
    batch = data(4)
    bound = tailmetrics.NoveltyAtK(k=3).bind(LabelBuckets.deciles(training_counts()))
    with pytest.raises(
        ValueError, match="buckets do not tell the number of training rows; pass num_train= or bind a Lab"
    ):
        bound.update(batch.scores, batch.target)
    bare = tailmetrics.PropensityScoredRecallAtK(k=3).bind(LabelBuckets.from_assignment([0, 1], ["a", "b"]))
    with pytest.raises(ValueError, match=r"no training counts and .*; pass label_counts= and num_train= or bind a Lab"):
        bare.compute()
    with pytest.raises(
        ValueError,
        match=r"label_counts and num_train are not known yet; call bind\(frequency\) before update, or pass label_counts= and num_train= to",
    ):
        tailmetrics.PropensityScoredRecallAtK(k=3, num_labels=NUM_LABELS).update(batch.scores, batch.target)


def test_row_mask_drops_rows_in_every_member() -> None:
    """Masked rows, NaN scores and wrong ids in them included, leave no trace."""
    batch = data(5)
    scores = torch.cat([batch.scores, torch.full((2, NUM_LABELS), torch.nan)])
    target = torch.cat([batch.target, torch.ones(2, NUM_LABELS, dtype=torch.bool)])
    mask = torch.arange(len(scores)) < len(batch.scores)
    masked, plain = TopKCollection(_members()), TopKCollection(_members())
    ties = [name for name, m in plain.members().items() if isinstance(m, tailmetrics.CrossEntropy)]
    batch_free = data(5, ties=False) if ties else batch
    masked.update(torch.cat([batch_free.scores, scores[-2:]]), torch.cat([batch_free.target, target[-2:]]), mask)
    plain.update(batch_free.scores, batch_free.target)
    found = masked.compute()
    for key, value in plain.compute().items():
        assert torch.equal(found[key].nan_to_num(-1), value.nan_to_num(-1)), key
