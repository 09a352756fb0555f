"""A row has the same bits in every form of input."""

import pickle

import pytest
import torch

import tailmetrics
from cases import Case, Data, data
from contract.forms import (
    INTEGER_FORMS,
    LIST_FORMS,
    MULTI_HOT_FORMS,
    SCORE_FORMS,
    TARGET_FORMS,
    Feed,
    explicit_forms,
)
from exactness.bits import (
    EVERY_KIND as CASES,
    ONE_OF_EACH,
    bits,
    compute_all,
    differing,
)
from exactness.shared_metrics import metrics_by_case
from tailmetrics.metrics import TopKMetric

BINARY, GRADED = data(seed=2, num_rows=40), data(seed=2, num_rows=40, graded=True)
IS_KEPT = torch.arange(40) % 3 > 0


def feeds(batch: Data) -> dict[str, tuple[str, Feed]]:
    """Return every form of preds with the plain target, every form of target with the
    plain preds, and both varied.
    """
    graded = batch.target.is_floating_point()
    forms = TARGET_FORMS if graded else {**TARGET_FORMS, **MULTI_HOT_FORMS}
    beside_scores = forms if graded else {**forms, **INTEGER_FORMS}
    feeds_by_name = {
        f"preds: {name}": ("dense", (form(batch), batch.target))
        for name, form in SCORE_FORMS.items()
    }
    feeds_by_name |= {
        f"target: {name}": ("dense", (batch.scores, form(batch.target)))
        for name, form in beside_scores.items()
    }
    for (name, form), (other, target) in zip(
        [*LIST_FORMS.items(), *LIST_FORMS.items()], forms.items(), strict=False
    ):
        kind = "ids" if "ids" in name else "scored"
        feeds_by_name[f"preds: {name}, target: {other}"] = (
            kind,
            (form(batch), target(batch.target)),
        )
    for kind, rankings in explicit_forms(batch).items():
        feeds_by_name |= {
            f"explicit: {name}": (kind, (ranking,))
            for name, ranking in rankings.items()
        }
    return feeds_by_name


def ranked(feed: Feed) -> tailmetrics.Ranking:
    """Return the ranking of a feed."""
    return feed[0] if len(feed) == 1 else tailmetrics.rank(*feed, num_labels=40)


def is_enough(case: Case, kind: str) -> bool:
    """Return whether the form of preds has what the metric reads.

    JudgedAtK is left out: it counts the cells that a target stores, so that a stored
    zero is another target.
    """
    if case.name == "JudgedAtK":
        return False
    return (
        kind == "dense"
        or not case.needs_scores
        or (case.name == "TieRateAtK" and kind == "scored")
    )


@pytest.mark.parametrize("batch", [BINARY, GRADED], ids=["binary", "graded"])
def test_every_form_gives_the_bits_of_dense_scores_with_a_dense_target(
    batch: Data,
) -> None:
    """Every form gives the bits of dense scores with a dense target.

    The forms are scores of any float type and layout, candidates, CSR, ids, and targets
    of any form. Each is tested with every sixth metric, each metric with every sixth
    form. No input is reordered or changed.
    """
    expected = dict(
        zip(
            metrics_by_case(),
            compute_all(
                [*metrics_by_case().values()],
                [tailmetrics.rank(batch.scores, batch.target)],
            ),
            strict=True,
        )
    )
    for number, (name, (kind, feed)) in enumerate(feeds(batch).items()):
        usable = [str(case) for case in CASES[number % 6 :: 6] if is_enough(case, kind)]
        feed_before = pickle.dumps(feed)
        results = compute_all(
            [metrics_by_case()[case] for case in usable], [ranked(feed)]
        )
        assert pickle.dumps(feed) == feed_before or len(feed) == 1, (
            f"{name}: inputs changed"
        )
        assert differing(usable, results, [expected[case] for case in usable]) == [], (
            name
        )


@pytest.mark.parametrize("kind", ["integers", "ids of one label"])
def test_class_index_targets_are_the_one_hot_matrix(kind: str) -> None:
    """One relevant label per row as [N], [N, 1] or one-hot gives the same bits; -1 is a
    row of zeros.
    """
    batch = data(seed=3, num_rows=30)
    label = torch.randint(40, (30,), generator=torch.Generator().manual_seed(1))
    label[::5] = -1
    one_hot = torch.zeros(30, 41, dtype=torch.bool).scatter_(
        1, label[:, None] % 41, True
    )[:, :40]
    target = label.int() if kind == "integers" else label[:, None]
    metrics = [*metrics_by_case().values()]
    expected = compute_all(metrics, [tailmetrics.rank(batch.scores, one_hot)])
    assert compute_all(metrics, [tailmetrics.rank(batch.scores, target)]) == expected


def test_a_metric_alone_gives_the_bits_of_a_shared_ranking() -> None:
    """A metric alone, which ranks as deep as it reads, has the bits of a ranking that
    all metrics share.
    """
    for case in CASES:
        alone, shared = metrics_by_case()[str(case)], case.metric()
        alone.reset()
        alone.update(GRADED.scores, GRADED.target)
        shared.update(tailmetrics.rank(GRADED.scores, GRADED.target))
        assert bits(alone) == bits(shared), str(case)


def test_cut_off_free_metrics_do_not_depend_on_how_deep_scores_were_ranked() -> None:
    """MRR, MAP, nDCG and R-precision without k have the same bits for scores ranked to
    depth 3 and to depth 40.
    """
    whole = [
        case
        for case in CASES
        if "k" not in case.arguments
        and case.name != "KForRecall"
        and case.by != "bucket"
    ]
    for batch in (BINARY, GRADED):
        metrics: list[TopKMetric] = [case.metric() for case in whole]
        shallow = compute_all(
            metrics, [tailmetrics.rank(batch.scores, batch.target, depth=3)]
        )
        assert (
            compute_all(
                metrics, [tailmetrics.rank(batch.scores, batch.target, depth=40)]
            )
            == shallow
        )


@pytest.mark.parametrize("batch", [BINARY, GRADED], ids=["binary", "graded"])
def test_leaving_out_rows_without_a_hit_changes_no_bit(
    batch: Data, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If most lists have no hit, formulas compute the other rows alone, with the bits
    of computing all: a value without a hit is 0 in these classes.
    """
    lists = batch.scores.topk(8).indices
    listed = (
        torch.zeros_like(batch.target, dtype=torch.bool).scatter_(1, lists, True)
        & IS_KEPT[:, None]
    )
    rows = lists, torch.where(listed, torch.zeros_like(batch.target), batch.target)
    cases = [case for case in CASES if is_enough(case, "ids")]
    whole = tailmetrics.rank(*rows, num_labels=40)
    left_out = whole.with_hits
    assert 0 < len(left_out.n_relevant) == len(left_out.length) < 20
    results = []
    for least in (1, 2**62):
        monkeypatch.setattr("tailmetrics.metrics._aggregations.MANY_ROWS", least)
        ranking = tailmetrics.rank(*rows, num_labels=40)
        results.append(
            compute_all([metrics_by_case()[str(case)] for case in cases], [ranking])
        )
    assert differing(cases, *results) == []


@pytest.mark.parametrize(
    "row_mask", [IS_KEPT, torch.zeros(40, dtype=torch.bool)], ids=["some", "none"]
)
def test_masked_rows_change_no_bit(row_mask: torch.Tensor) -> None:
    """A row mask gives the bits of leaving the rows out, whatever values they have."""
    scores, target = GRADED.scores.clone(), GRADED.target.clone()
    scores[~row_mask] = torch.nan
    target[~row_mask] = -5.0
    metrics = [*metrics_by_case().values()]
    feeds_of_kept_rows = (
        [(GRADED.scores[row_mask], GRADED.target[row_mask])] if row_mask.any() else []
    )
    expected = compute_all(
        metrics, [tailmetrics.rank(*feed) for feed in feeds_of_kept_rows]
    )
    results = compute_all(
        metrics, [tailmetrics.rank(scores, target, row_mask=row_mask)]
    )
    assert differing(CASES, results, expected) == []


@pytest.fixture(scope="module")
def bits_of_kept_rows() -> list[object]:
    """Return the bits of the kept rows, as a dense matrix."""
    metrics = [metrics_by_case()[str(case)] for case in ONE_OF_EACH]
    return compute_all(
        metrics, [tailmetrics.rank(BINARY.scores[IS_KEPT], BINARY.target[IS_KEPT])]
    )


@pytest.mark.parametrize("form", [*TARGET_FORMS, *MULTI_HOT_FORMS])
def test_masked_rows_change_no_bit_in_any_form_of_target(
    form: str, bits_of_kept_rows: list[object]
) -> None:
    """In any form of target a row mask gives the bits of leaving the rows out, in
    metrics of every kind and in training counts.
    """
    factory = {**TARGET_FORMS, **MULTI_HOT_FORMS}[form]
    metrics = [metrics_by_case()[str(case)] for case in ONE_OF_EACH]
    results = compute_all(
        metrics,
        [tailmetrics.rank(BINARY.scores, factory(BINARY.target), row_mask=IS_KEPT)],
    )
    assert differing(ONE_OF_EACH, results, bits_of_kept_rows) == []
    masked, left_out = tailmetrics.LabelFrequency(40), tailmetrics.LabelFrequency(40)
    masked.update(factory(BINARY.target), IS_KEPT)
    left_out.update(factory(BINARY.target[IS_KEPT]))
    assert torch.equal(masked.compute(), left_out.compute())
    assert masked.num_rows == left_out.num_rows == int(IS_KEPT.sum())
