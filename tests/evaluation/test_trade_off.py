"""The trade-off of an evaluation: values at each τ, and what a τ chosen on half of the rows changes on the others."""

import csv
import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats

import tailmetrics as tm
from printed import in_full
from processes import of_each_rank
from tailmetrics.evaluation import Evaluation
from tailmetrics.evaluation.trade_off import content_hashes
from tailmetrics.report import Report, latex, markdown, page

N, L, TAUS = 600, 120, (0.0, 0.5, 1.0)
COUNTS = (3000 / np.arange(2, L + 2)).astype(np.int64)
BUCKETS = tm.LabelBuckets.quantiles(COUNTS, 4)
LOG = torch.from_numpy(np.log(COUNTS + 1.0))


def data(prior: float, seed: int = 0, rows: int = N) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits that hold ln(n + 1) ``prior`` times; without it they are those of balanced classes."""
    rng = np.random.default_rng(seed)
    target = torch.from_numpy(rng.choice(L, rows, p=COUNTS / COUNTS.sum()))
    scores = torch.from_numpy(rng.normal(size=(rows, L)))
    scores[torch.arange(rows), target] += 2
    return 2 * scores + prior * LOG, target


def evaluated(prior: float, **more: object) -> Report:
    return tm.evaluate(*data(prior), metrics=[tm.RecallAtK(5)], buckets=BUCKETS, trade_off=TAUS, **more)


def accumulated(parts: list[list[int]]) -> Evaluation:
    scores, target = data(1.5)
    found = [
        Evaluation([tm.RecallAtK(5, buckets=BUCKETS, scope="global")], intervals=0.95, trade_off=TAUS) for _ in parts
    ]
    for one, part in zip(found, parts, strict=True):
        one.update(scores[part], target[part])
    for other in found[1:]:
        found[0].merge_state(other)
    return found[0]


def test_values_at_each_tau_are_those_of_the_adjusted_scores():
    """Those at 0 are those of the report; intervals hold them."""
    report = evaluated(1.5)
    scores, target = data(1.5)
    assert list(report.trade_off) == list(TAUS)
    for tau in TAUS:
        alone = tm.evaluate(scores - tau * LOG, target, metrics=[tm.RecallAtK(5)], buckets=BUCKETS)
        known = {key: value for key, value in alone.scalars.items() if not math.isnan(value)}
        assert {key: report.trade_off[tau][key] for key in known} == known
        for key in ("recall@5", "global_recall@5/quantile_1"):
            assert report.intervals[f"tau={tau:g}/{key}"] == alone.intervals[key]


@pytest.mark.parametrize(("prior", "differ"), [(0.5, True), (1.5, False)])
def test_the_choice_is_made_on_one_half_and_measured_on_the_other(prior: float, differ: bool):
    """In plain loops over rows: the best τ of each half, the mean change on the other half, and Student's t."""
    report, (scores, target) = evaluated(prior), data(prior)
    half = (content_hashes(tm.rank(scores, target, depth=5), 10) & 1).numpy()
    rare = BUCKETS.assignment[target].numpy() == 3
    hits = {tau: ((scores - tau * LOG).topk(5).indices == target[:, None]).any(1).numpy().astype(float) for tau in TAUS}

    def net(tau: float, rows: np.ndarray) -> float:
        return sum((hits[tau] - hits[0.0])[rows & some].mean() for some in (rare, np.ones(N, bool)))

    chosen = [max(TAUS, key=lambda tau, number=number: net(tau, half == number)) for number in (0, 1)]
    change = np.where(half == 1, hits[chosen[0]] - hits[0.0], hits[chosen[1]] - hits[0.0])
    choice = report.tau_choice
    assert choice is not None
    assert (choice.taus, choice.bucket) == (tuple(chosen), "quantile_1")
    assert (chosen[0] != chosen[1]) == differ
    assert choice.tail.value == pytest.approx(change[rare].mean(), abs=1e-12)
    assert choice.whole.value == pytest.approx(change.mean(), abs=1e-12)
    assert choice.net.value == pytest.approx(change[rare].mean() + change.mean(), abs=1e-12)
    spread = {}
    for name, values, rows in (("tail", change, rare), ("whole", change, np.ones(N, bool))):
        parts = [values[rows & (half == number)] for number in (0, 1)]
        spread[name] = math.sqrt(sum(part.size * part.var(ddof=1) for part in parts)) / rows.sum()
    t = stats.t.ppf(0.975, rare.sum() - 2)
    assert choice.tail.high - choice.tail.value == pytest.approx(t * spread["tail"], rel=1e-9)
    assert choice.whole.high - choice.whole.value == pytest.approx(t * spread["whole"], rel=1e-9)
    # what each row moves of the net gain: its distance from the mean of its half, in the bucket and over all labels
    moved = np.zeros(N)
    for rows in (rare, np.ones(N, bool)):
        for number in (0, 1):
            inside = rows & (half == number)
            moved[inside] += (change[inside] - change[inside].mean()) / rows.sum()
    assert choice.net.high - choice.net.value == pytest.approx(t * math.sqrt(np.sum(moved**2)), rel=0.02)


@pytest.mark.parametrize("first", [0, 1])
def test_the_value_over_all_labels_is_that_of_all_labels(first: int):
    """A metric of buckets that are ranked by themselves has the key of the one over all labels: recall@2, in both orders."""
    metrics = [tm.RecallAtK(2, buckets=BUCKETS), tm.RecallAtK(2)]
    report = tm.evaluate(*data(2.0), metrics=[metrics[first], metrics[1 - first]], trade_off=(0, 1))
    choice = report.tau_choice
    assert choice is not None and choice.taus == (1.0, 1.0)
    assert choice.whole.n == N
    assert choice.whole.value == pytest.approx(report.trade_off[1.0]["recall@2"] - report.trade_off[0.0]["recall@2"])
    of_tail = (report.trade_off[tau]["recall@2/quantile_1"] for tau in (1.0, 0.0))
    assert choice.tail.value == pytest.approx(next(of_tail) - next(of_tail))


def test_a_change_without_any_spread_has_no_interval():
    """Where τ changes no list, rows say nothing about how sure that is: no interval from 0 to 0, and no claim."""
    scores, target = data(1.5)
    scores = scores.topk(5)  # all of a list is shown, in whatever order
    report = tm.evaluate(scores, target, metrics=[tm.RecallAtK(5)], buckets=BUCKETS, trade_off=TAUS)
    assert report.tau_choice is not None and report.tau_choice.taus == (0.0, 0.0)
    choice = report.tau_choice
    assert [one.ends for one in (choice.tail, choice.whole, choice.net)] == [(), (), ()]
    assert choice.tail.reason == "all rows of a half change alike"
    assert not choice.gains


@pytest.mark.parametrize(
    "more",
    [{"clusters": list(range(N))}, {"intervals": False}, {"headline": "macro_recall@5"}],
    ids=["clusters", "no intervals", "macro"],
)
def test_a_report_without_a_choice_says_what_a_choice_needs(more):
    """The table of τ stands there, and the sentence that τ is not chosen."""
    metrics = [tm.RecallAtK(5), tm.RecallAtK(5, average="macro")]
    report = tm.evaluate(*data(1.5), metrics=metrics, buckets=BUCKETS, trade_off=TAUS, **more)
    assert report.tau_choice is None
    (section,) = (one for one in report.document().sections if one.name == "trade_off")
    assert "No τ is chosen on one half of the rows and measured on the other: that needs intervals" in section.caption


def test_taus_that_cannot_be_are_refused():
    """A number alone, two strengths of one key, and metrics none of which ranks labels."""
    more = {"metrics": [tm.RecallAtK(5)], "buckets": BUCKETS}
    with pytest.raises(TypeError, match=r"trade_off=0.5 is no sequence; pass strengths, such as \[0, 0.5\]"):
        tm.evaluate(*data(0.0), trade_off=0.5, **more)
    with pytest.raises(ValueError, match="no distinct numbers"):
        tm.evaluate(*data(0.0), trade_off=[0.1, 0.1 + 1e-9], **more)
    with pytest.raises(ValueError, match="every metric here reads the scores themselves"):
        tm.evaluate(*data(0.0), trade_off=[0, 1], metrics=[tm.CrossEntropy()], label_counts=COUNTS)


def test_a_gain_is_claimed_where_there_is_one_and_not_where_the_head_pays_for_it():
    """A prior added to the logits is found; on balanced logits, and on noise, nothing is to be gained."""
    found = evaluated(1.5).tau_choice
    assert found is not None and found.gains
    assert "quantile_1 gains" in found.in_words("recall@5")
    for scores in (data(0.0)[0], torch.from_numpy(np.random.default_rng(3).normal(size=(N, L)))):
        choice = tm.evaluate(
            scores, data(0.0)[1], metrics=[tm.RecallAtK(5)], buckets=BUCKETS, trade_off=TAUS
        ).tau_choice
        assert choice is not None and not choice.gains
        assert choice.in_words("recall@5").startswith("Nothing to gain")


def test_few_rows_choose_no_tau():
    """With fewer than ten rows of the rarest bucket in a half there are values, and no choice."""
    scores, target = data(1.5)
    report = tm.evaluate(scores[:40], target[:40], metrics=[tm.RecallAtK(5)], buckets=BUCKETS, trade_off=TAUS)
    assert report.tau_choice is None
    assert len(report.trade_off) == 3


def test_every_output_shows_it(tmp_path: Path):
    """Terminal, page, Markdown, LaTeX, JSON, CSV, and a drawing in the picture."""
    report = evaluated(1.5)
    said = report.tau_choice.in_words("global_recall@5")
    assert "with τ chosen on one half" in said
    for text in (markdown(report), page(report), latex(report).replace("\\_", "_"), " ".join(in_full(report).split())):
        assert "what the tail gains, and the head loses" in text
        assert "chosen on one half of the rows and measured on the other" in text
    (chart,) = (one for one in report.document().charts if one.title == "The trade-off")
    assert [mark.text for mark in chart.marks if mark.kind == "text"] == ["τ = 0", "τ = 0.5", "τ = 1"]
    report.write(tmp_path)
    kept = json.loads((tmp_path / "report.json").read_text())
    assert kept["trade_off"]["0.5"]["recall@5"] == report.trade_off[0.5]["recall@5"]
    assert kept["tau_choice"]["bucket"] == "quantile_1"
    lines = list(csv.DictReader((tmp_path / "trade_off.csv").open()))
    (line,) = (one for one in lines if one["tau"] == "0.5" and one["key"] == "recall@5")
    assert float(line["value"]) == report.trade_off[0.5]["recall@5"]
    assert float(line["low"]) < float(line["value"]) < float(line["high"])


def test_lists_say_that_nothing_can_come_in():
    """Candidates are ranked anew among themselves, and the report says so."""
    scores, target = data(1.5)
    report = tm.evaluate(scores.topk(20), target, metrics=[tm.RecallAtK(5)], buckets=BUCKETS, trade_off=TAUS)
    values, ids = scores.topk(20)
    order = (values - LOG[ids]).argsort(dim=1, descending=True)[:, :5]
    assert report.trade_off[1.0]["recall@5"] == float((ids.gather(1, order) == target[:, None]).any(1).double().mean())
    assert any("No label from outside of a list can come in" in note for note in report.notes)


def test_metrics_of_scores_stay_out_and_counts_are_needed():
    """Cross-entropy has no value at another τ; without training counts there is one clear error."""
    more = {"metrics": [tm.RecallAtK(5), tm.CrossEntropy()], "buckets": BUCKETS, "trade_off": TAUS}
    report = tm.evaluate(*data(0.0), **more)
    assert "cross_entropy" in report.scalars
    assert not any("cross_entropy" in key for key in report.trade_off[0.5])
    with pytest.raises(ValueError, match="pass label_counts= or train_target="):
        tm.evaluate(*data(0.0), metrics=[tm.RecallAtK(5)], trade_off=TAUS)


def of_rank(rank: int, world: int) -> str:
    evaluation = accumulated([list(range(rank, N, 2 * world)), list(range(rank + world, N, 2 * world))])
    return json.dumps(evaluation.report("").as_dict())


@pytest.mark.slow
def test_batches_and_processes_change_no_byte(tmp_path: Path):
    """One batch, many, and two processes: the same report.json."""
    whole = json.dumps(accumulated([list(range(N))]).report("").as_dict())
    assert json.dumps(accumulated([list(range(start, min(N, start + 77))) for start in range(0, N, 77)]).report("").as_dict()) == whole  # fmt: skip
    assert of_each_rank(of_rank, 2, tmp_path) == [whole, whole]
