"""Row groups, weights, masks, min_gain, ignored rows and leading axes, each alone and
all together.

The law: a metric with these arguments has, group by group, the value of a plain metric
on the rows that count, each repeated as often as it weighs, and on the targets of at
least min_gain. The bits are equal, except for weights, which are exact to 1e-11.
"""

import math
from contextlib import nullcontext
from fractions import Fraction
from typing import Any

import pytest
import torch
from torch import Tensor

import tailmetrics as tm
from cases import (
    ALL_CASES,
    BUCKETS,
    NUM_LABELS,
    Case,
    data,
    fed,
    floats,
    registered,
    rows_of,
    training_counts,
)
from exactness.bits import bits_of
from oracle import NAN, ROW_METRICS, evaluate
from tailmetrics._signatures import arguments
from tailmetrics.metrics import REGISTRY
from tailmetrics.ranking._device import force_plain

BATCH = data(seed=21, num_rows=36, graded=True, ties=False)
# so that losses are finite, and the last places are tied
SCORES, GAINS = BATCH.scores.clamp(min=-9), BATCH.target
GENERATOR = torch.Generator().manual_seed(5)
NAMES = ["en", "de"]
GROUPS = torch.randint(-1, 2, (36,), generator=GENERATOR)
TIMES = torch.randint(0, 4, (36,), generator=GENERATOR)
MASK = torch.rand(36, generator=GENERATOR) < 0.8
ROWS = rows_of(SCORES, GAINS)
KINDS = list(
    {
        (case.name, case.by, case.arguments.get("average")): case
        for case in reversed(ALL_CASES)
    }.values()
)
KEEPS_GAINS = ("CGAtK", "DCGAtK", "NDCGAtK")

pytestmark = pytest.mark.filterwarnings("ignore:.*as logits are")


def key_of_group(key: str, group: str) -> str:
    """Return the key for a group: recall@10 -> recall@10/en, recall@10/decile_1 ->
    recall@10/en/decile_1.
    """
    stem, slash, bucket = key.partition("/")
    return f"{stem}/{group}{slash}{bucket}"


def agree(value: Tensor, other_value: Tensor, weighted: bool) -> bool:
    """Return whether values have the same bits, or with weights agree to 1e-11."""
    close = weighted and math.isclose(
        float(value), float(other_value), rel_tol=1e-11, abs_tol=1e-12
    )
    return (
        bits_of(value) == bits_of(other_value)
        or bool(value.isnan() and other_value.isnan())
        or close
    )


ROW_ARGUMENTS = ("row_groups", "row_weights", "row_mask", "min_gain")


@pytest.mark.parametrize(
    ("case", "row_argument"),
    [
        pytest.param(case, row_argument, id=f"{case}-{row_argument}")
        for at, case in enumerate(KINDS)
        for row_argument in ("all", ROW_ARGUMENTS[at % 4])
    ],
)
@pytest.mark.slow
def test_row_arguments_equal_a_plain_metric_on_the_rows_that_count(
    case: Case, row_argument: str
) -> None:
    """A metric with row arguments has the values of a plain metric on the rows that
    count.

    All are tested together with two leading axes, in both forms, and each alone by
    turns in two batches.
    """
    metric = REGISTRY[case.name]
    row_arguments = {*ROW_ARGUMENTS} if row_argument == "all" else {row_argument}
    row_arguments -= (
        set() if registered(case.name).aggregation.can_be_weighted else {"row_weights"}
    )
    row_arguments -= set() if "min_gain" in arguments(metric) else {"min_gain"}
    values_by_argument = {"row_groups": GROUPS, "row_weights": TIMES, "row_mask": MASK}
    rows = {
        name: value
        for name, value in values_by_argument.items()
        if name in row_arguments
    }
    options: dict[str, Any] = (
        {"row_groups": NAMES} if "row_groups" in row_arguments else {}
    )
    options |= {"weighted": True} if "row_weights" in row_arguments else {}
    options |= {"min_gain": 1.5} if "min_gain" in row_arguments else {}
    shapes: list[tuple[Any, tuple[int, ...]]] = [
        (slice(0, 14), (14,)),
        (slice(14, 36), (22,)),
    ]
    shapes = [(slice(None), (6, 6))] if row_argument == "all" else shapes

    def values() -> dict[str, Tensor]:
        metric = case.metric(**options, name="value")
        for part, axes in shapes:
            part_rows = {name: value[part].view(axes) for name, value in rows.items()}
            metric.update(
                SCORES[part].view(*axes, -1), GAINS[part].view(*axes, -1), **part_rows
            )
        return dict(metric.scalars())

    target = (
        GAINS * (GAINS >= 1.5)
        if "min_gain" in row_arguments and case.name not in KEEPS_GAINS
        else GAINS
    )
    is_counted = (
        MASK if "row_mask" in row_arguments else torch.ones(36, dtype=torch.bool)
    )
    times = (
        TIMES if "row_weights" in row_arguments else torch.ones(36, dtype=torch.int64)
    )

    def plain(is_kept: Tensor) -> dict[str, Tensor]:
        index = torch.arange(36)[is_kept].repeat_interleave(times[is_kept])
        scalars: dict[str, Tensor] = fed(
            case.metric(name="value"), SCORES[index], target[index]
        ).scalars()
        return scalars

    expected = plain(is_counted)
    for number, group in enumerate(NAMES if "row_groups" in row_arguments else []):
        expected |= {
            key_of_group(key, group): value
            for key, value in plain(is_counted & (number == GROUPS)).items()
        }
    scalars = values()
    assert set(scalars) == set(expected)
    assert [
        key
        for key, value in expected.items()
        if not agree(scalars[key], value, "row_weights" in row_arguments)
    ] == []
    with force_plain():
        in_plain_form = values() if row_argument == "all" else scalars
    assert [
        key for key in expected if bits_of(in_plain_form[key]) != bits_of(scalars[key])
    ] == []


WEIGHTS = {
    "uneven": 10 ** (torch.rand(36, generator=GENERATOR, dtype=torch.float64) * 6 - 3),
    "float32": torch.rand(36, generator=GENERATOR),
    "the smallest": torch.arange(1, 37) * 2.0**-40,
}
BY_ROW = [
    case
    for case in KINDS
    if case.name in ROW_METRICS
    and case.arguments.get("average", "samples") == "samples"
]


@pytest.mark.parametrize(
    ("case", "kind"),
    [
        pytest.param(case, [*WEIGHTS][at % 3], id=str(case))
        for at, case in enumerate(
            case for case in BY_ROW if not case.name.endswith("AtThreshold")
        )
    ],
)
@pytest.mark.slow
def test_a_mean_over_rows_is_weighted_by_any_numbers(case: Case, kind: str) -> None:
    """A weighted mean is sum(w v) / sum(w) over rows, in fractions, for any weights.

    Batches and merges give the same bits, and states are whole numbers.
    """
    weights = WEIGHTS[kind]
    metric, other = case.metric(weighted=True), case.metric(weighted=True)
    fed(metric, SCORES, GAINS, row_weights=weights)
    expected = []
    for cut in case.cutoffs():
        values = [evaluate(case.name, [row], case.setting(cut)) for row in ROWS]
        columns = list(
            zip(
                *([value] if isinstance(value, float) else value for value in values),
                strict=True,
            )
        )
        expected += [weighted_mean(column, weights.tolist()) for column in columns]
    assert floats(metric.compute()) == pytest.approx(
        expected, rel=1e-9, abs=1e-12, nan_ok=True
    )
    value = bits_of(metric.compute())
    order = torch.randperm(36, generator=torch.Generator().manual_seed(1))
    metric.reset()
    for part, rows in ((metric, order[:20]), (other, order[20:])):
        part.update(SCORES[rows], GAINS[rows], row_weights=weights[rows])
    metric.merge_state(other)
    assert bits_of(metric.compute()) == value
    assert not any(state.is_floating_point() for state in metric.metric_state.values())


def weighted_mean(values: tuple[float, ...], weights: list[float]) -> float:
    """Return sum(w v) / sum(w) over the values that are not NaN."""
    pairs = [
        (Fraction(value), Fraction(weight))
        for value, weight in zip(values, weights, strict=True)
        if value == value
    ]
    total = sum(weight for _, weight in pairs)
    return (
        float(sum((value * weight for value, weight in pairs), Fraction(0)) / total)
        if total
        else NAN
    )


@pytest.mark.slow
def test_weights_of_one_give_the_bits_of_no_weights() -> None:
    """Weights of one, of three types by turns, give every metric that takes weights the
    bits of no weights.
    """
    for number, case in enumerate(KINDS):
        if registered(case.name).aggregation.can_be_weighted:
            dtype = (torch.float64, torch.int64, torch.bfloat16)[number % 3]
            weighted = fed(
                case.metric(weighted=True),
                SCORES,
                GAINS,
                row_weights=torch.ones(36, dtype=dtype),
            )
            assert bits_of(weighted.compute()) == bits_of(
                fed(case.metric(), SCORES, GAINS).compute()
            ), str(case)


def test_weighted_median_by_hand() -> None:
    """KForRecall with weights is the weighted median.

    First hits are at 1, 2 and 4: weights 1 1 2 have the middle between 2 and 4, weights
    3 1 1 have it at 1.
    """
    ids = torch.tensor([[0, 1, 2, 3]]).expand(3, -1)
    for weights, expected in (
        ([1.0, 1.0, 2.0], 3),
        ([3.0, 1.0, 1.0], 1),
        ([1.0, 1.0, 1.0], 2),
        ([0.0, 1.0, 0.0], 2),
    ):
        metric = tm.KForRecall(min_recall=1.0, num_labels=NUM_LABELS, weighted=True)
        fed(metric, ids, torch.tensor([0, 1, 3]), row_weights=torch.tensor(weights))
        assert float(metric.compute()) == expected


def test_rows_without_weight_do_not_count() -> None:
    """If all weights are 0 the value is NaN. ``row_mask`` drops a weight with its row,
    even a NaN.
    """
    weightless = fed(
        tm.RecallAtK(k=3, weighted=True), SCORES, GAINS, row_weights=torch.zeros(36)
    )
    assert math.isnan(float(weightless.compute()))
    weights = torch.arange(36.0)
    weights_with_nan = weights.masked_fill(~MASK, math.nan)
    metric = fed(
        tm.RecallAtK(k=3, weighted=True),
        SCORES,
        GAINS,
        row_mask=MASK,
        row_weights=weights_with_nan,
    )
    expected = fed(
        tm.RecallAtK(k=3, weighted=True),
        SCORES[MASK],
        GAINS[MASK],
        row_weights=weights[MASK],
    )
    assert bits_of(metric.compute()) == bits_of(expected.compute())


def test_collection_passes_row_arguments_to_the_members_that_take_them() -> None:
    """A collection passes a mask to all members, weights to weighted members, and
    groups to members with row_groups. row_groups of the collection apply to all
    members.
    """
    masked = fed(
        tm.TopKCollection([tm.RecallAtK(k=3), tm.MRR()]), SCORES, GAINS, row_mask=MASK
    ).compute()
    assert bits_of(masked["mrr"]) == bits_of(
        fed(tm.MRR(), SCORES[MASK], GAINS[MASK]).compute()
    )
    weights = torch.arange(36.0)
    members = [
        tm.RecallAtK(k=3, weighted=True, name="w"),
        tm.RecallAtK(k=3),
        tm.MRR(row_groups=NAMES),
    ]
    scalars = fed(
        tm.TopKCollection(members),
        SCORES,
        GAINS,
        row_weights=weights,
        row_groups=GROUPS,
    ).compute()
    assert set(scalars) == {"w", "recall@3", "mrr", "mrr/en", "mrr/de"}
    assert bits_of(scalars["w"]) == bits_of(
        fed(members[0].clone(), SCORES, GAINS, row_weights=weights).compute()
    )
    assert bits_of(scalars["recall@3"]) == bits_of(
        fed(tm.RecallAtK(k=3), SCORES, GAINS).compute()
    )
    single = fed(
        tm.MRR(row_groups=["en"]),
        SCORES,
        GAINS,
        row_groups=GROUPS.where(GROUPS == 0, -1),
    )
    assert bits_of(single.compute()) == bits_of(
        torch.stack([scalars["mrr"], scalars["mrr/en"]])
    )
    whole = tm.TopKCollection(
        [tm.RecallAtK(k=3, buckets=BUCKETS), tm.MRR()], prefix="val/", row_groups=NAMES
    )
    keys = set(fed(whole, SCORES, GAINS, row_groups=GROUPS).compute())
    by_bucket = [f"recall@3/{name}" for name in BUCKETS.names]
    assert keys == {
        f"val/{key}"
        for key_of_all in ["mrr", *by_bucket]
        for key in (key_of_all, *(key_of_group(key_of_all, name) for name in NAMES))
    }


@pytest.mark.parametrize(
    ("argument", "setting"), [("row_weights", "weighted"), ("row_groups", "row_groups")]
)
def test_ranking_with_unused_weights_or_groups_is_refused(
    argument: str, setting: str
) -> None:
    """A ranking with weights or groups that no member takes is refused, because the
    values would not show that they are ignored.
    """
    ranking = tm.rank(SCORES, GAINS, **{argument: torch.zeros(36, dtype=torch.int64)})
    collection = tm.TopKCollection([tm.RecallAtK(k=3), tm.MRR()])
    with pytest.raises(
        ValueError, match=f"no member takes {argument}; pass {setting}="
    ):
        collection.update(ranking)
    assert collection.members()["mrr"].update_count == 0


def test_metric_warns_once_of_weights_that_it_does_not_read(
    recwarn: pytest.WarningsRecorder,
) -> None:
    """A metric that is not weighted warns of the weights of a ranking, which other
    metrics may share; a weighted metric does not warn.
    """
    ranking, metric = (
        tm.rank(SCORES, GAINS, row_weights=torch.arange(36.0)),
        tm.RecallAtK(k=3),
    )
    for _ in range(2):
        metric.update(ranking)
    tm.RecallAtK(k=3, weighted=True).update(ranking)
    (warning,) = recwarn
    assert "row_weights, which a metric reads only with weighted=True" in str(
        warning.message
    )


def test_members_that_number_groups_differently_are_refused() -> None:
    """Members that number row groups differently are refused, because group 0 would be
    English for one and German for the other.
    """
    with pytest.raises(
        ValueError,
        match=r"row_groups=\['en', 'de'\] and \['de', 'en'\], but share the group numbers",
    ):
        tm.TopKCollection(
            [
                tm.MRR(row_groups=["en", "de"]),
                tm.RecallAtK(k=3, row_groups=["de", "en"]),
            ]
        )


def test_a_bucket_name_is_refused_as_a_group() -> None:
    """The name of a bucket is refused as a row group, because keys would be
    ambiguous.
    """
    for buckets in (BUCKETS, "deciles"):
        with pytest.raises(ValueError, match=r"row_groups.*decile_1"):
            tm.RecallAtK(k=5, buckets=buckets, row_groups=["decile_1"])


AT = torch.tensor([4])
WRONG_ROWS: list[tuple[dict[str, Any], str, Any]] = [
    ({"row_groups": NAMES}, "row_groups", wrong)
    for wrong in (None, GROUPS.index_fill(0, AT, 2), GROUPS.index_fill(0, AT, -2), GROUPS[1:], GROUPS.float(), GROUPS[:, None])
]  # fmt: skip
WRONG_ROWS += [
    ({"weighted": True}, "row_weights", wrong)
    for wrong in (None, *(TIMES.double().index_fill(0, AT, weight) for weight in (-0.5, math.nan, math.inf, 1e-30, 1e-18, 2.0**41)), TIMES[1:],
                  TIMES[:, None].double(), TIMES > 1)
]  # fmt: skip
WRONG_ROWS += [
    ({}, "row_weights", TIMES),
    ({}, "row_groups", GROUPS),
    ({}, "row_mask", MASK[1:]),
]


@pytest.mark.parametrize(
    ("options", "argument", "value"), WRONG_ROWS, ids=range(len(WRONG_ROWS))
)
def test_wrong_rows_are_refused_and_count_nothing(
    options: dict[str, Any], argument: str, value: Any
) -> None:
    """Invalid groups, weights and masks raise an error that names the argument, and
    leave the metric unchanged.
    """
    arguments = (
        {}
        if not options
        else {argument: {"row_groups": GROUPS, "row_weights": TIMES}[argument]}
    )
    metric = fed(tm.RecallAtK(k=5, **options), SCORES, GAINS, **arguments)
    before = bits_of(metric.compute())
    with pytest.raises((TypeError, ValueError), match=f"RecallAtK: .*{argument}"):
        metric.update(SCORES, GAINS, **{argument: value})
    assert bits_of(metric.compute()) == before


# sequences: leading axes are rows, and ``ignore_index`` drops rows


def tokens(*axes: int) -> tuple[Tensor, Tensor]:
    """Return logits (..., L) and next tokens (...), a quarter of them -100."""
    generator = torch.Generator().manual_seed(7)
    logits = (
        torch.randn(*axes, NUM_LABELS, generator=generator, dtype=torch.float64) * 2
    )
    target = (torch.rand(axes, generator=generator) ** 2 * NUM_LABELS).long()
    return logits, target.masked_fill(
        torch.rand(axes, generator=generator) < 0.25, -100
    )


def kept_rows(logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Return the rows that are not ignored, as (N, L) and (N,)."""
    flat = target.flatten()
    return logits.reshape(-1, NUM_LABELS)[flat != -100], flat[flat != -100]


AXES = ((4, 7), (2, 3, 5), (11,))


@pytest.mark.parametrize(
    ("case", "axes"),
    [
        pytest.param(case, AXES[at % 3], id=str(case))
        for at, case in enumerate(KINDS[::2])
    ],
)
def test_tokens_are_rows_and_ignored_tokens_do_not_count(
    case: Case, axes: tuple[int, ...]
) -> None:
    """Scores (..., L) with tokens (...), of one to three axes by turns, have the bits
    of the rows that are not -100.

    Every other kind of metric is tested; the next test takes the others.
    """
    logits, target = tokens(*axes)
    expected = fed(case.metric(), *kept_rows(logits, target)).compute()
    assert bits_of(
        fed(case.metric(ignore_index=-100), logits, target).compute()
    ) == bits_of(expected)


def padded_lists() -> tuple[Tensor, Tensor]:
    """Return scores (40, L), and up to three labels of a row, padded with 0 at any
    place; 0 is no label.
    """
    generator = torch.Generator().manual_seed(9)
    scores = torch.rand(40, NUM_LABELS, generator=generator)
    labels = torch.stack(
        [1 + torch.randperm(NUM_LABELS - 1, generator=generator)[:3] for _ in range(40)]
    )
    return scores, labels.masked_fill(torch.rand(40, 3, generator=generator) < 0.5, 0)


@pytest.mark.parametrize(
    "case", [pytest.param(case, id=str(case)) for case in KINDS[1::2]]
)
def test_padding_of_target_lists_is_no_label(case: Case) -> None:
    """Target lists padded with the ignore_index have the bits of lists padded with -1.

    Rows of padding alone do not count. The kinds of metrics are those that the test of
    tokens leaves out.
    """
    scores, target = padded_lists()
    assert bool((target == 0).all(dim=1).any())
    is_kept = (target != 0).any(dim=1)
    expected = fed(
        case.metric(),
        scores[is_kept],
        target[is_kept].masked_fill(target[is_kept] == 0, -1),
    )
    metric = fed(case.metric(ignore_index=0), scores, target)
    assert bits_of(metric.compute()) == bits_of(expected.compute())


def test_one_column_of_labels_is_one_label_per_row() -> None:
    """Targets (N, 1) with ignore_index have the value of targets (N,). A row of -1 has
    no label, and counts.
    """
    scores, target = padded_lists()
    target = target[:, 0].where(torch.arange(40) > 3, -1)
    metrics = [
        fed(
            tm.CatalogCoverageAtK(k=2, num_labels=NUM_LABELS, ignore_index=0),
            scores,
            form_of_target,
        )
        for form_of_target in (target, target[:, None])
    ]
    is_counted = target != 0
    listed_labels = scores[is_counted].topk(2).indices.unique()
    assert [float(metric.compute()) for metric in metrics] == [
        len(listed_labels) / NUM_LABELS
    ] * 2


def test_training_lists_are_padded_as_targets_are() -> None:
    """``evaluate`` leaves the ignore_index out of padded training lists, as out of
    targets, and counts labels and rows of the others.
    """
    scores, target = padded_lists()
    is_kept = (target != 0).any(dim=1)
    counts = torch.bincount(target[target != 0], minlength=NUM_LABELS)
    metric_of_counts = tm.NoveltyAtK(
        k=3, label_counts=counts, num_train=int(is_kept.sum()), ignore_index=0
    )
    expected = float(fed(metric_of_counts, scores, target).compute())
    report = tm.evaluate(
        scores,
        target,
        metrics=[tm.NoveltyAtK(k=3, ignore_index=0)],
        train_target=target,
    )
    assert report.scalars["novelty@3"] == expected


def test_ignore_index_is_refused_for_labels_with_names() -> None:
    """ignore_index is refused for labels with names: in the order of names id 0 would
    be apple, which nobody means.
    """
    preds, target = {"u": {"apple": 0.9, "bean": 0.5}}, {"u": {"bean": 1, "apple": 1}}
    with pytest.raises(
        ValueError,
        match="ignore_index=0 is a label id, but the labels of tables and dicts have names",
    ):
        tm.evaluate(preds, target, metrics=[tm.RecallAtK(k=1)], ignore_index=0)


def test_lists_as_wide_as_target_lists_are_refused_with_ignore_index() -> None:
    """Predicted and target lists of one width are refused with ignore_index, because
    they may be lists or tokens with different values. The error names what decides:
    0.25 as lists, 1/3 as tokens.
    """
    lists, target = (
        torch.tensor([[1, 3, 2], [2, 4, 3]]),
        torch.tensor([[1, 2, 0], [4, 0, 0]]),
    )
    with pytest.raises(
        ValueError,
        match=r"as wide as preds; .* target\.masked_fill\(target == 0, -1\).* preds\[\.\.\., None\]",
    ):
        tm.RecallAtK(k=1, ignore_index=0).update(lists, target)
    assert (
        float(
            fed(tm.RecallAtK(k=1), lists, target.masked_fill(target == 0, -1)).compute()
        )
        == 0.25
    )
    tokens = fed(tm.RecallAtK(k=1, ignore_index=0), lists[..., None], target)
    assert float(tokens.compute()) == 1 / 3


def test_every_form_may_have_leading_axes() -> None:
    """Ids, multi-hot targets and gains with leading axes have the bits of the flattened
    rows.
    """
    logits, target = tokens(3, 5)
    ids = logits.argsort(dim=-1, descending=True)[..., :6]
    multi_hot = (
        torch.rand(3, 5, NUM_LABELS, generator=torch.Generator().manual_seed(2)) < 0.2
    )
    for preds, target_form in (
        (ids, target.clamp(min=-1)),
        (logits, multi_hot),
        (logits, multi_hot * 2.0),
    ):
        expected = fed(
            tm.RecallAtK(k=3, num_labels=NUM_LABELS),
            preds.flatten(0, 1),
            target_form.flatten(0, 1),
        )
        assert bits_of(
            fed(tm.RecallAtK(k=3, num_labels=NUM_LABELS), preds, target_form).compute()
        ) == bits_of(expected.compute())


def test_row_arguments_of_a_sequence_apply_to_its_tokens() -> None:
    """A mask, groups and weights (B,) of sequences with two or three axes apply to each
    token, as those of the full shape do.
    """
    for axes in ((3, 5), (3, 2, 5)):
        logits, target = tokens(*axes)
        row_arguments = (
            torch.tensor([True, False, True]),
            torch.tensor([0, 1, -1]),
            torch.tensor([0.5, 2.0, 3.0]),
        )
        full_arguments = [
            argument.reshape(3, *[1] * (len(axes) - 1)).expand(axes)
            for argument in row_arguments
        ]
        for mask, groups, weights in (row_arguments, full_arguments):
            metric = tm.AccuracyAtK(
                k=3, ignore_index=-100, row_groups=["a", "b"], weighted=True
            )
            metric.update(logits, target, mask, row_groups=groups, row_weights=weights)
            expected = tm.AccuracyAtK(
                k=3, ignore_index=-100, row_groups=["a", "b"], weighted=True
            )
            flat_arguments = [argument.reshape(-1) for argument in full_arguments]
            expected.update(
                logits.reshape(-1, NUM_LABELS),
                target.flatten(),
                flat_arguments[0],
                row_groups=flat_arguments[1],
                row_weights=flat_arguments[2],
            )
            assert bits_of(metric.compute()) == bits_of(expected.compute())


def test_predicted_tokens_need_an_axis_of_their_own() -> None:
    """Predicted tokens (B, T) are refused, because they are no lists of T labels; with
    a further axis their value is the accuracy at 1.
    """
    logits, target = tokens(3, 5)
    predicted = logits.argmax(dim=-1)
    with pytest.raises(
        ValueError,
        match=r"target is int64 \[3, 5\].*one predicted label for each token, preds\[..., None\]",
    ):
        tm.AccuracyAtK(k=1, ignore_index=-100).update(predicted, target)
    value = fed(
        tm.AccuracyAtK(k=1, ignore_index=-100), predicted[..., None], target
    ).compute()
    assert float(value) == float((predicted == target)[target >= 0].double().mean())


@pytest.mark.parametrize("ignore_index", [-100, -2, 0, 3])
def test_ignore_index_may_be_any_number(ignore_index: int) -> None:
    """ignore_index may be any number, a token id as well; -1 stays a row without a
    relevant label, and another negative number is refused.
    """
    logits = torch.tensor([[2.0, 1.0, 0.0, -1.0]] * 4)
    target = torch.tensor([1, ignore_index, -1, 1])
    assert (
        float(
            fed(
                tm.AccuracyAtK(k=2, ignore_index=ignore_index), logits, target
            ).compute()
        )
        == 2 / 3
    )
    with pytest.raises(ValueError, match="-7"):
        tm.MRR(ignore_index=ignore_index).update(
            logits, target.index_fill(0, torch.tensor([0]), -7)
        )


# repeated ids, and weights of labels


@pytest.mark.parametrize(
    "case",
    [
        case
        for case in BY_ROW
        if not (case.needs_scores or case.name in ("FallOutAtK", "FBetaAtK"))
    ],
    ids=str,
)
@pytest.mark.parametrize("form", ["ids", "candidates"])
def test_repeated_id_is_a_miss_at_its_rank(case: Case, form: str) -> None:
    """With duplicates="first" a repeated id is a miss at its rank, in the bucket of its
    label; of candidates the best one counts. Values equal the oracle with another
    irrelevant label in its place.
    """
    generator = torch.Generator().manual_seed(1)
    ids = (torch.rand(40, 9, generator=generator) ** 2 * NUM_LABELS).long()
    ids = ids.masked_fill(
        torch.arange(9) >= torch.randint(3, 10, (40, 1), generator=generator), -1
    )
    target = data(seed=4, num_rows=40, graded=True)
    rows = []
    for listed, row in zip(ids.tolist(), target.rows, strict=True):
        listed_ids = [label for label in listed if label >= 0]
        distinct_ids = [
            label + NUM_LABELS * listed_ids[:place].count(label)
            for place, label in enumerate(listed_ids)
        ]
        rows.append(type(row)(distinct_ids, row.relevant))
    order = torch.rand(ids.shape, generator=generator).argsort(dim=1)
    scores = -torch.arange(9.0).expand_as(ids)
    preds = ids if form == "ids" else (scores.gather(1, order), ids.gather(1, order))
    values = floats(
        fed(case.metric(duplicates="first"), preds, target.target).compute()
    )
    with force_plain():
        in_plain_form = floats(
            fed(case.metric(duplicates="first"), preds, target.target).compute()
        )
    assert str(values) == str(in_plain_form)
    expected = []
    for cut in case.cutoffs():
        setting = case.setting(cut)
        if setting.assignment is not None:
            setting = type(setting)(
                **{**vars(setting), "assignment": setting.assignment * 9}
            )
        case_value = evaluate(case.name, rows, setting)
        expected += case_value if isinstance(case_value, list) else [case_value]
    assert values == pytest.approx(expected, rel=1e-12, nan_ok=True)


def test_weights_of_labels_replace_training_counts() -> None:
    """weights= of the inverse propensities have the values of the training counts.

    Any weights are accepted, 0 included: (0 + 1) / (4 + 1).
    """
    counts = training_counts()
    for case in KINDS:
        if case.name.startswith("Propensity") and "preset" not in case.arguments:
            a, b = case.arguments.get("a", 0.55), case.arguments.get("b", 1.5)
            factors = tm.functional.inverse_propensities(counts, 200, a, b)
            options = {
                key: value
                for key, value in case.arguments.items()
                if key not in ("a", "b")
            }
            options |= {} if case.by is None else {"buckets": BUCKETS, "scope": case.by}
            weighted = fed(
                REGISTRY[case.name](weights=factors, **options), SCORES, GAINS
            )
            expected = floats(fed(case.metric(), SCORES, GAINS).compute())
            assert floats(weighted.compute()) == pytest.approx(
                expected, rel=1e-9, nan_ok=True
            )
    factors = torch.tensor([0.0, 4.0, 1.0])
    metric = tm.PropensityScoredPrecisionAtK(k=1, weights=factors)
    fed(metric, torch.tensor([[0], [2]]), torch.tensor([[0, 1], [2, -1]]))
    assert float(metric.compute()) == (0 + 1) / (4 + 1)


@pytest.mark.parametrize("form", [nullcontext, force_plain], ids=["cpu", "device"])
def test_row_without_a_relevant_label_counts_as_zero_beside_a_masked_row(
    form: Any,
) -> None:
    """A row without a relevant label counts as 0, and a masked row does not count, on
    CPUs and devices.

    Ranks 2 and none: (1/2 + 0) / 2.
    """
    scores, target = (
        torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.3, 0.4]]),
        torch.tensor([[0, 1], [0, 0], [1, 0]]),
    )
    with form():
        assert (
            float(
                fed(
                    tm.MRR(), scores, target, torch.tensor([True, True, False])
                ).compute()
            )
            == 0.25
        )
