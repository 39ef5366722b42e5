"""The text of the pages of the public modules: every class with every member, read from the source.

``make_pages.py`` writes them when the site is built.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]

MODULES = (
    "hooks",
    "passes",
    "options",
    "context",
    "model",
    "target",
    "backend",
    "processor",
    "metric",
    "source",
    "source_passes",
    "arrays",
    "errors",
    "drift",
    "folders",
    "user_code",
    "layout",
    "goal",
    "workplace",
    "origin",
    "onnx",
    "providers",
    "decoders",
    "adapters",
    "jobs",
    "isolation",
    "cli_kit",
    "optim_plugins.drawing",
    "optim_plugins.rules",
    "optim_testing",
    "optim_testing.models",
)
"""In the order of the page, modules of ``optim`` by their names in it; of a package the names that it hands on."""

_FOLDERS = {"optim_testing": "testing", "optim_plugins": "plugins"}
"""Where packages are that are not core's."""

INTRODUCTION = """# Public modules of optim

A page for each public module, with every class, member and function. Import a name from the module of its page;
`optim` itself has the classes of the contracts. [Publish a plugin](publish-a-plugin.md) and
[Hooks and contracts](hooks.md) explain how to use them.

| module | contents |
|---|---|
"""

_SECTION = re.compile(r"^(Args|Attributes|Returns|Raises|Yields):$")


@dataclass
class Words:
    """A docstring in its parts.

    Attributes:
        text: what stands before any section.
        items: by section, each name with its text; a section without names has one, empty.
    """

    text: str = ""
    items: dict[str, dict[str, str]] = field(default_factory=dict)


def pages() -> dict[str, str]:
    """The list of the modules, and a page for each, by path below ``docs``."""
    rows = [f"| [{name_of(module)}](api/{module}.md) | {_about(module)} |" for module in MODULES]
    return {"reference.md": INTRODUCTION + "\n".join(rows) + "\n"} | {
        f"api/{module}.md": page(module) for module in MODULES
    }


def page(module: str) -> str:
    """The page of a module."""
    return "\n".join([f"# {name_of(module)}\n", *_of_module(module)]).rstrip() + "\n"


def _about(module: str) -> str:
    tree = ast.parse(source_of(module).read_text(encoding="utf-8"))
    return _inline(_first(ast.get_docstring(tree))).replace("|", "\\|")


def name_of(module: str) -> str:
    """What a module of :data:`MODULES` is imported by."""
    return module if module.split(".")[0] in _FOLDERS else f"optim.{module}"


def source_of(module: str) -> Path:
    """The file of a module."""
    name = name_of(module)
    path = ROOT / _FOLDERS.get(name.split(".")[0], "core") / "src" / Path(*name.split("."))
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


def handed_on(module: str) -> dict[str, set[str]]:
    """The names that a package hands on, by the module that has them; nothing for a module that is a file."""
    found: dict[str, set[str]] = {}
    imports = ast.walk(ast.parse(source_of(module).read_text(encoding="utf-8")))
    for node in imports:
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith(f"{name_of(module)}."):
            home = str(node.module).removeprefix("optim.")
            found.setdefault(home, set()).update(alias.name for alias in node.names)
    return found


def words_of(docstring: str | None) -> Words:
    """The parts of a google docstring."""
    found, section, name = Words(), "", ""
    lines: list[str] = []
    for line in (docstring or "").expandtabs().splitlines():
        heading = _SECTION.match(line)
        if heading:
            section, name = heading[1], ""
            found.items[section] = {}
        elif not section:
            lines.append(line)
        elif line.strip():
            begins = re.match(r"    (\*{0,2}[\w\[\]-]+): (.*)$", line) if section not in ("Returns", "Yields") else None
            if begins:
                name = begins[1]
                found.items[section][name] = begins[2]
            else:
                found.items[section][name] = f"{found.items[section].get(name, '')} {line.strip()}".strip()
    found.text = "\n".join(lines).strip()
    return found


def _of_module(module: str) -> Iterator[str]:
    tree = ast.parse(source_of(module).read_text(encoding="utf-8"))
    yield _inline(_first(ast.get_docstring(tree))) + "\n"
    yield from _of_names(tree.body)
    for home, names in handed_on(module).items():
        yield from _of_names(ast.parse(source_of(home).read_text(encoding="utf-8")).body, names)


def _of_names(body: list[ast.stmt], only: Collection[str] = ()) -> Iterator[str]:
    """What a file defines that has no underscore, or ``only`` these names of it."""
    for name, annotation, words in _assigned(body):
        if name in only or (words and not only):
            yield f"`{name}{annotation}`" + (f": {_inline(words)}" if words else "") + "\n"
    for node in body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and (
            node.name.startswith("_") or node.name not in (only or node.name)
        ):
            continue
        if isinstance(node, ast.ClassDef):
            yield from _of_class(node)
        elif isinstance(node, ast.FunctionDef):
            yield f"## {node.name}\n"
            yield f"`{_signature(node)}`\n"
            yield from _body(words_of(ast.get_docstring(node)), indent="")


def _of_class(node: ast.ClassDef) -> Iterator[str]:
    words = words_of(ast.get_docstring(node))
    bases = ", ".join(ast.unparse(base) for base in node.bases)
    yield f"## {node.name}\n"
    yield f"{paragraphs(words.text)}\n" + (f"\nDerives from `{bases}`.\n" if bases else "")
    attributes = [
        (name, annotation, words.items.get("Attributes", {}).get(name) or said)
        for name, annotation, said in _assigned(node.body)
    ]
    assigned = {name for name, _, _ in attributes}
    attributes += [(name, "", said) for name, said in words.items.get("Attributes", {}).items() if name not in assigned]
    for name, said in words.items.get("Args", {}).items():
        attributes.append((name, " (when it is made)", said))
    for name, annotation, said in attributes:
        yield f"- `{name}{annotation}`" + (f": {_inline(said)}" if said else "")
    for method in node.body:
        if isinstance(method, ast.FunctionDef) and not method.name.startswith(("_", "test_")):
            told = words_of(ast.get_docstring(method))
            marks = {ast.unparse(mark).removeprefix("pytest.") for mark in method.decorator_list}
            kind = next((mark for mark in ("fixture", "property", "cached_property") if mark in marks), "")
            shown = f"{method.name}: {ast.unparse(method.returns)}" if kind and method.returns else _signature(method)
            must = "must be implemented" if "abstractmethod" in marks else ""
            said = ", ".join(filter(None, (kind.removeprefix("cached_"), must)))
            yield f"- `{shown}`" + (f" ({said})" if said else "")
            yield from _body(told, indent="  ")
    yield ""


def _assigned(body: list[ast.stmt]) -> Iterator[tuple[str, str, str]]:
    """Public names that are assigned: each with its type or value, and the text below it."""
    for place, node in enumerate(body):
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if not isinstance(node, ast.Assign | ast.AnnAssign) or not isinstance(target, ast.Name):
            continue
        after = body[place + 1] if place + 1 < len(body) else None
        text = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else ""
        if not target.id.startswith("_") and target.id != "model_config":
            yield target.id, _type_of(node), str(text)


def _type_of(node: ast.Assign | ast.AnnAssign) -> str:
    value = ast.unparse(node.value) if node.value is not None else ""
    short = f" = {value}" if value and len(value) <= 40 and "field(" not in value and not value.startswith("_") else ""
    if isinstance(node, ast.AnnAssign):
        kind = re.sub(r"^ClassVar\[(.*)\]$", r"\1", ast.unparse(node.annotation))
        return f": {kind}{short}"
    return short


def _signature(node: ast.FunctionDef) -> str:
    arguments = re.sub(r"^(self|cls)(, |$)", "", ast.unparse(node.args))
    returns = f" -> {ast.unparse(node.returns)}" if node.returns is not None else ""
    return f"{node.name}({arguments}){returns}"


def _body(words: Words, *, indent: str) -> Iterator[str]:
    text = paragraphs(words.text)
    for paragraph in text.split("\n\n"):
        yield f"{indent}{paragraph}\n"
    for section, items in words.items.items():
        for name, said in items.items():
            label = {"Args": f"*{name}*", "Raises": f"raises `{name}`", "Returns": "returns", "Yields": "gives"}
            yield f"{indent}- {label.get(section, name)}: {_inline(said)}"
    if not indent:
        yield ""


def _first(docstring: str | None) -> str:
    return (docstring or "").split("\n\n")[0]


def paragraphs(text: str) -> str:
    """Paragraphs on a line each; lists and tables as they are."""
    found = []
    for part in text.split("\n\n"):
        lines = part.splitlines()
        if lines and all(line.startswith("    ") for line in lines):
            found.append("\n".join(lines))
            continue
        is_list = any(line.lstrip().startswith(("- ", "| ")) for line in lines)
        found.append(re.sub(r"::$", ":", _inline(part, keep_lines=is_list)))
    return "\n\n".join(found)


def _inline(text: str, *, keep_lines: bool = False) -> str:
    text = re.sub(r":\w+:`~?\.?([^`]+)`", r"`\1`", text).replace("``", "`")
    return text if keep_lines else " ".join(text.split())
