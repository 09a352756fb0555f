"""Which metrics of a preset or config are computed."""

import json
import locale

import numpy as np
import pytest

from written import comparisons_of, values_of


@pytest.fixture
def files(tmp_path):
    """Return options that name 20 rows of dense scores, of ranked ids, and a class index for each."""
    rng = np.random.default_rng(0)
    np.save(tmp_path / "scores.npy", 9 * rng.random((20, 12)))  # logits
    np.save(tmp_path / "ids.npy", rng.random((20, 12)).argsort(axis=1))
    np.save(tmp_path / "y.npy", rng.integers(12, size=20))
    return {name: ["--preds", tmp_path / f"{name}.npy", "--target", tmp_path / "y.npy"] for name in ("scores", "ids")}


UNCOUNTED = "No file says how often labels occur in training. So these are left out: "
NEXT_LOCATION = ["accuracy@1", "accuracy@5", "accuracy@10", "mrr", "ndcg@10", "weighted_f1", "cross_entropy"]


def test_a_preset_leaves_out_what_ranked_ids_cannot_answer(files, evaluated):
    """Ranked ids say nothing of the scores: cross-entropy is left out with a warning, the rest is computed."""
    words = ["--preset", "next_location", "--num-labels", 12]
    unanswered = "CrossEntropy is left out: preds are ids or candidates, whose probabilities over all labels"
    assert list(values_of(evaluated(*words, *files["ids"], warns=[UNCOUNTED, unanswered]))) == NEXT_LOCATION[:-1]
    assert list(values_of(evaluated(*words, *files["scores"], warns=[UNCOUNTED]))) == NEXT_LOCATION


def test_scored_pairs_answer_metrics_of_scores(given, evaluated):
    """Labels above a threshold and areas are computed of pairs with scores; of pairs with ranks alone they are not."""
    train = given(train_target="query,item\nc,x\nd,y\n")
    words = ["--preset", "medical_coding", *given(target="query,item\na,x\nb,y\n"), *train]
    words += given(preds="query,item,score\na,x,0.9\na,y,0.2\nb,x,0.6\nb,y,0.7\n")
    found = values_of(evaluated(*words, warns=[]))
    assert found["micro_f1"] == 0.8  # 2 of 3 suggestions are right, of 2 labels
    assert found["macro_f1"] == pytest.approx((2 / 3 + 1) / 2)
    assert found["macro_f1_caml"] == pytest.approx(6 / 7)  # precisions 1/2 and 1, recalls 1 and 1
    assert (found["macro_auc"], found["recall@15"]) == (1.0, 1.0)
    ranked = given(preds="query,item,rank\na,x,1\na,y,2\nb,x,2\nb,y,1\n")
    unanswered = [f"{name} is left out: preds are ranked ids" for name in ("F1AtThreshold", "LabelAUC")]
    assert "macro_auc" not in values_of(evaluated(*words[:-2], *ranked, warns=unanswered))


def test_a_config_of_ones_own_is_not_cut_short(files, config, tailmetrics):
    """What was asked for by name is refused with an error, not left out."""
    words = ["--config", config(("CrossEntropy", "{}"), ("MRR", "{}")), *files["ids"], "--num-labels", 12]
    status, _, err = tailmetrics("evaluate", *words)
    assert status == 2
    assert "CrossEntropy: preds are ids or candidates" in err


def test_nothing_left_of_a_preset(files, tailmetrics):
    """A preset of which the data answers nothing is an error, not an empty report."""
    names = ["accuracy", "mrr", "ndcg", "weighted_f1"]
    words = ["--preset", "next_location", *files["ids"], "--num-labels", 12, "--without", *names]
    status, _, err = tailmetrics("evaluate", *words)
    assert (status, err.splitlines()[-2]) == (2, "error: the predictions answer no metric of the preset")


@pytest.mark.parametrize("name", ["cross_entropy", "CrossEntropy", "crossentropy"])
def test_without(files, evaluated, name):
    """A metric is left out by its key, with or without its cut-off, or by its class."""
    words = [
        "--preset",
        "next_location",
        *files["ids"],
        "--num-labels",
        12,
        "--without",
        name,
        "ndcg@10",
        "AccuracyAtK",
    ]
    assert list(values_of(evaluated(*words, warns=[UNCOUNTED]))) == ["mrr", "weighted_f1"]


def test_without_what_is_not_there(files, tailmetrics):
    """A metric that there is not is named with those that there are; so is leaving out all."""
    words = ["evaluate", "--preset", "map12", *files["ids"], "--num-labels", 12]
    problem, hint = tailmetrics(*words, "--without", "ndcg")[2].splitlines()
    assert problem == "error: --without ndcg: there is no such metric"
    assert hint == "hint: choose from map, map@12, precision, precision@12, relevance."
    everything = ["--without", "map", "precision", "relevance"]
    assert tailmetrics(*words, *everything)[2].startswith("error: --without leaves no metric\n")


def test_comparing_what_the_runs_can_answer(files, tailmetrics, tmp_path):
    """A run of scores and one of ids are compared by what both answer."""
    words = ["--preset", "next_location", "--preds", tmp_path / "scores.npy", tmp_path / "ids.npy", *files["ids"][2:]]
    words += ["--num-labels", 12, "--resamples", 200, "--out", tmp_path]
    status, _, err = tailmetrics("compare", *words)
    assert (status, "CrossEntropy is left out" in err) == (0, True)
    keys = {one["key"] for one in comparisons_of(json.loads((tmp_path / "compare.json").read_text()))}
    assert keys == set(NEXT_LOCATION) - {"cross_entropy"}


def test_presets_are_read_in_any_locale(tailmetrics, tmp_path):
    """Their files hold letters beyond ASCII: where Python takes ASCII for the encoding of files, no command ends by that."""
    before = locale.setlocale(locale.LC_CTYPE)
    locale.setlocale(locale.LC_CTYPE, "C")
    try:
        with (tmp_path / "a").open("w") as file, pytest.raises(UnicodeEncodeError):
            file.write("→")
        with pytest.raises(SystemExit, match="^0$"):
            tailmetrics("evaluate", "--help")
    finally:
        locale.setlocale(locale.LC_CTYPE, before)
