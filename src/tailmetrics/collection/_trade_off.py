"""``HeadTailTradeOff``: the values of one model, as its scores are and adjusted for the frequency of labels."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor

from tailmetrics._arguments import check_choice, check_number
from tailmetrics._exact_metric import make_dependent
from tailmetrics._transfer import digest_of
from tailmetrics.collection._collection import TopKCollection, by_name
from tailmetrics.metrics._metric import TopKMetric
from tailmetrics.ranking import Ranking
from tailmetrics.ranking._adjusting import ScoreKind, adjusted, warn_of_kind
from tailmetrics.ranking._device import is_compiling, one_thread

TAUS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""From the model as it is to balanced classes, for which Menon et al. derive 1."""
LARGEST_TAU = 10.0
"""Ten times what balanced classes need: more is a slip of the pen."""


def check_taus(caller: str, argument: str, taus: Any) -> tuple[float, ...]:
    """Return the strengths. Raise unless they are numbers from 0 to 10, each of which has a key of its own."""
    try:
        given = list(taus)
    except TypeError:
        raise TypeError(f"{caller}: {argument}={taus!r} is no sequence; pass strengths, such as [0, 0.5].") from None
    found = tuple(check_number(caller, argument, tau, 0.0, LARGEST_TAU) for tau in given)
    if not found or len({f"{tau:g}" for tau in found}) < len(found):
        raise ValueError(f"{caller}: {argument}={given} are no distinct numbers; pass each once, such as [0, 0.5].")
    return found


class HeadTailTradeOff(TopKCollection):
    """Metrics at several strengths τ of an adjustment for the training counts: what the tail gains, and the head loses.

    Labels are ranked by s - τ ln(n + 1) for logits of a softmax, by ln σ(s) - τ ln(n + 1) for logits of a sigmoid, and
    by ln p - τ ln(n + 1) for probabilities, in float64; n is the training count. τ = 0 ranks the scores themselves, and
    its values have the bits of a :class:`TopKCollection`. It is used as a collection is; ``compute()`` returns the keys
    ``tau=0.25/recall@10/decile_1``. Lists of scored candidates are adjusted among themselves.

    Args:
        metrics: Metrics of ranks, as for :class:`TopKCollection`.
        taus: Strengths of the adjustment, from 0 to 10.
        scores: What the scores are: ``"softmax"``, ``"sigmoid"`` or ``"probabilities"``.
        more: Further arguments of :class:`TopKCollection`.

    Raises:
        ValueError: If a metric reads scores themselves, which have no meaning once they are adjusted.

    Source: Menon et al., Long-tail learning via logit adjustment, ICLR 2021.

    >>> import torch
    >>> from tailmetrics import LabelFrequency, RecallAtK
    >>> trade_off = HeadTailTradeOff([RecallAtK(k=1)], taus=[0, 1]).bind(LabelFrequency.from_counts([99, 1], 100))
    >>> trade_off.update(torch.tensor([[2.0, 1.0]]), torch.tensor([1]))
    >>> {key: float(value) for key, value in trade_off.compute().items()}
    {'tau=0/recall@1': 0.0, 'tau=1/recall@1': 1.0}
    """

    reads_whole_lists, ranks_once = True, False
    _offsets: Tensor | None = None
    _warns_of_kind = True  # in the first batch

    def __init__(
        self,
        metrics: Sequence[TopKMetric] | Mapping[str, TopKMetric] | TopKMetric,
        taus: Sequence[float] = TAUS,
        scores: ScoreKind = "softmax",
        **more: Any,
    ) -> None:
        caller = type(self).__name__
        self.scores: ScoreKind = check_choice(caller, "scores", scores, ScoreKind)
        self.taus = check_taus(caller, "taus", taus)
        self._tau_of = dict[str, float]()
        members = dict[str, TopKMetric]()
        for _, metric in by_name(deepcopy(metrics)):
            if not metric.reading.reads_order_alone:
                raise ValueError(
                    f"{caller}: {type(metric).__name__} reads the scores themselves, which τ changes; leave it out, or "
                    "put it into a TopKCollection beside this one."
                )
            for number, tau in enumerate(self.taus):
                name = f"tau_{number}_{len(members)}"
                members[name], self._tau_of[name] = metric.again(name=metric.name_behind(f"tau={tau:g}/")), tau
        super().__init__(members, **more)

    def _share_states(self) -> None:
        """Let members share states within each τ; a fingerprint says of which τ, scores and counts states are."""
        members = self.members()
        self._depends_on = digest_of((self.taus, self.scores, self.training_counts))
        for name, metric in members.items():
            make_dependent(metric, tau=self._tau_of[name], trade_off=self._depends_on)
        self._groups_of({tau: [one for one in members if self._tau_of[one] == tau] for tau in self.taus}.values())
        self._offsets = None

    def _read_by(self, names: Iterable[str], ranking: Ranking) -> list[Ranking]:
        """Return the ranking that each member reads: that of its τ."""
        found = self.by_tau(ranking)
        return [found[self._tau_of[name]] for name in names]

    def by_tau(self, ranking: Ranking) -> dict[float, Ranking]:
        """Return a ranking at each τ."""
        return ranking.remembered(("trade-off", self._depends_on), lambda: self._adjusted(ranking))

    def _adjusted(self, ranking: Ranking) -> dict[float, Ranking]:
        caller, taus = type(self).__name__, [tau for tau in self.taus if tau]
        if self._offsets is None:
            counts = self.training_counts
            if counts is None:
                raise ValueError(
                    f"{caller}: how often labels occur in training is not known yet; call bind(frequency) with a "
                    "LabelFrequency before update."
                )
            self._offsets = (counts.to("cpu", torch.float64) + 1).log()
        whole = any(metric.reading.reads.kept is None for metric in self.members().values())
        if self._warns_of_kind and not is_compiling():
            self._warns_of_kind = False
            warn_of_kind(caller, ranking, self.scores)
        with one_thread():
            above = torch.tensor(taus, dtype=torch.float64)
            found = list(adjusted(caller, ranking, self._offsets, above, self.scores, whole))
        every = {0.0: ranking, **dict(zip(taus, found, strict=True))}
        return {tau: every[tau] for tau in self.taus}
