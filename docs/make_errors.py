"""Make ``errors.json``, which ``optim help errors/NAME`` prints, and the text of the page of errors.

usage: python docs/make_errors.py

The errors are read from the source. ``error_advice.toml`` adds why an error happens, and a fix if the source computes
it. The page is made when the site is built (``make_pages.py``).
"""

from __future__ import annotations

import ast
import json
import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from optim.errors import ExitStatus, OptimError

ROOT = Path(__file__).parents[1]
ADVICE = Path(__file__).with_name("error_advice.toml")
LISTING = ROOT / "core" / "src" / "optim" / "_engine" / "cli" / "errors.json"
SOURCES = (
    "core/src/optim",
    "testing/src/optim_testing",
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
    "Layouts for other programs": ("layout", "runs/delivering.py", "cli/layouts.py"),
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
        "testing/scaffold",
        "options.py",
        "search/plan.py",
    ),
    "Recipes and locks": ("recipes", "runs/locking.py", "search/select/chains.py"),
    "The run, its folder and the cache": (
        "runs",
        "search",
        "goals",
        "errors.py",
        "store.py",
        "locks.py",
        "folders.py",
        "trace.py",
    ),
    "What a pass or a model did wrong": (
        "jobs",
        "repair",
        "timing",
        "compare",
        "backends",
        "gate",
        "testing",
        "reports",
    ),
}
"""Heading, and where in core or in ``testing`` the error is raised; the longest place that fits decides."""

OF_PLUGINS = {"export": "Sources and their export", "layouts": "Layouts for other programs"}
"""Headings of plugins that only do what users know as a part of optim; others have a heading of their own."""

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
    """One reference: the messages of its places, each with its fix.

    Attributes:
        cases: what happened and what to do, as the source has them.
        statuses: exit statuses.
        why: from ``error_advice.toml``; empty where the messages say enough.
        fix: from there too; of cases whose own fix is computed.
    """

    cases: list[tuple[str, str]] = field(default_factory=list)
    statuses: set[int] = field(default_factory=set)
    why: str = ""
    fix: str = ""

    def shown(self) -> list[tuple[str, str]]:
        """The cases that say something to a reader; a computed text says nothing, and the advice stands for a fix."""
        found = [tuple("" if text == ELSEWHERE else text for text in case) for case in self.cases]
        return [(what, fix) for what, fix in dict.fromkeys(found) if fix or (what and self.fix)]


class UnlistedReferenceError(Exception):
    """A reference is computed, and COMPUTED does not know it."""


class UnadvisedError(Exception):
    """The advice and the errors do not fit."""


def main() -> None:
    """Write what ``optim help errors/NAME`` prints."""
    LISTING.write_text(listing(ROOT), encoding="utf-8")
    print(f"wrote {LISTING}")


def listing(root: Path) -> str:
    """The errors as JSON, by reference: what a wheel has of the page."""
    found = {
        reference: {
            "about": heading,
            "why": entry.why,
            "fix": entry.fix,
            "cases": [{"what": what, "fix": fix} for what, fix in entry.shown()],
            "status": sorted(entry.statuses),
        }
        for heading, entries in grouped(root).items()
        for reference, entry in entries.items()
    }
    return json.dumps(dict(sorted(found.items())), ensure_ascii=False, indent=1) + "\n"


def page(root: Path) -> str:
    """The text of the page for the source below ``root``."""
    parts = [_INTRODUCTION]
    for heading, entries in grouped(root).items():
        if entries:
            parts += [f"\n## {heading}\n", *(_section(name, entries[name]) for name in sorted(entries))]
    return "\n".join(parts) + "\n"


def advised(groups: dict[str, dict[str, Entry]]) -> dict[str, dict[str, Entry]]:
    """The same entries with their advice.

    Raises:
        UnadvisedError: the source computes every fix of an error that has no advice, or advice is of no error.
    """
    advice = tomllib.loads(ADVICE.read_text(encoding="utf-8"))
    entries = {reference: entry for group in groups.values() for reference, entry in group.items()}
    if unknown := sorted(advice.keys() - entries.keys()):
        raise UnadvisedError(f"{ADVICE.name} names errors that nobody makes: {', '.join(unknown)}")
    for reference, entry in entries.items():
        entry.why, entry.fix = (advice.get(reference, {}).get(name, "") for name in ("why", "fix"))
        if not entry.fix and not any(fix not in ("", ELSEWHERE) for _, fix in entry.cases):
            raise UnadvisedError(f"every fix of {reference} is computed: write one into {ADVICE.name}")
    return groups


@cache
def grouped(root: Path) -> dict[str, dict[str, Entry]]:
    """The errors of the source below ``root``, by heading and reference."""
    groups: dict[str, dict[str, Entry]] = {heading: {} for heading in GROUPS}
    for source in SOURCES:
        found: dict[str, dict[str, Entry]] = {}
        for path in (root / source).rglob("*.py"):
            place = path.relative_to(root / source).as_posix().removeprefix("_engine/")
            place = f"testing/{place}" if source.startswith("testing/") else place
            text = path.read_text(encoding="utf-8")
            if _MAY_MAKE_ERRORS.search(text) and (entries := read(ast.parse(text), place)):
                found[place] = entries
        is_plugin = source.startswith("plugins")
        headings = {place: _of_plugin(source, place) if is_plugin else _heading(place) for place in found}
        order = [*GROUPS, *sorted(set(headings.values()))]
        for place in sorted(found, key=lambda place: (order.index(headings[place]), place)):
            sort_in(found[place], groups.setdefault(headings[place], {}), groups)
    return advised(groups)


def _of_plugin(source: str, place: str) -> str:
    """The heading of a file of a plugin: a package of its own has one, the standard package a folder for each."""
    plugin = place.partition("/")[0] if source == "plugins/src/optim_plugins" else source.rpartition("optim_")[2]
    return OF_PLUGINS.get(plugin, f"Plugin {plugin}")


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
            what = _said(*((given.get("what"), given.get("cause")) if own else (unknown,)))
            case = (what, _said(given.get("fix")))
            if any(case) and case not in entry.cases:
                entry.cases.append(case)
    return entries


def sort_in(found: dict[str, Entry], own: dict[str, Entry], groups: dict[str, dict[str, Entry]]) -> None:
    """Add errors to their own group, or to an earlier one that has them already."""
    for reference, new in found.items():
        group = next((group for group in groups.values() if reference in group), own)
        entry = group.setdefault(reference, Entry())
        entry.statuses |= new.statuses
        entry.cases += [case for case in new.cases if case not in entry.cases]


def _said(*expressions: ast.expr | None) -> str:
    """The first expression that says something by itself; ``ELSEWHERE`` if all are computed, empty if there is none."""
    written = [text_of(expression) for expression in expressions]
    return next((text for text in written if text.strip(UNKNOWN + " :,")), ELSEWHERE if any(written) else "")


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


def text_of(node: ast.expr | None) -> str:
    """A string as it is written, with an ellipsis for every value that is put into it."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) for part in node.values)
    if isinstance(node, ast.IfExp):
        sides = [side for side in (text_of(node.body), text_of(node.orelse)) if side.strip(UNKNOWN)]
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


def _section(reference: str, entry: Entry) -> str:
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


if __name__ == "__main__":
    main()
