"""docs/hooks.md against the live hooks: headings, signatures, and examples that are parts of a file that runs."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from optim import Target
from optim._engine.plugins.discovery import new_manager, register
from optim._engine.plugins.plugin import PluginInfo
from optim._engine.plugins.registry import Registry
from optim.hooks import HOOK_API, OptimHooks
from optim.options import import_named, parse_options
from optim.passes import Stage
from optim_testing import LayoutConformance
from optim_testing.imports import imports_of
from optim_testing.models import mlp

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "hooks"
PAGE = (ROOT / "docs" / "hooks.md").read_text(encoding="utf-8")
SOURCE = (EXAMPLES / "every_hook.py").read_text(encoding="utf-8")
HOOKS = [name for name in vars(OptimHooks) if name.startswith("optim_")]
INFO = PluginInfo("every", "optim-plugin-every", "1.0", "every_hook")


def section(heading: str) -> str:
    return re.split(rf"^## {heading}$", PAGE, flags=re.MULTILINE)[1].split("\n## ")[0]


def said(hook: str) -> str:
    """The section of a hook; a hook of passes also has what they all have in common."""
    shared = section("Hooks of passes") if hook in {stage.hook for stage in Stage} else ""
    return section(hook) + shared


@pytest.fixture
def every(monkeypatch):
    """The plugin of the examples, registered as if it were installed."""
    monkeypatch.syspath_prepend(str(EXAMPLES))
    import every_hook

    manager = new_manager()
    plugin = register(manager, INFO, every_hook)
    assert plugin.state == "ok"
    return Registry(manager, [plugin])


def test_the_page_has_a_section_for_each_hook_and_no_other() -> None:
    assert re.findall(r"^## (optim_\w+)$", PAGE, flags=re.MULTILINE) == HOOKS


@pytest.mark.parametrize("hook", HOOKS)
def test_the_page_has_the_exact_signature(hook) -> None:
    signature = inspect.signature(getattr(OptimHooks, hook))
    shown = str(signature.replace(parameters=list(signature.parameters.values())[1:])).replace("'", "")
    assert f"    {hook}{shown}\n" in section(hook)
    for parameter in list(signature.parameters)[1:]:
        assert f"- `{parameter}`: " in said(hook)


@pytest.mark.parametrize("hook", HOOKS)
def test_the_page_says_when_and_how_results_combine(hook) -> None:
    assert "- *when*: " in said(hook)
    assert "- *results*: " in said(hook)


def test_the_first_table_leads_to_every_hook() -> None:
    assert re.findall(r"\[(optim_\w+)\]\(#\1\)", PAGE) == HOOKS


@pytest.mark.parametrize("hook", HOOKS)
def test_the_example_is_a_part_of_the_file_that_runs(hook) -> None:
    (shown,) = re.findall(r"```python\n(.*?)\n```", section(hook), re.DOTALL)
    (part,) = re.findall(rf"# --- {hook}\n(.*?)\n# --- end", SOURCE, re.DOTALL)
    assert shown == part.strip("\n")
    assert f"def {hook}(" in shown


def test_the_example_keeps_the_rule_that_nothing_heavy_is_imported(monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    assert imports_of("every_hook") == []
    assert imports_of("every_hook_metric") != []


def test_the_metric_with_an_option_is_made(every, monkeypatch) -> None:
    family = every.offered("metric")["every-near"].value
    metric = import_named(family.make)(parse_options(family, {"within": 0.5}))
    values = {"y": np.array([0.0, 1.0])}, {}, {"label": np.array([0.4, 0.4])}
    assert metric.call(*values) == 0.5


class TestNumbered(LayoutConformance):
    plugin = "every"

    @pytest.fixture
    def layout_class(self, every):
        return every.offered("layout")["every-numbered"].value


def test_the_page_names_the_hook_api() -> None:
    assert f"`OPTIM_HOOK_API = {HOOK_API}`" in PAGE


# Every hook of the example, asked as the core asks it.


def asked(every: Registry, hook: str) -> list[str]:
    """Names of what the example offers through a hook."""
    for stage in Stage:
        if stage.hook == hook:
            offers = every.offers(Target("every", "every", "CPUExecutionProvider"))
            return [one.name for one in offers if one.stage is stage]
    if hook == "optim_after_run":
        return [offer.name for offer in every.looks_after_run()]
    return list(every.offered(hook.removeprefix("optim_").removesuffix("s")))


OFFERED = {
    "optim_pre_export": ["every.evaluate"],
    "optim_export": ["every.export"],
    "optim_fuse": ["every.rename"],
    "optim_quantize": ["every.quantize"],
    "optim_convert_precision": ["every.convert"],
    "optim_tune": ["every.one-thread"],
    "optim_post_process": ["every.finish"],
    "optim_targets": ["every"],
    "optim_backends": ["every"],
    "optim_metrics": ["every-agreement", "every-near"],
    "optim_layouts": ["every-numbered"],
    "optim_workplaces": ["every-machines"],
    "optim_goals": ["every-tail"],
    "optim_origins": ["every"],
    "optim_after_run": ["every_hook_look:look"],
    "optim_commands": ["every"],
}


def test_there_is_a_test_for_each_hook() -> None:
    assert list(OFFERED) == HOOKS


@pytest.mark.parametrize("hook", HOOKS)
def test_the_core_takes_what_the_example_offers(every, hook) -> None:
    assert asked(every, hook) == OFFERED[hook]
    assert every.problems == []


def test_the_core_asks_a_hook_of_each_stage_and_kind() -> None:
    kinds = ("target", "backend", "metric", "layout", "workplace", "goal", "origin", "command")
    assert {stage.hook for stage in Stage} | {f"optim_{kind}s" for kind in kinds} | {"optim_after_run"} == set(HOOKS)


def optim_with_the_example(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """The command, where the plugin of the examples is installed."""
    info = folder / "optim_plugin_every-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: optim-plugin-every\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[optim.plugins]\nevery = every_hook\n")
    path = os.pathsep.join([str(folder), str(EXAMPLES), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-m", "optim", *arguments],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )


def test_the_verb_of_the_example_runs(tmp_path) -> None:
    assert optim_with_the_example(tmp_path, "every").stdout == "every hook there is\n"


def test_the_origin_of_the_example_brings_a_model(tmp_path) -> None:
    done = optim_with_the_example(tmp_path, "inspect", f"every://{mlp(tmp_path)}")
    assert "looking for every://" in done.stderr
    assert "MatMul" in done.stdout or "Gemm" in done.stdout


@pytest.fixture(scope="module")
def ran(tmp_path_factory) -> tuple[Path, str]:
    """The folder of a run whose jobs the example's workplace does, and what the run said."""
    folder = tmp_path_factory.mktemp("ran")
    model, out = mlp(folder), folder / "out"
    words = ["run", str(model), "-o", str(out), "--cluster", "every:here", "--search-seconds", "0", "--stage", "fuse"]
    return out, optim_with_the_example(folder, *words).stderr


@pytest.mark.slow
def test_the_look_of_the_example_adds_a_section_to_the_report(ran) -> None:
    out, _ = ran
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "<h2>Dropped by the gate</h2>" in page
    assert "sections" not in (out / "report.json").read_text(encoding="utf-8")


@pytest.mark.slow
def test_the_workplace_of_the_example_does_the_jobs_of_a_run(ran) -> None:
    out, said = ran
    assert "connected to every:here" in said
    assert (out / "model.onnx").is_file()
