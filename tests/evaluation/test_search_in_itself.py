"""A search in a collection that holds the queries brings a warning if each query finds
itself first.
"""

import json

import pandas as pd
import pyarrow as pa
import pytest

import tailmetrics as tm
from tailmetrics.cli import main
from tailmetrics.evaluation import compare_runs

QUERIES = [f"image {number}" for number in range(8)]
TEXT = "each query finds itself first"


def run(names=QUERIES, self_score=1.0):
    """Return similarities of images: neighbours are alike, and each image is most alike
    to itself.
    """
    scores = {}
    for row, query in enumerate(names):
        scores[query] = {
            item: self_score if item == query else 1 / (1 + abs(row - place))
            for place, item in enumerate(QUERIES)
        }
    return dict(reversed(scores.items()))


def targets(names=QUERIES):
    """Return targets, in which the next image is relevant and rows are not in the order
    of names.
    """
    return {
        names[row - 3]: {QUERIES[(row - 2) % len(QUERIES)]: 1}
        for row in range(len(names))
    }


def frame(content, value):
    rows = [
        (query, item, number)
        for query, items in content.items()
        for item, number in items.items()
    ]
    return pd.DataFrame(rows, columns=["query", "item", value])


def ranked(content):
    return {
        query: sorted(items, key=items.get, reverse=True)
        for query, items in content.items()
    }


FORMS = {
    "dicts": (run(), targets()),
    "lists": (ranked(run()), targets()),
    "frames": (frame(run(), "score"), frame(targets(), "gain")),
    "arrow": (pa.Table.from_pandas(frame(run(), "score")), targets()),
    "numbers": (
        {
            QUERIES.index(query) + 3: {
                QUERIES.index(item) + 3: score for item, score in items.items()
            }
            for query, items in run().items()
        },
        {row + 3: {(row + 1) % 8 + 3: 1} for row in reversed(range(8))},
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_evaluate_warns_if_queries_find_themselves(form):
    """evaluate warns if each query finds itself first, in any form of data.

    No query has its next image first, although that is the most alike of the others.
    """
    with pytest.warns(UserWarning, match=TEXT):
        report = tm.evaluate(*FORMS[form], metrics=[tm.HitRateAtK(1)])
    assert report.scalars == {"hit_rate@1": 0.0}
    assert any(TEXT in note for note in report.notes)


def test_rows_that_find_themselves_by_number_bring_one_warning():
    """If rows find themselves by number, the warning of the metrics is the only one:
    names are not compared.
    """
    target = {row: {(row + 1) % 8: 1} for row in range(8)}
    preds = {
        row: {place: 1 / (1 + abs(row - place)) for place in range(8)}
        for row in range(8)
    }
    with pytest.warns(
        UserWarning, match="the first label of each row is the row itself"
    ) as warned:
        tm.evaluate(preds, target, metrics=[tm.HitRateAtK(1)])
    assert not any(TEXT in str(warning.message) for warning in warned)


def test_compare_runs_warns_if_one_run_finds_queries_themselves():
    """compare_runs warns if the queries of one run find themselves, although the other
    run leaves them out.
    """
    without = {
        query: {item: score for item, score in items.items() if item != query}
        for query, items in run().items()
    }
    with pytest.warns(UserWarning, match=TEXT):
        compare_runs(
            {"with": run(), "without": without},
            targets(),
            metrics=[tm.HitRateAtK(1)],
            resamples=100,
        )


@pytest.mark.filterwarnings(f"error:.*{TEXT}")
@pytest.mark.parametrize(
    ("preds", "target"),
    [
        pytest.param(run(self_score=0.1), targets(), id="another image is first"),
        pytest.param(
            run(),
            {query: {query: 1} for query in QUERIES},
            id="the target is the query itself",
        ),
        pytest.param(
            run([f"text {row}" for row in range(8)]),
            targets([f"text {row}" for row in range(8)]),
            id="other names",
        ),
        pytest.param(
            {query: run()[query] for query in QUERIES[:3]},
            targets(QUERIES[:3]),
            id="few queries",
        ),
        pytest.param(
            {**run(), QUERIES[3]: {"image 5": 1.0}}, targets(), id="one query does not"
        ),
    ],
)
def test_evaluate_does_not_warn_of_other_runs(preds, target):
    """evaluate does not warn if queries find others first, if they are to find
    themselves, or if there are so few that chance explains it.
    """
    tm.evaluate(preds, target, metrics=[tm.HitRateAtK(1)])


@pytest.mark.parametrize("suffix", ["json", "csv"])
def test_command_line_warns_if_queries_find_themselves(suffix, tmp_path, capsys):
    """The command line warns of files whose queries find themselves, on stderr and in
    the report.
    """
    files = {"preds": run(), "target": targets()}
    words = [
        "evaluate",
        "--metrics+=HitRateAtK",
        "--metrics.k=1",
        "--string-ids",
        "true",
        "--out",
        str(tmp_path / "out"),
    ]
    for name, content in files.items():
        path = tmp_path / f"{name}.{suffix}"
        if suffix == "json":
            path.write_text(json.dumps(content))
        else:
            frame(content, "score" if name == "preds" else "gain").to_csv(
                path, index=False
            )
        words += [f"--{name}", str(path)]
    assert main(words) == 0
    assert f"preds.{suffix}: {TEXT}" in capsys.readouterr().err
    report = json.loads((tmp_path / "out/report.json").read_text())
    assert any(TEXT in text for text in report["warnings"])
