"""`tailmetrics evaluate --trade-off`: the values of `evaluate` in memory, from files; and what is refused."""

import json

import numpy as np
import pytest

import tailmetrics as tm
from tailmetrics.cli import main

NUM_ROWS, NUM_LABELS = 200, 30
RECALL = ("RecallAtK", "{k: 3}")


@pytest.fixture
def files(given, config):
    """Return options of scores, targets and counts, and the arrays."""
    rng = np.random.default_rng(0)
    counts = 900 // np.arange(2, NUM_LABELS + 2)
    target = rng.choice(NUM_LABELS, NUM_ROWS, p=counts / counts.sum())
    scores = rng.normal(size=(NUM_ROWS, NUM_LABELS)) + np.log(counts + 1)
    scores[np.arange(NUM_ROWS), target] += 2
    words = given(preds=scores, target=target, label_counts=counts)
    return [*words, "--config", config(RECALL), "--buckets", "quantiles:3"], (scores, target, counts)


def test_values_are_those_in_memory(evaluated, files):
    """At each τ, with the same choice; probabilities by their own option."""
    words, (scores, target, counts) = files
    expected = tm.evaluate(
        scores, target, label_counts=counts, metrics=[tm.RecallAtK(3)], buckets="quantiles:3", trade_off=(0, 0.5, 1)
    )
    found = evaluated(*words, "--trade-off", "0,0.5,1")
    assert found["trade_off"] == json.loads(json.dumps(expected.as_dict()["trade_off"]))
    assert found["tau_choice"]["tail"]["value"] == expected.tau_choice.tail.value


def test_probabilities_are_read_as_such(evaluated, given, files):
    """`--probabilities`, and `--scores probabilities`: the logarithms of what a softmax gives have the same order."""
    words, (scores, *_) = files
    probabilities = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    plain = evaluated(*words, "--trade-off", "0.5")["trade_off"]["0.5"]
    more = [*words[2:], *given(preds=probabilities), "--trade-off", "0.5"]
    for option in (["--probabilities"], ["--scores", "probabilities"]):
        assert evaluated(*more, *option)["trade_off"]["0.5"] == plain


@pytest.mark.parametrize(("words", "said"), [("0,a", "holds no number"), ("-1", "between 0.0 and 10.0")])
def test_what_is_no_strength_is_refused(capsys, files, words, said):
    """In one line, with what to write."""
    assert main(["evaluate", *map(str, files[0]), f"--trade-off={words}"]) == 2
    assert said in capsys.readouterr().err
