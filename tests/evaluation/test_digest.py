"""Digests of what values per row depend on: equal for the same data in any form, and
different after each change.
"""

import hashlib
import struct

import pytest
import torch

import tailmetrics as tm
from cases import FEW
from tailmetrics.evaluation.digest import RunDigest

COUNTS = [9, 5, 4, 3, 2, 1, 1, 0]
RELEVANT = [{1: 1.0, 4: 1.0}, {}, {7: 1.0}, {0: 1.0, 2: 1.0, 3: 1.0}, {6: 1.0}]


def dense(rows=RELEVANT, num_labels=8):
    """Return the gains of the relevant labels as a matrix (N, L)."""
    matrix = torch.zeros(len(rows), num_labels)
    for row, gains in enumerate(rows):
        for label, gain in gains.items():
            matrix[row, label] = gain
    return matrix


def metrics(depth=500, counts=None, buckets=None):
    """Return one metric by bucket, one overall, and one that weighs by training
    counts.
    """
    return [
        tm.RecallAtK(k=[1, 2], buckets=buckets or tm.LabelBuckets.deciles(COUNTS)),
        tm.RecallAtK(k=2, depth=depth),
        tm.PropensityScoredPrecisionAtK(
            k=1, label_counts=counts or COUNTS, num_train=20
        ),
    ]


def scores(num_rows, num_labels=8):
    """Return random scores: digests depend on the targets alone."""
    return torch.rand(
        num_rows, num_labels, generator=torch.Generator().manual_seed(num_rows)
    )


def digest(target=None, rows=None, *, label_names=None, options=None, **changes):
    """Return the entries of one batch."""
    target = dense() if target is None else target
    run_digest = RunDigest(metrics(**changes), options, label_names)
    num_labels = 8 if label_names is None else len(label_names)
    run_digest.update(
        range(len(target)) if rows is None else rows,
        tm.rank(scores(len(target), num_labels), target),
    )
    return run_digest.entries()


def differing(entries, other):
    """Return the names of the entries that differ."""
    return {
        name
        for name in entries.keys() | other.keys()
        if entries.get(name) != other.get(name)
    }


def mixed(word):
    """Return the last steps of SplitMix64, in whole numbers of Python."""
    word %= 2**64
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        word = (word ^ (word >> shift)) * factor % 2**64
    return word ^ (word >> 31)


def test_mixing_equals_splitmix64():
    """The loop that these tests mix with equals SplitMix64: the first numbers of
    java.util.SplittableRandom from the seed 0, as its reference in C prints them.
    """
    golden = 0x9E3779B97F4A7C15
    assert [mixed(golden), mixed(2 * golden)] == [
        0xE220A8397B1DCDAF,
        0x6E789E6AA1B965F4,
    ]


def float_bits(gain):
    """Return the 64 bits of a float as a whole number."""
    return struct.unpack("<Q", struct.pack("<d", gain))[0]


def name_code(name):
    """Return the number of a name: the number that it spells, or the first 64 bits of
    the hash of its bytes.
    """
    if name.isdecimal() and not name.startswith("0"):
        return int(name)
    return struct.unpack("<q", hashlib.sha256(name.encode()).digest()[:8])[0]


@pytest.mark.parametrize(
    "label_names", [None, ["3", "a", "ab", "ba", "", "é", "07", "12"]]
)
def test_digest_of_targets_is_a_sum_over_rows_and_labels(label_names):
    """The digest of targets equals a plain loop: the sum over rows, modulo 2^64, of the
    factor of a row times the sum of the words of its labels, or of their squares.
    """
    graded = [{1: 0.5, 4: 2.0}, {}, {7: 1.0}, {2: 1.0, 3: 1.0, 5: 3.0}]
    seeds = 0x9E3779B97F4A7C15, 0xD1B54A32D192ED03
    expected = ""
    for power, seed in enumerate(seeds, start=1):
        total = 0
        for row, gains in enumerate(graded):
            factor = mixed(row + seed) | 1
            total += mixed(factor)
            for label, gain in gains.items():
                code = label if label_names is None else name_code(label_names[label])
                total += factor * mixed(code * seeds[0] + float_bits(gain)) ** power
        expected += f"{total % 2**64:016x}"
    assert digest(dense(graded), label_names=label_names)["targets"] == expected


@pytest.mark.parametrize("batch_rows", [1, 2, 3])
def test_digest_does_not_depend_on_batches(batch_rows):
    """Batches of any size and order have the entries of one batch."""
    target = dense()
    whole = RunDigest(metrics())
    for start in reversed(range(0, 5, batch_rows)):
        rows = slice(start, start + batch_rows)
        whole.update(torch.arange(5)[rows], tm.rank(scores(5)[rows], target[rows]))
    assert whole.entries() == digest()


def test_every_form_of_target_has_the_same_digest():
    """Dense, multi-hot, sparse and padded targets, with ids in any order, have the same
    digest.
    """
    ids = torch.tensor([[4, 1, -1], [-1, -1, -1], [7, -1, -1], [3, 0, 2], [6, -1, -1]])
    for target in (dense() > 0, dense().to_sparse_csr(), ids, dense().double()):
        assert digest(target) == digest()


def test_digest_leaves_out_masked_rows():
    """The digest leaves out rows that a mask drops; the other rows keep their
    numbers.
    """
    mask = torch.tensor([True, False, True, True, False])
    run_digest = RunDigest(metrics())
    run_digest.update(range(5), tm.rank(scores(5), dense(), row_mask=mask))
    assert run_digest.entries() == digest(dense()[mask], [0, 2, 3])


@pytest.mark.parametrize(
    "changed",
    [
        [{1: 1.0}, *RELEVANT[1:]],
        [{1: 1.0, 4: 1.5}, *RELEVANT[1:]],
        [{1: 1.0, 5: 1.0}, *RELEVANT[1:]],
        [RELEVANT[1], RELEVANT[0], *RELEVANT[2:]],
        RELEVANT[:4],
        [*RELEVANT, {}],
    ],
)
def test_changed_targets_change_the_targets_entry_alone(changed):
    """A changed target changes the entry of targets and no other.

    Changes are a label less, another gain, another label, exchanged rows, a row less,
    and an empty row more.
    """
    assert differing(digest(), digest(dense(changed))) == {"targets"}


def test_each_argument_changes_its_own_entry():
    """Buckets, training counts, options and arguments of metrics change one entry each;
    an argument changes only the keys of its metric.
    """
    reversed_buckets = tm.LabelBuckets.deciles(COUNTS[::-1])
    assert differing(digest(), digest(buckets=reversed_buckets)) == {"buckets"}
    assignment, names = reversed_buckets.assignment, reversed_buckets.names
    renamed = tm.LabelBuckets.from_assignment(
        assignment, [names[1], names[0], *names[2:]]
    )
    assert differing(digest(buckets=reversed_buckets), digest(buckets=renamed)) == {
        "buckets"
    }
    assert differing(digest(), digest(counts=COUNTS[::-1])) == {"counts"}
    assert differing(digest(), digest(options={"missing": "zero"})) == {"options"}
    shallow = digest(depth=7)
    assert differing(digest(), shallow) == {"keys"}
    assert differing(digest()["keys"], shallow["keys"]) == {"recall@2"}


def test_key_digest_leaves_out_what_the_key_states():
    """The digest of a key does not depend on other cut-offs or thresholds of the same
    metric.
    """

    def keys(*metrics):
        return RunDigest(metrics).entries()["keys"]

    assert (
        keys(tm.RecallAtK(k=[1, 2]))["recall@1"] == keys(tm.RecallAtK(k=1))["recall@1"]
    )
    digests, digests_of_two = (
        keys(tm.PrecisionAtThreshold(threshold)) for threshold in (0.5, [0.5, 0.9])
    )
    assert digests["micro_precision@t0.5"] == digests_of_two["micro_precision@t0.5"]


def test_cuts_hold_the_cutoff_or_threshold_of_each_key():
    """Cuts hold the k or threshold of each key, also under a custom name.

    Thresholds for each label are told apart by a digest.
    """

    def cuts(*metrics):
        return RunDigest(metrics).entries()["cuts"]

    assert cuts(tm.RecallAtK(k=[1, 2])) == {"recall@1": "k=1", "recall@2": "k=2"}
    assert cuts(tm.RecallAtK(k=30, name="mine")) == {"mine": "k=30"}
    assert cuts(tm.PrecisionAtThreshold(0.6, name="mine")) == {"mine": "threshold=0.6"}
    low, high = (
        tm.PrecisionAtThreshold(torch.tensor([0.25, cut, 0.75])) for cut in (0.5, 0.625)
    )
    assert [*cuts(low)] == [*cuts(high)]
    assert cuts(low)["micro_precision@t"].startswith(
        "threshold=0.25 to 0.75, one for each label, "
    )
    assert cuts(low) != cuts(high)


@pytest.mark.parametrize("case", FEW, ids=str)
def test_every_key_has_its_cut(case):
    """Cuts hold every key of every metric."""
    metric = case.metric()
    assert [*RunDigest([metric]).entries()["cuts"]] == list(metric.keys())


def test_unused_buckets_and_counts_have_no_digest():
    """The entries of buckets and counts are None if no metric uses them.

    The order of options does not change an entry.
    """
    first, other = (
        RunDigest([tm.RecallAtK(k=1)], options)
        for options in ({"a": 1, "b": [2]}, {"b": [2], "a": 1})
    )
    assert (first.entries()["buckets"], first.entries()["counts"]) == (None, None)
    assert first.entries() == other.entries()


def test_digest_of_named_labels_does_not_depend_on_their_numbers():
    """Named labels have the same digest in any order of names, and with names that only
    predictions hold.

    Another name changes the entry of targets.
    """
    names = ["cat", "dog", "eel", "fox", "gnu", "hen", "ibis", "jay"]
    # new id -> old id
    place = torch.randperm(8, generator=torch.Generator().manual_seed(0))
    other_names = [*(names[old] for old in place), "yak"]
    counts = [*(COUNTS[old] for old in place), 0]
    old_buckets = tm.LabelBuckets.deciles(COUNTS)
    assignment = [*old_buckets.assignment[place].tolist(), len(old_buckets.names) - 1]
    target = torch.cat([dense()[:, place], torch.zeros(5, 1)], dim=1)
    buckets = tm.LabelBuckets.from_assignment(assignment, old_buckets.names)
    assert digest(label_names=names) == digest(
        target, label_names=other_names, counts=counts, buckets=buckets
    )
    names[4] = "cow"
    assert "targets" in differing(
        digest(label_names=other_names[:8]), digest(label_names=names)
    )


def test_names_that_spell_numbers_are_these_numbers():
    """Names that spell whole numbers have the digest of these numbers; a name with a
    leading zero does not.
    """
    assert digest(label_names=[*"01234567"]) == digest()
    assert differing(digest(label_names=[*"0123456", "07"]), digest()) >= {"targets"}


def test_digest_does_not_depend_on_unused_labels():
    """Labels that no training row and no target holds do not change the digest."""
    first, other = (
        RunDigest([tm.RecallAtK(k=1, buckets=tm.LabelBuckets.deciles(c))])
        for c in (COUNTS, [*COUNTS, 0, 0])
    )
    assert first.entries() == other.entries()
