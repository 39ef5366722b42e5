"""The text of the page of errors, which the source says; ``make_pages.py`` writes the page when the site is built."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from optim._engine.cli.error_catalogue import PARTS, ErrorEntry, catalogue

ROOT = Path(__file__).parents[1]
PACKAGES = {path.parent.name: path.parent for path in sorted(ROOT.glob("*/src/*/__init__.py"))}
"""The packages of this repository, by name."""


@cache
def errors() -> dict[str, ErrorEntry]:
    """The errors of this repository by reference."""
    return catalogue(PACKAGES)


def page() -> str:
    """The text of the page."""
    known = errors()
    parts = [_INTRODUCTION]
    for about in (*PARTS, *sorted({entry.about for entry in known.values()} - PARTS.keys())):
        own = sorted(name for name, entry in known.items() if entry.about == about)
        parts += [f"\n## {about}\n", *(_section(name, known[name]) for name in own)]
    return "\n".join(parts) + "\n"


def _section(reference: str, entry: ErrorEntry) -> str:
    parts = [f"### {reference}\n"]
    parts += [f"{_plain(text)}\n" for text in (entry.why, entry.fix) if text]
    for what, fix in entry.shown():
        parts.append("- " + ": ".join(filter(None, [f"*{_plain(what)}*" if what else "", _plain(fix)])))
    statuses = ", ".join(map(str, sorted(entry.statuses)))
    parts.append(f"\nExit status {statuses}.\n")
    return "\n".join(parts)


def _plain(text: str) -> str:
    """A text of one line in which Markdown finds nothing."""
    return re.sub(r"([*<>]|(?<=\])\()", r"\\\1", re.sub(r"\s+", " ", text).strip())


_INTRODUCTION = """# Errors

Every error of optim and its standard plugins, read from the source. An error looks like this, on stderr:

    error[unknown-pass]: there is no pass 'ort.quantise-dynamic'
      cause: did you mean ort.quantize-dynamic?
      fix:   optim passes list --target cpu

The word in brackets is the reference of the error. References are stable: tests can compare `OptimError.reference` in
Python. A line `from:` names the package at fault if it is not optim-core. With `--json`, stdout has the same as
`{"error": {"reference", "what", "cause", "fix", "package", "status"}}`. `optim --debug ...` adds the traceback. An
error of one candidate does not end a run; the report shows it.

`optim help errors/NAME` prints an entry of this page. The sign … stands for names and figures."""
