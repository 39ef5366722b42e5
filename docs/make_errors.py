"""Make ``errors.md``: every error that optim can give, read from the source.

usage: python docs/make_errors.py
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from optim.errors import ExitStatus, OptimError

ROOT = Path(__file__).parents[1]
PAGE = Path(__file__).with_name("errors.md")
LISTING = ROOT / "core" / "src" / "optim" / "_engine" / "cli" / "errors.json"
SOURCES = (
    "core/src/optim",
    "plugins/src/optim_plugins",
    "plugins-qnn/src/optim_qnn",
    "plugins-inc/src/optim_inc",
    "plugins-prepost/src/optim_prepost",
    "plugins-openvino/src/optim_openvino",
    "plugins-fleet/src/optim_fleet",
)

GROUPS = {
    "The model": ("graphs", "onnx", "providers"),
    "Sources and their export": ("sources", "generation", "runs/source_run.py"),
    "The feeds": ("feeds", "api/given.py"),
    "Layouts for other programs": ("layout", "runs/layouts", "cli/layouts.py"),
    "Adapters": ("adapters",),
    "Task metrics": (
        "compare/metric_callback.py",
        "compare/metric_spec.py",
        "compare/metric_maker.py",
        "compare/metric_counts.py",
        "compare/task.py",
    ),
    "The command line, plugins and passes": (
        "api",
        "cli",
        "cli_kit",
        "plugins",
        "isolation",
        "scaffold",
        "options.py",
        "search/plan.py",
    ),
    "Recipes and locks": ("recipes", "runs/locking.py", "search/select/chains.py"),
    "The run, its folder and the cache": ("runs", "search", "errors.py", "store.py", "locks.py", "folders.py"),
    "What a pass or a model did wrong": ("jobs", "diagnosis", "compare", "backends", "gate", "testing", "reports"),
}
"""Heading, and where in core the error is raised; the longest place that fits decides."""

COMPUTED = {
    ("cli/verbs/run.py", "report.status"): ("budget-missed", "failed"),
    ("plugins/registry.py", "kind"): ("unknown-target", "unknown-backend", "unknown-metric", "unknown-layout"),
    ("preprocess/preprocess.py", "kind"): ("unknown-input", "unknown-output"),
    ("jobs/runner.py", "reference"): (
        "ingest-failed",
        "prepare-failed",
        "measure-failed",
        "source-load-failed",
        "source-export-failed",
        "source-verify-failed",
    ),
    ("errors.py", "f\"unknown-{kind.replace(' ', '-')}\""): (),
    ("jobs/prepare.py", "error.reference"): (),
    ("jobs/process.py", "None"): (),
    ("cluster/order.py", "None"): (),
}
"""References that are not written where the error is made, and what they can be; () where another place makes them."""

COMPUTED_STATUS = {("cli/verbs/run.py", "status"): ExitStatus.NOT_HELD}
"""Exit statuses that are not written where the error is made."""

FIELDS = ("reference", "what", "cause", "fix", "package", "status")
_MAY_MAKE_ERRORS = re.compile("OptimError|unknown_name")
"""What a file has that makes one: the others are not parsed."""

UNKNOWN = "…"
ELSEWHERE = "the message says"


@dataclass
class Entry:
    """One reference, with what its places say."""

    whats: list[str] = field(default_factory=list)
    fixes: list[str] = field(default_factory=list)
    statuses: set[int] = field(default_factory=set)


class UnlistedReferenceError(Exception):
    """A reference is computed, and COMPUTED does not know it."""


def main() -> None:
    """Write the page, and the same for `optim help errors/NAME`."""
    PAGE.write_text(page(ROOT), encoding="utf-8")
    LISTING.write_text(listing(ROOT), encoding="utf-8")
    print(f"wrote {PAGE} and {LISTING}")


def listing(root: Path) -> str:
    """The errors as JSON, by reference: what a wheel has of the page."""
    found = {
        reference: {"about": heading, "what": entry.whats, "fix": entry.fixes, "status": sorted(entry.statuses)}
        for heading, entries in grouped(root).items()
        for reference, entry in entries.items()
    }
    return json.dumps(dict(sorted(found.items())), ensure_ascii=False, indent=1) + "\n"


def page(root: Path) -> str:
    """The text of the page for the source below ``root``."""
    parts = [_INTRODUCTION]
    for heading, entries in grouped(root).items():
        if entries:
            parts += [f"\n## {heading}\n", "| reference | what | what to do | exit status |", "|---|---|---|---|"]
            parts += [_row(reference, entries[reference]) for reference in sorted(entries)]
    return "\n".join(parts) + "\n"


@cache
def grouped(root: Path) -> dict[str, dict[str, Entry]]:
    """The errors of the source below ``root``, by heading and reference."""
    groups: dict[str, dict[str, Entry]] = {heading: {} for heading in GROUPS}
    for source in SOURCES:
        found: dict[str, dict[str, Entry]] = {}
        for path in (root / source).rglob("*.py"):
            place = path.relative_to(root / source).as_posix().removeprefix("_engine/")
            text = path.read_text(encoding="utf-8")
            if _MAY_MAKE_ERRORS.search(text) and (entries := read(ast.parse(text), place)):
                found[place] = entries
        headings = {
            place: _heading(place) if source == SOURCES[0] else f"Plugin {_plugin(source, place)}" for place in found
        }
        order = [*GROUPS, *sorted(set(headings.values()))]
        for place in sorted(found, key=lambda place: (order.index(headings[place]), place)):
            sort_in(found[place], groups.setdefault(headings[place], {}), groups)
    return groups


def _plugin(source: str, place: str) -> str:
    """The plugin that a file is of: a package of its own has one, the standard package a folder for each."""
    return place.partition("/")[0] if source == SOURCES[1] else source.rpartition("optim_")[2]


def read(tree: ast.Module, place: str) -> dict[str, Entry]:
    """The errors that a file makes, by reference.

    Raises:
        UnlistedReferenceError: one of them computes its reference, and COMPUTED does not say what it can be.
    """
    entries: dict[str, Entry] = {}
    for call, own in _calls(tree):
        given = _arguments(call, own)
        for reference in _references(given, own, place):
            entry = entries.setdefault(reference, Entry())
            entry.statuses.add(_status(given.get("status"), own, place))
            kind = reference.removeprefix("unknown-").replace("-", " ")
            unknown = ast.Constant(f"there is no {kind} '{UNKNOWN}'")
            _add(entry.whats, *((given.get("what"), given.get("cause")) if own else (unknown,)))
            _add(entry.fixes, given.get("fix"))
    return entries


def sort_in(found: dict[str, Entry], own: dict[str, Entry], groups: dict[str, dict[str, Entry]]) -> None:
    """Add errors to their own group, or to an earlier one that has them already."""
    for reference, new in found.items():
        group = next((group for group in groups.values() if reference in group), own)
        entry = group.setdefault(reference, Entry())
        entry.statuses |= new.statuses
        entry.whats += [text for text in new.whats if text not in entry.whats]
        entry.fixes += [text for text in new.fixes if text not in entry.fixes]


def _add(texts: list[str], *expressions: ast.expr | None) -> None:
    """Add the first expression that says something by itself."""
    written = [_text(expression) for expression in expressions]
    text = next((text for text in written if text.strip(UNKNOWN + " :,")), ELSEWHERE if any(written) else "")
    if text and text not in texts:
        texts.append(text)


def _calls(tree: ast.Module) -> Iterator[tuple[ast.Call, bool]]:
    """Calls that make an error, and whether by the class itself rather than by ``unknown_name``."""
    classes = {"OptimError", "OptimError.usage"} | {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and any(ast.unparse(base) == "OptimError" for base in node.bases)
    }
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    for call in sorted(found, key=lambda call: (call.lineno, call.col_offset)):
        name = called(call)
        if name in classes or name == "unknown_name":
            yield call, name in classes


def called(call: ast.Call) -> str:
    """The name that a call is of, with the class before a method's; empty where it is of something longer."""
    if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name):
        return f"{call.func.value.id}.{call.func.attr}"
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _arguments(call: ast.Call, own: bool) -> dict[str, ast.expr]:
    names = FIELDS if own else ("reference", "name", "known")
    given = dict(zip(names, call.args, strict=False))
    if isinstance(call.func, ast.Attribute):
        given["status"] = ast.Attribute(ast.Name("ExitStatus"), "USAGE")
    return given | {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}


def _references(given: dict[str, ast.expr], own: bool, place: str) -> tuple[str, ...]:
    expression = given.get("reference")
    written = [expression.body, expression.orelse] if isinstance(expression, ast.IfExp) else [expression]
    values = [node.value for node in written if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    if len(values) == len(written):
        return tuple(values if own else [f"unknown-{kind.replace(' ', '-')}" for kind in values])
    computed = ast.unparse(expression) if expression is not None else "None"
    if (place, computed) not in COMPUTED:
        raise UnlistedReferenceError(f"{place} computes a reference, {computed}: say in COMPUTED what it can be")
    return COMPUTED[place, computed]


def _status(node: ast.expr | None, own: bool, place: str) -> int:
    if node is None:
        return (OptimError.status if own else ExitStatus.USAGE).value
    if isinstance(node, ast.Attribute) and node.attr in ExitStatus.__members__:
        return ExitStatus[node.attr].value
    if (place, ast.unparse(node)) not in COMPUTED_STATUS:
        raise UnlistedReferenceError(f"{place} computes a status, {ast.unparse(node)}: say it in COMPUTED_STATUS")
    return COMPUTED_STATUS[place, ast.unparse(node)].value


def _text(node: ast.expr | None) -> str:
    """A string as it is written, with an ellipsis for every value that is put into it."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(part) for part in node.values)
    if isinstance(node, ast.IfExp):
        sides = [side for side in (_text(node.body), _text(node.orelse)) if side.strip(UNKNOWN)]
        return " / ".join(sides)
    return UNKNOWN if node is not None else ""


def _heading(place: str) -> str:
    fitting = {
        prefix: heading
        for heading, prefixes in GROUPS.items()
        for prefix in prefixes
        if place == prefix or place.startswith(f"{prefix}/")
    }
    if not fitting:
        raise UnlistedReferenceError(f"{place} is in no group of GROUPS")
    return fitting[max(fitting, key=len)]


def _row(reference: str, entry: Entry) -> str:
    cells = [
        " <br> ".join([text for text in texts if text != ELSEWHERE] or texts) for texts in (entry.whats, entry.fixes)
    ]
    statuses = ", ".join(map(str, sorted(entry.statuses)))
    return "| " + " | ".join([f"`{reference}`", *map(_escaped, cells), statuses]) + " |"


def _escaped(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|").replace("[", "\\[")


_INTRODUCTION = """# Errors

Made by `docs/make_errors.py` from the source. An error reads like a diagnosis, on stderr:

    error[unknown-pass]: there is no pass 'ort.quantise-dynamic'
      cause: did you mean ort.quantize-dynamic?
      fix:   optim passes list --target cpu

The word in brackets is its reference. It is stable: search for it, test for it (`OptimError.reference` in Python). A
last line, `from:`, names the package at fault where that is not optim-core. With `--json` the same is on stdout, as
`{"error": {"reference", "what", "cause", "fix", "package", "status"}}`; `optim --debug ...` adds the traceback. Where
an error costs only a candidate, the run goes on and its report says what happened.

Below, … stands for names and figures."""


if __name__ == "__main__":
    main()
