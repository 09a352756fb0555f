"""Runs that are not about the same thing are not compared."""

import numpy as np
import pytest

from tailmetrics import LabelBuckets, RecallAtK, rank
from tailmetrics.evaluation.digest import RunDigest
from tailmetrics.significance import compare

RUNS = {name: {"recall@2": [1.0, 0.5, 0.0], "mrr": [1.0, 1.0, 0.5]} for name in ("old", "new")}
SAME = {"version": "1", "targets": "aa", "buckets": "bb", "counts": "cc", "options": "dd", "keys": {"recall@2": "ee"}}
SAME["cuts"] = {"recall@2": "k=2"}


def test_runs_about_the_same_thing_are_compared():
    """Equal entries; a run without buckets or counts; keys that are not compared; nothing known of a run."""
    for other in (SAME, {**SAME, "buckets": None}, {**SAME, "keys": {"recall@2": "ee", "map": "ff"}}, {}):
        assert len(compare(RUNS, identities={"old": SAME, "new": other}, resamples=100)) == 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"targets": "a"}, "different targets;"),
        ({"buckets": "a"}, "different buckets;"),
        ({"counts": "a"}, "different training counts;"),
        ({"options": "a"}, "different options;"),
        ({"targets": "a", "options": "a"}, "different targets and options;"),
        ({"keys": {"recall@2": "a"}}, "different arguments of 'recall@2';"),
        ({"cuts": {"recall@2": "k=3"}}, r"different arguments of 'recall@2' \(k=2, k=3\);"),
        ({"version": "2", "targets": "a"}, "different versions of their digests;"),
    ],
)
def test_what_differs_is_named(change, words):
    """The message names both runs, each entry that differs, and the remedy."""
    remedy = "with the same version of tailmetrics" if "version" in change else "on the same targets"
    with pytest.raises(ValueError, match=f"compare: 'old' and 'new' have {words} evaluate both {remedy}"):
        compare(RUNS, identities={"old": SAME, "new": {**SAME, **change}})


def test_each_model_has_its_threshold():
    """Thresholds may be tuned for each model: a warning says which model has which, once for all buckets."""
    runs = {name: {"f1": [1.0, 0.5, 0.0], "f1/head": [1.0, 1.0, 0.5]} for name in ("old", "new")}
    identities_of_runs = {
        name: {**SAME, "cuts": dict.fromkeys(runs[name], cut)}
        for name, cut in (("old", "threshold=0.6"), ("new", "threshold=0.8"))
    }
    with pytest.warns(
        UserWarning, match=r"compare: the threshold of 'f1' is 0\.6 in 'old', 0\.8 in 'new'\. Tune"
    ) as caught:
        assert len(compare(runs, identities=identities_of_runs, resamples=100)) == 2
    assert len(caught) == 1


def test_every_pair_is_looked_at():
    """Of three runs the second and third differ, of which the first knows nothing."""
    runs = {**RUNS, "newer": RUNS["new"]}
    identities = {"old": {}, "new": SAME, "newer": {**SAME, "targets": "a"}}
    with pytest.raises(ValueError, match="'new' and 'newer' have different targets"):
        compare(runs, "old", identities=identities)


def test_a_run_without_entries_is_refused():
    """Forgetting one run is not the same as knowing nothing of it."""
    with pytest.raises(ValueError, match="compare: identities has no entries of 'new'; pass the entries of every run"):
        compare(RUNS, identities={"old": SAME})


def test_digests_of_real_runs():
    """Reversed deciles under one name, and other targets, are found from what the evaluations digest themselves."""
    scores = np.array([[0.9, 0.5, 0.1], [0.2, 0.7, 0.6]])
    counts = [9, 5, 1]

    def identity(counts, target):
        digest = RunDigest([RecallAtK(k=2, buckets=LabelBuckets.deciles(counts))])
        digest.update([0, 1], rank(scores, np.array(target)))
        return digest.entries()

    runs = {name: {"recall@2/decile_10": [1.0, 0.0]} for name in "ab"}
    entries = identity(counts, [[0], [2]])
    compare(runs, identities={"a": entries, "b": identity(counts, [[0], [2]])}, resamples=100)
    with pytest.raises(ValueError, match="different buckets;"):
        compare(runs, identities={"a": entries, "b": identity(counts[::-1], [[0], [2]])})
    with pytest.raises(ValueError, match="different targets;"):
        compare(runs, identities={"a": entries, "b": identity(counts, [[0], [1]])})
