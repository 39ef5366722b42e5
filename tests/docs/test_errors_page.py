from __future__ import annotations

import ast
import re
from pathlib import Path
from types import ModuleType

import pytest
from page_scripts import script_of

from optim._engine.cli.error_catalogue import (
    ADVICE_FILE,
    PARTS,
    ErrorEntry,
    advice_of,
    called,
    catalogue,
    installed_packages,
    read_errors,
)

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return script_of("make_errors")


@pytest.fixture(scope="module")
def known(script: ModuleType) -> dict[str, ErrorEntry]:
    found: dict[str, ErrorEntry] = script.errors()
    return found


def test_every_reference_is_kebab_case_and_stands_once(made_pages: dict[str, str]) -> None:
    references = re.findall(r"^### (.*)$", made_pages["errors.md"], re.MULTILINE)
    assert len(references) > 300
    assert [name for name in references if not re.fullmatch(r"[a-z]+(-[a-z0-9]+)*", name)] == []
    assert len(references) == len(set(references))


def test_the_page_has_the_errors_of_every_package_of_the_repository(script: ModuleType) -> None:
    folders = {path.parent for path in ROOT.glob("*/src/*/py.typed")}
    assert len(folders) > 6
    assert set(script.PACKAGES.values()) == folders


def test_what_is_installed_is_found_by_its_plugins() -> None:
    assert {"optim", "optim_plugins", "optim_testing"} <= installed_packages().keys()


def test_the_places_of_a_part_are_there() -> None:
    core, kit = ROOT / "core" / "src" / "optim", ROOT / "testing" / "src" / "optim_testing"
    homes = {place: [core / place, core / "_engine" / place] for places in PARTS.values() for place in places}
    homes["testing"] = [kit]
    homes["testing/scaffold"] = [kit / "scaffold"]
    assert [place for place, paths in homes.items() if not any(path.exists() for path in paths)] == []


def test_every_error_has_a_fix_that_can_be_read_before_it_happens(known: dict[str, ErrorEntry]) -> None:
    assert [name for name, one in known.items() if not one.fix and not any(fix for _, fix in one.shown())] == []
    assert all(known[name].why for name in ("budget-missed", "failed", "pass-broke"))


def test_advice_is_of_an_error_of_its_package(script: ModuleType) -> None:
    advised = {name: advice_of(folder) for name, folder in script.PACKAGES.items()}
    assert sum(map(len, advised.values())) > 30
    for name, advice in advised.items():
        assert advice.keys() <= catalogue({name: script.PACKAGES[name]}).keys()


def test_a_computed_reference_says_what_it_can_be(script: ModuleType) -> None:
    """Where it does not, the error was made elsewhere, and is only passed on."""
    makers = {
        path.relative_to(folder).as_posix()
        for folder in script.PACKAGES.values()
        for path in folder.rglob("*.py")
        if any(not reference for reference, *_ in read_errors(path.read_text(encoding="utf-8")))
    }
    assert makers == {"_engine/search/measure/racing.py", "cluster/order.py", "errors.py", "jobs/process.py"}


def test_errors_of_a_third_party_are_found_with_its_advice(tmp_path: Path) -> None:
    (tmp_path / "passes.py").write_text('raise OptimError("acme-lost", f"{name} is lost", "why", fix_of(name))\n')
    (tmp_path / "broken.py").write_text("OptimError(\n")
    (tmp_path / ADVICE_FILE).write_text('[acme-lost]\nfix = "Look for it."\n')
    found = catalogue({"acme": tmp_path})
    assert found == {"acme-lost": ErrorEntry("Plugin acme", [("… is lost", "")], {3}, fix="Look for it.")}
    assert found["acme-lost"].shown() == [("… is lost", "")]
    assert catalogue({"acme": tmp_path}, "acme-lost") == found
    assert catalogue({"acme": tmp_path}, "acme-found") == {}


@pytest.mark.slow
def test_every_error_says_why_and_what_to_do() -> None:
    lacking = []
    sources = {path: path.read_text(encoding="utf-8") for root in ROOT.glob("*/src") for path in root.rglob("*.py")}
    makers = {
        path: text for path, text in sorted(sources.items()) if "OptimError(" in text or "OptimError.usage(" in text
    }
    assert len(makers) > 200
    for file, text in makers.items():
        for call in ast.walk(ast.parse(text)):
            made = isinstance(call, ast.Call) and called(call) in ("OptimError", "OptimError.usage")
            if made and not _spread(call):
                given = dict(zip(("reference", "what", "cause", "fix"), call.args, strict=False))
                given |= {keyword.arg: keyword.value for keyword in call.keywords}
                silent = [name for name in ("cause", "fix") if _is_empty(given.get(name))]
                lacking += [f"{file.relative_to(ROOT)}:{call.lineno} has no {name}" for name in silent]
    assert lacking == []


def _spread(call: ast.Call) -> bool:
    return any(keyword.arg is None for keyword in call.keywords) or any(isinstance(a, ast.Starred) for a in call.args)


def _is_empty(value: ast.expr | None) -> bool:
    return value is None or (isinstance(value, ast.Constant) and not value.value)


def test_an_error_is_read_with_its_message_its_fix_and_its_status() -> None:
    source = 'raise OptimError.usage("too-wide", f"{name} is too wide", "", "make it narrower")'
    assert list(read_errors(source)) == [("too-wide", "… is too wide", "make it narrower", 2)]


@pytest.mark.parametrize(
    ("source", "references"),
    [
        ('raise OptimError("too-new" if newer else "too-old", "no")', ["too-new", "too-old"]),
        ('class WideError(OptimError):\n    pass\n\nraise WideError("too-wide", "no")', ["too-wide"]),
        ('raise OptimError(\n    name,  # errors: too-old, too-new\n    "no",\n)', ["too-old", "too-new"]),
        ('raise unknown_name("target setting", name, ())', ["unknown-target-setting"]),
        ('raise OptimError(name, "no")', [""]),
    ],
)
def test_every_way_to_write_a_reference_is_found(source: str, references: list[str]) -> None:
    assert [reference for reference, *_ in read_errors(source)] == references
