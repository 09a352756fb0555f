"""The blocks of docs/fields.md run, and their values are those of the tools of each of
six fields.
"""

import contextlib
import io
import json
import re
import shlex
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import pytrec_eval
import scipy.sparse
import torch
from napkinxc.metrics import (
    Jain_et_al_inverse_propensity,
    precision_at_k,
    psprecision_at_k,
)
from sklearn.metrics import balanced_accuracy_score, f1_score, top_k_accuracy_score

from tailmetrics.cli import main
from written import values_of

PAGE = Path(__file__).parents[2] / "docs" / "fields.md"


@pytest.fixture(scope="module")
def page_results() -> tuple[dict[str, Any], dict[str, dict[str, float]]]:
    """Return the names that the blocks define, and the values that each section prints,
    by its title.
    """
    names: dict[str, Any] = {"__name__": "__main__"}
    printed: dict[str, dict[str, float]] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for section in PAGE.read_text().split("\n## "):
            for code in re.findall(
                r"^```python\n(.*?)^```$", section, re.DOTALL | re.MULTILINE
            ):
                output = io.StringIO()
                with contextlib.redirect_stdout(output):
                    exec(compile(code, PAGE, "exec"), names)
                lines = [
                    line.rpartition(" ") for line in output.getvalue().splitlines()
                ]
                values = {key.strip(): float(value) for key, _, value in lines}
                printed.setdefault(section.partition("\n")[0], {}).update(values)
    return names, printed


def test_extreme_classification_equals_napkinxc(page_results: Any) -> None:
    """Precision and propensity-scored precision of the section equal napkinXC's."""
    names, printed = page_results
    values, scores, test = (
        printed["Extreme classification"],
        names["scores"],
        names["multi_hot"](names["test"]),
    )
    assert np.array_equal(names["coded"], test)
    order = [row.tolist() for row in np.argsort(-scores, axis=1)[:, :5]]
    truth, train = (
        scipy.sparse.csr_matrix(test),
        scipy.sparse.csr_matrix(names["multi_hot"](names["train"])),
    )
    weights = Jain_et_al_inverse_propensity(train)
    for place, k in enumerate((1, 3, 5)):
        assert values[f"precision_k@{k}"] == pytest.approx(
            precision_at_k(truth, order, k=5)[k - 1], abs=5e-5
        ), place
        assert values[f"psp@{k}"] == pytest.approx(
            psprecision_at_k(truth, order, weights, k=5)[k - 1], abs=5e-5
        )


def peer(
    names: dict[str, Any], run: dict[str, dict[str, float]], measure: str
) -> float:
    """Return the mean of a measure of pytrec_eval."""
    measures = pytrec_eval.RelevanceEvaluator(
        names["qrels"], {re.sub(r"_(?=\d)", ".", measure)}
    ).evaluate(run)
    return sum(values[measure] for values in measures.values()) / len(measures)


def test_recommendation_and_retrieval_equal_pytrec_eval(page_results: Any) -> None:
    """nDCG, recall, MAP and reciprocal rank of the sections, and the difference of the
    two runs, equal pytrec_eval's.
    """
    names, printed = page_results
    run = names["bm25"]
    for section, keys in (
        ("Recommendation", {"ndcg@10": "ndcg_cut_10", "recall@10": "recall_10"}),
        ("Retrieval", {"ndcg@10": "ndcg_cut_10", "map": "map", "mrr": "recip_rank"}),
    ):
        for key, measure in keys.items():
            assert printed[section][key] == pytest.approx(
                peer(names, run, measure), abs=5e-5
            )
    gain = peer(names, names["reranked"], "ndcg_cut_10") - peer(
        names, run, "ndcg_cut_10"
    )
    assert printed["Retrieval"][""] == pytest.approx(gain, abs=5e-5)


def test_next_location_equals_scikit_learn(page_results: Any) -> None:
    """Accuracy and weighted F1 of the section equal scikit-learn's."""
    names, printed = page_results
    values, labels = printed["Next location, next item"], range(200)
    for k in (1, 5, 10):
        expected = top_k_accuracy_score(
            names["visited"], names["scores"], k=k, labels=labels
        )
        assert values[f"accuracy@{k}"] == pytest.approx(expected, abs=5e-5)
    expected = f1_score(
        names["visited"], names["scores"].argmax(1), average="weighted", zero_division=0
    )
    assert values["weighted_f1@1"] == pytest.approx(expected, abs=5e-5)


def test_long_tailed_images_equal_scikit_learn_and_group_means(
    page_results: Any,
) -> None:
    """Balanced accuracy of the section equals scikit-learn's, and the accuracy of each
    group is the mean over its classes, grouped by their training images.
    """
    names, printed = page_results
    values, target = printed["Long-tailed images"], names["visited"]
    right = names["scores"].argmax(1) == target
    images = np.zeros(200)
    for row in names["train"]:
        images[row] += 1
    by_class = {label: right[target == label].mean() for label in np.unique(target)}
    assert values["accuracy@1"] == pytest.approx(right.mean(), abs=5e-5)
    assert values["macro_recall@1"] == pytest.approx(
        balanced_accuracy_score(target, names["scores"].argmax(1)), abs=5e-5
    )
    for group, low, high in (
        ("many", 101, np.inf),
        ("medium", 20, 100),
        ("few", 1, 19),
    ):
        group_values = [
            value for label, value in by_class.items() if low <= images[label] <= high
        ]
        assert values[group] == pytest.approx(np.mean(group_values), abs=5e-5)


def test_language_models_equal_torch(page_results: Any) -> None:
    """The perplexities of the section, of all tokens and of those of two deciles, are
    those of torch's cross-entropy.
    """
    names, printed = page_results
    logits, words = names["logits"].double().flatten(0, 1), names["words"].flatten()
    deciles = names["rare"]["buckets"]
    for line, decile in (
        ("all", None),
        ("/decile_10", "decile_10"),
        ("/decile_1", "decile_1"),
    ):
        bucket = torch.as_tensor(deciles.assignment)[words.clamp(min=0)]
        counted_words = (
            words
            if decile is None
            else words.where(bucket == deciles.names.index(decile), -100)
        )
        expected = torch.nn.functional.cross_entropy(
            logits, counted_words, ignore_index=-100
        ).exp()
        (printed_value,) = (
            value
            for key, value in printed["Language models"].items()
            if key.split()[0] == line
        )
        assert printed_value == pytest.approx(float(expected), abs=0.06)


def test_map_of_a_competition_equals_its_loop(page_results: Any) -> None:
    """MAP@12 of the section equals the loop with which competitions compute it."""
    names, printed = page_results

    def average_precision(actual: list[str], predicted: list[str]) -> float:
        hits, total = 0, 0.0
        for place, item in enumerate(predicted[:12]):
            if item in actual:
                hits += 1
                total += hits / (place + 1)
        return total / min(len(actual), 12)

    pairs = zip(names["bought"], names["submission"], strict=True)
    expected = sum(average_precision(*pair) for pair in pairs) / 300
    assert printed["A competition"][""] == pytest.approx(expected, abs=5e-5)


@pytest.mark.slow
@pytest.mark.usefixtures("blank_pictures")
def test_the_commands_of_the_page_give_the_values_of_the_blocks(
    page_results: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """Each command of the page, run on files of the same data, succeeds and gives the
    value of the block.
    """
    names, printed = page_results
    monkeypatch.chdir(tmp_path)
    scipy.sparse.save_npz("preds.npz", scipy.sparse.csr_matrix(np.exp(names["scores"])))
    for name in ("train", "test"):
        scipy.sparse.save_npz(
            f"{name}.npz", scipy.sparse.csr_matrix(names["multi_hot"](names[name]))
        )
        coded = [
            f"{row},{';'.join(names['codes'][label] for label in labels)}"
            for row, labels in enumerate(names[name])
        ]
        Path(f"{name}_notes.csv").write_text(
            "\n".join(["note_id,codes", *coded]) + "\n"
        )
    Path("codes.txt").write_text("\n".join(names["codes"]) + "\n")
    np.save("notes.npy", 1 / (1 + np.exp(-names["scores"])))
    for name, table in (
        ("scores", "recommended"),
        ("test", "held_out"),
        ("train", "shown_before"),
    ):
        names[table].to_csv(f"{name}.csv", index=False)
    lines = [
        f"{query} Q0 {document} {place + 1} {score} bm25"
        for query, run in names["bm25"].items()
        for place, (document, score) in enumerate(run.items())
    ]
    Path("bm25.run").write_text("\n".join(lines) + "\n")
    judged = [
        f"{query} 0 {document} 1"
        for query, documents in names["qrels"].items()
        for document in documents
    ]
    Path("test.qrels").write_text("\n".join(judged) + "\n")
    np.save("scores.npy", names["scores"])
    np.save("places.npy", names["visited"])
    np.save("visits.npy", names["visited"])
    np.save("classes.npy", names["visited"])
    np.save("images.npy", names["images"])
    for file, role in (("submission", "ids"), ("bought", "labels")):
        listed = [f"{row},{' '.join(labels)}" for row, labels in enumerate(names[file])]
        Path(f"{file}.csv").write_text("\n".join([f"user_id,{role}", *listed]) + "\n")
    words = names["words"].clone()
    words[4:].clamp_(min=-1)  # half of the padding is -100, half is -1
    for name, array in (
        ("logits", names["logits"].float()),
        ("words", words),
        ("counts", names["counts"]),
    ):
        np.save(f"{name}.npy", array.numpy())
    for file in ("answers", "right", "known"):
        lines = [
            json.dumps({"id": f"n{row}", "codes": codes})
            for row, codes in enumerate(names[file])
        ]
        Path(f"{file}.jsonl").write_text("\n".join(lines))
    tokens = names["logits"].double().flatten(0, 1), names["words"].flatten()
    expected = {
        "xmc": ("precision@5", printed["Extreme classification"]["precision_k@5"]),
        "medical_coding": (
            "precision@5",
            printed["Extreme classification"]["precision_k@5"],
        ),
        "recsys": ("recall@10", printed["Recommendation"]["recall@10"]),
        "retrieval": ("ndcg@10", printed["Retrieval"]["ndcg@10"]),
        "next_location": (
            "accuracy@5",
            printed["Next location, next item"]["accuracy@5"],
        ),
        "scores.npy": (
            "macro_recall@1",
            printed["Long-tailed images"]["macro_recall@1"],
        ),
        "map12": ("map@12", printed["A competition"][""]),
        "language_model": (
            "cross_entropy",
            float(torch.nn.functional.cross_entropy(*tokens)),
        ),
        "answers.jsonl": ("recall@3", 0.5),
    }
    commands = [
        shlex.split(command)
        for command in re.findall(r"`(tailmetrics evaluate [^`]*)`", PAGE.read_text())
    ]
    assert [words[3] for words in commands] == list(expected)
    for words in commands:
        assert main([*words[1:], "--quiet", "--overwrite"]) == 0, (
            capsys.readouterr().err
        )
        key, value = expected[words[3]]
        assert values_of(json.loads(Path("report/report.json").read_text()))[
            key
        ] == pytest.approx(value, abs=5e-5)
