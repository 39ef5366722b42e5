from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from optim._engine.cli.main import optim
from optim.errors import ExitStatus

PAGE = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text(encoding="utf-8")
EVERYWHERE = {"--help", "-h"}


def commands(group: click.Group = optim, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))


COMMANDS = dict(commands())


def options(path: tuple[str, ...]) -> set[str]:
    found = {text for parameter in COMMANDS[path].params for text in parameter.opts if text.startswith("-")}
    return found - EVERYWHERE


def section(path: tuple[str, ...]) -> str:
    """What the page says below the heading of a command."""
    parts = re.split(r"^## ", PAGE, flags=re.MULTILINE)
    return next((part for part in parts if f"optim {' '.join(path)}" in part.partition("\n")[0]), "")


@pytest.mark.parametrize("path", [p for p, c in COMMANDS.items() if not isinstance(c, click.Group)], ids=" ".join)
def test_a_command_and_its_options_are_on_the_page(path: tuple[str, ...]) -> None:
    text = section(path)
    assert text, f"no heading for optim {' '.join(path)}"
    assert [option for option in sorted(options(path)) if not re.search(rf"{option}\b", text)] == []


def test_the_page_names_no_option_that_does_not_exist() -> None:
    known = set().union(*(options(path) for path in COMMANDS)) | {"--version", "--plugins", "--debug", "--help"}
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", PAGE)) - known == set()


def test_defaults_on_the_page_are_those_of_the_code() -> None:
    from optim._engine.search.run_time import LEAST_S, MOST_S
    from optim._engine.search.settings import DEFAULT_MAX_DRIFT, DEFAULT_TIMEOUT_S

    assert f"[in drift](what-drift-means.md); default {DEFAULT_MAX_DRIFT}" in PAGE
    assert f"`auto`, the default, announces {LEAST_S:.0f} to {MOST_S:.0f}" in PAGE
    assert f"candidate, default {DEFAULT_TIMEOUT_S:.0f}" in PAGE


def test_every_exit_status_is_on_the_page() -> None:
    table = PAGE.partition("## Exit status")[2]
    assert [int(value) for value in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)] == [s.value for s in ExitStatus]
