"""Many metrics side by side."""

import pytest
import torch

import tailmetrics
from cases import BUCKETS, NUM_LABELS, data, training_counts
from tailmetrics import LabelBuckets, LabelFrequency, TopKCollection
from tailmetrics.ranking import _ranking


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
