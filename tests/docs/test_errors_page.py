from __future__ import annotations

import ast
import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "errors.md"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_errors", ROOT / "docs" / "make_errors.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_the_page_is_what_the_source_says(script: ModuleType) -> None:
    assert PAGE.read_text(encoding="utf-8") == script.page(ROOT), "make it again: python docs/make_errors.py"


@pytest.mark.slow
def test_what_a_wheel_has_of_the_page_is_what_the_source_says(script: ModuleType) -> None:
    assert script.LISTING.read_text(encoding="utf-8") == script.listing(ROOT), "make it again: docs/make_errors.py"


def test_every_reference_is_kebab_case_and_stands_once() -> None:
    references = re.findall(r"^\| `(.*?)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(references) > 60
    assert [name for name in references if not re.fullmatch(r"[a-z]+(-[a-z0-9]+)*", name)] == []
    assert len(references) == len(set(references))


@pytest.mark.slow
def test_every_error_says_why_and_what_to_do(script: ModuleType) -> None:
    lacking = []
    sources = {path: path.read_text(encoding="utf-8") for root in ROOT.glob("*/src") for path in root.rglob("*.py")}
    makers = {
        path: text for path, text in sorted(sources.items()) if "OptimError(" in text or "OptimError.usage(" in text
    }
    assert len(makers) > 200
    for file, text in makers.items():
        for call in ast.walk(ast.parse(text)):
            made = isinstance(call, ast.Call) and script.called(call) in ("OptimError", "OptimError.usage")
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


def test_a_new_error_changes_the_page(script: ModuleType) -> None:
    source = 'raise OptimError.usage("too-wide", f"{name} is too wide", "", "make it narrower")'
    found = script.read(ast.parse(source), "graphs/width.py")
    assert found == {"too-wide": script.Entry(["… is too wide"], ["make it narrower"], {2})}


def test_both_references_of_a_choice_are_found(script: ModuleType) -> None:
    source = 'raise OptimError("too-new" if newer else "too-old", "no")'
    assert sorted(script.read(ast.parse(source), "graphs/age.py")) == ["too-new", "too-old"]


def test_an_error_of_a_subclass_is_found(script: ModuleType) -> None:
    source = 'class WideError(OptimError):\n    pass\n\nraise WideError("too-wide", "no")'
    assert list(script.read(ast.parse(source), "graphs/width.py")) == ["too-wide"]


@pytest.mark.parametrize("source", ['OptimError(name, "no")', 'OptimError("too-wide", "no", status=status)'])
def test_what_cannot_be_read_from_the_source_must_be_listed(script: ModuleType, source: str) -> None:
    with pytest.raises(script.UnlistedReferenceError, match="COMPUTED"):
        script.read(ast.parse(source), "graphs/width.py")
