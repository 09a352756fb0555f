"""Two recommenders of implicit feedback.

They return scores [N, L] for the rows that they learned from.
"""

import torch
from torch import Tensor


def popularity(shown: Tensor) -> Tensor:
    """Return what each item's number of users says: the same order for everybody."""
    return unseen_only(shown.sum(0).expand_as(shown), shown)


def ease(shown: Tensor, penalty: float = 20.0) -> Tensor:
    """Return scores of EASE: each item is a linear function of all others.

    The solution has a closed form. It is rounded, so that items alike but for the order
    of additions are tied on every machine, and are reported as ties.

    Source: Steck, Embarrassingly Shallow Autoencoders for Sparse Data, WWW 2019,
    equation 8.
    """
    users = shown.double()
    inverse = torch.linalg.inv(
        users.T @ users + penalty * torch.eye(shown.shape[1], dtype=torch.float64)
    )
    # the diagonal, 0 in EASE, would reach only what a row already has
    weights = -inverse / inverse.diagonal()
    return unseen_only((users @ weights).round(decimals=9), shown)


def unseen_only(scores: Tensor, shown: Tensor) -> Tensor:
    """Return scores in which what a row already has is not recommended again."""
    return scores.masked_fill(shown > 0, -torch.inf)
