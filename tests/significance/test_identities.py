"""Runs with different targets, buckets, counts or options are not compared."""

import numpy as np
import pytest

from tailmetrics import LabelBuckets, RecallAtK, rank
from tailmetrics.evaluation.digest import RunDigest
from tailmetrics.significance import compare

RUNS = {
    name: {"recall@2": [1.0, 0.5, 0.0], "mrr": [1.0, 1.0, 0.5]}
    for name in ("old", "new")
}
ENTRIES = {
    "version": "1",
    "targets": "aa",
    "buckets": "bb",
    "counts": "cc",
    "options": "dd",
    "keys": {"recall@2": "ee"},
}
ENTRIES["cuts"] = {"recall@2": "k=2"}
ENTRIES["labels"] = {"recall@2": 5}


def test_runs_with_compatible_entries_are_compared():
    """Runs are compared if their entries are equal, if one has no buckets, if only keys
    that are not compared differ, or if a run has no entries.
    """
    for other in (
        ENTRIES,
        {**ENTRIES, "buckets": None},
        {**ENTRIES, "keys": {"recall@2": "ee", "map": "ff"}},
        {},
    ):
        assert (
            len(compare(RUNS, identities={"old": ENTRIES, "new": other}, resamples=100))
            == 2
        )


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({"targets": "a"}, "different targets;"),
        ({"buckets": "a"}, "different buckets;"),
        ({"counts": "a"}, "different training counts;"),
        ({"options": "a"}, "different options;"),
        ({"targets": "a", "options": "a"}, "different targets and options;"),
        ({"keys": {"recall@2": "a"}}, "different arguments of 'recall@2';"),
        (
            {"cuts": {"recall@2": "k=3"}},
            r"different arguments of 'recall@2' \(k=2, k=3\);",
        ),
        (
            {"labels": {"recall@2": 6}},
            r"different numbers of labels in 'recall@2' \(5, 6\);",
        ),
        ({"version": "2", "targets": "a"}, "different versions of their digests;"),
    ],
)
def test_runs_with_different_entries_are_refused(change, difference):
    """Runs with different entries are refused; the error names both runs, each entry
    that differs, and the remedy.
    """
    remedy = (
        "with the same version of tailmetrics"
        if "version" in change
        else "on the same targets"
    )
    with pytest.raises(
        ValueError,
        match=f"compare: 'old' and 'new' have {difference} evaluate both {remedy}",
    ):
        compare(RUNS, identities={"old": ENTRIES, "new": {**ENTRIES, **change}})


def test_different_thresholds_bring_a_warning():
    """Different thresholds of two models are compared, because they may be tuned; one
    warning for all buckets says which model has which.
    """
    runs = {
        name: {"f1": [1.0, 0.5, 0.0], "f1/head": [1.0, 1.0, 0.5]}
        for name in ("old", "new")
    }
    identities_of_runs = {
        name: {**ENTRIES, "cuts": dict.fromkeys(runs[name], cut)}
        for name, cut in (("old", "threshold=0.6"), ("new", "threshold=0.8"))
    }
    with pytest.warns(
        UserWarning,
        match=r"compare: the threshold of 'f1' is 0\.6 in 'old', 0\.8 in 'new'\. Tune",
    ) as caught:
        assert len(compare(runs, identities=identities_of_runs, resamples=100)) == 2
    assert len(caught) == 1


def test_identities_of_every_pair_are_checked():
    """Identities of every pair of runs are checked, also if the baseline has no
    entries.
    """
    runs = {**RUNS, "newer": RUNS["new"]}
    identities = {"old": {}, "new": ENTRIES, "newer": {**ENTRIES, "targets": "a"}}
    with pytest.raises(ValueError, match="'new' and 'newer' have different targets"):
        compare(runs, "old", identities=identities)


def test_a_run_without_entries_is_refused():
    """identities that lack a run are refused; a run without entries has an empty
    dict.
    """
    with pytest.raises(
        ValueError,
        match="compare: identities has no entries of 'new'; pass the entries of every run",
    ):
        compare(RUNS, identities={"old": ENTRIES})


def test_digests_of_evaluations_detect_other_buckets_and_targets():
    """The digests of evaluations detect reversed deciles with equal names, and other
    targets.
    """
    scores = np.array([[0.9, 0.5, 0.1], [0.2, 0.7, 0.6]])
    counts = [9, 5, 1]

    def identity(counts, target):
        digest = RunDigest([RecallAtK(k=2, buckets=LabelBuckets.deciles(counts))])
        digest.update([0, 1], rank(scores, np.array(target)))
        return digest.entries()

    runs = {name: {"recall@2/decile_10": [1.0, 0.0]} for name in "ab"}
    entries = identity(counts, [[0], [2]])
    compare(
        runs,
        identities={"a": entries, "b": identity(counts, [[0], [2]])},
        resamples=100,
    )
    with pytest.raises(ValueError, match="different buckets;"):
        compare(
            runs, identities={"a": entries, "b": identity(counts[::-1], [[0], [2]])}
        )
    with pytest.raises(ValueError, match="different targets;"):
        compare(runs, identities={"a": entries, "b": identity(counts, [[0], [1]])})
