from __future__ import annotations

import json
import re
from typing import Annotated, Any, Literal

import pytest
from plugin_packages import GOOD, site

from optim._engine.cli.described_options import _type_text
from optim._engine.cli.main import main
from optim._engine.recipes.lock import (
    Lock,
    LockedFeeds,
    LockedPass,
    LockedResult,
    LockedSource,
    LockedTarget,
    header,
    write_lock,
)
from optim._engine.recipes.recipe import BudgetTable

__all__ = ["site"]

FULL = """
from typing import Literal
from pydantic import Field
from optim import APPLICABLE, Backend, Metric, Pass, PassOptions, PassResult, Role, SourcePass, SourceResult, Stage
from optim import Target, hookimpl

OPTIM_HOOK_API = 1

class Options(PassOptions):
    bits: int = Field(8, ge=2, le=16, description="width of\\n a weight, in bits")
    mode: Literal["fast", "exact"] = Field("fast", description="which")
    keep: tuple[str, ...] = Field((), description="nodes left in float")
    place: str = Field(description="must be given")

class Cut(Pass):
    name, summary = "{plugin}.cut", "Cuts [red]numbers[/red]."
    options, role, lossy, alternatives, hardware = "{module}:Options", Role.REQUESTED, True, "cutting", "sharp"
    before, after = ("{plugin}.zip", "ghost.pass"), ("other:*",)
    def applicable(self, model, target): return APPLICABLE
    def apply(self, model, options, context): return PassResult(model, False, ("no",))

class Zip(Cut):
    name, before, options = "{plugin}.zip", (), "{module}:Missing"

class Fix(SourcePass):
    name, summary = "{plugin}.fix", "Repairs the source."
    def applicable(self, source, target): return APPLICABLE
    def apply(self, source, options, context): return SourceResult(source, False, ("no",))

@hookimpl
def optim_quantize(target): return [Zip, Cut]

@hookimpl
def optim_pre_export(target): return [Fix] if target.name == "here" else []

@hookimpl
def optim_fuse(target): raise RuntimeError("no fusing [here]")

@hookimpl
def optim_targets():
    return [Target("here", "b", "AcmeProvider", device="Acme 9", timed=False, requires=("{plugin}.cut",)),
            Target("there", "b", runtime="there", probe=lambda: "no /dev/there")]
"""


@pytest.fixture
def optim(capsys):
    """Runs the command line here; what it printed."""

    def run(*arguments: str, status: int = 0) -> str:
        assert main(list(arguments)) == status
        return capsys.readouterr().out

    return run


def of(found, name):
    (one,) = [one for one in found if one["name"] == name]
    return one


def test_plugins_list_as_json_has_state_reason_and_what_each_provides(site, optim):
    site.add("full", FULL, version="3.1")
    site.add("broken", "import a_library_nobody_has")
    found = json.loads(optim("plugins", "list", "--json"))["plugins"]
    full, broken = of(found, "full"), of(found, "broken")
    assert (full["package"], full["version"], full["state"], full["reason"]) == ("optim-full", "3.1", "ok", "")
    assert full["hooks"] == ["optim_fuse", "optim_pre_export", "optim_quantize", "optim_targets"]
    assert full["passes"] == ["full.fix", "full.cut", "full.zip"]
    assert full["targets"] == ["here", "there"]
    assert full["problems"] == [{"hook": "optim_fuse", "reason": "raised RuntimeError: no fusing [here]"}]
    assert full["unresolved"] == {"full.cut": ["other:*", "ghost.pass"], "full.zip": ["other:*"]}
    assert broken["state"] == "failed"
    assert broken["reason"] == "ModuleNotFoundError: No module named 'a_library_nobody_has'"


def test_plugins_list_is_one_line_for_each_plugin_and_tells_problems(site, optim):
    site.add("full", FULL)
    site.add("broken", "raise RuntimeError('a [bold]reason[/bold] ' + 'x' * 200)")
    lines = optim("plugins", "list").splitlines()
    (full,) = [line for line in lines if line.startswith("full")]
    (broken,) = [line for line in lines if line.startswith("broken")]
    assert full.split()[:4] == ["full", "optim-full", "1.0", "here"]
    assert re.search(r"here, there\tok$", full)
    assert broken.endswith("failed: RuntimeError: a [bold]reason[/bold] " + "x" * 200)
    assert "  full (optim-full 1.0): optim_fuse: raised RuntimeError: no fusing [here]" in lines


def test_a_plugin_that_keeps_every_command_waiting_is_warned_about(site):
    site.add("acme", "import numpy\n" + GOOD)
    site.add("zenith", GOOD)
    warning = "imports numpy while it loads, and every command waits for that"
    found = json.loads(site.run("plugins", "list", "--json").stdout)["plugins"]
    assert (of(found, "acme")["warnings"], of(found, "zenith")["warnings"]) == ([warning], [])
    assert f"warnings:\n  acme (optim-acme 1.0): {warning}\n" in site.run("plugins", "list").stdout


def test_plugins_show_marks_names_that_are_not_there(site, optim):
    module = site.add("full", FULL, editable=True)
    shown = optim("plugins", "show", "full")
    assert "optim-full 1.0, editable" in shown
    assert str(module) in shown
    assert "before full.zip, ghost.pass (not there)" in shown
    assert "optim_fuse: raised RuntimeError: no fusing [here]" in shown


def test_the_verbose_list_has_where_from_and_passes_in_running_order_with_their_place(site, optim):
    first = GOOD.replace("    summary", '    after = ("zenith.shrink",)\n    summary')
    both = first.replace("[Shrink]", "[Shrink, Early]") + (
        '\nclass Early(Shrink):\n    name, after, before = "acme.z", (), ("zenith.shrink",)\n'
    )
    module = site.add("acme", both)
    site.add("zenith", GOOD)
    shown = optim("--plugins", "list", "--verbose")
    assert str(module) in shown
    places = [line.split("place ")[1] for line in shown.splitlines() if "(fuse, place " in line and "acme." in line]
    early, late = (int(place.rstrip(")")) for place in places)
    assert late >= early + 2  # zenith.shrink stands between
    assert shown.index("acme.z (fuse") < shown.index("acme.shrink (fuse")


def test_the_verbose_list_outlives_a_cycle(site, optim):
    site.add("acme", GOOD.replace("    summary", '    before = ("acme.shrink",)\n    summary'))
    assert "acme.shrink (fuse)" in optim("--plugins", "list", "--verbose")


def test_plugins_show_has_the_traceback_only_with_debug(site, optim):
    site.add("broken", "raise RuntimeError('no')")
    assert "Traceback" not in optim("plugins", "show", "broken")
    assert "Traceback" in optim("--debug", "plugins", "show", "broken")


def test_plugins_show_tells_both_of_one_name(site, optim):
    site.add("twin", GOOD, package="one")
    site.add("twin", GOOD, package="two")
    found = json.loads(optim("plugins", "show", "twin", "--json"))["plugins"]
    assert [one["package"] for one in found] == ["one", "two"]


def test_passes_list_is_in_running_order_and_can_be_narrowed(site, optim):
    site.add("full", FULL)

    def names(*arguments):
        found = json.loads(optim("passes", "list", "--json", *arguments))["passes"]
        return [one["name"] for one in found if one["plugin"] == "full"]

    assert names() == ["full.fix", "full.cut", "full.zip"]
    assert names("--stage", "quantize") == ["full.cut", "full.zip"]
    assert names("--target", "there") == ["full.cut", "full.zip"]
    optim("passes", "list", "--target", "hree", status=2)
    optim("passes", "list", "--stage", "quantise", status=2)


def test_passes_list_prints_summaries_as_they_are(site, optim):
    site.add("full", FULL)
    (line,) = [line for line in optim("passes", "list").splitlines() if line.startswith("full.cut")]
    assert line.split(None, 4) == ["full.cut", "quantize", "requested", "lossy", "Cuts [red]numbers[/red]."]


def test_passes_show_describes_every_option(site, optim):
    site.add("full", FULL)
    shown = json.loads(optim("passes", "show", "full.cut", "--json"))
    assert shown["alternatives"] == "cutting"
    assert shown["hardware"] == "sharp"
    assert shown["unresolved"] == ["other:*", "ghost.pass"]
    assert [tuple(option.values()) for option in shown["options"]] == [
        ("bits", "int >= 2, <= 16", 8, False, "width of a weight, in bits"),
        ("mode", "'fast' or 'exact'", "fast", False, "which"),
        ("keep", "list of str", [], False, "nodes left in float"),
        ("place", "str", None, True, "must be given"),
    ]
    text = optim("passes", "show", "full.cut")
    assert "yes, within the budget" in text
    assert "int >= 2, <= 16" in text


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (bool | Literal["saturating"], "bool or 'saturating'"),
        (int | None, "int or left out"),
        (dict[str, list[int]], "table of list of int"),
        (tuple[int, float], "list of int, float"),
        (Annotated[str, "anything"], "str"),
        (list[Any], "list of anything"),
    ],
)
def test_types_of_options_read_the_same_with_every_python(annotation, text):
    assert _type_text(annotation) == text


def test_passes_show_works_for_passes_over_the_source(site, optim):
    site.add("full", FULL)
    shown = json.loads(optim("passes", "show", "full.fix", "--json"))
    assert (shown["stage"], shown["role"], shown["options"], shown["targets"]) == ("pre-export", "enable", [], ["here"])
    text = optim("passes", "show", "full.fix")
    assert "Repairs the source." in text
    assert ["hardware", "any"] in [line.split() for line in text.splitlines()]


def test_options_that_cannot_be_loaded_are_an_error_of_the_plugin(site, capsys):
    site.add("full", FULL)
    assert main(["passes", "show", "full.zip"]) == 2
    error = capsys.readouterr().err
    assert "error[plugin-failed]: the options of full.zip cannot be loaded" in error
    assert "AttributeError" in error
    assert "  from:  optim-full 1.0" in error


def test_passes_show_of_an_unknown_pass_lists_the_near_ones(site, capsys):
    site.add("full", FULL)
    assert main(["passes", "show", "full.cutt"]) == 2
    assert "did you mean full.cut" in capsys.readouterr().err


def test_targets_say_whether_they_can_be_used_and_why_not(site, optim):
    site.add("full", FULL)
    found = json.loads(optim("targets", "--json"))["targets"]
    here, there = of(found, "here"), of(found, "there")
    assert (here["available"], here["reason"], here["timed"], here["requires"]) == (True, "", False, ["full.cut"])
    assert (here["provider"], here["device"], here["package"]) == ("AcmeProvider", "Acme 9", "optim-full")
    assert (there["available"], there["reason"]) == (False, "no /dev/there")
    assert "no /dev/there" in optim("targets")


def test_a_dry_run_of_a_lock_lists_its_steps_and_nothing_else(site, optim, tmp_path):
    site.add("acme", GOOD)
    lock = Lock(
        lock=header(),
        source=LockedSource(file_name="m.onnx", digest="0"),
        target=LockedTarget(name="acme-device", backend="reference"),
        goal="latency",
        budget=BudgetTable(),
        feeds=LockedFeeds(digest="0", origin="synthesized", seed=0),
        passes=(LockedPass.of("acme.shrink", "fuse", {}, "optim-acme", "1.0"),),
        result=LockedResult(model_digest="0"),
    )
    write_lock(lock, tmp_path / "lock.toml")
    words = ("run", "m.onnx", "--target", "acme-device", "--dry-run", "--recipe", str(tmp_path / "lock.toml"))
    listed = optim(*words).splitlines()
    assert [line.split() for line in listed[1:-1]] == [["1", "fuse", "acme.shrink"]]
    assert json.loads(optim(*words, "--json"))["repeats"][0]["pass"] == "acme.shrink"
