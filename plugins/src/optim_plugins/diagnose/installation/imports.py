"""What a plugin names or imports, looked at without importing it: is all of it there?"""

from __future__ import annotations

import ast
import importlib.util
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_BLOCKS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.With, ast.For, ast.While)


def import_defect(path: str) -> str:
    """Why ``package.module:name`` cannot be imported, as far as that shows without doing it; or nothing.

    Modules of the same package that it imports are looked at too.
    """
    module, _, name = path.partition(":")
    source = _source(module)
    if source is None:
        return f"there is no module {module}"
    try:
        read = _read(source, module)
    except (OSError, SyntaxError, ValueError) as error:
        return f"{source.name} cannot be read: {error}"
    if name and name not in read.defined:
        return f"{module} has no {name}"
    missing = next(_missing(module, {module}), None)
    return f"{missing[0]} imports {missing[1]}, which is not installed" if missing else ""


def missing_in_functions(module: str) -> set[tuple[str, str]]:
    """What functions of a module, and of modules of its package that it imports, import and is not there.

    Returns:
        Who imports which.
    """
    return set(_missing(module, {module}, in_functions=True))


def _missing(module: str, seen: set[str], *, in_functions: bool = False) -> Iterator[tuple[str, str]]:
    """Modules that are imported when ``module`` is, or also later, and are not there: who imports which."""
    source = _source(module)
    if source is None or source.suffix != ".py":
        return
    try:
        read = _read(source, module)
    except (OSError, SyntaxError, ValueError):
        return
    for name in read.imported_later if in_functions else read.imported:
        top = name.partition(".")[0]
        if not _is_there(top):
            yield module, top
        elif top == module.partition(".")[0] and name not in seen:
            seen.add(name)
            yield from _missing(name, seen, in_functions=in_functions)


@dataclass(frozen=True, slots=True)
class _Read:
    """What a module defines, what it imports when it is imported, and what its functions import too."""

    defined: frozenset[str]
    imported: tuple[str, ...]
    imported_later: tuple[str, ...]


def _read(source: Path, module: str) -> _Read:
    """Read a module as it is now; passes of one plugin share most of what they import."""
    state = source.stat()
    return _parsed(source, module, state.st_mtime_ns, state.st_size)


@cache
def _parsed(source: Path, module: str, *_state: int) -> _Read:
    tree = ast.parse(source.read_bytes())
    return _Read(
        frozenset(_defined(tree)),
        tuple(_imports(tree.body, module, in_functions=False)),
        tuple(_imports(tree.body, module, in_functions=True)),
    )


def _imports(body: Sequence[ast.stmt], module: str, *, in_functions: bool) -> Iterator[str]:
    """What is imported as soon as a module is, or also later.

    What stands in ``if``, ``try`` and ``with suppress(...)`` may be meant to be missing.
    """
    for node in body:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(module.split(".")[: -node.level]) if node.level else ""
            yield ".".join(part for part in (base, node.module) if part)
        elif in_functions and isinstance(node, _BLOCKS) and "suppress" not in _heading(node):
            yield from _imports(node.body, module, in_functions=True)


def _heading(node: ast.stmt) -> str:
    return " ".join(ast.unparse(item) for item in node.items) if isinstance(node, ast.With) else ""


def _defined(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((alias.asname or alias.name) for alias in node.names)


def _is_there(top: str) -> bool:
    try:
        return importlib.util.find_spec(top) is not None
    except (ImportError, ValueError):
        return False


def _source(module: str) -> Path | None:
    """The file of a module, found without importing more than its packages' folders."""
    top, *rest = module.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        return None
    if spec is None:
        return None
    if not rest:
        return Path(spec.origin) if spec.origin else None
    for folder in spec.submodule_search_locations or ():
        base = Path(folder, *rest)
        for found in (base.with_suffix(".py"), base / "__init__.py"):
            if found.is_file():
                return found
    return None
