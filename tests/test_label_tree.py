"""The tree of labels: what it refuses, and predictions and targets one level up,
compared with plain loops.
"""

import pickle
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import tailmetrics
import tailmetrics as tm
from cases import BUCKETS, NUM_LABELS, TREE, data, fed, padded_ids, training_counts
from oracle import rank_scores
from tailmetrics import (
    HierarchicalF1AtK,
    LabelBuckets,
    LabelFrequency,
    LabelTree,
    NDCGAtK,
    NearMissAtK,
    Ranking,
    RecallAtK,
    TopKCollection,
    rank,
)
from tailmetrics.cli import main

BATCH = data(seed=3, num_rows=30, graded=True)
PARENTS = TREE.parents.tolist()


def path_to(label: int, parents: Sequence[int]) -> list[int]:
    """Return the nodes from the root to a label, one by one."""
    above = parents[label]
    return [*(path_to(above, parents) if above >= 0 else []), label]


def ancestor_at(label: int, level: int) -> int:
    """Return the ancestor of a label at a level."""
    return path_to(label, PARENTS)[: level + 1][-1]


def listed_ancestors(ids: Sequence[int], level: int) -> list[int]:
    """Return the first of each ancestor, in the order of a list."""
    return list(dict.fromkeys(ancestor_at(label, level) for label in ids if label >= 0))


# the tree


@pytest.mark.parametrize("seed", range(3))
def test_ancestors_and_levels_are_those_of_a_walk(seed: int) -> None:
    """Ancestors and levels equal a walk up the tree, in random forests whose nodes are
    in any order.
    """
    draw = random.Random(seed)
    order = draw.sample(range(50), 50)
    parents = [-1] * 50
    for place, node in enumerate(order):
        parents[node] = draw.choice([-1, *order[:place]])
    tree = LabelTree(parents, num_labels=40)
    for label in range(40):
        path = path_to(label, parents)
        assert [node for node in tree.ancestors[label].tolist() if node >= 0] == path[
            -2::-1
        ]
        assert [int(tree.level(n)[label]) for n in range(4)] == [
            path[: n + 1][-1] for n in range(4)
        ]


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        (lambda: LabelTree([1, 2, 0, -1]), "circle, '"),
        (lambda: LabelTree([0]), "circle, '0' → '0'"),
        (lambda: LabelTree([-1, 7]), "parent of label 1 is 7, but there are 2 labels"),
        (lambda: LabelTree([-2]), "parent of label 0 is -2"),
        (lambda: LabelTree([0.5]), "whole number"),
        (
            lambda: LabelTree.from_edges([("a", "b"), ("a", "c")], ["a"]),
            "'a' has two parents, 'b' and 'c'",
        ),
        (
            lambda: LabelTree.from_edges([("a", "b"), ("b", "a")], ["a"]),
            "'a' → 'b' → 'a'|'b' → 'a' → 'b'",
        ),
        (
            lambda: LabelTree.from_edges([("x", "y")], ["a"]),
            "no pair names a label: .*'x'.*'a'",
        ),
        (
            lambda: LabelTree.from_edges(["ab"], ["a"]),
            "pairs of a child and its parent",
        ),
        (lambda: LabelTree.from_edges([], ["a", "a"]), "a name twice"),
        (lambda: TREE.level(-1), "n=-1"),
        (lambda: NearMissAtK(k=1, tree=PARENTS), "is no tree; pass LabelTree"),
        (
            lambda: NearMissAtK(k=1, tree=TREE, num_labels=3),
            "tree is for 40 labels, but there are 3",
        ),
        (
            lambda: NearMissAtK(k=1).update(torch.zeros(1, 2), torch.zeros(1).long()),
            "pass tree=LabelTree",
        ),
        (
            lambda: TREE.roll_up(torch.zeros(2, 3), torch.zeros(2).long()),
            "3 columns, but there are 40 labels",
        ),
        (
            lambda: TREE.roll_up(rank(torch.zeros(2, 3), torch.zeros(2).long())),
            "of 3 labels, the tree of 40",
        ),
        (
            lambda: tailmetrics.evaluate(
                BATCH.scores, BATCH.target, label_tree=LabelTree([-1])
            ),
            "1 labels, but the data",
        ),
        (
            lambda: tailmetrics.evaluate(
                BATCH.scores, BATCH.target, metrics=[NearMissAtK(k=1)]
            ),
            "pass label_tree=",
        ),
        (lambda: tailmetrics.evaluate([["a"]], [["a"]], label_tree=TREE), "from_edges"),
    ],
)
def test_invalid_trees_are_refused(factory: Any, message: str) -> None:
    """A tree with a circle, a parent out of range or two parents is refused by name, as
    is a tree of other labels.
    """
    with pytest.raises((TypeError, ValueError), match=message):
        factory()


def test_names_beside_the_labels_become_further_nodes() -> None:
    """Names of edges that are no labels become further nodes, such as chapters.

    The same tree with labels in another order has the same digest of edges.
    """
    tree = LabelTree.from_edges(
        {"b": "one", "a": "one", "one": "", "c": None}, ["a", "b", "c"]
    )
    assert (tree.num_labels, tree.label_names, tree.names) == (
        3,
        ("a", "b", "c"),
        ("a", "b", "c", "one"),
    )
    reordered = tree.of_labels(["c", "b", "a"])
    assert reordered.parents.tolist() == [-1, 3, 3, -1]
    assert reordered.digest_of_edges == tree.digest_of_edges
    assert reordered != tree
    assert tree.at_level(0).tree.label_names == ("c", "one")


def test_ancestors_at_a_level_are_buckets() -> None:
    """LabelBuckets.from_tree makes a bucket for each ancestor at a level, named by the
    tree or by the caller.

    Such buckets have no gap and no spread.
    """
    tree = LabelTree.from_edges({"b": "one", "a": "one"}, ["a", "b", "c"])
    buckets = LabelBuckets.from_tree(tree, counts=[3, 1, 1])
    assert (buckets.names, buckets.assignment.tolist()) == (("c", "one"), [1, 1, 0])
    assert LabelBuckets.from_tree(tree, 1, ["x", "y", "z"]).assignment.tolist() == [
        0,
        1,
        2,
    ]
    batch = torch.tensor([[0], [2]]), torch.tensor([1, 2])
    by_chapter = fed(
        TopKCollection([RecallAtK(k=1, buckets=pickle.loads(pickle.dumps(buckets)))]),
        *batch,
    )
    assert by_chapter.compute().keys() == {"recall@1/c", "recall@1/one"}
    assert by_chapter.summaries() == {}  # a chapter is neither head nor tail


# one level up


def unpadded(ids: Tensor) -> list[list[int]]:
    """Return the ids of each row without padding."""
    return [[label for label in row if label >= 0] for row in ids.tolist()]


@pytest.mark.parametrize("level", [0, 2, 30])
def test_rolled_up_lists_keep_the_first_of_each_ancestor(level: int) -> None:
    """roll_up keeps the first of each ancestor in lists, the largest score in scores
    and the largest gain in targets.

    This holds for ids, candidates and dense scores, dense and CSR targets, with a
    masked row.
    """
    tree_level, mask = TREE.at_level(level), torch.arange(30) != 4
    nodes = sorted({ancestor_at(label, level) for label in range(NUM_LABELS)})
    gains = torch.zeros(30, len(nodes), dtype=torch.float64)
    for row, row_of_batch in enumerate(BATCH.rows):
        for label, gain in row_of_batch.relevant.items():
            place = nodes.index(ancestor_at(label, level))
            gains[row, place] = max(float(gains[row, place]), gain) if row != 4 else 0.0
    expected = [listed_ancestors(row.ranked, level) for row in BATCH.rows]
    expected[4] = []
    places = torch.arange(NUM_LABELS).expand(30, -1)
    for preds in (BATCH.ids, (BATCH.scores, places)):
        for target in (BATCH.target, BATCH.target.to_sparse_csr()):
            ranking = TREE.roll_up(preds, target, level=level, row_mask=mask)
            assert [
                [nodes[label] for label in ids] for ids in unpadded(ranking.ids)
            ] == expected
            dense = torch.zeros_like(gains)
            entries = ranking.targets.entries
            dense[entries.rows, entries.ids] = entries.gains
            assert torch.equal(dense, gains)
    best = torch.full((30, len(nodes)), -torch.inf)
    for label in range(NUM_LABELS):
        column = nodes.index(ancestor_at(label, level))
        best[:, column] = torch.maximum(best[:, column], BATCH.scores[:, label])
    ranking = TREE.roll_up(BATCH.scores, padded_ids(BATCH.target), level=level)
    assert unpadded(ranking.ids) == [rank_scores(scores) for scores in best.tolist()]
    assert torch.equal(
        TREE.roll_up(rank(BATCH.scores, BATCH.target), level=level).ids, ranking.ids
    )
    assert tree_level.tree.label_names == tuple(map(str, nodes))


def test_rolled_up_cut_list_refuses_deeper_cutoffs() -> None:
    """A cut list that is rolled up refuses cut-offs beyond the end of its shortest row,
    where another ancestor may come first.
    """
    tree = LabelTree([-1, 0, 0, -1])
    ranking = Ranking.from_ids(
        torch.tensor([[1, 2, 3], [3, 1, 2]]),
        num_labels=4,
        target_ids=torch.tensor([2, 3]),
        complete=False,
    )
    rolled = tree.roll_up(ranking)
    assert (rolled.ids.tolist(), rolled.complete) == ([[0, 1], [1, 0]], False)
    assert fed(RecallAtK(k=1), rolled).compute() == 1
    with pytest.raises(ValueError, match="deeper than the ranking"):
        RecallAtK(k=3).update(rolled)


def test_roll_up_keeps_classes_weights_and_groups() -> None:
    """roll_up of one class per row gives one class per row, and keeps weights and
    groups of rows.
    """
    row_arguments = {
        "row_weights": torch.tensor([1.0, 3.0]),
        "row_groups": torch.tensor([0, 1]),
    }
    rolled = LabelTree([-1, 0, -1]).roll_up(
        torch.tensor([[0.1, 0.9, 0.2], [0.3, 0.2, 0.9]]),
        torch.tensor([0, 1]),
        **row_arguments,
    )
    metric = fed(RecallAtK(k=1, weighted=True, row_groups=["x", "y"]), rolled)
    assert metric.compute().tolist() == [0.25, 1.0, 0.0]


def test_an_evaluation_of_a_ranking_rolled_up_is_that_of_data_rolled_up_by_hand() -> (
    None
):
    """evaluate of a ranking that is rolled up equals that of data rolled up by hand:
    any metric, by deciles of the summed counts, with intervals and labels.
    """
    level = TREE.at_level(1)
    nodes = sorted({ancestor_at(label, 1) for label in range(NUM_LABELS)})
    counts = torch.zeros(len(nodes), dtype=torch.int64)
    for label, count in enumerate(training_counts().tolist()):
        counts[nodes.index(ancestor_at(label, 1))] += count
    top = LabelTree(
        [nodes.index(PARENTS[node]) if PARENTS[node] >= 0 else -1 for node in nodes]
    )
    members = [
        RecallAtK(k=3),
        NDCGAtK(k=5, buckets="deciles", scope="global"),
        HierarchicalF1AtK(k=3),
        NearMissAtK(k=2),
    ]
    lists = [
        [nodes.index(node) for node in listed_ancestors(row.ranked, 1)]
        for row in BATCH.rows
    ]
    relevant = [
        sorted({nodes.index(ancestor_at(label, 1)) for label in row.relevant})
        for row in BATCH.rows
    ]
    padded = [
        torch.tensor([row + [-1] * (len(nodes) - len(row)) for row in rows])
        for rows in (lists, relevant)
    ]
    expected = TopKCollection(
        [
            member.empty_copy(**({"tree": top} if "tree" in vars(member) else {}))
            for member in members
        ]
    )
    expected.bind(LabelFrequency.from_counts(counts, 100))
    expected.update(*padded)

    preds = (BATCH.scores, torch.arange(NUM_LABELS).expand(30, -1))
    report = tailmetrics.evaluate(
        TREE.roll_up(preds, BATCH.target > 0, level=1),
        metrics=members,
        label_tree=level.tree,
        label_names=level.tree.label_names,
        label_counts=torch.zeros(len(nodes), dtype=torch.int64).index_add(
            0, level.places, training_counts()
        ),
        labels=True,
    )

    for key, value in expected.compute().items():
        assert report.scalars[key] == pytest.approx(float(value), nan_ok=True), key
    assert (
        report.intervals["hierarchical_f1@3"].low < report.scalars["hierarchical_f1@3"]
    )
    assert report.intervals["near_miss@2"].low < report.scalars["near_miss@2"]
    assert report.labels is not None
    assert report.labels.names is not None
    assert {*report.labels.names} == {str(node) for node in nodes}


def test_a_near_miss_is_a_sibling_the_parent_or_a_child() -> None:
    """A near miss is a sibling, the parent or a child, and not a cousin or a
    grandparent; two roots are no siblings.
    """
    tree = LabelTree([-1, 0, 0, 1, 2, -1])
    relatives = {0: {1, 2}, 1: {0, 2, 3}, 2: {0, 1, 4}, 3: {1}, 4: {2}, 5: set()}
    for missed in range(6):
        for predicted in {*range(6)} - {missed}:
            metric = fed(
                NearMissAtK(k=1, tree=tree),
                torch.tensor([[predicted]]),
                torch.tensor([missed]),
            )
            assert float(metric.compute()) == (predicted in relatives[missed]), (
                missed,
                predicted,
            )


def test_hierarchical_metrics_without_parents_equal_the_flat_ones() -> None:
    """In a tree without parents the hierarchical metrics are precision, recall and
    F1.
    """
    flat = LabelTree([-1] * NUM_LABELS)
    batch = BATCH.scores, BATCH.target > 0
    for name, plain in (
        ("HierarchicalPrecisionAtK", "PrecisionAtK"),
        ("HierarchicalRecallAtK", "RecallAtK"),
        ("HierarchicalF1AtK", "F1AtK"),
    ):
        metric = fed(
            getattr(tailmetrics, name)(k=[1, 4], buckets=BUCKETS, tree=flat), *batch
        )
        plain_metric = fed(
            getattr(tailmetrics, plain)(k=[1, 4], buckets=BUCKETS), *batch
        )
        torch.testing.assert_close(
            metric.compute(), plain_metric.compute(), equal_nan=True, rtol=1e-15, atol=0
        )


# the command line


def test_hierarchical_metrics_of_no_row_that_counts_have_no_value() -> None:
    """A batch whose only row does not count adds nothing to hierarchical metrics,
    overall or by bucket.
    """
    scores, target, dropped = (
        torch.full((1, NUM_LABELS), 0.5),
        torch.tensor([[1, 0, 3]]),
        torch.tensor([False]),
    )
    for arguments in ({}, {"buckets": BUCKETS}):
        metric = tm.HierarchicalF1AtK(k=2, tree=TREE, **arguments)
        metric.update(scores, target, row_mask=dropped)
        assert metric.compute().isnan().all()


def test_the_command_line_takes_a_tree(tmp_path: Path, capsys: Any) -> None:
    """The command line takes a label tree from a file, in which names that are no
    labels are ancestors.

    Metrics of the tree need no other argument, and are refused without a tree.
    """
    files = {
        "preds.csv": "query,item,score\nq1,cat,.9\nq1,dog,.5\nq2,bus,.3\nq2,dog,.6\n",
        "target.csv": "query,item\nq1,dog\nq2,bus\nq2,car\n",
        "tree.csv": "parent,child\nanimal,dog\nanimal,cat\nvehicle,car\nvehicle,bus\n",
        "two.csv": "child,parent\ndog,animal\ndog,vehicle\n",
        "other.csv": "code,above\ndog,animal\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    options = [
        "evaluate",
        "--preds",
        str(tmp_path / "preds.csv"),
        "--target",
        str(tmp_path / "target.csv"),
        "--no-intervals",
        "--verbose",
    ]
    options += ["--metrics+=RecallAtK", "--metrics.k=1"]
    tree = ["--label-tree", str(tmp_path / "tree.csv")]
    tree_metrics = [
        "--metrics+=HierarchicalF1AtK",
        "--metrics.k=1",
        "--metrics+=NearMissAtK",
        "--metrics.k=1",
    ]
    assert main([*options, *tree_metrics, *tree]) == 0
    printed = capsys.readouterr().out
    # q1: of cat and animal, animal is relevant, as of dog and animal; q2: nothing. Of
    # dog, bus and car dog is near.
    assert "hierarchical_f1@1 │ 0.2500" in printed
    assert "near_miss@1       │ 0.3333" in printed
    for arguments, message in (
        (
            [*options, *tree_metrics],
            "NearMissAtK: needs the parents|HierarchicalF1AtK: needs the parents",
        ),
        (
            [*options, "--label-tree", str(tmp_path / "two.csv")],
            "'dog' has two parents, 'animal' and 'vehicle'",
        ),
        (
            [*options, "--label-tree", str(tmp_path / "other.csv")],
            "columns 'code', 'above'",
        ),
    ):
        assert main(arguments) == 2
        error = capsys.readouterr().err
        assert any(word in error for word in message.split("|")), error


@pytest.mark.parametrize("parents", [[None, 0, 0], "abc", ["-1", "0"], [0.5, -1.0]])
def test_parents_that_are_no_numbers_are_refused(parents):
    """Parents that are no whole numbers are refused at once."""
    with pytest.raises(
        TypeError, match="LabelTree: parents is .*pass a whole number per label"
    ):
        tm.LabelTree(parents)


def test_repeated_names_and_non_trees_are_refused():
    """LabelTree refuses a repeated name, and LabelBuckets.from_tree refuses an object
    that is no tree.
    """
    with pytest.raises(ValueError, match="LabelTree: names holds a name twice"):
        tm.LabelTree([-1, 0], ["a", "a"])
    with pytest.raises(
        TypeError, match=r"from_tree: tree=\[-1, 0\] is no tree; pass LabelTree"
    ):
        tm.LabelBuckets.from_tree([-1, 0])


@pytest.mark.parametrize("metric", [tm.CrossEntropy(), tm.CalibrationErrorAtK(k=1)])
def test_metrics_of_probabilities_refuse_rolled_up_scores(metric):
    """Metrics of probabilities refuse scores that are rolled up, because the
    probability of an ancestor is the sum of those of its labels. Their logsumexp is
    accepted.
    """
    tree, scores = (
        tm.LabelTree([-1, -1, 0, 0, 1, 1]),
        torch.randn(9, 6, generator=torch.Generator().manual_seed(0)),
    )
    target = torch.arange(9) % 6
    with pytest.raises(
        ValueError, match="of which a softmax is no probability.*torch.logsumexp"
    ):
        tm.evaluate(tree.roll_up(scores, target, level=0), metrics=[metric])
    with pytest.raises(ValueError, match="of which a softmax is no probability"):
        metric.update(tree.roll_up(scores, target, level=0))
    summed = torch.stack(
        [scores[:, [0, 2, 3]].logsumexp(1), scores[:, [1, 4, 5]].logsumexp(1)], dim=1
    )
    metric.update(summed, torch.tensor([0, 1, 0, 0, 1, 1])[target])
    assert metric.compute().isfinite()


def test_label_tree_is_immutable() -> None:
    """A label tree never changes: the tensors that it returns are copies, and its
    attributes cannot be set.
    """
    parents = torch.tensor([-1, 0, 0, 2])
    tree = LabelTree(parents)
    for tensor in (parents, tree.parents, tree.ancestors, tree.depths, tree.level(1)):
        tensor.fill_(-1)
    assert tree == LabelTree([-1, 0, 0, 2])
    assert tree.ancestors.tolist() == [[-1, -1], [0, -1], [0, -1], [2, 0]]
    assert tree.depths.tolist() == [0, 1, 1, 2]
    assert tree.level(1).tolist() == [0, 1, 2, 2]
    for name in ("parents", "names", "num_labels"):
        with pytest.raises(
            AttributeError, match=f"LabelTree: {name} cannot be set; make another tree"
        ):
            setattr(tree, name, None)


def test_label_tree_is_on_the_cpu_for_any_default_device() -> None:
    """A label tree is on the CPU for any default device, such as
    ``torch.device("meta")``, under which models are often built.
    """
    with torch.device("meta"):
        tree = LabelTree([-1, 0, 0, 2], ["a", "b", "c", "d"])
        assert tree.level(1).tolist() == [0, 1, 2, 2]
        assert tree.at_level(0).tree.parents.tolist() == [-1]
        assert LabelBuckets.from_tree(tree, 1).names == ("a", "b", "c")
