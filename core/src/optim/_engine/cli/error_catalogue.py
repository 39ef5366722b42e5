"""The errors that there are, read from the source of optim and of the packages that have plugins; nothing is imported.

A reference that the source computes stands in a comment at its call: ``# errors: too-old, too-new``. A package says in
``error_advice.toml``, beside its ``__init__.py``, why an error happens, and what to do if its message computes that.
"""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

from optim.errors import ExitStatus, OptimError
from optim.hooks import ENTRY_POINT_GROUP

ADVICE_FILE = "error_advice.toml"
UNKNOWN = "…"
"""In place of the part of a text that is computed."""

PARTS = {
    "The model": ("graphs", "onnx", "providers"),
    "Sources and their export": ("sources",),
    "Input samples": ("feeds", "api/given.py"),
    "Layouts for other programs": ("layout", "runs/delivering.py"),
    "Adapters": (),
    "Task metrics": ("compare/metrics.py", "compare/metric_spec.py", "compare/task.py"),
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
    "Mistakes of a pass or a model": ("jobs", "repair", "timing", "compare", "backends", "gate", "testing", "reports"),
}
"""Parts of optim as users know them, and the places in core or the kit that make their errors. The longest
place counts."""

_OWN = ("optim", "optim_testing")
"""Packages whose parts are those; an error that they have too is no plugin's."""

_OF_PLUGINS = {
    **dict.fromkeys(("export", "goals"), "Sources and their export"),
    "layouts": "Layouts for other programs",
    **dict.fromkeys(("adapted", "adapters"), "Adapters"),
}
"""Plugins that only do what users know as a part of optim; others are a part by themselves."""

_FIELDS = ("reference", "what", "cause", "fix", "package", "status")
_SAID = re.compile(r"# errors: ([a-z0-9, -]+)")


@dataclass
class ErrorEntry:
    """One reference: the messages of its places, each with its fix.

    Attributes:
        about: the part of optim that it is of.
        cases: what happened and what to do, as the source has them; empty if it is computed.
        statuses: exit statuses.
        why: from the advice; empty where the messages say enough.
        fix: from there too; of cases whose own fix is computed.
    """

    about: str = ""
    cases: list[tuple[str, str]] = field(default_factory=list)
    statuses: set[int] = field(default_factory=set)
    why: str = ""
    fix: str = ""

    def shown(self) -> list[tuple[str, str]]:
        """The cases that say something to a reader; the advice stands for a fix that is computed."""
        return [(what, fix) for what, fix in self.cases if fix or (what and self.fix)]


def installed_packages() -> dict[str, Path]:
    """The folder, or the file, of optim and of each package that has a plugin or a command, by name."""
    points = [*entry_points(group=ENTRY_POINT_GROUP), *entry_points(group=f"{ENTRY_POINT_GROUP}.commands")]
    found = {}
    for name in dict.fromkeys(["optim", *sorted(point.module.partition(".")[0] for point in points)]):
        with suppress(ImportError, ValueError):  # its plugin is listed with that reason
            spec = find_spec(name)
            places = [*(spec.submodule_search_locations or ()), spec.origin] if spec is not None else [None]
            if (place := places[0]) is not None:
                found[name] = Path(place)
    return found


def catalogue(packages: Mapping[str, Path], only: str = "") -> dict[str, ErrorEntry]:
    """The errors of some packages by reference."""
    made = [
        (part_of(name, place), name, place, errors)
        for name, folder in packages.items()
        for place, text in _sources(folder)
        if ("OptimError" in text or "unknown_name" in text) and (only in text or only.startswith("unknown-"))
        if (errors := list(read_errors(text)))
    ]
    order = [*PARTS, *sorted({part for part, *_ in made} - PARTS.keys())]
    found: dict[str, ErrorEntry] = {}
    for part, _, _, errors in sorted(made, key=lambda one: (one[1] not in _OWN, order.index(one[0]), one[1:3])):
        for reference, what, fix, status in errors:
            if reference and only in ("", reference):
                entry = found.setdefault(reference, ErrorEntry(part))
                entry.statuses.add(status)
                if (what or fix) and (what, fix) not in entry.cases:
                    entry.cases.append((what, fix))
    for folder in packages.values():
        for reference, advice in advice_of(folder).items():
            if reference in found:
                found[reference].why, found[reference].fix = (advice.get(name, "") for name in ("why", "fix"))
    return found


def advice_of(folder: Path) -> dict[str, dict[str, str]]:
    """Why errors of a package happen, and what to do, by reference."""
    path = folder / ADVICE_FILE
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}


def part_of(package: str, place: str) -> str:
    """The name of the part of optim that has a file. A package with several plugins has a folder for each."""
    if package in _OWN:
        inside = place.removeprefix("_engine/") if package == "optim" else f"testing/{place}"
        fitting = {one: part for part, places in PARTS.items() for one in places if f"{inside}/".startswith(f"{one}/")}
        return fitting[max(fitting, key=len)]
    plugin = place.partition("/")[0] if package.endswith("_plugins") else package.removeprefix("optim_")
    return _OF_PLUGINS.get(plugin, f"Plugin {plugin}")


def _sources(folder: Path) -> Iterator[tuple[str, str]]:
    """The files of a package, by their place in it."""
    for path in sorted(folder.rglob("*.py")) if folder.is_dir() else [folder]:
        with suppress(OSError, UnicodeDecodeError):
            yield path.relative_to(folder).as_posix() if path != folder else path.name, path.read_text(encoding="utf-8")


def read_errors(text: str) -> Iterator[tuple[str, str, str, int]]:
    """The errors that a source makes: reference, what happened, what to do, and the exit status.

    The reference is empty if it is computed and no comment says what it can be. A computed status is that of a verdict.
    """
    try:
        tree = ast.parse(text)
    except SyntaxError:  # the plugin is listed with that reason
        return
    nodes, lines = list(ast.walk(tree)), text.splitlines()
    makers = {"OptimError", "OptimError.usage", "unknown_name"} | {
        node.name
        for node in nodes
        if isinstance(node, ast.ClassDef) and any(ast.unparse(base) == "OptimError" for base in node.bases)
    }
    calls = [node for node in nodes if isinstance(node, ast.Call) and called(node) in makers]
    for call in sorted(calls, key=lambda call: (call.lineno, call.col_offset)):
        own = called(call) != "unknown_name"
        given = _arguments(call, own)
        comments = "\n".join(lines[call.lineno - 1 : call.end_lineno])
        for reference in _references(given.get("reference"), own, comments):
            kind = reference.removeprefix("unknown-").replace("-", " ")
            unknown = ast.Constant(f"there is no {kind} '{UNKNOWN}'")
            what = _said(*((given.get("what"), given.get("cause")) if own else (unknown,)))
            yield reference, what, _said(given.get("fix")), _status(given.get("status"), own)


def _said(*expressions: ast.expr | None) -> str:
    """The first expression that says something by itself; empty if all are computed, or there is none."""
    return next((text for text in map(text_of, expressions) if text.strip(UNKNOWN + " :,")), "")


def called(call: ast.Call) -> str:
    """The name that a call is of, with the class before a method's; empty where it is of something longer."""
    if isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name):
        return f"{call.func.value.id}.{call.func.attr}"
    return call.func.id if isinstance(call.func, ast.Name) else ""


def _arguments(call: ast.Call, own: bool) -> dict[str, ast.expr]:
    names = _FIELDS if own else ("reference", "name", "known")
    given = dict(zip(names, call.args, strict=False))
    if isinstance(call.func, ast.Attribute):
        given["status"] = ast.Attribute(ast.Name("ExitStatus"), "USAGE")
    return given | {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}


def _references(expression: ast.expr | None, own: bool, comments: str) -> list[str]:
    written = [expression.body, expression.orelse] if isinstance(expression, ast.IfExp) else [expression]
    values = [node.value for node in written if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    if len(values) == len(written):
        return values if own else [f"unknown-{kind.replace(' ', '-')}" for kind in values]
    said = [name.strip() for line in _SAID.findall(comments) for name in line.split(",")]
    return [name for name in said if name] or [""]


def _status(node: ast.expr | None, own: bool) -> int:
    if node is None:
        return (OptimError.status if own else ExitStatus.USAGE).value
    if isinstance(node, ast.Attribute) and node.attr in ExitStatus.__members__:
        return ExitStatus[node.attr].value
    return ExitStatus.NOT_HELD.value


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
