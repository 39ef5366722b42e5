"""Counts what the structure of the code looks like: files, lines, folders, imports, long signatures.

python benchmarks/house.py            # a table
python benchmarks/house.py --json
"""

from __future__ import annotations

import argparse
import ast
import json
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent
CORE = ROOT / "core" / "src"
PLUGINS = tuple(sorted(p / "src" for p in ROOT.glob("plugins*") if (p / "src").is_dir()))
TESTING = ROOT / "testing" / "src"


def sources() -> tuple[Path, ...]:
    """Returns the folders that hold the modules of all distributions."""
    return (CORE, TESTING, *PLUGINS)


def python_files(*folders: Path) -> Iterator[Path]:
    """Every .py file below some folders, sorted."""
    for folder in folders:
        yield from sorted(p for p in folder.rglob("*.py") if "__pycache__" not in p.parts)


def module_of(path: Path, root: Path) -> str:
    """The name that a file is imported by."""
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@dataclass(frozen=True, slots=True)
class Signature:
    """A function: its line and name, how many arguments it takes without self, and how.

    Attributes:
        line: where it begins.
        name: of it.
        count: of its arguments.
        by_name: of these, so many by name only.
        is_verb: whether it is a command of the command line.
    """

    line: int
    name: str
    count: int
    by_name: int
    is_verb: bool


@dataclass(frozen=True, slots=True)
class Content:
    """What counts of a file.

    Attributes:
        imports: modules named in import statements at module level.
        inside: those named inside functions and for type checks.
        signatures: of its functions.
        calls: line and number of positional arguments of each call.
        classes: names of its classes.
        own_classes: names of those at module level.
    """

    imports: frozenset[str]
    inside: frozenset[str]
    signatures: tuple[Signature, ...]
    calls: tuple[tuple[int, int], ...]
    classes: tuple[str, ...]
    own_classes: tuple[str, ...]


@cache
def content_of(source: str) -> Content:
    """A file, parsed and walked once."""
    imports: dict[bool, set[str]] = {False: set(), True: set()}
    signatures, calls, classes = [], [], []

    def visit(node: ast.AST, inside: bool) -> None:
        for child in ast.iter_child_nodes(node):
            is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            if is_function:
                signatures.append(_signature(child))
            elif isinstance(child, ast.Call):
                calls.append((child.lineno, len(child.args)))
            elif isinstance(child, ast.ClassDef):
                classes.append(child.name)
            elif isinstance(child, ast.Import):
                imports[inside].update(alias.name for alias in child.names)
            elif isinstance(child, ast.ImportFrom) and child.module and not child.level:
                imports[inside].add(child.module)
                imports[inside].update(f"{child.module}.{alias.name}" for alias in child.names)
            visit(child, inside or is_function or _is_type_check(child))

    tree = ast.parse(source)
    visit(tree, False)
    own = tuple(node.name for node in tree.body if isinstance(node, ast.ClassDef))
    return Content(
        frozenset(imports[False]), frozenset(imports[True]), tuple(signatures), tuple(calls), tuple(classes), own
    )


def _signature(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Signature:
    names = [a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)]
    count = len([name for name in names if name not in ("self", "cls")])
    decorators = {ast.unparse(decorator).split("(")[0] for decorator in node.decorator_list}
    return Signature(node.lineno, node.name, count, len(node.args.kwonlyargs), "click.command" in decorators)


def imports_of(source: str, *, lazily: bool) -> frozenset[str]:
    """Modules named in import statements; those inside functions and type checks only where ``lazily``."""
    content = content_of(source)
    return content.imports | content.inside if lazily else content.imports


def _is_type_check(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def core_modules() -> dict[str, Path]:
    """Every module of core, with its file."""
    return {module_of(path, CORE): path for path in python_files(CORE)}


def plugin_modules() -> dict[str, Path]:
    """Every module of the plugins but what lists all passes, plugin.py or offered.py: it imports from all folders."""
    found = {module_of(path, root): path for root in PLUGINS for path in python_files(root)}
    return {module: path for module, path in found.items() if path.name not in ("plugin.py", "offered.py")}


def testing_modules() -> dict[str, Path]:
    """Every module of optim-testing."""
    return {module_of(path, TESTING): path for path in python_files(TESTING)}


def folder_of(module: str, modules: dict[str, Path]) -> str:
    """The folder that a module lies in, with dots."""
    return module if modules[module].name == "__init__.py" else module.rpartition(".")[0]


def folder_graph(modules: dict[str, Path], *, lazily: bool = False) -> dict[str, dict[str, list[str]]]:
    """Folder -> folder -> the imports that make the arrow: those at module level, or all of them where ``lazily``."""
    graph: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for module, path in modules.items():
        if path.name == "__init__.py":
            continue  # hands names on
        for name in imports_of(path.read_text(), lazily=lazily):
            if name in modules and modules[name].name != "__init__.py":
                here, there = folder_of(module, modules), folder_of(name, modules)
                if here != there:
                    graph[here][there].append(f"{module} -> {name}")
    return graph


def folder_cycles(modules: dict[str, Path], *, lazily: bool = False) -> list[list[str]]:
    """Sets of folders that import each other in a circle, by imports at module level, or by all where ``lazily``."""
    return circles({here: set(there) for here, there in folder_graph(modules, lazily=lazily).items()})


def file_circles(modules: dict[str, Path], leaving_out: Sequence[str] = ()) -> list[list[str]]:
    """Sets of files that import each other in a circle, anywhere in them.

    Args:
        modules: with their files.
        leaving_out: modules whose own imports do not count.
    """
    graph: dict[str, set[str]] = {}
    for module, path in modules.items():
        named = set() if module in leaving_out else imports_of(path.read_text(), lazily=True)
        names = {name for name in named if name in modules and name != module}
        # "from package import module" names the package too, and takes nothing of its own
        graph[module] = {one for one in names if not any(other.startswith(f"{one}.") for other in names)}
    return circles(graph)


def circles(graph: Mapping[str, Collection[str]]) -> list[list[str]]:
    """Sets of nodes that reach each other (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for other in graph.get(node, ()):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            group = []
            while True:
                group.append(stack.pop())
                if group[-1] == node:
                    break
            if len(group) > 1:
                found.append(sorted(group))

    for node in list(graph):
        if node not in index:
            visit(node)
    return found


def plugin_imports(leaving_out: Collection[Path] = ()) -> dict[str, int]:
    """Modules of core that plugins, third parties, examples and the scaffold import, each with its number of files.

    Args:
        leaving_out: folders whose files do not count.
    """
    scaffold = TESTING / "optim_testing" / "scaffold" / "templates"
    folders = (*PLUGINS, ROOT / "tests" / "thirdparty", ROOT / "examples", scaffold)
    return core_imports(*folders, leaving_out=leaving_out)


def core_imports(*folders: Path, leaving_out: Collection[Path] = ()) -> dict[str, int]:
    """Modules of core that files below some folders import, each with its number of files."""
    modules = core_modules()
    found: dict[str, int] = defaultdict(int)
    for folder in folders:
        for name, count in imports_below(folder, leaving_out).items():
            if name in modules:
                found[name] += count
    return dict(sorted(found.items()))


def imports_below(folder: Path, leaving_out: Collection[Path] = ()) -> dict[str, int]:
    """Names that files below a folder import, anywhere in them, templates of Python too."""
    found: dict[str, int] = defaultdict(int)
    for path in sorted((*folder.rglob("*.py"), *folder.rglob("*.py.j2"))):
        if any(path.is_relative_to(other) for other in leaving_out):
            continue
        source = path.read_text()
        if path.suffix == ".j2":  # what is no Python yet is left out, line by line
            lines = [line.strip() for line in source.splitlines()]
            lines = [line for line in lines if re.match(r"(from|import) [\w.]+", line) and "{" not in line]
            source = "\n".join(re.sub(r"\($", "names", line) for line in lines)
        for name in imports_of(source, lazily=True):
            found[name] += 1
    return found


def files_by_folder() -> dict[Path, int]:
    """How many modules lie in each folder of core, the plugins and optim-testing."""
    sizes: dict[Path, int] = defaultdict(int)
    for path in python_files(*sources()):
        sizes[path.parent.relative_to(ROOT)] += path.name != "__init__.py"
    return sizes


def lines_by_kind(files: Sequence[Path]) -> dict[str, int]:
    """Lines that compute something, say something, import something, or are empty."""
    found = Counter[str]()
    for path in files:
        source = path.read_text()
        kinds = ["code" if line.strip() else "blank" for line in source.splitlines()]
        for node in ast.walk(ast.parse(source)):
            text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
            if text or isinstance(node, ast.Import | ast.ImportFrom):
                kind = "docstrings" if text else "imports"
                kinds[node.lineno - 1 : node.end_lineno] = [kind] * (node.end_lineno - node.lineno + 1)
        found.update(kinds)
    return dict(found.most_common())


def lines_by_room() -> dict[str, int]:
    """Lines of core by room: a folder of ``optim`` or of its ``_engine``; files directly in these are rooms too."""
    rooms = Counter[str]()
    for path in python_files(CORE):
        folders = path.relative_to(CORE).parts[:-1]
        rooms[".".join(folders[: 3 if folders[1:2] == ("_engine",) else 2]) or "optim"] += len(
            path.read_text().splitlines()
        )
    return dict(rooms)


_INTERFACE = ("api", "decoders")
"""Folders whose functions users call: optim.run and its like, and Decoder.generate."""


def long_signatures(least: int) -> list[str]:
    """Functions that take ``least`` and more arguments, self left out.

    Left out are those whose arguments are what a user writes: verbs of the command line, where each is an option, and
    functions of the Python interface that take them by name only; :func:`long_interfaces` has these.
    """
    return [text for text, is_interface in _signatures(least) if not is_interface]


def long_interfaces(least: int) -> list[str]:
    """Verbs and functions of the Python interface that take ``least`` and more arguments."""
    return [text for text, is_interface in _signatures(least) if is_interface]


def _signatures(least: int) -> Iterator[tuple[str, bool]]:
    for path in python_files(*sources()):
        for one in content_of(path.read_text()).signatures:
            if one.count >= least:
                of_python = path.parent.name in _INTERFACE and one.by_name >= one.count - 2
                yield f"{path.relative_to(ROOT)}:{one.line} {one.name} ({one.count})", of_python or one.is_verb


def long_positional_calls(least: int) -> list[str]:
    """Calls with ``least`` and more positional arguments."""
    calls = ((path, call) for path in python_files(*sources()) for call in content_of(path.read_text()).calls)
    return [f"{path.relative_to(ROOT)}:{line} ({count})" for path, (line, count) in calls if count >= least]


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--list", action="store_true", help="name the places too")
    arguments = parser.parse_args()
    modules = core_modules()
    core_files = list(python_files(CORE))
    largest = sorted(files_by_folder().items(), key=lambda item: -item[1])[:5]
    every = [*python_files(ROOT / "tests", ROOT / "examples", ROOT / "benchmarks", *sources())]
    skip = "fmt: " + "skip"
    figures = {
        "files of core": len(core_files),
        "lines of core": sum(len(path.read_text().splitlines()) for path in core_files),
        "of these": lines_by_kind(core_files),
        "lines of plugins": sum(len(path.read_text().splitlines()) for path in python_files(*PLUGINS)),
        "lines of optim-testing": sum(len(path.read_text().splitlines()) for path in python_files(TESTING)),
        "largest folders": {str(p): n for p, n in largest},
        "lines of core by room": dict(sorted(lines_by_room().items(), key=lambda item: -item[1])),
        "modules of core that plugins import": len(plugin_imports()),
        "import cycles between folders": folder_cycles(modules),
        "import cycles between folders of plugins": folder_cycles(plugin_modules(), lazily=True),
        "functions with 8 and more arguments": len(long_signatures(8)),
        "verbs and functions of the Python interface with as many": len(long_interfaces(8)),
        "calls with 10 and more positional arguments": len(long_positional_calls(10)),
        skip: sum(path.read_text().count(skip) for path in every),
    }
    if arguments.json:
        print(json.dumps(figures, indent=2))
        return
    for name, value in figures.items():
        print(f"{name:58} {value}")
    if arguments.list:
        print(*plugin_imports().items(), sep="\n")
        print(*long_signatures(8), *long_interfaces(8), sep="\n")
        print(*long_positional_calls(10), sep="\n")
        for here, there in folder_graph(modules).items():
            print(here, "->", {k: v[:3] for k, v in there.items()})


if __name__ == "__main__":
    main()
