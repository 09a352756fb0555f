"""What mkdocstrings makes of a docstring: roles become links that must resolve, doctests become blocks of code."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

ROLE = re.compile(r":(?:class|meth|func):`~?([\w.]+)`")
DOCTEST = re.compile(r"^>>> .*?(?=\n[ \t]*\n|\Z)", re.DOTALL | re.MULTILINE)
HOMES = {
    "DataFileError": "tailmetrics.io",
    "LabelAveragedMetric": "tailmetrics.metrics._labels",
    "RelevanceMetric": "tailmetrics.metrics._rows",
    "Report": "tailmetrics.report",
    "_PropensityMetric": "tailmetrics.metrics.propensity",
    "bind": "tailmetrics.TopKMetric",
    "inverse_propensities": "tailmetrics.functional",
    "precision_at_k": "tailmetrics.functional",
    "read_label_names": "tailmetrics.io",
    "scalars": "tailmetrics.TopKMetric",
}
"""Where names live that stand neither in the package root nor in the class that speaks of them."""
ELSEWHERE = ("torchmetrics.Metric", "reset")
"""Names of TorchMetrics, which are not linked: the documentation is built without a network."""


class Docstrings(Extension):
    """Rewrites the docstrings of the package as Markdown."""

    def on_object(self, *, obj: Object, **kwargs: Any) -> None:
        """Rewrite one docstring, once it is loaded."""
        if obj.docstring is not None and obj.path.startswith("tailmetrics"):
            plain = obj.docstring.value.replace("``", "`")
            linked = ROLE.sub(lambda role: _link(role[1], obj), plain)
            obj.docstring.value = DOCTEST.sub(
                lambda lines: f"```pycon\n{lines[0]}\n```", linked
            )


def _link(name: str, obj: Object) -> str:
    """Return a reference to a name: a member of the class it stands in, or a name of the package."""
    owner = obj if obj.is_class else obj.parent
    if name in ELSEWHERE:
        return f"`{name}`"
    if owner is not None and owner.is_class and name in owner.members:
        return f"[`{name}`][{owner.path}.{name}]"
    home = (
        "" if name.startswith("tailmetrics.") else f"{HOMES.get(name, 'tailmetrics')}."
    )
    return f"[`{name.removeprefix('tailmetrics.')}`][{home}{name}]"
