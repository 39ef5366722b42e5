from __future__ import annotations

import json
import re

import click
import pytest

from optim._engine.cli.commands import GROUPS
from optim._engine.cli.main import main, optim
from optim.errors import ExitStatus, unknown_name
from optim.hooks import OWN_COMMANDS, RESERVED_NAMES


def commands_of(group: click.Group, path: tuple[str, ...] = ()):
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from commands_of(command, (*path, name))


def shown(capsys, *arguments: str) -> str:
    assert main(["help", *arguments]) == ExitStatus.DELIVERED
    return capsys.readouterr().out


def test_an_error_is_explained_without_the_pages(capsys):
    text = shown(capsys, "errors/unknown-pass")
    assert "there is no pass" in text
    assert "2 (usage)" in text
    assert json.loads(shown(capsys, "errors/unknown-pass", "--json"))["status"] == [2]


def test_every_error_and_every_key_of_a_recipe_is_listed(capsys):
    assert "model-missing" in shown(capsys, "errors")
    keys = [row["key"] for row in json.loads(shown(capsys, "recipe", "--json"))]
    assert {"target", "[budget] max_drift", "[[passes]] name"} <= set(keys)


def test_without_a_topic_it_is_the_help_with_the_topics(capsys):
    text = shown(capsys)
    assert "Optimize:" in text
    assert "errors/NAME" in text


@pytest.mark.parametrize("words", [("run",), ("plugins", "install"), ("swap",)])
def test_the_help_of_a_command_is_that_of_the_command_itself(capsys, words):
    text = shown(capsys, *words)
    assert main([*words, "--help"]) == ExitStatus.DELIVERED
    assert text == capsys.readouterr().out


def test_every_command_of_our_own_stands_below_one_heading():
    named = [verb for verbs in GROUPS.values() for verb in verbs]
    standard = [verb for verb, owner in RESERVED_NAMES["command"].items() if owner in ("diagnose", "layouts")]
    assert sorted(named) == sorted([*OWN_COMMANDS, *standard])


def test_the_help_of_run_begins_with_ten_options(capsys):
    options = shown(capsys, "run").partition("\nOptions:\n")[2].partition("\n\n")[0]
    assert len(re.findall(r"^  (?:-\w, )?--", options, re.MULTILINE)) == 10


def test_every_option_with_a_heading_exists():
    for path, command in commands_of(optim):
        known = {name for parameter in command.params for name in parameter.opts} | {"--help"}
        named = {name for names in getattr(command, "sections", {}).values() for name in names}
        assert named - known == set(), path


@pytest.mark.parametrize(("topic", "near"), [("errors/unknown-pas", "unknown-pass"), ("recipes", "recipe")])
def test_an_unknown_topic_names_the_near_ones(capsys, topic, near):
    assert main(["help", topic]) == ExitStatus.USAGE
    assert near in capsys.readouterr().err


def test_a_name_like_no_other_is_answered_with_topics_and_a_dozen_of_many_names(capsys):
    assert main(["help", "qqq"]) == ExitStatus.USAGE
    assert "fix:   optim help\n" in capsys.readouterr().err
    many = [f"name-{number:02}" for number in range(15)]
    assert unknown_name("thing", "qqq", many).cause == f"known: {', '.join(many[:12])} and 3 others"


@pytest.mark.parametrize(
    ("words", "incomplete", "wanted"),
    [
        (["run", "m.onnx", "--metric"], "top", "top-1"),
        (["run", "m.onnx", "--pick"], "s", "smallest"),
        (["pick", "out"], "s", "smallest"),
        (["sensitivity", "m.onnx", "--as"], "int", "int8"),
        (["sensitivity", "m.onnx", "--as"], "ort.quantize-d", "ort.quantize-dynamic"),
    ],
)
def test_a_shell_completes_metrics_points_and_types(words, incomplete, wanted):
    from click.shell_completion import ShellComplete

    found = ShellComplete(optim, {}, "optim", "_OPTIM_COMPLETE").get_completions(words, incomplete)
    assert wanted in [item.value for item in found]
