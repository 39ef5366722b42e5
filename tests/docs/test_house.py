"""Rules of the house: imports, the size of each room, and no circles between folders."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import re
import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "public-modules.md"
SOURCES = (ROOT / "core" / "src", ROOT / "testing" / "src")
"""Where public modules are."""
ENGINE_USERS = {
    "testing/src": "optim.engine.testing",
    "plugins-fleet/src": "optim.engine.fleet",
    "plugins/src/optim_plugins/adapted": "optim.engine.adapters",
    "plugins/src/optim_plugins/diagnose/bench": "optim.engine.bench",
    "plugins/src/optim_plugins/diagnose/installation": "optim.engine.installation",
    "plugins/src/optim_plugins/diagnose/inspect": "optim.engine.inspect",
    "plugins/src/optim_plugins/export": "optim.engine.export",
    "plugins/src/optim_plugins/goals": "optim.engine.goals",
    "plugins/src/optim_plugins/layouts": "optim.engine.layouts",
    "plugins/src/optim_plugins/record": "optim.engine.record",
    "plugins/src/optim_plugins/report": "optim.engine.report",
}
"""Folders that may use the engine, each with the module that has what it may use."""
FACES = ("optim", "optim_testing", "optim.model", "optim._engine.reports.schema", "optim._engine.reports.answers")
"""What hands on what others make of it, when it is asked to: names, the content of a file, a page for a notebook."""

BUDGETS = {
    "optim": 3_500,
    "optim._engine": 1_175,
    "optim._engine.api": 1_250,
    "optim._engine.backends": 975,
    "optim._engine.cli": 2_325,
    "optim._engine.compare": 2_100,
    "optim._engine.feeds": 2_075,
    "optim._engine.gate": 1_600,
    "optim._engine.goals": 475,
    "optim._engine.graphs": 550,
    "optim._engine.jobs": 2_350,
    "optim._engine.plugins": 2_075,
    "optim._engine.recipes": 500,
    "optim._engine.repair": 1_775,
    "optim._engine.reports": 1_775,
    "optim._engine.runs": 3_550,
    "optim._engine.search": 8_225,
    "optim._engine.sources": 500,
    "optim._engine.timing": 550,
    "optim.cli_kit": 900,
    "optim.decoders": 250,
    "optim.engine": 400,
    "optim.isolation": 525,
    "optim.jobs": 1_575,
    "optim.layout": 500,
    "optim.onnx": 2_675,
    "optim.providers": 325,
}
"""Lines of Python that each room of core may have; files directly in a folder are a room too. A part that moves in has
others move out, or gives the reason for a larger budget."""
MOST_ARGUMENTS = 7
NAMED_ALIKE = {
    "Request": "what a job is asked: each job's module has its own",
    "Answer": "what a job answers: each job's module has its own",
    "Assumption": "of a processor; and in report.json, whose schema tells readers the name",
}
"""Names of several classes in core, each with the reason."""
_PASSES = "a pass is called by its plugin and its name, so that its class is as it is"
ALIKE_IN_DISTRIBUTIONS = {
    "Request": NAMED_ALIKE["Request"],
    "Answer": NAMED_ALIKE["Answer"],
    "Trial": "of an exported component; and a pass that is tried in a test, a name of optim-testing",
    **dict.fromkeys(("ConvertFloat16", "ExactIntegers", "ProductQuantizer", "Quantize", "QuantizeDynamic"), _PASSES),
    **dict.fromkeys(("QuantizeStatic", "QuantizeWeights", "ConvertFloat16Options", "QuantizeOptions"), _PASSES),
    **dict.fromkeys(("QuantizeDynamicOptions", "QuantizeStaticOptions", "QuantizeWeightsOptions"), _PASSES),
}
"""Names of classes in several distributions, each with the reason."""


@pytest.fixture(scope="module")
def house() -> ModuleType:
    spec = importlib.util.spec_from_file_location("house", ROOT / "benchmarks" / "house.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


HEAVY = ("numpy", "onnx", "onnx_ir", "onnxruntime", "torch", "click", "pydantic")
"""What no public package may import before a name of it is asked for."""


def packages() -> dict[str, Path]:
    """The public modules that are packages, and so hand on names of their files, each with its ``__init__.py``."""
    homes = [(name, root / Path(*name.split(".")) / "__init__.py") for root in SOURCES for name in public()]
    return {name: path for name, path in homes if path.is_file()}


def told_to_type_checkers(path: Path) -> dict[str, str]:
    """The names that an ``__init__.py`` imports for type checkers, each with the module that it comes from."""
    body = next(node.body for node in ast.parse(path.read_text()).body if isinstance(node, ast.If))
    imports = [node for node in body if isinstance(node, ast.ImportFrom)]
    assert all(alias.name == alias.asname for node in imports for alias in node.names)
    return {alias.name: str(node.module) for node in imports for alias in node.names}


def public() -> set[str]:
    """The modules that the page names, each with a line of its own."""
    page = PAGE.read_text(encoding="utf-8")
    return set(re.findall(r"^\| \[`(optim[\w.]*)`\]\(api/\1\.md\) \| \S", page, re.MULTILINE))


def handed_on() -> set[str]:
    """The names that public packages hand on, with the package's."""
    return {f"{name}.{part}" for name in public() for part in getattr(importlib.import_module(name), "__all__", ())}


def test_scripts_import_names_that_exist() -> None:
    """No type checker reads the benchmarks, and no test runs most of them."""
    scripts = [path for folder in ("benchmarks", "examples") for path in (ROOT / folder).rglob("*.py")]
    imports = [(path, node) for path in scripts for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    missing = [
        f"{path.relative_to(ROOT)}: {node.module}.{alias.name}"
        for path, node in imports
        if isinstance(node, ast.ImportFrom) and (node.module or "").partition(".")[0] == "optim"
        for alias in node.names
        if not exists(str(node.module), alias.name)
    ]
    assert scripts and missing == []


def exists(module: str, name: str) -> bool:
    """Whether a module has a name, or is a package with a module of that name."""
    found = importlib.import_module(module)
    inside = hasattr(found, "__path__") and importlib.util.find_spec(f"{module}.{name}") is not None
    return hasattr(found, name) or inside


def test_plugins_third_parties_and_the_scaffold_import_public_modules_only(house: ModuleType) -> None:
    allowed = public() | handed_on()
    engine = [ROOT / folder for folder in ENGINE_USERS]
    found = house.plugin_imports(leaving_out=engine)
    assert {name: places for name, places in found.items() if name not in allowed} == {}


@pytest.mark.parametrize(("folder", "engine"), ENGINE_USERS.items())
def test_a_distribution_of_the_engine_tier_imports_public_modules_and_its_own_part_of_the_engine(
    house: ModuleType, folder: str, engine: str
) -> None:
    used = house.core_imports(ROOT / folder)
    assert {name for name in used if name not in public() | handed_on()} == {engine}
    tier = importlib.import_module(engine)
    assert dir(tier) == tier.__all__ == sorted(told_to_type_checkers(Path(tier.__file__)).keys() - {"hand_on"})
    unused = set(tier.__all__) - {name.rpartition(".")[2] for name in house.imports_below(ROOT / folder)}
    assert unused == set()


@pytest.mark.parametrize("folder", ENGINE_USERS)
def test_a_distribution_of_the_engine_tier_needs_the_very_version_of_core(folder: str) -> None:
    project = tomllib.loads((ROOT / folder.partition("/")[0] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    version = (ROOT / "VERSION").read_text(encoding="utf-8").strip()
    assert f"optim-core=={version}" in project["dependencies"]


def test_core_imports_no_other_distribution_and_nothing_of_the_engine_tier(house: ModuleType) -> None:
    imported = house.imports_below(house.CORE)
    assert "optim.errors" in imported
    assert [name for name in imported if re.match(r"optim_|optim\.engine\b", name)] == []


@pytest.mark.parametrize("name", sorted(packages()))
def test_a_package_hands_on_what_it_tells_type_checkers(name: str) -> None:
    package, told = importlib.import_module(name), told_to_type_checkers(packages()[name])
    assert dir(package) == package.__all__ == sorted(told)
    for one, home in told.items():
        assert getattr(package, one) is getattr(importlib.import_module(home), one)
    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'nothing'"):
        _ = package.nothing


@pytest.mark.parametrize("name", sorted(packages()))
def test_no_name_that_a_package_hands_on_is_one_of_its_files(name: str) -> None:
    files = {path.stem for path in packages()[name].parent.iterdir()}
    assert set(importlib.import_module(name).__all__) & files == set()


def test_public_packages_import_nothing_heavy() -> None:
    program = f"import sys, {', '.join(sorted(packages()))}; print([m for m in {HEAVY} if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_every_public_module_is_there(house: ModuleType) -> None:
    of_plugins = {"optim_plugins.adapted", "optim_plugins.drawing", "optim_plugins.rules"}
    assert sorted(public() - {*house.core_modules(), *house.testing_modules()} - of_plugins) == []
    assert of_plugins <= house.plugin_modules().keys()
    assert not [name for name in public() if "_engine" in name]


def test_an_import_of_an_inside_module_is_found(house: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def f():\n    from optim._engine.store import Store\n")
    (tmp_path / "b.py.j2").write_text("from optim._engine import runs\n{% for x in y %}\n")
    assert {"optim._engine.store", "optim._engine.runs"} <= set(house.imports_below(tmp_path))


def test_no_folders_import_in_circles(house: ModuleType) -> None:
    assert house.folder_cycles(house.core_modules()) == []
    assert house.folder_cycles(house.testing_modules()) == []


def test_no_folders_of_a_plugin_import_in_circles(house: ModuleType) -> None:
    assert {"optim_plugins.ort.graph", "optim_qnn.htp"} <= {m.rpartition(".")[0] for m in house.plugin_modules()}
    assert house.folder_cycles(house.plugin_modules(), lazily=True) == []


def test_a_circle_of_folders_is_found(house: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, other in (("a", "b"), ("b", "a")):
        (tmp_path / "optim" / name).mkdir(parents=True)
        (tmp_path / "optim" / name / "x.py").write_text(f"from optim.{other} import x\n")
    monkeypatch.setattr(house, "CORE", tmp_path)
    assert house.folder_cycles(house.core_modules()) == [["optim.a", "optim.b"]]


def test_no_files_import_in_circles(house: ModuleType) -> None:
    modules = {**house.core_modules(), **house.plugin_modules(), **house.testing_modules()}
    assert house.file_circles(modules, leaving_out=FACES) == []


def test_no_rooms_of_the_engine_import_in_circles(house: ModuleType) -> None:
    rooms: dict[str, set[str]] = {}
    inside = {name: path for name, path in house.core_modules().items() if "._engine." in name and name not in FACES}
    for folder, others in house.folder_graph(inside, lazily=True).items():
        room = ".".join(folder.split(".")[:3])
        rooms.setdefault(room, set()).update({".".join(other.split(".")[:3]) for other in others} - {room})
    assert len(rooms) > 10
    assert house.circles(rooms) == []


def test_a_circle_of_files_is_found(house: ModuleType, tmp_path: Path) -> None:
    for name, other in (("a", "b"), ("b", "a")):
        (tmp_path / f"{name}.py").write_text(f"def f():\n    from optim.x import {other}\n")
    modules = {f"optim.x.{name}": tmp_path / f"{name}.py" for name in ("a", "b")}
    assert house.file_circles(modules) == [["optim.x.a", "optim.x.b"]]
    assert house.file_circles(modules, leaving_out=("optim.x.a",)) == []


def test_no_room_of_core_is_beyond_its_budget(house: ModuleType) -> None:
    rooms = house.lines_by_room()
    assert rooms.keys() == BUDGETS.keys()
    assert {room: lines for room, lines in rooms.items() if lines > BUDGETS[room]} == {}


def test_no_two_classes_of_core_have_one_name(house: ModuleType) -> None:
    """A reader who looks for a name finds one thing."""
    names = Counter(
        name for path in house.python_files(house.CORE) for name in house.content_of(path.read_text()).classes
    )
    assert {name for name, count in names.items() if count > 1} == set(NAMED_ALIKE)


def test_no_two_distributions_name_a_class_alike(house: ModuleType) -> None:
    homes: dict[str, set[str]] = {}
    for path in house.python_files(*house.sources()):
        for name in house.content_of(path.read_text()).own_classes:
            if not name.startswith("_"):
                homes.setdefault(name, set()).add(path.relative_to(ROOT).parts[0])
    assert {name for name, found in homes.items() if len(found) > 1} == set(ALIKE_IN_DISTRIBUTIONS)


def test_what_takes_many_values_takes_an_object(house: ModuleType) -> None:
    assert house.long_signatures(MOST_ARGUMENTS + 1) == []
    assert house.long_positional_calls(10) == []


def test_lines_of_rooms_are_counted_and_a_long_signature_is_found(
    house: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verb = "@click.command\ndef verb(a, b, c): ...\n"
    (tmp_path / "a.py").write_text(f"def f(a, b, *, c): ...\n{verb}f(1, 2, 3)\n")
    monkeypatch.setattr(house, "ROOT", tmp_path)
    monkeypatch.setattr(house, "CORE", tmp_path)
    monkeypatch.setattr(house, "PLUGINS", ())
    monkeypatch.setattr(house, "TESTING", tmp_path / "testing")
    assert house.lines_by_room() == {"optim": 4}
    assert house.long_signatures(3) == ["a.py:1 f (3)"]
    assert house.long_interfaces(3) == ["a.py:3 verb (3)"]
    assert house.long_positional_calls(3) == ["a.py:4 (3)"]


def test_what_is_called_drift_comes_from_the_gate() -> None:
    """A norm in a function of that name would be another definition of it."""
    folders = [top for name in ("core", "plugins*", "testing", "benchmarks", "tests") for top in ROOT.glob(name)]
    own = []
    for path in (path for folder in folders for path in folder.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        for found in ast.walk(ast.parse(text)) if "drift" in text and "norm" in text else ():
            if isinstance(found, ast.FunctionDef) and "drift" in found.name and not found.name.startswith("test_"):
                words = {one.attr for one in ast.walk(found) if isinstance(one, ast.Attribute)}
                own += [f"{path.relative_to(ROOT)}: {found.name}"] if "norm" in words else []
    assert own == []
