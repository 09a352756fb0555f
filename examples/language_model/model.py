"""Two models of the next word: frequencies, and a small neural network.

The network reads the last words.
"""

import torch
from torch import Tensor, nn

CONTEXT = 4
WIDTH = 64


class NextWord(nn.Module):
    """The feed-forward language model of Bengio et al. (2003).

    One table of words serves as input and output.

    Args:
        num_words: Size of the vocabulary.
    """

    def __init__(self, num_words: int) -> None:
        super().__init__()
        self.words = nn.Embedding(num_words, WIDTH)
        self.hidden = nn.Sequential(
            nn.Linear(CONTEXT * WIDTH, 2 * WIDTH),
            nn.Tanh(),
            nn.Linear(2 * WIDTH, WIDTH),
        )
        self.bias = nn.Parameter(torch.zeros(num_words))

    def forward(self, context: Tensor) -> Tensor:
        """Return logits (..., num_words) of the next word for words (..., CONTEXT)."""
        return (
            self.hidden(self.words(context).flatten(-2)) @ self.words.weight.T
            + self.bias
        )


def contexts(text: Tensor) -> tuple[Tensor, Tensor]:
    """Return the words in front of each word (n, CONTEXT), and each word (n,)."""
    windows = text.unfold(0, CONTEXT + 1, 1)
    return windows[:, :-1], windows[:, -1]


def train(
    text: Tensor, num_words: int, epochs: int = 2, batch_size: int = 512
) -> NextWord:
    """Return a model that has read a text.

    Words outside the vocabulary are context, and no target.
    """
    torch.manual_seed(0)
    model = NextWord(num_words)
    with torch.no_grad():
        model.words.weight.mul_(0.1)
        model.bias.copy_(unigram(text, num_words))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    context, target = contexts(text)
    positions = target.nonzero().squeeze(1)
    for _ in range(epochs):
        for rows in positions[torch.randperm(len(positions))].split(batch_size):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(context[rows]), target[rows]).backward()
            optimizer.step()
    return model.eval()


def unigram(text: Tensor, num_words: int) -> Tensor:
    """Return the logarithm of each word's share of a text.

    The share of the word that stands for all others is small.
    """
    counts = torch.bincount(text, minlength=num_words).float()
    counts[0] = 0.5
    return (counts / counts.sum()).log()
