"""Error messages: what arrived, and what to do."""

import re

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import tailmetrics
from tailmetrics import RecallAtK, TopKCollection

SCORES = torch.tensor([[0.9, 0.5, 0.1, 0.3], [0.2, 0.4, 0.6, 0.8]])
IDS = torch.tensor([[0, 1], [3, 2]])
TARGET = torch.tensor([1, 3])
META = torch.zeros(2, 4, device="meta")


def collection() -> TopKCollection:
    """Return a collection of one metric."""
    return TopKCollection([RecallAtK(k=1)])


def with_too_few_values() -> sp.csr_matrix:
    """Return a scipy matrix with fewer values than columns."""
    matrix = sp.csr_matrix(SCORES.numpy())
    matrix.data = matrix.data[:-1]
    return matrix


MESSAGES = r"""
rank([[0.5, 0.1]], TARGET) -> rank: preds is a list; pass a tensor, such as torch.tensor
AccuracyAtK(1, average="macro") -> accuracy by class is RecallAtK\(k=1, average='macro'\)
KForRecall(0.8, "mean") -> KForRecall: too many positional arguments; .*, most of them by name only
rank(SCORES, [[1], [0, 3]]) -> rank: target is a list; .*pad_sequence\(tensors, .*padding_value=-1\)
rank(SCORES, np.array([[1], [0, 3]], dtype=object))
    -> rank: target is an array of object; .* rows of different lengths padded with -1
rank(SCORES, torch.nested.nested_tensor([TARGET[:1], TARGET], layout=torch.jagged))
    -> rank: target is a nested tensor; pad it: target.to_padded_tensor\(-1\)
RecallAtK(k=1).update(torch.nested.nested_tensor([SCORES[0]]), TARGET[:1])
    -> RecallAtK: preds is a nested tensor; pad it: preds.to_padded_tensor\(-torch.inf\)
RecallAtK(k=1).update(SCORES, torch.nested.nested_tensor([SCORES[0]]))
    -> RecallAtK: target is a nested tensor; pad it: target.to_padded_tensor\(0\)
RecallAtK(k=1, bucket="deciles")
    -> RecallAtK: bucket is not an argument of this metric; it takes k, .*; did you mean buckets=
RecallAtK(k=1, num_classes=4) -> num_classes is not an argument of this metric; .*; did you mean num_labels=
RecallAtK(k=1, buckets=torch.ones(3))
    -> buckets is float32 \[3\]; pass LabelBuckets, such as .* LabelBuckets.deciles\(counts\)
RecallAtK(k=1, buckets="deciles").bind(torch.ones(3))
    -> not float32 \[3\]; make one of counts with LabelFrequency.from_counts\(counts, num_rows\)
RecallAtK(k=1).update(SCORES, SCORES - 1) -> a gain cannot be negative; look whether preds and target are
RecallAtK(k=None) -> RecallAtK: k=None, the whole ranking, means nothing here; pass an int
RecallAtK(k=1).update(SCORES) -> RecallAtK: target is missing; pass preds and target, or a
RecallAtK(k=1).update(rank(SCORES, TARGET), TARGET) -> RecallAtK: a Ranking holds target and row_mask
RecallAtK(k=3).update(rank(SCORES, TARGET, depth=2)) -> RecallAtK: k=3 is deeper than the ranking \(2 ids per row\); rank ag
MRR().update(Ranking.from_ids(IDS, target_ids=TARGET, complete=False))
    -> MRR: k=None reads whole lists, but the ranking was cut at 2; rank the scores or whole lists
RecallAtK(k=1, num_labels=9).update(rank(SCORES, TARGET))
    -> RecallAtK: the ranking is of 4 labels, the metric of 9; make both for the same labels
RecallAtK(k=1, validate_args=False).update(META, torch.zeros(2, dtype=torch.int64, device="meta"))
    -> RecallAtK: the batch is on meta, the metric on cpu; move the metric with .to\('meta'\)
RecallAtK(k=1, average="macro", num_labels=4).row_values(rank(SCORES, TARGET))
    -> RecallAtK: average='macro' is over labels; a row has no value of its own
collection().update(SCORES) -> TopKCollection: target is missing; pass preds and target, or
collection().__setitem__("a", MRR()) -> TopKCollection: members cannot be added later
collection().pop("recall_1") -> TopKCollection: members cannot be removed; make a new collection of those that stay
collection().__delitem__("recall_1") -> TopKCollection: members cannot be removed
collection().clear() -> TopKCollection: members cannot be removed
LabelFrequency(4).update() -> LabelFrequency: got neither target nor target_ids; pass one of them
LabelFrequency(4).update(TARGET, target_ids=TARGET) -> LabelFrequency: got both target and target_ids
TopKCollection(RecallAtK) -> RecallAtK.*is no metric of tailmetrics; pass metrics .* \[RecallAtK\(k=5\)\]
TopKCollection([MRR()], "val/") -> .*is no metric of tailmetrics; pass metrics .* \[RecallAtK\(k=5\)\]
TopKCollection([GiniAtK(k=1, num_labels=8), MAP(num_labels=9)]).update(SCORES, TARGET) -> labels
NoveltyAtK(k=3).bind(LabelBuckets.deciles([3, 2, 1, 1])).update(SCORES, TARGET)
    -> num_train is not known yet; call bind\(frequency\) with a LabelFrequency before update, or pass num_train=
PropensityScoredRecallAtK(k=3).bind(LabelBuckets.from_assignment([0, 1], ["a", "b"])).compute()
    -> label_counts and num_train are not known yet; call bind\(frequency\) with a LabelFrequency first, or pass label_counts=
RecallAtK(top_k=5) -> RecallAtK: top_k is not an argument of this metric; .*did you mean k=
MRR(top_k=5) -> MRR: top_k is not an argument of this metric; .*did you mean k=
GiniAtK(k=3, scope="global") -> GiniAtK: scope is not an argument of this metric; it takes k, buckets,
RPrecision(k=5) -> RPrecision: k is not an argument of this metric; it takes
KForRecall(0.8, k=5) -> KForRecall: k is not an argument of this metric; it takes
LabelFrequency(labels=5) -> LabelFrequency: labels is not an argument of this metric; it takes num_labels
collection().merge_state(5) -> TopKCollection.merge_state: got a \w+; pass a TopKCollection
collection().load_state_dict({}) -> load_state_dict: state_dict holds no state of \w+ .*call persistent\(True\)
MRR().load_state_dict({}) -> MRR.load_state_dict: state_dict holds no state of MRR; call persistent\(True\)
collection().add_metrics([MRR()]) -> TopKCollection: members cannot be added later; make a new collection
LabelFrequency(4, validate_args=False).update(torch.zeros(2, dtype=torch.int64, device="meta"))
    -> LabelFrequency: target is .* on meta, the counts are on cpu
functional.cross_entropy(rank(IDS, TARGET)) -> cross_entropy: the ranking was made from ids or candidates
CrossEntropy().update(torch.tensor([[torch.inf, 0.0]]), torch.tensor([0]))
    -> CrossEntropy: preds holds inf, for which softmax is undefined; pass finite scores
KForRecall(0.5).update(IDS, TARGET)
    -> KForRecall: a miss counts half the number of labels, which ids do not tell; pass num_labels=
NDCGAtK(k=1, gain="exponential").update(SCORES, torch.tensor([[200.0, 0, 0, 0], [1.0, 0, 0, 0]]))
    -> NDCGAtK: a gain of 200 is too large for 2\^g - 1
NoveltyAtK(k=1, label_counts=[1, 2], num_train=3, num_labels=4)
    -> NoveltyAtK: label_counts is for 2 labels, but there are 4; pass what was made for the same labels
PropensityScoredPrecisionAtK(k=1, label_counts=[0, 1], num_train=10 ** 9, a=10.0, b=1e-06).update(torch.tensor([[0]]), torch.tensor([0]))
    -> PropensityScoredPrecisionAtK: a=10.0, b=1e-06 give 20\.7233 to
LabelAUC(num_labels=3, bins=5) -> LabelAUC: bins=5 must be a power of two from 2 to 4096
Ranking.from_flat(torch.tensor([0.1, 0.2]), torch.tensor([1, 0]), torch.tensor([0, 0]), torch.tensor([5, 1]), num_labels=3)
    -> Ranking.from_flat: ids holds the id 5, but there are 3 labels
MRR().update(SCORES, torch.tensor([[-1.0, 0, 1, 0]] * 2)) -> MRR: .* one is -1; .* whether preds and target are swapped
MRR().update(SCORES, torch.tensor([[-1, 0, 1, 0]] * 2)) -> MRR: .* one is -1; .* label ids of this width go to
RowAUC(empty_target_action="error").update(SCORES, torch.tensor([[True, False] * 2, [True] * 4]))
    -> row 1 has no pair of a relevant and an irrelevant label
RowAUC().update(Ranking.from_ids(IDS, target_ids=TARGET, num_labels=4, complete=False)) -> RowAUC: preds are ranked ids, which have no scores
CoverageError().update(Ranking.from_ids(IDS, target_ids=TARGET, num_labels=4, complete=False)) -> CoverageError: preds are ranked ids, which have no scores
RankingLoss().update(Ranking.from_ids(IDS, target_ids=TARGET, num_labels=4, complete=False)) -> RankingLoss: preds are ranked ids, which have no scores
FallOutAtK(k=3, num_labels=2, duplicates="first").update(torch.tensor([[0, 0, 0]]), torch.tensor([1]))
    -> preds list a label twice in one row
ERRAtK(k=5, max_gain=3).update(IDS[:1], torch.tensor([[4.0, 1.0]])) -> ERRAtK: .*max_gain
F1AtThreshold(0.5).update(IDS, TARGET) -> F1AtThreshold: .*scores
F1AtThreshold(torch.zeros(2), num_labels=4) -> threshold is for 2 labels, but there are 4
F1AtThreshold(0.5).update(SCORES.where(SCORES != 0.1, torch.nan), TARGET) -> F1AtThreshold: .*NaN
F1AtThreshold(0.5, num_labels=4).update(SCORES[:, :3], TARGET) -> F1AtThreshold: preds has 3 columns
    -> PropensityScoredPrecisionAtK: .*weights
F1AtK(2, macro="of_averages") -> says what average='macro' is
rank(np.ma.masked_array(SCORES.numpy(), SCORES.numpy() > 0.8), TARGET) -> is a masked array, .*\.filled\(-np.inf\)
rank(sp.bsr_matrix(SCORES.numpy()), TARGET) -> preds is in the BSR format, whose blocks store zeros
rank(sp.csr_matrix((2, 2 ** 62)), TARGET) -> is sparse of shape \[2, 4611686018427387904\], 2\^63 cells or more
CalibrationErrorAtK().update(torch.tensor([[torch.inf, 0.0]]), torch.tensor([0]))
    -> CalibrationErrorAtK: preds holds inf, for which softmax is undefined; pass finite scores
TieRateAtK(k=2).update(rank((SCORES[:, :2], IDS), TARGET, depth=2, num_labels=4, complete=False))
    -> Ranking.tied_at: k=2 asks for .*rank with depth=3
rank(SCORES[:, :1], TARGET // 2)
    -> there are 1 labels \(ids 0 to 0\); check .*; 0 and 1 of one label are target\[:, None\], .* need indexes=
RecallAtK(k=1).update(SCORES, TARGET, sample_weight=TARGET)
    -> RecallAtK.update: sample_weight is not taken; it takes preds, .*; did you mean row_weights=\?
RecallAtK(k=1).update(SCORES, TARGET, row_mask=[1, 0])
    -> row_mask is int64 \[2\] for 2 rows; pass for each row a bool, True for a row that counts, shape \[2\]
RecallAtK(k=1, row_groups=["a"]).update(SCORES, TARGET, row_groups=["a", "a"])
    -> row_groups is a list; pass for each row the number of its group as an integer, .*, as a tensor, an array or a list
RecallAtK(k=1)(SCORES, TARGET, row_group=TARGET) -> RecallAtK.update: row_group is not taken; .*; did you mean row_groups=
collection().update(SCORES, TARGET, sample_weight=TARGET)
    -> TopKCollection.update: sample_weight is not taken; .*; did you mean row_weights=\?
collection()(SCORES, TARGET, mask=TARGET, x=1)
    -> TopKCollection.rank: mask and x are not taken; it takes preds, .*indexes; did you mean row_mask=\?
LabelFrequency(4).update(TARGET, weights=TARGET) -> LabelFrequency.update: weights is not taken; it takes target, row_mask,
rank(with_too_few_values(), TARGET) -> preds stores 8 columns but 7 values; rebuild it
rank(sp.csr_matrix(np.ones((2, 4), dtype=np.int64)), TARGET) -> the CSR preds store .*; pass floating scores as preds
rank((SCORES, META.long()), TARGET) -> preds is a pair on cpu and meta; move both to one device
rank(SCORES > 0, TARGET) -> preds is .*bool.*; pass floating scores or integer ids
rank(SCORES, TARGET.to("meta")) -> target is on meta, preds on cpu; move both to one device
rank(SCORES, torch.tensor([[1e-35, 0, 0, 0], [1, 0, 0, 0]]))
    -> target holds a gain below 1e-30 that is not 0; scale the gains up
PrecisionAtK(1, 2) -> PrecisionAtK: too many positional arguments; it takes k, .*, most of them by name o
PrecisionAtK(buckets="deciles") -> PrecisionAtK: missing a required argument: 'k'; it takes k, .*
PrecisionAtK(k=2).row_values(SCORES) -> PrecisionAtK: ranking is float32 \[2, 4\]; pass a Ranking, such
PrecisionAtK(k=2).scalars(torch.ones(7)) -> PrecisionAtK: value is .*; pass what .* returned, 1 numbers
PrecisionAtK(k={1, 2}) -> PrecisionAtK: k is a set; pass one int or a list of them
PrecisionAtK(k=2 ** 62) -> PrecisionAtK: k=4611686018427387904 is too large; pass an int of at most 21474836
PrecisionAtK(k=2, num_labels=2 ** 80) -> PrecisionAtK: num_labels=1208925819614629174706176 is too large
rank(SCORES, TARGET, 2 ** 80) -> rank: depth=1208925819614629174706176 is too large
rank(SCORES, TARGET, ignore_index="pad") -> rank: ignore_index='pad' is not a whole number
rank(SCORES, TARGET).by_bucket(3) -> Ranking.by_bucket: buckets is int; pass LabelBuckets
rank(SCORES, TARGET).by_bucket(LabelBuckets.deciles([1] * 3))
    -> Ranking.by_bucket: the ranking is of 4 labels, the buckets of 3; make both for the same labels
rank(SCORES, TARGET).by_bucket(LabelBuckets.deciles([1] * 4), "all") -> by_bucket: scope='all' is not kno
functional.recall_at_k(SCORES, TARGET) -> recall_at_k: missing a required argument: 'k'; pass recall_at_k\(
functional.recall_at_k(SCORES, TARGET, top_k=2) -> recall_at_k: .*; pass recall_at_k.preds, target, k.\.
functional.recall_at_k(SCORES, TARGET, k=None) -> recall_at_k: k=None, the whole ranking, means nothing
PrecisionAtK(k=1, buckets=LabelBuckets.from_assignment([0, 0], ["all"]), num_labels=3)
    -> PrecisionAtK: buckets is for 2 labels, but there are 3; pass what was made for the same labels
"""
"""Calls, and after an arrow the pattern of the error."""

NAMES = (
    {name: getattr(tailmetrics, name) for name in tailmetrics.__all__}
    | globals()
    | {"np": np}
)


@pytest.mark.parametrize(
    ("call", "message"), re.findall(r"^(\S.*?)\s+-> (.*)$", MESSAGES, re.MULTILINE)
)
def test_error_names_the_caller_the_input_and_the_remedy(
    call: str, message: str
) -> None:
    """The error of a wrong call names the caller, what arrived and what to do."""
    with pytest.raises((TypeError, ValueError), match=message):
        eval(call, NAMES)
