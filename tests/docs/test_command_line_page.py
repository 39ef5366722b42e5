"""The page of commands has every command and option, the page of configuration every variable and key."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest

from optim._engine.cli.main import optim
from optim._engine.plugins import registry

ROOT = Path(__file__).parents[2]


def commands(group: click.Group = optim, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from commands(command, (*path, name))


with pytest.MonkeyPatch.context() as patch:  # each process that collects tests loads all plugins here, and once
    patch.setattr(registry, "load_registry", cache(registry.load_registry))
    COMMANDS = {path: command for path, command in commands() if not isinstance(command, click.Group)}


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_a_command_and_its_options_are_on_the_page(path: tuple[str, ...], made_pages: dict[str, str]) -> None:
    parts = re.split(r"^## ", made_pages["command-line.md"], flags=re.MULTILINE)
    (text,) = [part for part in parts if part.startswith(f"optim {' '.join(path)}\n")]
    for parameter in COMMANDS[path].params:
        if isinstance(parameter, click.Option):
            shown = all(re.search(rf"{option}\b", text) for option in parameter.opts)
            assert shown != parameter.hidden, parameter.name


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_every_option_has_a_help_that_is_a_sentence(path: tuple[str, ...]) -> None:
    for parameter in COMMANDS[path].params:
        if isinstance(parameter, click.Option):
            assert re.match(r"[A-Z0-9].*|[a-z]+: ", parameter.help or ""), parameter.name


def test_help_of_run_shows_ten_options_before_the_first_heading() -> None:
    command = COMMANDS["run",]
    text = command.get_help(click.Context(command, info_name="optim run", max_content_width=100))
    first = text.partition("Options:\n")[2].partition("\nGoal:\n")[0]
    assert len(re.findall(r"^  -", first, re.MULTILINE)) == 10


def test_examples_of_commands_can_be_read(made_pages: dict[str, str]) -> None:
    examples = [line for _, command in commands() for line in getattr(command, "examples", ())]
    assert len(examples) > 15
    assert [line for line in examples if f"    {line}\n" not in made_pages["command-line.md"] + "\n"] == []


def test_an_example_of_a_pass_names_options_that_it_has(made_pages: dict[str, str]) -> None:
    pages = {place: text for place, text in made_pages.items() if place.startswith("passes/")}
    named = {
        place: set(re.findall(r"[:,](\w+)=", re.sub(r"\{.*?\}", "", example[1])))
        for place, text in pages.items()
        if (example := re.search(r'--with "([^"]+)"', text))
    }
    assert len(named) > 1
    assert {
        place: some
        for place, names in named.items()
        if (some := [n for n in names if f"| `{n}` |" not in pages[place]])
    } == {}


def test_every_variable_that_a_user_may_set_is_on_the_page(made_pages: dict[str, str]) -> None:
    internal = {"OPTIM_HOOK_API", "OPTIM_COMPLETE", "OPTIM_ISOLATED", "OPTIM_ISOLATION_FOLDER", "OPTIM_WORKER"}
    sources = (path.read_text(encoding="utf-8") for root in ROOT.glob("*/src") for path in root.rglob("*.py"))
    named = {name for text in sources for name in re.findall(r"\bOPTIM_[A-Z_]*[A-Z]\b", text)}
    assert named - internal == set(re.findall(r"^\| `(OPTIM_\w+)`", made_pages["configuration.md"], re.MULTILINE))


def test_every_key_and_status_on_the_page_has_a_meaning(made_pages: dict[str, str]) -> None:
    rows = re.findall(r"^\| (\S+) \| *(.*?) *\|$", made_pages["configuration.md"], re.MULTILINE)
    assert {"`budget.max_drift`", "`result.model_digest`", "130"} <= {key for key, _ in rows}
    assert [key for key, meaning in rows if not meaning] == []


def test_defaults_that_a_help_names_are_those_of_the_code(made_pages: dict[str, str]) -> None:
    from optim._engine.search.deadline import MOST_S
    from optim._engine.search.settings import DEFAULT_MAX_DRIFT, DEFAULT_TIMEOUT_S, PRESETS

    text = made_pages["command-line.md"]
    assert f"largest drift of any output. [default: {DEFAULT_MAX_DRIFT}]" in text
    assert f"quick: about 30 s. default: what the model needs, up to {1.2 * MOST_S:.0f} s." in text
    assert list(PRESETS) == ["quick", "default", "best"] and (PRESETS["quick"], PRESETS["best"]) == (30, 30 * 60)
    assert f"for one candidate, in seconds. [default: {DEFAULT_TIMEOUT_S:.0f}]" in text
