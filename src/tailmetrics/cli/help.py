"""What ``--help`` says, written for who types it."""

from __future__ import annotations

from argparse import SUPPRESS, Action, RawDescriptionHelpFormatter

from jsonargparse import DefaultHelpFormatter

from tailmetrics.io import FORMATS


def formats() -> str:
    """Return the formats with what a file of each holds."""
    width = max(map(len, FORMATS))
    lines = [f"  {form.name.ljust(width)}  {form.holds}" for form in FORMATS.values()]
    return "\n".join(["formats (--format), told from the name or the first lines of a file:", *lines])


class UserHelp(RawDescriptionHelpFormatter, DefaultHelpFormatter):
    """Help that says what an option does and its default where it has one, not how Python calls its type."""

    def _get_help_string(self, action: Action) -> str:
        said = action.help or ""
        if action.default in (None, False, SUPPRESS) or not action.option_strings:
            return said
        return f"{said} (default: %(default)s)"
