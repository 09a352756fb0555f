"""The help of a metric says which rows ``empty_target_action`` applies to, and its
default.
"""

import pytest
import torch
from torch import Tensor

import tailmetrics
from tailmetrics.metrics import REGISTRY

OWN_SENTENCES = {
    "FallOutAtK": ("every label (of the bucket) is relevant", '``"pos"`` overall'),
    "JudgedAtK": ("a row without a list", '``"neg"`` overall'),
    "KForRecall": (
        "a row without a relevant label does not count",
        '``"skip"``, the default',
    ),
    "RowAUC": (
        "a row without a pair of a relevant and an irrelevant label",
        'None means ``"skip"``',
    ),
}


@pytest.mark.parametrize("name", OWN_SENTENCES)
def test_a_metric_with_other_rows_has_its_own_sentence(name: str) -> None:
    """A metric whose ``empty_target_action`` applies to other rows has its own sentence
    in its help, in place of the shared one.
    """
    text = " ".join((REGISTRY[name].__doc__ or "").split())
    assert text.count("empty_target_action: ") == 1
    sentence = text.partition("empty_target_action: ")[2]
    for words in OWN_SENTENCES[name]:
        assert words in sentence
    assert "Value of a row without a relevant label" not in text


def _value(metric: tailmetrics.TopKMetric, target: Tensor) -> float:
    metric.update(torch.tensor([[0.9, 0.5]]), target)
    return float(metric.compute())


def test_sentences_on_empty_rows_are_true() -> None:
    """The help is true for a row in which all labels are relevant, by default and with
    each action.
    """
    target = torch.tensor([[True, True]])
    assert _value(tailmetrics.FallOutAtK(k=1, num_labels=2), target) == 1.0
    assert (
        _value(
            tailmetrics.FallOutAtK(k=1, num_labels=2, empty_target_action="neg"), target
        )
        == 0.0
    )
    assert (
        _value(tailmetrics.RowAUC(), target)
        != _value(tailmetrics.RowAUC(empty_target_action="pos"), target)
        == 1.0
    )


@pytest.mark.parametrize("name", ["CGAtK", "DCGAtK", "NDCGAtK"])
def test_metrics_of_gains_count_rows_below_min_gain(name: str) -> None:
    """Metrics of gains count a row whose gains are all below ``min_gain``, whatever
    ``empty_target_action`` is.
    """
    target = torch.tensor([[2.0, 1.0]])
    for action in ("neg", "pos", "skip", "error"):
        metric = REGISTRY[name](k=1, min_gain=3, empty_target_action=action)
        assert _value(metric, target) == _value(REGISTRY[name](k=1), target)
