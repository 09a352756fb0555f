"""Each example runs from end to end on one package, has finite values, and computes
what its docstrings state.
"""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import pytrec_eval
import torch

from examples.language_model import (
    __main__ as language_model,
    data as language_model_data,
)
from examples.next_item import __main__ as next_item
from examples.next_item.data import read_sessions
from examples.next_item.models import MarkovChain, popularity
from examples.recommender import __main__ as recommender
from examples.recommender.data import read_interactions
from examples.recommender.models import ease
from examples.retrieval import __main__ as retrieval
from examples.retrieval.data import read_collection
from examples.retrieval.models import BM25
from tailmetrics.report import Report
from test_presets import KEYS, at_cutoffs
from written import values_of

ROOT = Path(__file__).parents[1]
CUT = ("networkx",)

SOURCES = {
    "made/__init__.py": "",
    "made/near.py": "import os.path, sys\nfrom . import far\nfrom .deep.er import x\nif sys:\n    from math import pi\n",
    "made/deep/__init__.py": "",
    "made/deep/er.py": "from ..near import y\ndef f(a):\n    b = g(h(a)).k()\n    return b[0](1)\ndef one():\n    g()\n",
    "made/say.py": '''
def first():
    """Say it.

    At length.

    See Also
    --------
    second, made.third : Both of them.
    absent
        Not here.

    Notes
    -----
    None.
    """
def second():
    """Say it
    again."""
def third():
    """Say it
    once more."""
''',
}


@pytest.fixture
def package(tmp_path, monkeypatch):
    """Put a small package on the path, and return its name."""
    for path, text in SOURCES.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    return "made"


def assert_finite(report: Report) -> None:
    """Assert that every value is finite, except in buckets without a positive or a
    label.
    """
    empty = {bucket.name for bucket in report.buckets if not bucket.positives}
    assert report.overall
    assert all(math.isfinite(value) for value in report.overall.values())
    for metric, values in report.by_bucket.items():
        bucket_values = (
            value for bucket, value in values.items() if bucket not in empty
        )
        if not metric.startswith("near_miss"):  # NaN if no label is missed
            assert all(math.isfinite(value) for value in bucket_values)


@pytest.mark.slow
@pytest.mark.parametrize("example", [recommender, next_item])
def test_examples_compare_two_models(example, capsys):
    """The recommender and next-item examples report two models from head to tail with
    finite values, and print them.
    """
    reports = example.main(CUT)
    assert len(reports) == 2
    for report in reports.values():
        assert_finite(report)
        assert [row.name for row in report.buckets] == [
            *(f"decile_{n}" for n in range(10, 0, -1)),
            "unseen",
        ]
    printed = capsys.readouterr().out
    assert all(name in printed for name in (*reports, "decile_10", "unseen"))


@pytest.mark.slow
def test_retrieval_agrees_with_trec_eval(tmp_path, monkeypatch, capsys):
    """The commands of the retrieval example succeed, and recall@10 in its reports is
    trec_eval's mean over the queries of the files.
    """
    monkeypatch.chdir(ROOT)
    assert retrieval.main(CUT, tmp_path) == 0
    assert "bm25-prior against bm25" in capsys.readouterr().out
    qrels = {}
    for line in (tmp_path / "test.qrels").read_text().splitlines():
        query, _, document, grade = line.split()
        qrels.setdefault(query, {})[document] = int(grade)
    for name in ("bm25", "bm25-prior"):
        run = {}
        for line in (tmp_path / f"{name}.run").read_text().splitlines():
            query, _, document, _, score, _ = line.split()
            run.setdefault(query, {})[document] = float(score)
        assert run.keys() == qrels.keys()
        assert not any(query in documents for query, documents in run.items())
        expected = pytrec_eval.RelevanceEvaluator(qrels, {"recall.10"}).evaluate(run)
        report = json.loads((tmp_path / name / "report.json").read_text())
        mean = sum(values["recall_10"] for values in expected.values()) / len(qrels)
        assert values_of(report)["recall@10"] == pytest.approx(mean, abs=1e-12)


def test_next_item_uses_the_preset():
    """The next-item example reports overall the metrics of
    configs/next_location.yaml.
    """
    keys = [
        key
        for metric in next_item.metrics().members().values()
        if not metric.buckets
        for key in metric.keys()  # noqa: SIM118
    ]
    assert [key.replace("weighted_f1@1", "weighted_f1") for key in keys] == at_cutoffs(
        KEYS["next_location"].partition(" / ")[0]
    )


def test_imports_are_read_by_full_name(package):
    """The recommender example reads imports by their full names, resolves relative
    imports, and finds nested ones.
    """
    from examples.recommender.data import _imports

    imports = dict(_imports(package))
    assert imports["made/near.py"] == {"os.path", "sys", "made", "made.deep.er", "math"}
    assert imports["made/deep/er.py"] == {"made.near"}


@pytest.mark.slow
def test_recommender_does_not_train_on_targets():
    """The recommender example never trains on its targets; each row has a target and at
    least two items to train on.
    """
    data = read_interactions(CUT)
    is_target = data.hidden >= 0
    assert is_target.any(dim=1).all()
    assert data.shown.gather(1, data.hidden.clamp(min=0))[is_target].sum() == 0
    assert (data.shown.sum(dim=1) >= 2).all()


def test_ease_is_ridge_regression_without_the_item_itself():
    """EASE gives each item the weights of the ridge regression on all other items,
    solved one by one.
    """
    interactions = (
        torch.rand(40, 6, generator=torch.Generator().manual_seed(0)) < 0.4
    ).float()
    expected = np.zeros((40, 6))
    for item in range(6):
        others = [other for other in range(6) if other != item]
        design = interactions[:, others].double().numpy()
        gram = design.T @ design + 3.0 * np.eye(5)
        expected[:, item] = design @ np.linalg.solve(
            gram, design.T @ interactions[:, item].double().numpy()
        )
    expected[interactions.numpy() > 0] = -np.inf
    np.testing.assert_allclose(
        ease(interactions, penalty=3.0).numpy(), expected, rtol=0, atol=1e-9
    )


def test_calls_are_read_in_order(package):
    """The next-item example reads calls in the order in which they are made, by their
    last name, and leaves out calls without a name and sessions of one call.
    """
    data = read_sessions((package,))
    sessions = [
        [data.names[item] for item in session] for session in (*data.train, *data.test)
    ]
    assert sessions == [["h", "g", "k"]]


def test_markov_chain_blends_counts_with_popularity():
    """P(next | state) of the Markov chain is (count + weight · P) / (total + weight),
    by hand, where popularity P has its pseudo-count.
    """
    train = [[0, 1, 0, 1], [0, 2]]
    prior = popularity(train, 4, pseudo_count=1.0)
    assert prior.tolist() == pytest.approx([4 / 10, 3 / 10, 2 / 10, 1 / 10])
    after_0, after_3 = MarkovChain(train, prior, weight=2.0)(
        torch.tensor([0, 3])
    ).tolist()
    assert after_0 == pytest.approx([0.8 / 5, 2.6 / 5, 1.4 / 5, 0.2 / 5])
    assert after_3 == pytest.approx(prior.tolist())


def test_links_are_read_from_see_also(package):
    """The retrieval example reads links from See Also: the names before the colon,
    without their module, if they are documents. The section is not searched.
    """
    collection = read_collection((package,))
    assert collection.links == {"made/first": ["made/second", "made/third"]}
    assert collection.queries == {"made/first": "first Say it."}
    assert "Both" not in collection.documents["made/first"]
    assert "Notes" in collection.documents["made/first"]


def test_bm25_equals_okapis_formula():
    """BM25 equals Okapi's formula by hand, with k1 = 1.2 and b = 0.75 on documents of
    2, 1 and 3 words.
    """
    documents = ["red fish", "fish", "red red boat"]
    expected = []
    for text in documents:
        words = text.split()
        length = 1 - 0.75 + 0.75 * len(words) / 2
        rarity = math.log(1 + (3 - 2 + 0.5) / (2 + 0.5))
        expected.append(
            rarity * words.count("red") * 2.2 / (words.count("red") + 1.2 * length)
        )
    assert BM25(documents)("Red whale").tolist() == pytest.approx(expected)


@pytest.mark.slow
def test_a_language_model_is_better_than_counting_words(monkeypatch, capsys):
    """The language model has a lower cross-entropy than a unigram model on a tenth of
    the text, with finite values in a table with a line for each decile.
    """
    monkeypatch.setattr(language_model_data, "MOST", 12_000)
    values_by_model = language_model.main(CUT, epochs=1)
    unigram, network = values_by_model.values()
    assert network["cross_entropy"] < unigram["cross_entropy"]
    assert all(
        math.isfinite(value)
        for values in values_by_model.values()
        for key, value in values.items()
        if "unseen" not in key
    )
    printed = capsys.readouterr().out
    assert all(f"\ndecile_{number} " in printed for number in range(1, 11))


def test_rare_words_are_no_targets(package):
    """Words that the training files hold once become the word for all others, which is
    never a target.
    """
    text = language_model_data.read_text((package,))
    assert text.words[0] == "<other>"
    counts = torch.bincount(text.train, minlength=len(text.words))
    assert (counts[1:] > 1).all()
    (context, target), *_ = language_model.batches(text.train.repeat(20))
    assert context.shape == (8, 128, 4)
    assert target.shape == (8, 128)
    assert (target != 0).all()
