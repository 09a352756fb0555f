"""Write runs and qrels, then evaluate and compare.

Run `python -m examples.retrieval` from the root of the repository.

5,852 documents, 351 queries. The logarithm of how often a document is linked to, added
to BM25, takes nDCG@10 from .524 to .540, MAP from .459 to .475, MRR from .570 to .579
and recall@10 from .636 to .661: a small gain on average, which for recall 351 queries
do not even establish (p = .095, .47 corrected). By decile two large changes hide behind
it, both beyond chance: the most linked tenth is found in 90 % instead of 53 %, and what
nobody linked to before, 18 % of all that is relevant, in 64 % instead of 77 %. There no
query gains, and 21 lose. Whether the prior is worth it depends on who asks; the average
cannot say.

BM25 alone finds the tail better than the head, against what one expects of a long tail:
it never learns from links, so that rarity costs it nothing. "See Also" is what authors
thought of, not all that is relevant, and a namesake in another package counts as wrong:
the differences say more than the level. The prior's weight was not tuned. About 20
seconds on one core.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from tailmetrics.cli import main as tailmetrics

from .data import PACKAGES, Collection, read_collection
from .models import BM25, write_qrels, write_run

DECILES = "examples/retrieval/deciles.yaml"
PRIOR_WEIGHT = 3.0
"""Of the logarithm of 1 + links, in units of BM25; not tuned."""


def write_files(collection: Collection, folder: Path) -> None:
    """Write the qrels of both splits and two runs: BM25 alone, and with a prior.

    The prior favours documents that others link to.
    """
    folder.mkdir(parents=True, exist_ok=True)
    write_qrels(
        folder / "train.qrels",
        {name: collection.links[name] for name in collection.train},
    )
    write_qrels(
        folder / "test.qrels",
        {name: collection.links[name] for name in collection.test},
    )
    documents = list(collection.documents)
    linked = Counter(
        document for name in collection.train for document in collection.links[name]
    )
    prior = PRIOR_WEIGHT * np.log1p([linked[name] for name in documents])
    bm25 = BM25(collection.documents.values())
    queries = {name: collection.queries[name] for name in collection.test}
    write_run(folder / "bm25.run", queries, documents, bm25)
    write_run(
        folder / "bm25-prior.run", queries, documents, lambda query: bm25(query) + prior
    )


def commands(folder: Path, num_documents: int) -> Iterator[list[str]]:
    """Yield the commands: two evaluations of each run, then a comparison.

    The first evaluation gives trec_eval's measures, the second deciles.
    """
    runs = [f"{folder}/bm25.run", f"{folder}/bm25-prior.run"]
    test = ["--target", f"{folder}/test.qrels"]
    training = [
        "--train-target",
        f"{folder}/train.qrels",
        "--num-labels",
        str(num_documents),
    ]
    for run in runs:
        yield ["evaluate", "--preset", "retrieval", "--preds", run, *test]
    for run in runs:
        yield [
            "evaluate",
            "--config",
            DECILES,
            "--preds",
            run,
            *test,
            *training,
            "--out",
            run.removesuffix(".run"),
        ]
    yield ["compare", "--config", DECILES, "--preds", *runs, *test, *training]


def main(
    packages: tuple[str, ...] = PACKAGES, folder: Path = Path("runs/retrieval")
) -> int:
    """Write the files, run the commands on them, and return the worst exit status."""
    collection = read_collection(packages)
    documents, test, train = (
        len(collection.documents),
        len(collection.test),
        len(collection.train),
    )
    print(
        f"{documents:,} documents, {test:,} queries; links of {train:,} others "
        "are known"
    )
    write_files(collection, folder)
    statuses = []
    for command in commands(folder, documents):
        print("\n$ tailmetrics", *command, flush=True)
        statuses.append(tailmetrics(command))
    return max(statuses)


if __name__ == "__main__":
    raise SystemExit(main())
