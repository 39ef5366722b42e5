"""docs/first-hour.md has the steps of the script that makes it, and what the script keeps of a terminal."""

from __future__ import annotations

import importlib.util
import re
import shlex
from pathlib import Path
from types import ModuleType

import click
import pytest

from optim._engine.cli.main import optim

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "first-hour.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("make_first_hour", DOCS / "make_first_hour.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_has_every_step_and_what_came_of_it(script: ModuleType) -> None:
    shown = re.findall(r"^## (.*)\n\n```text\n\$ (.*)\n(.+\n(?:.*\n)*?)```$", PAGE, re.MULTILINE)
    assert [(title, command) for title, command, _ in shown] == list(script.STEPS)
    assert "internal" not in PAGE
    assert "\x1b" not in PAGE


def test_the_commands_are_such_that_there_are(script: ModuleType) -> None:
    for _, command in script.STEPS:
        _, verb, *words = shlex.split(command.partition(" | ")[0])
        found = optim.get_command(click.Context(optim), verb)
        found.make_context(verb, words)  # raises where an option is not there


def test_live_lines_that_are_erased_are_not_on_the_page(script: ModuleType) -> None:
    assert script._screen("one\r\n0:01 trying\n  9 s left\r\x1b[2K\x1b[1A\x1b[2K\x1b[1mtwo\x1b[0m\r\nthree") == (
        "one\ntwo\nthree"
    )
    assert script.shown("echo seen") == "seen"


def test_every_picture_that_a_page_shows_is_there_and_small() -> None:
    pages = [*DOCS.glob("*.md"), DOCS.parent / "README.md"]
    shown = {
        page.parent / place for page in pages for place in re.findall(r"!\[[^]]+\]\(([^)]+)\)", page.read_text("utf-8"))
    }
    assert {"report.png", "report-400.png"} <= {path.name for path in shown}
    for path in shown:
        assert path.stat().st_size < 200_000
        assert path.suffix != ".png" or path.read_bytes().startswith(b"\x89PNG")


def test_what_no_terminal_watches_is_neither_wrapped_nor_padded() -> None:
    piped = PAGE.partition("| cat\n")[2].partition("```")[0]
    assert "output\tshape\tdrift" in piped
    assert "  " not in piped
