"""README's commands are those that ``docs/make_readme_run.py`` types, and docs/readme-run.md shows what was seen."""

from __future__ import annotations

import importlib.util
import re
import shlex
import sys
from pathlib import Path
from types import ModuleType

import click
import pytest

from optim._engine.cli.main import optim

DOCS = Path(__file__).parents[2] / "docs"
README = (DOCS.parent / "README.md").read_text(encoding="utf-8")
PAGE = (DOCS / "readme-run.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_readme_run", DOCS / "make_readme_run.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_every_command_of_the_readme_is_typed_or_left_out_with_a_reason(script: ModuleType) -> None:
    texts = [command.text for command in script.commands(README)]
    assert len(texts) > 20
    assert all(word in "\n".join(texts) for word in ("pip install", "optim run", "optim.load", "optim bench"))
    assert set(script.NOT_TYPED) <= set(texts), "NOT_TYPED names what README does not say"
    lines = re.findall(r"^    ((?:make|pip|optim|python) .*)$", README, re.MULTILINE)
    assert [line for line in lines if not any(line.startswith(text) for text in texts)] == []


def test_the_page_shows_every_command_of_the_readme(script: ModuleType) -> None:
    shown = re.sub(r" --search-seconds \d+", "", PAGE)
    missing = [
        command.text
        for command in script.commands(README)
        if not command.is_python and f"$ {command.text}\n" not in shown and f"`{command.text}` was not" not in shown
    ]
    assert missing == [], "make it again: python docs/make_readme_run.py"
    assert not re.search(r"error\[(?!failed|no-points)", PAGE)
    assert "\x1b" not in PAGE
    assert not re.search(r"/(tmp|root|home|opt)/", PAGE), "the page names folders of the machine that made it"


def test_options_of_the_readme_are_such_that_there_are(script: ModuleType) -> None:
    for command in script.commands(README):
        if command.text.startswith("optim ") and "prepost" not in command.text:
            _, verb, *words = shlex.split(command.text)
            optim.get_command(click.Context(optim), verb).make_context(verb, words)


def test_comments_are_no_part_of_a_command_and_runs_may_be_given_their_seconds(script: ModuleType) -> None:
    made = script.commands("    optim run a.onnx -o b   # fast\n    improved 2.8 times\n\n```python\nx = 1\n```\n")
    assert [command.text for command in made] == ["optim run a.onnx -o b", "x = 1"]
    assert script.with_seconds("optim run a.onnx", 5.0) == "optim run a.onnx --search-seconds 5"
    assert script.with_seconds("optim bench a.onnx", 5.0) == "optim bench a.onnx"
