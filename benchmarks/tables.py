"""Results as markdown tables, and in two sentences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

Lines = Sequence[dict[str, Any]]

NOT_YET = "Not measured yet: `python -m benchmarks {}`."


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return a markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def replace_table(page: Path, command: str, text: str) -> None:
    """Put ``text`` where a page says that ``command`` writes it, in place of what stood there."""
    start, stop = f"<!-- written by python -m {command} -->", "<!-- until here -->"
    head, behind = page.read_text().split(start)
    page.write_text(f"{head}{start}\n\n{text}\n\n{stop}{behind.split(stop, 1)[1]}")


def number(value: float | None) -> str:
    """Return a number with three digits that count."""
    if value is None:
        return ""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def seconds(value: float) -> str:
    """Return a time in the unit that suits it."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if value >= size:
            return f"{number(value / size)} {unit}"
    return f"{number(value / 1e-6)} µs"


def demands(lines: Lines) -> str:
    """Return the table of demands."""
    head = ("step", "on", "measured", "demand", "", "note")
    rows = [
        (
            line["step"],
            line["case"],
            f"{number(line['measured'])} {line['unit']}",
            number(line["demand"]),
            line["met"],
            line["note"],
        )
        for line in lines
    ]
    return table(head, rows)


def peers(lines: Lines) -> str:
    """Return a table per task."""
    parts = []
    for workload, task in dict.fromkeys((line["workload"], line["task"]) for line in lines):
        of_task = [line for line in lines if (line["workload"], line["task"]) == (workload, task)]
        rows = [
            (
                line["who"],
                seconds(line["seconds"]),
                seconds(line["cpu"]),
                number(line["to_reference"]) or "—",
                number(line["to_ours"]),
                number(line.get("to_ours_beside")) or "—",
                line["note"],
            )
            for line in of_task
        ]
        reference = of_task[0]["who"] if of_task[0]["to_reference"] is not None else "reference"
        head = ("", "time", "CPU", f"× {reference}", "× tailmetrics", "the same beside torch", "note")
        parts.append(f"**{workload}: {task}**\n\n{table(head, rows)}")
    return "\n\n".join(parts)


def growth(lines: Lines) -> str:
    """Return the table of growth."""
    head = ("what grows", "size", "time", "× topk", "extra memory, MiB")
    rows = [
        (
            line["axis"],
            f"{line['size']:,}",
            seconds(line["seconds"]),
            number(line["ratio"]),
            number(line["megabytes"]),
        )
        for line in lines
    ]
    return table(head, rows)


def device(lines: Lines) -> str:
    """Return the table of an accelerator."""
    head = ("on", "", "time", "host", "× topk 500", "share of copy bandwidth")
    rows = [
        (
            line["workload"],
            line["what"],
            seconds(line["seconds"]),
            seconds(line["host"]),
            number(line["to_topk"]),
            number(line["bandwidth"]),
        )
        for line in lines
    ]
    return table(head, rows)


def summary(demanded: Lines, competed: Lines) -> str:
    """Return what is not met, and who is faster."""
    parts = []
    if demanded:
        asked = [line for line in demanded if line["met"]]
        missed = [line for line in asked if line["met"] == "not met"]
        parts.append(f"{len(asked) - len(missed)} of {len(asked)} demands are met{':' if missed else '.'}")
        parts += [
            f"- not met: {line['step']}, {line['case']}: {number(line['measured'])} {line['unit']} "
            f"(demand {number(line['demand'])})"
            for line in missed
        ]
    if competed:
        others = [line for line in competed if is_peer(line)]
        for place, where in (("to_ours", "on an idle machine"), ("to_ours_beside", "beside another torch program")):
            measured = [line for line in others if line.get(place) is not None]
            faster = [line for line in measured if line[place] < 1]
            ahead = f"tailmetrics is faster in {len(measured) - len(faster)} of {len(measured)} comparisons {where}"
            parts.append(f"\n{ahead}{':' if faster else '.'}\n" if parts else f"{ahead}{':' if faster else '.'}\n")
            parts += [
                f"- slower than {line['who']}, {line['workload']}, {line['task']}: it takes {number(line[place])} of "
                "the time"
                for line in faster
            ]
    return "\n".join(parts)


def is_peer(line: dict[str, Any]) -> bool:
    """Whether a line of the table of peers is a peer's, not ours or a hardware limit's."""
    return not line["who"].startswith(("tailmetrics", "torch.topk", "amax", "nothing"))
