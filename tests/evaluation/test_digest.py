"""Digests of what values per row depend on: equal for the same data however it comes, and each change shows in one."""

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
    """Gains of the relevant labels, (N, L)."""
    matrix = torch.zeros(len(rows), num_labels)
    for row, gains in enumerate(rows):
        for label, gain in gains.items():
            matrix[row, label] = gain
    return matrix


def metrics(depth=500, counts=None, buckets=None):
    """One metric by bucket, one overall, one that weighs by training counts."""
    return [
        tm.RecallAtK(k=[1, 2], buckets=buckets or tm.LabelBuckets.deciles(COUNTS)),
        tm.RecallAtK(k=2, depth=depth),
        tm.PropensityScoredPrecisionAtK(k=1, label_counts=counts or COUNTS, num_train=20),
    ]


def scores(num_rows, num_labels=8):
    """Any scores: digests are of the targets."""
    return torch.rand(num_rows, num_labels, generator=torch.Generator().manual_seed(num_rows))


def digest(target=None, rows=None, *, label_names=None, options=None, **changes):
    """The entries of one batch."""
    target = dense() if target is None else target
    run_digest = RunDigest(metrics(**changes), options, label_names)
    num_labels = 8 if label_names is None else len(label_names)
    run_digest.update(range(len(target)) if rows is None else rows, tm.rank(scores(len(target), num_labels), target))
    return run_digest.entries()


def differing(entries, other):
    """The names of the entries that differ."""
    return {name for name in entries.keys() | other.keys() if entries.get(name) != other.get(name)}


def mixed(word):
    """The last steps of SplitMix64, in whole numbers of Python."""
    word %= 2**64
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        word = (word ^ (word >> shift)) * factor % 2**64
    return word ^ (word >> 31)


def test_the_digest_mixes_as_splitmix64():
    """The first numbers of java.util.SplittableRandom from the seed 0, as printed by its reference in C."""
    golden = 0x9E3779B97F4A7C15
    assert [mixed(golden), mixed(2 * golden)] == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4]


def bits_of(gain):
    """The 64 bits of a float as a whole number."""
    return struct.unpack("<Q", struct.pack("<d", gain))[0]


def name_code(name):
    """The number of a name: what it spells, or the first 64 bits of the hash of its bytes."""
    if name.isdecimal() and not name.startswith("0"):
        return int(name)
    return struct.unpack("<q", hashlib.sha256(name.encode()).digest()[:8])[0]


@pytest.mark.parametrize("label_names", [None, ["3", "a", "ab", "ba", "", "é", "07", "12"]])
def test_targets_are_a_sum_over_rows_and_labels(label_names):
    """In a plain loop: the factor of a row times the sum of the words of its labels, or of their squares, modulo 2^64."""
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
                total += factor * mixed(code * seeds[0] + bits_of(gain)) ** power
        expected += f"{total % 2**64:016x}"
    assert digest(dense(graded), label_names=label_names)["targets"] == expected


@pytest.mark.parametrize("batch_rows", [1, 2, 3])
def test_batches_make_no_difference(batch_rows):
    """Any size and order of batches gives the entries of one batch."""
    target = dense()
    whole = RunDigest(metrics())
    for start in reversed(range(0, 5, batch_rows)):
        rows = slice(start, start + batch_rows)
        whole.update(torch.arange(5)[rows], tm.rank(scores(5)[rows], target[rows]))
    assert whole.entries() == digest()


def test_every_form_of_target_is_the_same():
    """Dense, multi-hot, sparse and padded ids in any order, on rows of which the mask drops none."""
    ids = torch.tensor([[4, 1, -1], [-1, -1, -1], [7, -1, -1], [3, 0, 2], [6, -1, -1]])
    for target in (dense() > 0, dense().to_sparse_csr(), ids, dense().double()):
        assert digest(target) == digest()


def test_masked_rows_are_left_out():
    """Rows that a mask drops say nothing; the others keep their numbers."""
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
def test_other_targets_differ_in_targets_alone(changed):
    """A label less, another gain, another label, exchanged rows, a row less or an empty row more."""
    assert differing(digest(), digest(dense(changed))) == {"targets"}


def test_each_other_change_shows_in_its_entry():
    """Assignments, training counts, options and arguments have an entry each; a key has its own arguments."""
    reversed_buckets = tm.LabelBuckets.deciles(COUNTS[::-1])
    assert differing(digest(), digest(buckets=reversed_buckets)) == {"buckets"}
    assignment, names = reversed_buckets.assignment, reversed_buckets.names
    renamed = tm.LabelBuckets.from_assignment(assignment, [names[1], names[0], *names[2:]])
    assert differing(digest(buckets=reversed_buckets), digest(buckets=renamed)) == {"buckets"}
    assert differing(digest(), digest(counts=COUNTS[::-1])) == {"counts"}
    assert differing(digest(), digest(options={"missing": "zero"})) == {"options"}
    shallow = digest(depth=7)
    assert differing(digest(), shallow) == {"keys"}
    assert differing(digest()["keys"], shallow["keys"]) == {"recall@2"}


def test_what_a_key_says_is_no_argument():
    """Other cut-offs, thresholds or row groups beside it leave a key's digest alone."""

    def keys(*metrics):
        return RunDigest(metrics).entries()["keys"]

    assert keys(tm.RecallAtK(k=[1, 2]))["recall@1"] == keys(tm.RecallAtK(k=1))["recall@1"]
    digests, digests_of_two = (keys(tm.PrecisionAtThreshold(threshold)) for threshold in (0.5, [0.5, 0.9]))
    assert digests["micro_precision@t0.5"] == digests_of_two["micro_precision@t0.5"]


def test_cuts():
    """Each key has its k or threshold, which a name of one's own does not tell; thresholds per label have a digest."""

    def cuts(*metrics):
        return RunDigest(metrics).entries()["cuts"]

    assert cuts(tm.RecallAtK(k=[1, 2])) == {"recall@1": "k=1", "recall@2": "k=2"}
    assert cuts(tm.RecallAtK(k=30, name="mine")) == {"mine": "k=30"}
    assert cuts(tm.PrecisionAtThreshold(0.6, name="mine")) == {"mine": "threshold=0.6"}
    low, high = (tm.PrecisionAtThreshold(torch.tensor([0.25, cut, 0.75])) for cut in (0.5, 0.625))
    assert [*cuts(low)] == [*cuts(high)]
    assert cuts(low)["micro_precision@t"].startswith("threshold=0.25 to 0.75, one for each label, ")
    assert cuts(low) != cuts(high)


@pytest.mark.parametrize("case", FEW, ids=str)
def test_every_key_has_its_cut(case):
    """No key of any metric is left out."""
    metric = case.metric()
    assert [*RunDigest([metric]).entries()["cuts"]] == list(metric.keys())


def test_what_no_metric_needs_has_no_digest():
    """Without buckets and counts both are None; the order of options says nothing."""
    first, other = (RunDigest([tm.RecallAtK(k=1)], options) for options in ({"a": 1, "b": [2]}, {"b": [2], "a": 1}))
    assert (first.entries()["buckets"], first.entries()["counts"]) == (None, None)
    assert first.entries() == other.entries()


def test_numbers_of_named_labels_make_no_difference():
    """Names numbered in another order, and names that only one run's predictions hold, are the same run."""
    names = ["cat", "dog", "eel", "fox", "gnu", "hen", "ibis", "jay"]
    place = torch.randperm(8, generator=torch.Generator().manual_seed(0))  # new id -> old id
    other_names = [*(names[old] for old in place), "yak"]
    counts = [*(COUNTS[old] for old in place), 0]
    old_buckets = tm.LabelBuckets.deciles(COUNTS)
    assignment = [*old_buckets.assignment[place].tolist(), len(old_buckets.names) - 1]
    target = torch.cat([dense()[:, place], torch.zeros(5, 1)], dim=1)
    buckets = tm.LabelBuckets.from_assignment(assignment, old_buckets.names)
    assert digest(label_names=names) == digest(target, label_names=other_names, counts=counts, buckets=buckets)
    names[4] = "cow"
    assert "targets" in differing(digest(label_names=other_names[:8]), digest(label_names=names))


def test_names_that_spell_numbers_are_these_numbers():
    """The same targets once with numbers and once with strings of them."""
    assert digest(label_names=[*"01234567"]) == digest()
    assert differing(digest(label_names=[*"0123456", "07"]), digest()) >= {"targets"}


def test_a_larger_catalogue_makes_no_difference():
    """Labels that no training row and no target holds, as predictions may."""
    first, other = (
        RunDigest([tm.RecallAtK(k=1, buckets=tm.LabelBuckets.deciles(c))]) for c in (COUNTS, [*COUNTS, 0, 0])
    )
    assert first.entries() == other.entries()
