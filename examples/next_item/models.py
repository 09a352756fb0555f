"""Two models of the next item after what came before.

They return the probability of every item, shape (L,) or (N, L).
"""

from itertools import pairwise

import torch
from torch import Tensor


def popularity(
    train: list[list[int]], num_items: int, pseudo_count: float = 0.1
) -> Tensor:
    """Return the share of each item in all sessions.

    A pseudo-count keeps each item possible.
    """
    counts = torch.bincount(
        torch.tensor([item for session in train for item in session]),
        minlength=num_items,
    )
    return (counts + pseudo_count) / (counts + pseudo_count).sum()


class MarkovChain:
    """First-order Markov chain, blended with popularity.

    The more often a state was left, the more the chain counts:

    P(next | state) = (count(state, next) + weight · P(next)) / (count(state) + weight).

    Args:
        train: Sessions to learn from.
        prior: Shape (L,), probabilities P(next) where nothing is known of the state.
        weight: What the prior counts, in transitions.

    Source: MacKay and Peto, A hierarchical Dirichlet language model, 1995.
    """

    def __init__(
        self, train: list[list[int]], prior: Tensor, weight: float = 10.0
    ) -> None:
        pairs = torch.tensor([pair for session in train for pair in pairwise(session)])
        ones = torch.ones(len(pairs))
        self.counts = torch.sparse_coo_tensor(
            pairs.T, ones, (len(prior), len(prior)), check_invariants=True
        ).coalesce()
        self.prior, self.weight = prior, weight

    def __call__(self, states: Tensor) -> Tensor:
        """Return probabilities [N, L] of the item after each state [N]."""
        counts = self.counts.index_select(0, states).to_dense()
        return (counts + self.weight * self.prior) / (
            counts.sum(1, keepdim=True) + self.weight
        )
