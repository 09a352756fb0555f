"""A recommender that shows its users what they have had: said with its share, in Python and on the command line."""

import json
import random

import pytest

from tailmetrics import PrecisionAtK, RecallAtK, evaluate
from tailmetrics.cli import main
from tailmetrics.evaluation import seen


@pytest.fixture
def interactions():
    """Return training, held-out and recommended items of 40 users; in training users stand in another order."""
    draw = random.Random(3)
    items = [f"i{number}" for number in range(60)]
    users = [f"u{number}" for number in range(40)]
    train = {user: dict.fromkeys(draw.sample(items, 15), 1) for user in reversed(users)}
    test = {user: dict.fromkeys(draw.sample(sorted(set(items) - set(train[user])), 3), 1) for user in users}
    shown = {user: {item: draw.random() for item in draw.sample(items, 12)} for user in users}
    return train, test, shown


def share_of(train, shown):
    """The share of the first ten places that show an item of the user's own training, by a plain loop."""
    best = {user: sorted(scores, key=scores.get, reverse=True)[:10] for user, scores in shown.items()}
    return sum(item in train[user] for user, list_of in best.items() for item in list_of) / (10 * len(best))


def told(warnings):
    return [one for one in warnings if "what training holds for the same row" in one]


def test_the_share_of_places_is_told(interactions, monkeypatch):
    """Of all users, in batches of seven; nothing where training names other users, or lists leave its items out."""
    train, test, shown = interactions
    assert 0.1 < share_of(train, shown) < 0.5
    more = {"metrics": [RecallAtK(5, buckets="deciles"), PrecisionAtK(k=1)], "batch_rows": 7}
    (found,) = told(evaluate(shown, test, train_target=train, **more).warnings)
    assert found.startswith(f"{share_of(train, shown):.0%} of the first 10 places show")
    others = {f"t{user}": items for user, items in train.items()}
    left = {user: {item: score for item, score in of.items() if item not in train[user]} for user, of in shown.items()}
    assert told(evaluate(shown, test, train_target=others, **more).warnings) == []
    assert told(evaluate(left, test, train_target=train, **more).warnings) == []
    monkeypatch.setattr(seen, "SAMPLED", 5)  # the five first users of training
    (found,) = told(evaluate(shown, test, train_target=train, **more).warnings)
    of_five = {user: shown[user] for user in list(train)[:5]}
    assert found.startswith(f"{share_of(train, of_five):.0%} of the first 10 places show")


def test_the_item_of_the_first_number_counts():
    """Every user is shown two items. Training holds the first of them, which has the number 0."""
    users = [f"u{number}" for number in range(40)]
    train, test = ({user: {item: 1} for user in users} for item in "ab")
    shown = {user: {"a": 2.0, "b": 1.0} for user in users}
    (found,) = told(evaluate(shown, test, train_target=train, metrics=[RecallAtK(k=1, buckets="deciles")]).warnings)
    assert found.startswith("50% of the first 10 places show")


def test_the_command_line_names_the_option(interactions, tmp_path, monkeypatch, capsys):
    """evaluate and compare say --filter with the file, and no more once it is given; lines come in any order."""
    train, test, shown = interactions
    monkeypatch.chdir(tmp_path)
    other = {user: {item: -score for item, score in of.items()} for user, of in shown.items()}
    for name, table in (("train", train), ("test", test), ("shown", shown), ("other", other)):
        lines = [f"{user},{item},{value}" for user, of in table.items() for item, value in of.items()]
        random.Random(name).shuffle(lines)
        head = "user,item,score" if name in ("shown", "other") else "user,item,gain"
        (tmp_path / f"{name}.csv").write_text("\n".join([head, *lines]) + "\n")
    words = ["--metrics+=RecallAtK", "--metrics.k=10", "--target", "test.csv", "--train-target", "train.csv"]
    words += ["--quiet", "--overwrite"]
    preds = {
        "evaluate": ["--preds", "shown.csv"],
        "compare": ["--preds", "shown.csv", "other.csv", "--resamples", "99"],
    }
    for command, of_command in preds.items():
        for filtered in ([], ["--filter", "train.csv"]):
            assert main([command, *of_command, *words, "--out", "out", *filtered]) == 0, capsys.readouterr().err
            file = "report" if command == "evaluate" else "compare"
            found = told(json.loads((tmp_path / "out" / f"{file}.json").read_text())["warnings"])
            expected = [shown] if command == "evaluate" else [shown, other]
            expected = [] if filtered else [f"{share_of(train, one):.0%} of the first 10 places" for one in expected]
            assert [one.rpartition(": ")[2][: len(two)] for one, two in zip(found, expected, strict=True)] == expected
            assert all(one.endswith("add --filter train.csv.") for one in found)


def test_row_numbers_of_lists_are_no_users():
    """Lists of names have no users: row 0 of training is not row 0 of what is evaluated."""
    shown, right, train = [["a", "b"], ["b", "c"]] * 20, [["a"], ["c"]] * 20, [["a", "b"], ["b", "c"]] * 20
    assert told(evaluate(shown, right, train_target=train, metrics=[RecallAtK(k=1, buckets="deciles")]).warnings) == []
