"""Mistakes that libraries in use were measured to make, one test each."""

from __future__ import annotations

import math
import pickle
import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import scipy.sparse
import torch
from pytorch_lightning import LightningModule, Trainer
from torch import Tensor, nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
from torchmetrics import MetricCollection
from torchmetrics.classification import MulticlassF1Score

import tailmetrics
from cases import BUCKETS, FEW, NUM_LABELS, data
from tailmetrics import (
    MAP,
    MRR,
    AccuracyAtK,
    CatalogCoverageAtK,
    CrossEntropy,
    F1AtK,
    GiniAtK,
    HitRateAtK,
    KForRecall,
    LabelBuckets,
    LabelFrequency,
    NDCGAtK,
    PositiveCoverageAtK,
    PrecisionAtK,
    PredictionProportionAtK,
    RecallAtK,
    RelevanceAtK,
    TieRateAtK,
    TopKCollection,
    rank,
)
from tailmetrics.metrics import REGISTRY

HALVES = LabelBuckets.from_assignment([0] * 4 + [1] * 4, ["head", "tail"])


def value(metric: Any, *batches: Any) -> Any:
    """The value after the batches, as float or list."""
    for batch in batches:
        metric.update(*batch)
    return metric.compute().tolist()


# TorchMetrics and Lightning


def test_collection_does_not_merge_metrics_after_a_first_batch_of_misses() -> None:
    """P@5, R@5 and R@10 of one hit at rank 2 and one at rank 8 stay .1, .25 and .5 after a batch without a hit."""
    collection = MetricCollection({"p5": PrecisionAtK(k=5), "r5": RecallAtK(k=5), "r10": RecallAtK(k=10)})
    ids = torch.arange(10)[None]
    collection.update(ids, torch.tensor([[30, 31]]))
    collection.update(ids, torch.tensor([[1, 7]]))
    found = {name: float(result) for name, result in collection.compute().items()}
    assert found == {"p5": 0.2 / 2, "r5": 0.5 / 2, "r10": 1 / 2}


def test_bfloat16_model_does_not_round_counters() -> None:
    """257 rows, which bfloat16 cannot count, and R@5 of 1 stay what they are in a model that is cast."""
    model = nn.Module()
    model.metric = RecallAtK(k=5)
    model.to(torch.bfloat16)
    ids = torch.arange(5).expand(257, 5)
    assert value(model.metric, (ids, torch.zeros(257, dtype=torch.int64))) == 1
    assert value(model.to(torch.bfloat16).metric, (ids, torch.full((1,), 9).expand(257))) == 0.5


def test_set_dtype_does_not_convert_integers() -> None:
    """Counts remain int64."""
    metric = RecallAtK(k=1).set_dtype(torch.float16)
    assert {state.dtype for state in metric.metric_state.values()} == {torch.int64}
    assert LabelFrequency(3).set_dtype(torch.float16).counts.dtype == torch.int64


def test_counters_do_not_stop_at_2_to_the_24() -> None:
    """A hit after 2^24 rows still counts: exactly 2^24 + 1 hits in 2^24 + 2 rows."""
    metric = AccuracyAtK(k=1)
    metric.update(torch.tensor([[0]]), torch.tensor([0]))
    for name, state in metric.metric_state.items():
        setattr(metric, name, state * 2**24)
    assert value(metric, (torch.tensor([[0], [0]]), torch.tensor([0, 1]))) == (2**24 + 1) / (2**24 + 2)


def test_sums_do_not_change_with_batch_split_or_memory_layout() -> None:
    """nDCG, DCG, cross-entropy and propensities: the same bits for any split and any strides."""
    batch = data(seed=5, num_rows=50, graded=True, ties=False)
    scores = batch.scores.clamp(min=-5)
    for name in ("NDCGAtK", "DCGAtK", "CrossEntropy", "PropensityScoredNDCGAtK"):
        case = next(case for case in FEW if case.name == name)
        whole = value(case.metric(), (scores, batch.target))
        turned = value(case.metric(), (scores.t().contiguous().t(), batch.target.t().contiguous().t()))
        pieces = value(case.metric(), *zip(scores.split(3), batch.target.split(3), strict=True))
        assert whole == turned == pieces, name


class Logging(LightningModule):
    """Validates with a collection, logged as documented."""

    def __init__(self, reset: bool = True) -> None:
        super().__init__()
        self.layer = nn.Linear(1, 1)
        self.reset, self.logged = reset, []
        self.metrics = TopKCollection([RecallAtK(k=[1, 2], buckets=HALVES), KForRecall(0.8)], prefix="val/")

    def validation_step(self, batch: Any) -> None:
        self.metrics.update(*batch)

    def on_validation_epoch_end(self) -> None:
        found = self.metrics.compute()
        self.log_dict(found)
        self.logged.append({key: float(one) for key, one in found.items()})
        if self.reset:
            self.metrics.reset()


def validated(model: LightningModule, folder: Path, *loaders: Any) -> Trainer:
    """A quiet trainer after validating once per loader."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = Trainer(
            accelerator="cpu",
            logger=False,
            enable_progress_bar=False,
            enable_model_summary=False,
            default_root_dir=folder,
        )
        for loader in loaders:
            trainer.validate(model, loader, verbose=False)
    return trainer


def loader(ids: list[list[int]], target: list[int]) -> DataLoader[Any]:
    """One row per batch."""
    return DataLoader(TensorDataset(torch.tensor(ids), torch.tensor(target)), batch_size=1)


def test_log_dict_of_compute_works_with_lightning(tmp_path: Path) -> None:
    """Keys with "/", "@" and "." are logged; every one is unique; values are those of compute."""
    model = Logging()
    model.metrics = TopKCollection([RecallAtK(k=[1, 2], buckets=HALVES), KForRecall(0.8, num_labels=8)], prefix="val/")
    trainer = validated(model, tmp_path, loader([[0, 5], [5, 0]], [0, 0]))
    assert {key: float(one) for key, one in trainer.callback_metrics.items() if not math.isnan(one)} == {
        "val/recall@1/head": 1.0,
        "val/recall@2/head": 1.0,
        "val/median_k_for_recall@0.8": 1.5,
    }


def test_reset_keeps_epochs_apart_with_lightning(tmp_path: Path) -> None:
    """Two validations: the second is of its own rows alone."""
    model = Logging()
    model.metrics = TopKCollection([AccuracyAtK(k=1)])
    validated(model, tmp_path, loader([[0], [1]], [0, 1]), loader([[0], [1]], [5, 6]))
    assert model.logged == [{"accuracy@1": 1.0}, {"accuracy@1": 0.0}]


def test_member_names_hold_no_dot() -> None:
    """A "." in a member name is a KeyError in MetricCollection: names made from keys have none, given ones are refused."""
    collection = TopKCollection([KForRecall(0.8), RecallAtK(k=1)], prefix="val/")
    assert all("." not in name for name in collection.keys(keep_base=True))  # type: ignore[operator]
    for name in collection:
        assert collection[name] is not None
    with pytest.raises(ValueError, match=r"TopKCollection: the member name 'a.b'"):
        TopKCollection({"a.b": RecallAtK(k=1)})


def test_merge_state_works_and_drops_the_cached_value() -> None:
    """full_state_update=False is stated, and compute after a merge is not the value from before."""
    first, second = RecallAtK(k=1), RecallAtK(k=1)
    assert value(first, (torch.tensor([[0]]), torch.tensor([0]))) == 1
    second.update(torch.tensor([[0]]), torch.tensor([1]))
    first.merge_state(second)
    assert type(first).full_state_update is False
    assert first.compute() == 0.5


@pytest.mark.parametrize("case", FEW, ids=str)
def test_reductions_pickle(case: Any) -> None:
    """No lambda among the reducers, so a metric goes to another process."""
    metric = case.metric()
    assert pickle.loads(pickle.dumps(metric))._reductions == metric._reductions


def test_failed_update_does_not_raise_the_update_count() -> None:
    """Neither in a metric, nor in a collection, nor in the training counts."""
    nan = torch.full((1, 3), torch.nan)
    metric, collection, frequency = (
        RecallAtK(k=1),
        TopKCollection([MRR(), GiniAtK(k=1, num_labels=3)]),
        LabelFrequency(3),
    )
    for fail in (lambda: metric.update(nan, torch.tensor([0])), lambda: collection.update(nan, torch.tensor([0]))):
        with pytest.raises(ValueError, match="NaN"):
            fail()
    with pytest.raises(ValueError, match="id 3"):
        frequency.update(torch.tensor([3]))
    counts = [one._update_count for one in (metric, frequency, *collection.values())]
    assert counts == [0, 0, 0, 0]


def test_one_element_results_are_scalars_whose_keys_still_fit() -> None:
    """[1 cut-off] and [1 bucket] come squeezed, as TorchMetrics does, and scalars() pairs them with their key."""
    one = LabelBuckets.from_assignment([0, 0, 0], ["all"])
    for metric in (RecallAtK(k=[1]), RecallAtK(k=1, buckets=one), RecallAtK(k=[1], buckets=one)):
        metric.update(torch.tensor([[0]]), torch.tensor([0]))
        assert metric.compute().shape == ()
        assert [float(scalar) for scalar in metric.scalars().values()] == [1.0]


def test_flags_do_not_overflow_after_256_updates() -> None:
    """300 batches that hit the same label cover it once: 1, not 44 / 1."""
    metric = PositiveCoverageAtK(k=1, num_labels=3)
    assert value(metric, *[(torch.tensor([[0]]), torch.tensor([0]))] * 300) == 1.0


@pytest.mark.parametrize("case", FEW, ids=str)
def test_loading_a_state_of_the_wrong_shape_or_with_missing_keys_is_an_error(case: Any) -> None:
    """TorchMetrics accepts both silently."""
    metric = case.metric()
    metric.persistent(True)
    state = metric.state_dict()
    name = next(iter(state))
    with pytest.raises(RuntimeError, match="is needed"):
        metric.load_state_dict({**state, name: torch.cat([state[name], state[name]])})
    with pytest.raises(RuntimeError, match=name):
        metric.load_state_dict({key: one for key, one in state.items() if key != name})


def test_hash_does_not_change_on_reset() -> None:
    """A metric in a set or as a key is found again."""
    metric = RecallAtK(k=1)
    kept = {metric}
    metric.update(torch.tensor([[0]]), torch.tensor([0]))
    assert metric in kept
    metric.reset()
    assert metric in kept


def test_rows_repeated_by_a_distributed_sampler_can_be_dropped() -> None:
    """9 rows over two ranks are padded to 10; a row mask counts the ninth once: 1/9, not 2/10."""
    ids, target = torch.tensor([[0]] + [[1]] * 8), torch.zeros(9, dtype=torch.int64)
    merged = AccuracyAtK(k=1)
    for rank_of_process in (0, 1):
        sampler = DistributedSampler(range(9), num_replicas=2, rank=rank_of_process, shuffle=False)
        rows = torch.tensor(list(sampler))
        places = torch.arange(len(rows)) * 2 + rank_of_process
        own = AccuracyAtK(k=1)
        own.update(ids[rows], target[rows], row_mask=places < 9)
        merged.merge_state(own)
    assert merged.compute().item() == 1 / 9


def test_states_are_no_lists() -> None:
    """List states abort gloo with unequal batches; here every state is a tensor of fixed shape."""
    for case in FEW:
        assert all(isinstance(state, Tensor) for state in case.metric().metric_state.values())


def test_weighted_f1_takes_memory_linear_in_the_number_of_labels() -> None:
    """At 100,000 labels 2.4 MB where a confusion matrix takes 80 GB; the value is that of MulticlassF1Score."""
    metric = F1AtK(k=1, average="weighted", num_labels=100_000)
    assert sum(state.numel() * state.element_size() for state in metric.metric_state.values()) <= 3 * 8 * 100_000 + 64
    scores = torch.randn(200, 9, generator=torch.Generator().manual_seed(1))
    target = torch.randint(9, (200,), generator=torch.Generator().manual_seed(2))
    peer = MulticlassF1Score(num_classes=9, average="weighted")(scores, target)
    assert value(F1AtK(k=1, average="weighted", num_labels=9), (scores, target)) == pytest.approx(float(peer), abs=1e-6)


@pytest.mark.parametrize("shift", [0.0, -1.0, -1e6, 5.0])
def test_scores_of_zero_and_below_are_scores(shift: float) -> None:
    """Every metric of ranks gives the same for scores moved by a constant; only -inf is not retrieved."""
    batch = data(seed=6, num_rows=20)
    for case in FEW:
        if case.name in ("CrossEntropy", "LabelAUC", "LabelAP", "CalibrationErrorAtK") or case.name.endswith(
            "AtThreshold"
        ):
            continue  # these read the scores themselves
        moved = value(case.metric(), (batch.scores.double() + shift, batch.target))
        wanted = value(case.metric(), (batch.scores.double(), batch.target))
        assert str(moved) == str(wanted), str(case)


def test_map_at_k_divides_by_relevant_labels_not_by_hits() -> None:
    """One hit at rank 1 of three relevant labels: 1/3, or 1/2 at k=2 by what is attainable, never 1."""
    batch = (torch.tensor([[0, 9]]), torch.tensor([[0, 1, 2]]))
    assert value(MAP(k=2), batch) == 1 / 3
    assert value(MAP(k=2, denominator="attainable"), batch) == 1 / 2


def test_two_dimensional_input_is_one_query_per_row() -> None:
    """Two rows with the hit at rank 1 and 2 have MRR 3/4; as a single query it would be 1."""
    assert value(MRR(), (torch.tensor([[0.9, 0.1], [0.9, 0.1]]), torch.tensor([[True, False], [False, True]]))) == 0.75


# Peers


def test_duplicate_ids_are_an_error() -> None:
    """A label listed twice, or relevant twice, would give recall 2."""
    with pytest.raises(ValueError, match=r"RecallAtK: preds names the label 3 twice in row 0"):
        RecallAtK(k=2).update(torch.tensor([[3, 3]]), torch.tensor([3]))
    with pytest.raises(ValueError, match=r"RecallAtK: target names the label 3 twice in row 0"):
        RecallAtK(k=2).update(torch.tensor([[3, 4]]), torch.tensor([[3, 3]]))


def test_padding_does_not_match_padding() -> None:
    """-1 in a short list is no hit for -1 in a short target: recall 1/2, not 3."""
    preds, target = torch.tensor([[1, -1, -1, -1]]), torch.tensor([[1, 2, -1, -1]])
    assert value(RecallAtK(k=4), (preds, target)) == 0.5
    assert value(PrecisionAtK(k=4), (preds, target)) == 1.0
    assert value(PrecisionAtK(k=4, denominator="k"), (preds, target)) == 0.25


def test_padding_as_an_index_does_not_read_the_last_label() -> None:
    """-1 hits neither a relevant last label nor a relevant first one, is not shown, and has no bucket."""
    preds = torch.tensor([[0, -1]])
    for relevant in ([False] * 7 + [True], [True] + [False] * 7):
        target = torch.tensor([relevant])
        for metric in (RecallAtK(k=2), HitRateAtK(k=2), RelevanceAtK(k=2), NDCGAtK(k=2), MAP()):
            assert value(metric, (torch.tensor([[1, -1]]), target)) == 0
    target = torch.tensor([[False] * 7 + [True]])
    assert value(RecallAtK(k=2, buckets=HALVES), (preds, target))[1] == 0
    assert value(PredictionProportionAtK(k=2, buckets=HALVES), (preds, target)) == [0.5, 0.0]
    assert value(CatalogCoverageAtK(k=2, num_labels=8), (preds, target)) == 1 / 8


def test_a_dead_model_is_seen_by_its_ties() -> None:
    """Constant scores show labels 0, 1, … and hit the head; TieRateAtK says that every row is cut inside a tie."""
    target = torch.zeros(5, dtype=torch.int64)
    assert value(AccuracyAtK(k=1), (torch.zeros(5, 8), target)) == 1
    assert value(TieRateAtK(k=[1, 3]), (torch.zeros(5, 8), target)) == [1.0, 1.0]
    assert value(TieRateAtK(k=[1, 3]), (torch.arange(8.0).expand(5, 8), target)) == [0.0, 0.0]


def test_deciles_are_of_equal_mass_and_do_not_collapse_on_a_long_tail() -> None:
    """With 83 % of labels seen less than 5 times no decile is empty, and only the last few hold labels seen once."""
    counts = (2500 / torch.arange(1, 2001) ** 1.1).ceil().long()
    assert round(float((counts < 5).double().mean()), 2) == 0.83
    buckets = LabelBuckets.deciles(counts)
    sizes = buckets.label_counts[:10].tolist()
    mass = torch.zeros(11, dtype=torch.int64).index_add_(0, buckets.assignment, counts)[:10].tolist()
    assert min(sizes) > 0
    assert max(mass[3:]) < 1.1 * min(mass[3:])
    by_labels = LabelBuckets.quantiles(counts, 10, by="labels")
    seen_once = [
        bool((counts[of.assignment == bucket] == 1).all()) for of in (buckets, by_labels) for bucket in range(10)
    ]
    assert sum(seen_once[:10]) < sum(seen_once[10:])


def test_a_perfect_predictor_is_perfect_in_every_bucket() -> None:
    """A mask that overwrites itself gave the tail recall 0."""
    target = torch.tensor([[0, 5], [1, 6], [3, 7], [4, -1]])
    for metric in (RecallAtK, NDCGAtK, HitRateAtK, PrecisionAtK):
        assert value(metric(k=1, buckets=HALVES), (target, target)) == [1.0, 1.0]
    for k, scope in ((2, "global"), (2, "bucket")):
        assert value(RecallAtK(k=k, buckets=HALVES, scope=scope), (target, target)) == [1.0, 1.0]


def test_no_epsilon_in_rates() -> None:
    """Macro precision of a million right answers is 1, of a million wrong ones 0, exactly."""
    for target, wanted in ((0, 1.0), (1, 0.0)):
        metric = PrecisionAtK(k=1, average="macro", num_labels=2)
        metric.update(torch.tensor([[0]]), torch.tensor([target]))
        for name, state in metric.metric_state.items():
            setattr(metric, name, state * 10**6)
        assert metric.compute().item() == wanted


def test_input_is_not_reordered_in_place() -> None:
    """scipy and torch CSR with columns in no order keep them so."""
    parts = (torch.tensor([3.0, 1.0, 2.0]).numpy(), torch.tensor([2, 0, 1]).numpy(), torch.tensor([0, 3]).numpy())
    matrix = scipy.sparse.csr_matrix(parts, shape=(1, 4))
    ours = torch.sparse_csr_tensor(
        torch.tensor([0, 3]), torch.tensor([2, 0, 1]), torch.tensor([3.0, 1, 2]), size=(1, 4)
    )
    assert value(RecallAtK(k=1), (matrix, matrix), (ours, ours)) == 1 / 3
    assert matrix.indices.tolist() == ours.col_indices().tolist() == [2, 0, 1]
    assert matrix.data.tolist() == ours.values().tolist() == [3, 1, 2]


def test_an_empty_row_does_not_make_recall_nan() -> None:
    """A row without a relevant label counts 0 overall, or is skipped; the rest keeps its value."""
    batch = (torch.tensor([[0], [0]]), torch.tensor([0, -1]))
    assert value(RecallAtK(k=1), batch) == 0.5
    assert value(RecallAtK(k=1, empty_target_action="skip"), batch) == 1.0
    assert value(RecallAtK(k=1, empty_target_action="pos"), batch) == 1.0


def test_unequal_batches_are_averaged_by_row() -> None:
    """Three hits in one batch and a miss in another are 3/4, not the mean of 1 and 0."""
    hits = (torch.tensor([[0]] * 3), torch.zeros(3, dtype=torch.int64))
    assert value(AccuracyAtK(k=1), hits, (torch.tensor([[1]]), torch.tensor([0]))) == 0.75


def test_a_nan_score_does_not_rank_best() -> None:
    """It is an error wherever it stands, in dense scores, candidates and CSR."""
    scores = torch.tensor([[0.1, torch.nan, 0.3]])
    for preds in (scores, (scores, torch.tensor([[0, 1, 2]])), scores.to_sparse_csr()):
        with pytest.raises(ValueError, match=r"RecallAtK: preds holds NaN in row 0"):
            RecallAtK(k=1).update(preds, torch.tensor([1]))


def test_coverage_and_gini_are_not_averaged_over_ranks() -> None:
    """Two ranks that show one label of two each cover both, evenly: 1 and 0, not 1/2 and 1/2."""
    shown = [(torch.tensor([[label]]), torch.tensor([0])) for label in (0, 1)]
    for metric, wanted in ((CatalogCoverageAtK(k=1, num_labels=2), 1.0), (GiniAtK(k=1, num_labels=2), 0.0)):
        ranks = [metric.clone(), metric.clone()]
        for own, batch in zip(ranks, shown, strict=True):
            own.update(*batch)
        ranks[0].merge_state(ranks[1])
        assert ranks[0].compute().item() == wanted


def test_labels_are_put_into_buckets_by_integers() -> None:
    """Masses beyond 2^53, where float sums lose ones: the walk in whole numbers, label by label."""
    counts = [2**55 + 3, 2**55 + 1, 2**55 - 1, 2**54 + 1, 2**54 - 1, 7, 5, 3, 1, 1, 1]
    assignment, bucket, mass, rest = [], 0, 0, sum(counts)
    opened = rest
    for count in counts:
        assignment.append(bucket)
        mass += count
        rest -= count
        if Fraction(mass) * (10 - bucket) >= opened:
            bucket, mass, opened = bucket + 1, 0, rest
    assert LabelBuckets.deciles(counts).assignment.tolist() == assignment
    ids = torch.tensor([2**24 + 1, 2**24])
    many = torch.zeros(2**24 + 2, dtype=torch.int64)
    many[ids[0]] = 1
    assert LabelBuckets.from_assignment(many, ["a", "b"]).of(ids).tolist() == [1, 0]


def test_trec_ties_go_to_the_higher_document_id(tmp_path: Path) -> None:
    """Documents are numbered so that "lower id first" is trec_eval's descending order of names."""
    from tailmetrics.io import read

    (tmp_path / "run.trec").write_text("q1 Q0 a 1 0.5 x\nq1 Q0 b 2 0.5 x\n")
    (tmp_path / "qrels.trec").write_text("q1 0 b 1\n")
    dataset = read(tmp_path / "run.trec", tmp_path / "qrels.trec", format="trec")
    assert value(MRR(), *[(batch.preds, batch.target) for batch in dataset]) == 1.0


def test_padded_ids_as_wide_as_the_labels_do_not_pass_for_multi_hot() -> None:
    """Beside scores of that shape integers are a matrix: with a -1 an error that names target_ids=."""
    scores = torch.tensor([[0.1, 0.2, 0.3]])
    with pytest.raises(ValueError, match="target_ids="):
        RecallAtK(k=1).update(scores, torch.tensor([[2, -1, -1]]))
    with pytest.raises(ValueError, match="target_ids="):
        LabelFrequency(3).update(torch.tensor([[2, -1, -1]]))
    metric = RecallAtK(k=1)
    metric.update(tailmetrics.Ranking.from_scores(scores, target_ids=torch.tensor([[2, -1, -1]])))
    assert metric.compute() == 1
    assert value(RecallAtK(k=1), (scores, torch.tensor([[0, 0, 1]]))) == 1


# torch on the CPU


@pytest.mark.parametrize("num_labels", [7, 300, 5000])
@pytest.mark.parametrize("kind", [torch.float32, torch.float16, torch.float64], ids=str)
def test_ties_go_to_the_lower_id(num_labels: int, kind: torch.dtype) -> None:
    """torch.topk breaks ties arbitrarily: here every tie, at the cut and above it, is in order of ids."""
    scores = torch.randint(3, (20, num_labels), generator=torch.Generator().manual_seed(num_labels)).to(kind)
    scores[3] = 1
    scores[4, : num_labels // 2] = -torch.inf
    for k in (1, 3, num_labels - 1):
        found = rank(scores, torch.zeros(20, dtype=torch.int64), depth=k).ids.tolist()
        for row, ids in zip(scores.tolist(), found, strict=True):
            wanted = sorted(
                (label for label in range(num_labels) if row[label] > -math.inf), key=lambda one: (-row[one], one)
            )
            assert ids == (wanted[:k] + [-1] * k)[:k]


def test_minus_zero_ties_with_zero() -> None:
    """-0.0 equals 0.0, so the lower id comes first whichever is which."""
    for scores in ([-0.0, 0.0, -0.0], [0.0, -0.0, 0.0]):
        assert rank(torch.tensor([scores]), torch.tensor([0])).ids.tolist() == [[0, 1, 2]]
        pair = (torch.tensor([scores]), torch.tensor([[2, 0, 1]]))
        assert rank(pair, torch.tensor([0])).ids.tolist() == [[0, 1, 2]]


def test_ceil_of_recall_times_relevant_is_not_the_needed_number_of_hits() -> None:
    """To find c of n relevant labels takes c hits, for every c / n below one: ceil is off by one for .07, .14, .28 …."""
    assert [c for c in range(1, 100) if math.ceil(c / 100 * 100) != c] == [7, 14, 28, 55, 56]
    for n in (100, 50, 37):
        ids = torch.arange(n)[None]
        for c in range(1, n):
            assert value(KForRecall(c / n, num_labels=n), (ids, ids)) == c


def test_cross_entropy_of_an_unretrieved_target_is_infinite_not_nan() -> None:
    """-inf for the target, and rows of -inf alone."""
    scores = torch.tensor([[0.0, -torch.inf], [-torch.inf, -torch.inf]])
    for row in (0, 1):
        assert value(CrossEntropy(), (scores[[row]], torch.tensor([1]))) == math.inf


def test_every_metric_is_named_in_the_table_of_cases() -> None:
    """The suites that run over the table run over the registry."""
    assert {case.name for case in FEW} == set(REGISTRY)
    assert len(BUCKETS) == 11
    assert NUM_LABELS == 40
