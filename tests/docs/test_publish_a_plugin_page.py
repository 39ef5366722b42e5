"""docs/publish-a-plugin.md and the contracts in docs/hooks.md against the code.

Names on the pages exist, and the tables are complete.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

import optim_testing
from optim import Pass, Stage
from optim._engine.cli.main import optim
from optim_testing import PassConformance, models
from optim_testing.scaffold.package import STAGES, write_package

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "publish-a-plugin.md").read_text(encoding="utf-8")
CONTRACTS = (DOCS / "hooks.md").read_text(encoding="utf-8")
LINES = re.findall(r"^    (?:\$ )?(optim .+)$", PAGE, re.MULTILINE)
BASIC = {"name", "summary"}


def contract(heading: str) -> str:
    return CONTRACTS.split(f"## {heading}\n")[1].split("\n## ")[0]


def first_column(text: str) -> list[str]:
    """The code words in the first column of the tables of a section."""
    return [word for row in re.findall(r"^\| (`.*?) \|", text, re.MULTILINE) for word in re.findall(r"`([\w-]+)", row)]


def test_the_tables_have_every_attribute_and_method_of_a_pass() -> None:
    public = {name for name in vars(Pass) if not name.startswith("_")} | set(Pass.__annotations__)
    section = contract("A pass")
    assert set(first_column(section)) == public - BASIC - {"keepable", "refinable"}
    assert "`keepable`" in section
    assert "`refinable`" in section


def test_the_page_has_commands() -> None:
    assert len(LINES) >= 5


@pytest.mark.parametrize("line", LINES)
def test_every_command_and_option_of_the_page_exists(line: str) -> None:
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


def test_the_samples_are_parts_of_the_package_that_optim_writes(tmp_path: Path) -> None:
    write_package("my-vendor", tmp_path / "package", [Stage.FUSE, Stage.QUANTIZE])
    write_package("my-vendor", tmp_path / "rule", [Stage.FUSE], rule=True)
    written = "\n".join(path.read_text(encoding="utf-8") for path in tmp_path.rglob("*.py"))
    samples = re.findall(r"```python\n(.*?)\n```", PAGE, re.DOTALL)
    assert len(samples) == 3
    assert [sample for sample in samples if sample not in written] == []
    files = re.findall(r"`([\w/]+\.py)`", PAGE.split("| file |")[1].split("\n\n")[0])
    assert len(files) == 5
    assert [name for name in files if not list((tmp_path / "package").rglob(name.rpartition("/")[2]))] == []


def test_the_contracts_name_every_model_of_the_kit() -> None:
    made = {name for name, value in vars(models).items() if getattr(value, "__module__", "") == models.__name__}
    public = {name for name in made if not name.startswith("_")}
    said = contract("Conformance kits").split("has tiny real models:")[1].split(".")[0]
    assert set(re.findall(r"`(\w+)`", said)) == public


KITS = [name for name in optim_testing.__all__ if name.endswith("Conformance") and name != "StageConformance"]


@pytest.mark.parametrize("name", KITS)
def test_the_contracts_name_the_fixtures_of_every_kit_and_what_it_may_say(name: str) -> None:
    kit = getattr(optim_testing, name)
    said = {one for one in dir(kit) if not one.startswith(("_", "test_"))}
    said = said.union(*(getattr(one, "__annotations__", {}) for one in kit.__mro__))
    (row,) = re.findall(rf"^\| `{name}` \|(.*)$", CONTRACTS, re.MULTILINE)
    derived = {"model", "session", "metric", "command", "source_context", "apply", "export"}
    derived |= {"offered", "stage"} if issubclass(kit, optim_testing.StageConformance) else set()
    if kit is PassConformance:
        derived = {"trial", "fresh_trial", "shared", "chosen", "result", "offered"}
    assert set(re.findall(r"`(\w+)`", row)) - {"MetricSample"} == said - derived
