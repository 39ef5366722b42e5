"""Plugins by others, from ``pip install`` to ``optim run``, in an environment that has core and no standard plugin."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile

import onnx
import pytest
from fresh_environment import HERE, ROOT, fresh_environment

from optim_testing import models

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def environment():
    return fresh_environment()


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """A small network that Acme's first pass has something to do for."""
    folder = tmp_path_factory.mktemp("model")
    graph = onnx.load(models.mlp(folder))
    for _ in range(20):
        first = graph.graph.node[0]
        inner = f"n{len(graph.graph.node)}"
        for source, result in ((inner, f"{inner}b"), (first.input[0], inner)):
            graph.graph.node.insert(0, onnx.helper.make_node("Neg", [source], [result], name=f"Neg_{result}"))
        first.input[0] = f"{inner}b"
    onnx.save(graph, folder / "negated.onnx")
    return folder / "negated.onnx"


@pytest.fixture(scope="module")
def listed(environment):
    return {one["name"]: one for one in environment.optim_json("--plugins", "list")["plugins"]}


def run(environment, folder, model, *arguments):
    """A run for size, so that no clock decides what the tests look at; its search ends before its bound."""
    out = folder / "out"
    done = environment.run(
        "optim",
        "run",
        str(model),
        "-o",
        str(out),
        "--goal",
        "size",
        "--search-seconds",
        "120",
        *arguments,
        "--disable-plugin",
        "broken-cycle",
        OPTIM_CACHE_DIR=str(folder / "cache"),
    )
    report = json.loads((out / "report.json").read_text()) if (out / "report.json").exists() else None
    return done, report


# Acme, who behaves.


def test_beside_core_alone_acme_is_there_and_the_standard_plugins_are_not(environment, listed):
    program = "import importlib.metadata as m; print(*(one.name for one in m.distributions()))"
    packages = set(environment.run("python", "-c", program).stdout.split())
    assert {"optim-core", "optim-plugin-acme"} <= packages
    assert "optim-plugins" not in packages
    acme = listed["acme"]
    assert (acme["package"], acme["version"], acme["state"], acme["reason"]) == ("optim-plugin-acme", "2.1.0", "ok", "")
    assert acme["passes"] == ["acme.drop-pairs", "acme.round", "acme.one-thread"]
    assert (acme["targets"], acme["backends"], acme["metrics"], acme["commands"]) == (
        ["acme"],
        ["acme"],
        ["acme-spread"],
        ["acme"],
    )
    assert acme["warnings"] == []


def test_a_run_for_acmes_target_uses_its_passes_and_backend(environment, model, tmp_path):
    done, report = run(environment, tmp_path, model, "--target", "acme", "--with", "acme.drop-pairs")
    assert done.returncode == 0, done.stderr
    assert report["status"] == "improved"
    assert report["target"] == "acme"
    kept = [step["pass"] for step in report["steps"] if step["status"] == "kept"]
    assert "acme.drop-pairs" in kept
    counts = [len(onnx.load(path).graph.node) for path in (model, tmp_path / "out" / "model.onnx")]
    assert counts[1] == counts[0] - 40


def test_passes_that_are_ordered_by_others_that_are_not_installed_are_shown_so(environment):
    shown = environment.run("optim", "plugins", "show", "acme").stdout
    assert "after ort.clean (not there), ort:* (not there)" in shown
    assert "before ort.fuse-transformer (not there)" in shown


def test_acmes_verb_runs_and_is_in_the_help(environment):
    assert environment.run("optim", "acme").stdout == "Acme One, no firmware to update\n"
    assert "acme" in environment.run("optim", "--help").stdout


def test_acmes_passes_hold_every_promise(environment):
    command = ("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "-c", "pyproject.toml")
    done = environment.run(*command, cwd=HERE / "acme")
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout


# One that breaks in every way.

BROKEN = {
    "broken-import": ("failed", "ImportError: no license for this machine"),
    "broken-library": ("failed", "ModuleNotFoundError: No module named 'a_library_that_nobody_has'"),
    "broken-exit": ("failed", "loading would have ended the program (SystemExit, status 7)"),
    "broken-hook": ("failed", "there is no hook optim_fuze; did you mean optim_fuse?"),
    "broken-api": ("incompatible", "was written for a newer hook API, 99; this optim has 1"),
    "broken-absent": ("failed", "ModuleNotFoundError: No module named 'optim_broken.is_not_there'"),
    "broken-version": ("failed", "does not say OPTIM_HOOK_API = 1, the hook API that it was written for"),
    "broken-decorator": ("failed", "optim_fuse lacks the decorator optim.hookimpl"),
    "broken-wrapper": (
        "failed",
        "optim_fuse is a hook wrapper; optim calls hooks one by one, so there is nothing to wrap",
    ),
    "broken-class": ("failed", "its entry point names the class Plugin: name an instance or a module"),
    "broken-probe": ("unavailable", "asleep: its probe raised OSError: the driver is asleep"),
    "Broken_Name": ("failed", "'Broken_Name' is not a name for a plugin: it must be kebab-case"),
    "broken-raise": ("ok", ""),
    "broken-twice": ("ok", ""),
    "broken-cycle": ("ok", ""),
    "broken-target": ("ok", ""),
    "broken-rival": ("ok", ""),
    "broken-rival-too": ("ok", ""),
    "broken-answer": ("ok", ""),
    "broken-verb": ("ok", ""),
    "broken-run": ("ok", ""),
}
PROBLEMS = [
    ("broken-raise", "raised RuntimeError: the moon is full"),
    ("broken-twice", "pass broken-twice.twice is also offered by"),
    ("broken-rival", "target contested is also offered by broken-rival-too"),
    ("broken-rival-too", "pass acme.round must be called broken-rival-too.round"),
    ("broken-answer", "returned None, not a sequence"),
    ("broken-answer", "pass broken-answer.mute needs a summary of one line"),
    ("broken-answer", "class Unfinished does not implement applicable, apply"),
    ("broken-answer", "returned something of type str, not a subclass of Pass"),
    ("broken-answer", "it must be plugin dot kebab-case"),
    ("broken-verb", "'optim run' is a command of optim itself"),
    ("broken-verb", "returned 'brew some tea', not 'package.module:command'"),
]


@pytest.mark.parametrize("name", BROKEN)
def test_what_breaks_is_listed_with_its_reason(listed, name):
    assert (listed[name]["state"], listed[name]["reason"]) == BROKEN[name]


def test_every_broken_plugin_is_looked_at(listed):
    assert {name for name, one in listed.items() if one["package"] == "optim-plugin-broken"} == set(BROKEN)


@pytest.mark.parametrize(("name", "reason"), PROBLEMS)
def test_an_offer_that_cannot_be_used_is_listed_with_its_reason(listed, name, reason):
    assert any(reason in problem["reason"] for problem in listed[name]["problems"])


def test_what_else_a_plugin_with_a_broken_hook_offers_is_there(listed):
    assert listed["broken-raise"]["passes"] == ["broken-raise.still-there"]


def test_a_verb_that_cannot_be_imported_is_an_error_of_its_package(environment):
    done = environment.run("optim", "brew")
    assert done.returncode == 2
    assert "No module named 'optim_broken.no_such_module'" in done.stderr
    assert "from:  optim-plugin-broken 0.0.1" in done.stderr


def test_a_run_outlives_every_pass_that_breaks_and_says_what_each_did(environment, model, tmp_path):
    before = model.read_bytes()
    done, report = run(environment, tmp_path, model, "--target", "wreck", "--timeout", "4", "--stage", "fuse")
    assert done.returncode == 1, done.stderr
    assert "error[pass-broke]" in done.stderr
    assert report["status"] == "unchanged"
    assert model.read_bytes() == before
    said = {step["pass"].removeprefix("broken-run."): (step["status"], step["reason"]) for step in report["steps"]}
    expected = {
        "raises": ("failed", "RuntimeError: no idea what to do"),
        "aborts": ("failed", "its process ended with SIGABRT"),
        "hangs": ("failed", "did not finish within 4 s and was stopped"),
        "mutates": ("failed", "broken-run.mutates changed its input model"),
        "zeroes": ("dropped", "is beyond what rounding explains"),
        "forgets": ("failed", "broken-run.forgets returned NoneType, not a PassResult"),
    }
    for name, (status, reason) in expected.items():
        assert said[name][0] == status
        assert reason in said[name][1]


def test_without_the_standard_plugins_the_doctor_is_a_command_to_install(environment):
    done = environment.run("optim", "plugins", "doctor", "--json")
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["reference"] == "plugins-missing"
    assert "pip install ./plugins" in done.stderr


_DOCTOR = """
import sys
from optim_plugins.diagnose.installation.doctor import doctor
sys.exit(doctor.main(["--json"], standalone_mode=False))
"""


def test_the_doctor_finds_what_is_broken_and_says_how_to_mend_it(environment):
    """Its code comes from the checkout, because none of the standard plugins may be installed here."""
    done = environment.run("python", "-c", _DOCTOR, PYTHONPATH=str(ROOT / "plugins" / "src"))
    assert done.returncode == 4, done.stderr
    found = json.loads(done.stdout)["findings"]
    problems = {one["subject"]: one for one in found if one["severity"] == "problem"}
    for name, (state, reason) in BROKEN.items():
        if state not in ("ok", "unavailable"):
            finding = problems[f"plugin {name} (optim-plugin-broken 0.0.1)"]
            assert (finding["what"], bool(finding["fix"])) == (reason, True)
    text = done.stdout
    for reason in (*(reason for _, reason in PROBLEMS), "cannot be ordered", "runs on backend a-backend-of-nobody"):
        assert reason in text
    assert "names ort.clean, ort:*, ort.fuse-transformer in before or after, and plugin ort is not installed" in text


def test_a_target_whose_backend_is_not_installed_is_one_clear_error(environment, model, tmp_path):
    done, report = run(environment, tmp_path, model, "--target", "adrift")
    assert done.returncode == 2
    assert report is None
    assert "error[unknown-backend]: there is no backend 'a-backend-of-nobody'" in done.stderr


def test_a_disabled_plugin_is_not_imported_and_its_target_is_gone(environment, model, tmp_path):
    done = environment.run("optim", "--disable-plugin", "acme", "--disable-plugin", "broken-exit", "--plugins", "list")
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("acme\t")]
    assert line.endswith("disabled: by OPTIM_DISABLE_PLUGINS")
    assert "goodbye" not in done.stderr
    failed, _ = run(environment, tmp_path, model, "--target", "acme", "--disable-plugin", "acme")
    assert failed.returncode == 2
    assert "error[unknown-target]" in failed.stderr
    assert "it is of plugin acme, which is disabled: by OPTIM_DISABLE_PLUGINS" in failed.stderr
    warned = environment.run("optim", "targets", OPTIM_DISABLE_PLUGINS="acne,acme").stderr
    assert "warning: OPTIM_DISABLE_PLUGINS names a plugin that is not installed: acne" in warned
    assert "error[unknown-plugin]" in environment.run("optim", "--disable-plugin", "acne", "targets").stderr


def test_only_what_is_allowed_is_imported(environment):
    done = environment.optim_json("--plugins", "list", OPTIM_ALLOW_PLUGINS="optim-plugin-acme/acme, other/broken-raise")
    states = {one["name"]: one["state"] for one in done["plugins"]}
    assert states.pop("acme") == "ok"
    assert set(states.values()) == {"disabled"}


def test_a_cycle_stops_a_run_and_names_its_ends_and_packages(environment, model, tmp_path):
    done = environment.run("optim", "run", str(model), "-o", str(tmp_path / "out"), "--target", "acme")
    assert done.returncode == 2
    assert "error[order-cycle]: broken-cycle.first and broken-cycle.second" in done.stderr
    assert "OPTIM_DISABLE_PLUGINS=broken-cycle" in done.stderr
    listed = environment.run("optim", "passes", "list")
    assert (listed.returncode, listed.stdout) == (2, "")
    assert "error[order-cycle]: broken-cycle.first and broken-cycle.second" in listed.stderr


# One made by `optim plugins new`.


def test_what_pip_installs_of_the_kits_has_everything_that_a_new_plugin_is_made_of(environment, tmp_path):
    command = ("python", "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", str(ROOT / "testing"))
    done = environment.run(*command, "--wheel-dir", str(tmp_path))
    assert done.returncode == 0, done.stderr
    (wheel,) = tmp_path.glob("*.whl")
    source = ROOT / "testing" / "src"
    templates = {path.relative_to(source) for path in source.rglob("*.j2")}
    assert len(templates) > 10
    assert {path.as_posix() for path in templates} <= set(zipfile.ZipFile(wheel).namelist())


@pytest.fixture(scope="module")
def gadget(environment, listed, tmp_path_factory):
    """A new plugin with a pass in every stage, a metric and a command, installed for a while."""
    folder = tmp_path_factory.mktemp("new") / "optim-plugin-gadget"
    stages = ("pre-export", "export", "fuse", "quantize", "convert-precision", "tune", "post-process")
    arguments = [word for stage in stages for word in ("--stage", stage)]
    arguments += ["--also", "metric", "--also", "command"]
    if "gadget" in listed:  # left by tests that were killed
        environment.run("pip", "uninstall", "--yes", "optim-plugin-gadget")
    done = environment.run("optim", "plugins", "new", "gadget", "--folder", str(folder), *arguments)
    assert done.returncode == 0, done.stderr
    environment.install("--no-deps", "--no-build-isolation", str(folder))
    yield folder
    environment.run("pip", "uninstall", "--yes", "optim-plugin-gadget")


def test_a_new_plugin_passes_its_own_tests_at_once(environment, gadget):
    done = environment.run("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=gadget)
    assert done.returncode == 0, done.stdout


def test_a_new_plugin_with_a_runtime_of_its_own_passes_its_tests_at_once(environment, tmp_path):
    folder = tmp_path / "optim-plugin-widget"
    done = environment.run(
        *("optim", "plugins", "new", "widget", "--target", "runtime", "--stage", "fuse", "--folder", str(folder))
    )
    assert done.returncode == 0, done.stderr
    command = ("python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_conformance.py")
    done = environment.run(*command, cwd=folder, PYTHONPATH=str(folder / "src"))
    assert done.returncode == 0, done.stdout


def test_a_new_plugin_keeps_no_command_waiting(environment, gadget):
    (found,) = [one for one in environment.optim_json("--plugins", "list")["plugins"] if one["name"] == "gadget"]
    assert (found["state"], found["warnings"], len(found["passes"])) == ("ok", [], 7)


def test_a_new_plugin_is_used_by_a_run(environment, gadget, model, tmp_path):
    done, report = run(
        environment, tmp_path, model, "--target", "gadget", "--with", "gadget.add-label", "--max-drift", "0.1"
    )
    assert done.returncode == 0, done.stderr
    kept = {step["pass"] for step in report["steps"] if step["status"] == "kept"}
    assert {"gadget.add-label", "gadget.store-float16"} <= kept


def test_a_new_plugin_keeps_the_rules_of_this_project(gadget):
    pytest.importorskip("ruff", reason="ruff is not installed")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "ruff",
            "check",
            "--no-cache",
            "--isolated",
            "--select",
            "E,F,I,B,UP",
            "--line-length",
            "120",
            ".",
        ],
        cwd=gadget,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize(
    ("name", "error"), [("My Vendor", "bad-plugin-name"), ("9lives", "bad-plugin-name"), ("acme", "plugin-name-taken")]
)
def test_a_name_that_cannot_be_is_refused_and_nothing_is_written(environment, tmp_path, name, error):
    done = environment.run("optim", "plugins", "new", name, cwd=tmp_path)
    assert done.returncode == 2
    assert f"error[{error}]" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_exists_is_left_as_it_is(environment, tmp_path):
    (tmp_path / "mine").write_text("mine")
    done = environment.run("optim", "plugins", "new", "widget", "--folder", str(tmp_path))
    assert done.returncode == 2
    assert "error[folder-not-empty]" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


def test_a_folder_where_nothing_can_be_written_is_refused_with_what_to_do(environment, tmp_path):
    (tmp_path / "file").touch()
    done = environment.run("optim", "plugins", "new", "widget", "--folder", str(tmp_path / "file" / "widget"))
    assert done.returncode == 2
    assert "error[not-writable]" in done.stderr
    assert "fix:   optim plugins new widget --folder" in done.stderr


def test_the_current_folder_is_filled_where_it_is_empty(environment, tmp_path):
    done = environment.run("optim", "plugins", "new", "widget", "--folder", ".", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["README.md", "pyproject.toml", "src", "tests"]
