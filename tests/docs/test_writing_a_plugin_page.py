"""docs/writing-a-plugin.md against the code: what it names exists, and what there is to know is named."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from optim import Pass, testing
from optim._engine.cli.main import optim
from optim._engine.scaffold.package import STAGES
from optim.testing import BackendConformance, PassConformance, models

PAGE = (Path(__file__).parents[2] / "docs" / "writing-a-plugin.md").read_text(encoding="utf-8")
LINES = re.findall(r"^    (optim .+)$", PAGE, re.MULTILINE)
BASIC = {"name", "summary"}


def table_after(heading: str) -> list[str]:
    """The code words in the first column of the tables below a heading."""
    below = PAGE.split(f"## {heading}")[1].split("\n## ")[0]
    return [word for row in re.findall(r"^\| (`.*?) \|", below, re.MULTILINE) for word in re.findall(r"`([\w-]+)", row)]


def test_the_table_has_every_attribute_and_method_of_a_pass() -> None:
    public = {name for name in vars(Pass) if not name.startswith("_")} | set(Pass.__annotations__)
    assert set(table_after("3. Your passes")) == public - BASIC - {"keepable", "refinable"}
    assert "`keepable`" in PAGE
    assert "`refinable`" in PAGE


@pytest.mark.parametrize("line", LINES)
def test_every_command_and_option_of_the_page_exists(line) -> None:
    words = shlex.split(line)[1:]
    command, context = optim, click.Context(optim, info_name="optim")
    while isinstance(command, click.Group):
        command = command.get_command(context, words.pop(0))
        assert command is not None
        context = click.Context(command, parent=context)
    known = {option for parameter in command.params for option in parameter.opts}
    assert [word for word in words if word.startswith("-") and word not in known] == []


def test_the_page_names_the_stages_that_a_new_plugin_can_start_with() -> None:
    said = PAGE.split("`--stage` chooses")[1].split(".")[0]
    assert re.findall(r"`([\w-]+)`", said) == [stage.value for stage in STAGES]


def test_the_page_names_everything_that_a_conformance_class_may_say() -> None:
    section = PAGE.split("## 4.")[1].split("\n## ")[0]
    attributes = {name for name in vars(PassConformance) if not name.startswith(("_", "test_"))}
    derived = {"trial", "fresh_trial", "shared", "chosen", "result"}
    named = set(re.findall(r"\b\w+\b", section))
    assert attributes - derived - named == set()


def test_every_promise_of_the_kit_is_on_the_page() -> None:
    section = " ".join(PAGE.split("## 4.")[1].split("\n## ")[0].split())
    promises = {
        "it_fires": "It fires;",
        "it_declines_with_a_reason": "declines with a reason;",
        "it_leaves_its_input_alone": "leaves its input alone;",
        "it_is_idempotent": "is idempotent;",
        "it_gives_the_same_twice": "gives the same twice;",
        "it_keeps_inputs_outputs_and_opset": "keeps inputs, outputs and opset;",
        "it_keeps_inputs_for_adapters": "keeps inputs for adapters;",
        "its_sizes_are_those_that_the_result_takes": "takes the sizes that `inputs_for` says;",
        "it_computes_the_same_within_the_tolerance": "computes the same within `max_drift`;",
        "its_options_are_documented": "has documented options;",
        "its_order_can_be_resolved": "can be ordered;",
        "what_it_can_keep_is_kept": "keeps what it says it can keep;",
        "a_kept_node_has_the_weights_that_it_had": "leaves a kept node the weights that it had, bit for bit,",
        "importing_it_loads_nothing_heavy": "loads nothing heavy when it is imported;",
        "it_works_in_a_process_of_its_own": "works in a process of its own.",
        "its_name_and_attributes_fit": "its name and attributes fit;",
        "its_candidates_are_its_options": "what it offers to try are options of its own;",
        "it_changes_session_settings_alone_if_it_says_so": "changes session settings alone if it says so;",
    }
    assert {name.removeprefix("test_") for name in dir(PassConformance) if name.startswith("test_")} == set(promises)
    assert [sentence for sentence in promises.values() if sentence not in section] == []


def test_every_promise_of_a_backend_is_on_the_page() -> None:
    section = PAGE.split("## 2.")[1].split("\n## ")[0]
    promises = {name.removeprefix("test_") for name in vars(BackendConformance) if name.startswith("test_")}
    assert set(re.findall(r"^\| `(\w+)` \|", section, re.MULTILINE)) >= promises


def test_the_page_names_every_model_of_the_kit() -> None:
    made = {name for name, value in vars(models).items() if getattr(value, "__module__", "") == models.__name__}
    public = {name for name in made if not name.startswith("_")}
    assert set(re.findall(r"`(\w+)`", PAGE.split("has tiny real models:")[1].split(".")[0])) == public


@pytest.mark.parametrize("name", [name for name in testing.__all__ if name.endswith("Conformance")])
def test_the_page_names_the_fixtures_of_every_kit_and_what_it_may_say(name) -> None:
    kit = getattr(testing, name)
    if name in ("PassConformance", "StageConformance"):
        return  # the first has its own section, and the second is only what others derive from
    said = {one for one in dir(kit) if not one.startswith(("_", "test_"))}
    said = said.union(*(getattr(one, "__annotations__", {}) for one in kit.__mro__))
    (row,) = re.findall(rf"^\| `{name}` \|(.*)$", PAGE, re.MULTILINE)
    derived = {"model", "session", "metric", "command", "source_context", "apply", "export"}
    derived |= {"offered", "stage"} if issubclass(kit, testing.StageConformance) else set()
    assert set(re.findall(r"`(\w+)`", row)) - {"MetricSample"} == said - derived
