"""Disease names and their ICD-10-CM codes.

The source is the package `simple-icd-10-cm` 1.5.0, public-domain data of CDC/NCHS.

An instance is one "inclusion term" or "includes" note of a code: `Typhoid endocarditis`
stands under A01.02. Its labels are that code and the code's ancestors: A01.02, A01.0,
A01. Blocks, chapters and extended subcategories (those with a seventh character) are no
labels; the package counts a category alone in its block, such as B20, as a block.

13,457 instances, 10,283 labels, 2.51 labels per instance. 83 % of the labels occur
fewer than 5 times (87 % when only the training split is counted), and 16.6 % of the
test split's positives are labels that training never shows.
"""

from typing import NamedTuple, TypedDict
from zlib import crc32

import simple_icd_10_cm as icd
import torch
from pytorch_lightning import LightningDataModule
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

from tailmetrics import LabelTree


class Term(NamedTuple):
    """One instance: a disease name, its code and the code's ancestors."""

    text: str
    codes: tuple[str, ...]

    @property
    def is_test(self) -> bool:
        """Whether the name is in the fixed held-out fifth, whatever its code."""
        return crc32(self.text.encode()) % 5 == 4


class Example(NamedTuple):
    """One instance: ids of features, ids of labels without padding, and its number.

    Instances are numbered in their split.
    """

    features: Tensor
    labels: Tensor
    number: int


class Batch(TypedDict):
    """A batch of instances.

    Bags of features stand end to end, and `offsets` says where each begins. `target`
    holds label ids [N, M], padded with -1, and `row_ids` [N] the numbers of the rows.
    """

    features: Tensor
    offsets: Tensor
    target: Tensor
    row_ids: Tensor


def read_terms() -> list[Term]:
    """Return all instances, in the order of the classification."""
    codes = [
        code
        for code in icd.get_all_codes()
        if _is_label(code) and not icd.is_extended_subcategory(code)
    ]
    return [
        Term(text, (code, *filter(_is_label, icd.get_ancestors(code))))
        for code in codes
        for text in (*icd.get_inclusion_term(code), *icd.get_includes(code))
    ]


def hashed_features(text: str, num_features: int) -> list[int]:
    """Return ids of words and character 5-grams, the same in every process."""
    text = f" {text.lower()} "
    grams = [text[start : start + 5] for start in range(len(text) - 4)]
    return [crc32(piece.encode()) % num_features for piece in (*text.split(), *grams)]


def collate(examples: list[Example]) -> Batch:
    """Batch examples for `torch.nn.EmbeddingBag`."""
    lengths = torch.tensor([0] + [len(example.features) for example in examples[:-1]])
    return {
        "features": torch.cat([example.features for example in examples]),
        "offsets": lengths.cumsum(0),
        "target": pad_sequence(
            [example.labels for example in examples], batch_first=True, padding_value=-1
        ),
        "row_ids": torch.tensor([example.number for example in examples]),
    }


class TermSet(Dataset[Example]):
    """Terms as ids, hashed and numbered once rather than in every epoch."""

    def __init__(
        self, terms: list[Term], label_ids: dict[str, int], num_features: int
    ) -> None:
        self._examples = [
            Example(
                torch.tensor(hashed_features(term.text, num_features)),
                torch.tensor([label_ids[code] for code in term.codes]),
                number,
            )
            for number, term in enumerate(terms)
        ]

    def __len__(self) -> int:
        return len(self._examples)

    def __getitem__(self, index: int) -> Example:
        return self._examples[index]


class ICD10Data(LightningDataModule):
    """ICD-10-CM terms and their codes: 80 % to train on, the rest to test on.

    Validation shows the test split, so nothing may be chosen by it. The terms are read
    at construction, not in `setup`, because the model takes its sizes from the data.

    Args:
        num_features: Number of ids that words and 5-grams are hashed to.
        batch_size: Rows per batch and process.
    """

    def __init__(self, num_features: int = 2**14, batch_size: int = 256) -> None:
        super().__init__()
        self.num_features = num_features
        self.batch_size = batch_size
        terms = read_terms()
        codes = list(
            dict.fromkeys(code for term in terms for code in reversed(term.codes))
        )
        self.label_names = [_name(code) for code in codes]
        self.label_tree = LabelTree.from_edges(
            [(_name(code), _above(code)) for code in codes], self.label_names
        )
        label_ids = {code: label for label, code in enumerate(codes)}
        self.train_set = TermSet(
            [term for term in terms if not term.is_test], label_ids, num_features
        )
        tested = [term for term in terms if term.is_test]
        self.test_set = TermSet(tested, label_ids, num_features)
        self.row_names = [term.text for term in tested]

    @property
    def num_labels(self) -> int:
        """The number of labels of both splits.

        The classification is known in full, its use is not.
        """
        return len(self.label_names)

    def train_dataloader(self) -> DataLoader[Example]:
        """Training batches in random order."""
        return self._loader(self.train_set, shuffle=True)

    def val_dataloader(self) -> DataLoader[Example]:
        """Batches of the held-out fifth, in the order of the classification."""
        return self._loader(self.test_set)

    def test_dataloader(self) -> DataLoader[Example]:
        """Batches of the held-out fifth, as in validation."""
        return self._loader(self.test_set)

    def _loader(self, terms: TermSet, shuffle: bool = False) -> DataLoader[Example]:
        return DataLoader(terms, self.batch_size, shuffle=shuffle, collate_fn=collate)


def _name(code: str) -> str:
    return f"{code} {icd.get_description(code)}"


def _above(code: str) -> str:
    """Return the name of the label above a code, or else of its chapter."""
    *_, chapter = ancestors = icd.get_ancestors(code)
    return _name(next(filter(_is_label, ancestors), chapter))


def _is_label(code: str) -> bool:
    return not icd.is_chapter_or_block(code)
