from __future__ import annotations

import ast
import json
import re
import tomllib
from pathlib import Path
from types import ModuleType

import pytest
from page_scripts import script_of

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    return script_of("make_errors")


@pytest.mark.slow
def test_what_a_wheel_has_of_the_page_is_what_the_source_says(script: ModuleType) -> None:
    assert script.LISTING.read_text(encoding="utf-8") == script.listing(ROOT), "make it again: docs/make_errors.py"


def test_every_reference_is_kebab_case_and_stands_once(made_pages: dict[str, str]) -> None:
    references = re.findall(r"^### (.*)$", made_pages["errors.md"], re.MULTILINE)
    assert len(references) > 300
    assert [name for name in references if not re.fullmatch(r"[a-z]+(-[a-z0-9]+)*", name)] == []
    assert len(references) == len(set(references))


def test_every_error_has_a_fix_that_can_be_read_before_it_happens(script: ModuleType) -> None:
    known = json.loads(script.LISTING.read_text(encoding="utf-8"))
    assert [name for name, one in known.items() if not one["fix"] and not any(c["fix"] for c in one["cases"])] == []
    assert "the message says" not in script.LISTING.read_text(encoding="utf-8")
    assert all(known[name]["why"] for name in ("budget-missed", "failed", "pass-broke"))


def test_an_error_whose_fixes_are_all_computed_needs_advice(script: ModuleType) -> None:
    groups = {"The model": {name: script.Entry([("it broke", "")]) for name in (*tomllib_of(script), "too-new")}}
    with pytest.raises(script.UnadvisedError, match="every fix of too-new is computed"):
        script.advised(groups)


def test_advice_of_an_error_that_is_gone_is_refused(script: ModuleType) -> None:
    with pytest.raises(script.UnadvisedError, match="errors that nobody makes"):
        script.advised({"The model": {}})


def tomllib_of(script: ModuleType) -> dict[str, object]:
    return tomllib.loads(script.ADVICE.read_text(encoding="utf-8"))


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
    assert found == {"too-wide": script.Entry([("… is too wide", "make it narrower")], {2})}


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
