"""Every command line of optim on every page and in the README has a verb and options that exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from optim._engine.cli.main import optim

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def commands(text: str) -> list[str]:
    """The command lines in indented and fenced blocks of a page, without their comments."""
    found, fenced = [], False
    for line in text.splitlines():
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif said := re.match(r"(?:\$ )?(optim [a-z].*)", line.strip() if fenced or line.startswith("    ") else ""):
            found.append(re.split(r"\s#|\s\||\s&&|;|\s2?>", said[1])[0].strip())
    return found


def unknown(line: str) -> list[str]:
    """Verbs and options of a command line that optim does not have."""
    words = shlex.split(line)[1:]
    command: click.Command = optim
    context = click.Context(optim, info_name="optim")
    known = {option for parameter in command.params for option in parameter.opts}
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        name = words.pop(0)
        found = command.get_command(context, name)
        if found is None:
            return [name]
        command, context = found, click.Context(found, parent=context)
        known |= {option for parameter in command.params for option in parameter.opts} | {"--help", "-h"}
    return [word for word in words if re.fullmatch(r"--?[a-z][a-z-]*", word) and word not in known]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_and_option_exists(page: Path) -> None:
    wrong = {line: unknown(line) for line in commands(page.read_text(encoding="utf-8"))}
    assert {line: found for line, found in wrong.items() if found} == {}


def test_commands_are_found_and_wrong_ones_too() -> None:
    text = "    $ optim run a --max-dirft 1  # x\n\n```console\noptim rum x\n```\noptim is.\n    optim passes list\n"
    assert [unknown(line) for line in commands(text)] == [["--max-dirft"], ["rum"], []]
    assert sum(len(commands(page.read_text(encoding="utf-8"))) for page in PAGES) > 50
