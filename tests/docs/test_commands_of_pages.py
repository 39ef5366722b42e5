"""Every ``optim`` command that a page shows is one that the command line takes."""

from __future__ import annotations

import copy
import re
import shlex
from pathlib import Path

import click
import pytest

from optim._engine.cli.main import optim

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("docs/**/*.md")), *sorted(ROOT.glob("*/README.md"))]
LINE = re.compile(r"^(?:    |\$ |- run: )(optim (?:\\\n|[^\n\\])*)$", re.MULTILINE)
GENERATED = {"errors.md", "reference.md"}


def commands(text: str) -> list[str]:
    """The commands of a page, each without its comment and what it is piped to; ``COMMAND`` stands for any."""
    found = [line.replace("\\\n", " ") for line in LINE.findall(text)]
    return [re.split(r" +#| \| | >+ |; | && ", line)[0].strip() for line in found if "optim COMMAND" not in line]


def parse(line: str) -> None:
    """Parse a command down to its options, without running it or looking for its files."""
    words = shlex.split(line)[1:]
    command: click.Command = optim
    context = click.Context(optim, info_name="optim")
    while isinstance(command, click.Group):
        options = [word for word in words if word.startswith("-")]
        if words and words[0] in options:
            command.make_context("optim", words)
            return
        name, *words = words
        found = command.get_command(context, name)
        assert found is not None, f"there is no command {name}"
        command, context = found, click.Context(found, parent=context, info_name=name)
    command = copy.copy(command)
    command.params = [copy.copy(parameter) for parameter in command.params]
    for parameter in command.params:
        if isinstance(parameter.type, click.Path):
            parameter.type = click.Path(path_type=Path)
    command.make_context(context.info_name, words, parent=context.parent)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_command_of_a_page_is_taken(page: Path) -> None:
    wrong = []
    for line in commands(page.read_text(encoding="utf-8")) if page.name not in GENERATED else ():
        try:
            parse(line)
        except (click.ClickException, AssertionError, ValueError) as error:
            wrong.append(f"{line}: {getattr(error, 'message', error)}")
    assert wrong == []


def test_a_command_with_an_unknown_option_is_found() -> None:
    assert commands("    optim run a.onnx --fast   # quick\n$ optim verify a b | cat\n") == [
        "optim run a.onnx --fast",
        "optim verify a b",
    ]
    parse("optim run a.onnx -o out")
    with pytest.raises(click.NoSuchOption):
        parse("optim run a.onnx --fast")
    with pytest.raises(AssertionError):
        parse("optim walk a.onnx")
