"""The pages of public modules have every member of every public class as it lives."""

from __future__ import annotations

import importlib
import inspect
import re
from dataclasses import fields, is_dataclass
from enum import Enum

import pytest
from page_scripts import script_of

import optim

SCRIPT = script_of("make_reference")


def handed_on(module: str) -> list[str]:
    """The names of a package; none of a module that is a file."""
    return importlib.import_module(f"optim.{module}").__all__ if SCRIPT.handed_on(module) else []


def classes_of(module: str) -> list[type]:
    """The classes of a package, or of the file itself."""
    home = importlib.import_module(f"optim.{module}")
    found = [getattr(home, name) for name in handed_on(module)] or [
        one for one in vars(home).values() if getattr(one, "__module__", "") == home.__name__
    ]
    return [one for one in found if inspect.isclass(one) and not one.__name__.startswith("_")]


CLASSES = [(name, kind) for name in SCRIPT.MODULES for kind in classes_of(name)]


def section(module: str) -> str:
    found: str = SCRIPT.page(module)
    return found


def members(kind: type) -> set[str]:
    """What belongs to a class itself and has no underscore."""
    if issubclass(kind, Enum):
        return {member.name for member in kind}
    found = set(vars(kind)) | set(inspect.get_annotations(kind))
    if is_dataclass(kind):
        found |= {one.name for one in fields(kind)} & found
    return {name for name in found if not name.startswith(("_", "test_", "model_", "pytestmark"))}


def test_the_list_leads_to_a_page_of_each_module() -> None:
    pages = SCRIPT.pages()
    listed = re.findall(r"^\| \[optim\.[\w.]+\]\((.*?)\)", pages["reference.md"], re.MULTILINE)
    assert listed == [f"api/{module}.md" for module in SCRIPT.MODULES]
    assert set(pages) == {"reference.md", *listed}


@pytest.mark.parametrize(("module", "kind"), CLASSES, ids=[f"{name}.{kind.__name__}" for name, kind in CLASSES])
def test_every_member_of_a_public_class_is_there_with_what_it_is(module: str, kind: type) -> None:
    text = section(module).split(f"## {kind.__name__}\n")[1].split("\n## ")[0]
    told = dict(re.findall(r"^- `(\w+)[^`]*`(.*(?:\n  .+)?)", text, re.MULTILINE))
    assert members(kind) - set(told) == set()
    bare = [name for name, words in told.items() if not words.strip()]
    assert issubclass(kind, Enum) or bare == []


@pytest.mark.parametrize("module", [name for name in SCRIPT.MODULES if handed_on(name)])
def test_every_name_of_a_package_is_there(module: str) -> None:
    told = set(re.findall(r"^(?:## |`)(\w+)", section(module), re.MULTILINE))
    assert set(handed_on(module)) - told == set()


def test_every_contract_that_optim_hands_on_is_there() -> None:
    homes = {f"optim.{name}" for name in SCRIPT.MODULES}
    handed = {name: getattr(optim, name) for name in optim.__all__}
    classes = {name for name, one in handed.items() if inspect.isclass(one) and one.__module__ in homes}
    assert {"Pass", "Backend", "Session", "Target", "Metric", "OptimError"} <= classes
    assert classes <= set(re.findall(r"^## (\w+)$", "\n".join(SCRIPT.pages().values()), re.MULTILINE))


def test_a_docstring_falls_into_its_parts() -> None:
    found = SCRIPT.words_of("One.\n\nTwo.\n\nArgs:\n    a: first\n        goes on.\n\nReturns:\n    Something.\n")
    assert found.text == "One.\n\nTwo."
    assert found.items == {"Args": {"a": "first goes on."}, "Returns": {"": "Something."}}
