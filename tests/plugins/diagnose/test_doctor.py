"""What the doctor finds, on distributions that really lie in a folder of packages."""

from __future__ import annotations

import json
import os

import pytest
from plugin_packages import GOOD, Site
from plugin_packages import site as installation

from optim import hooks
from optim._engine.cli.main import main
from optim._engine.plugins.discovery import installed_names
from optim._engine.plugins.permission import DISABLE_VARIABLE
from optim._engine.plugins.registry import load_registry
from optim_plugins.diagnose.installation.examine import Severity, examine

__all__ = ["Site", "installation"]


@pytest.fixture
def site(installation, monkeypatch):
    """Plugins of tests alone: all that are installed here take 0.3 s to examine."""
    monkeypatch.setenv(DISABLE_VARIABLE, ",".join(installed_names()))
    return installation


def distribution(site, name, version="1.0", requires=()):
    info = site.folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(exist_ok=True)
    needs = "".join(f"Requires-Dist: {line}\n" for line in requires)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}")
    return info


def found(about):
    return [one for one in examine(load_registry()) if about in one.subject]


@pytest.mark.slow
def test_a_sound_installation_has_nothing_to_mend(installation):
    installation.add("acme", GOOD, attribute="")
    text = " ".join(one.subject for one in examine(load_registry()) if one.severity is Severity.PROBLEM)
    assert text == "target acme-device"  # its backend, 'reference', is nobody's


def test_two_builds_of_onnxruntime_are_a_broken_pair(site):
    distribution(site, "onnxruntime-gpu", "1.24.2")
    (one,) = found("onnxruntime and onnxruntime-gpu")
    assert one.severity is Severity.PROBLEM
    assert one.fix.startswith("pip uninstall -y onnxruntime onnxruntime-gpu && pip install onnxruntime-gpu")


@pytest.mark.parametrize("there", [True, False])
def test_a_runtime_whose_files_went_with_another_build_is_found_without_importing_it(site, monkeypatch, there):
    monkeypatch.setattr("optim_plugins.diagnose.installation.examine._RUNTIMES", ("a-runtime",))
    (distribution(site, "a-runtime") / "RECORD").write_text("a_runtime/__init__.py,,\na_runtime/state.so,,\n")
    (site.folder / "a_runtime").mkdir()
    (site.folder / "a_runtime" / "__init__.py").write_text("raise RuntimeError('imported')")
    if there:
        (site.folder / "a_runtime" / "state.so").touch()
    fixes = [(one.what, one.fix) for one in found("a-runtime")]
    broken = ("is installed, but its files are missing", "pip install --force-reinstall --no-deps a-runtime")
    assert fixes == ([] if there else [broken])


def test_without_a_runtime_the_extra_that_brings_one_is_told(site, monkeypatch):
    monkeypatch.setattr("optim_plugins.diagnose.installation.examine._RUNTIMES", ("a-runtime",))
    assert [(one.severity, one.fix) for one in found("onnxruntime")] == [
        (Severity.NOTE, "pip install 'onnxruntime>=1.24.2,<1.33'")
    ]


def test_two_packages_with_one_plugin_name_are_told_to_part(site):
    site.add("acme", GOOD, package="optim-one")
    site.add("acme", GOOD, package="optim-two")
    assert sorted(one.fix for one in found("plugin acme")) == [
        "pip uninstall optim-one   # or the other one",
        "pip uninstall optim-two   # or the other one",
    ]


def test_a_plugin_that_lacks_a_module_says_what_to_install(site):
    site.add("acme", "import a_library_nobody_has.parts")
    (one,) = [one for one in found("plugin acme") if "a_library_nobody_has" in one.what]
    assert one.fix == "install what brings the module 'a_library_nobody_has', or: pip uninstall optim-acme"


def test_a_cycle_is_told_once_with_how_to_get_on(site):
    other = GOOD.replace("    summary", '    before = ("zenith.shrink",)\n    summary')
    site.add("acme", other)
    site.add("zenith", GOOD.replace("    summary", '    before = ("acme.shrink",)\n    summary'))
    (one,) = found("cannot be ordered")
    assert "acme.shrink (optim-acme 1.0) asks to run before zenith.shrink" in one.what
    assert one.fix.startswith("OPTIM_DISABLE_PLUGINS=zenith")


def test_every_finding_says_how_to_mend_it(site, monkeypatch):
    monkeypatch.setenv(DISABLE_VARIABLE, f"{os.environ[DISABLE_VARIABLE]},gost")
    probe = GOOD.replace('device="a {plugin}"', 'probe=lambda: "no device"')
    site.add("acme", probe.replace("    summary", '    after = ("acme.shrimk", "ghost.pass")\n    summary'))
    site.add("broken", "raise RuntimeError('no')")
    site.add("old", "OPTIM_HOOK_API = 99")
    everything = examine(load_registry())
    assert len(everything) >= 6
    assert [one for one in everything if not one.fix] == []


def test_a_library_that_is_missing_or_too_old_is_named_with_what_needs_it(site):
    site.add("acme", GOOD)
    metadata = site.folder / "optim_acme-1.0.dist-info" / "METADATA"
    metadata.write_text(
        metadata.read_text() + "Requires-Dist: nobody-has-this>=3\nRequires-Dist: numpy>=900\n"
        "Requires-Dist: only-on-request; extra == 'more'\n"
    )
    whats = {one.what for one in found("optim-acme") if one.fix.startswith("pip install '")}
    assert "needs nobody-has-this>=3, which is not installed" in whats
    assert any(what.startswith("needs numpy>=900, and ") for what in whats)
    assert not any("only-on-request" in what for what in whats)


def test_a_name_that_a_plugin_does_not_have_is_a_problem_and_one_of_a_plugin_not_there_a_note(site):
    site.add("acme", GOOD.replace("    summary", '    after = ("acme.shrimk", "ghost.pass")\n    summary'))
    severities = {one.what.split()[1]: one.severity for one in found("pass acme.shrink")}
    assert severities == {"acme.shrimk": Severity.PROBLEM, "ghost.pass": Severity.NOTE}


def test_a_disabled_name_that_is_not_installed_is_told(installation, monkeypatch):
    monkeypatch.setenv(DISABLE_VARIABLE, "gost")
    (one,) = found(DISABLE_VARIABLE)
    assert (one.what, one.fix) == ("names plugin gost, which is not installed", f"unset {DISABLE_VARIABLE}")


@pytest.mark.slow
def test_the_exit_status_and_the_json_say_the_same(site, capsys):
    site.add("acme", "raise RuntimeError('no')")
    done = site.run("plugins", "doctor", "--json")
    assert done.returncode == 4
    (one,) = [one for one in json.loads(done.stdout)["findings"] if "acme" in one["subject"]]
    assert (one["severity"], one["what"]) == ("problem", "RuntimeError: no")
    assert main(["plugins", "doctor"]) == 4
    assert "RuntimeError: no" in capsys.readouterr().out


def test_a_warning_of_a_plugin_is_a_note(site, monkeypatch):
    site.add("acme", GOOD)
    monkeypatch.setattr(hooks, "HOOK_API", 2)
    (note,) = [one for one in found("plugin acme") if "hook API 1" in one.what]
    assert (note.severity, note.fix) == (Severity.NOTE, "update optim-acme")


LAZY = GOOD.replace(
    'summary = "Makes it small."', 'summary = "Makes it small."\n    options = "{module}_options:Options"'
)


def test_a_module_that_is_missing_behind_a_lazy_name_is_found(site):
    path = site.add("acme", LAZY)
    options = f"{path.stem}_options"
    (site.folder / f"{options}.py").write_text("import a_library_that_nobody_has\n\nclass Options: ...\n")
    (one,) = found("pass acme.shrink")
    assert one.severity is Severity.PROBLEM
    assert one.what == (
        f"its options, {options}:Options, cannot be imported: "
        f"{options} imports a_library_that_nobody_has, which is not installed"
    )


LATE = GOOD.replace(
    "        return APPLICABLE",
    """        import a_library_that_nobody_has
        if model:
            import one_for_some_models
        try:
            import one_that_may_be_missing
        except ImportError:
            pass
        return APPLICABLE""",
)


def test_a_module_that_is_missing_where_a_function_imports_it_is_found(site):
    path = site.add("acme", LATE)
    (one,) = found("plugin acme (optim-acme 1.0)")
    assert one.severity == "problem"
    assert one.what == f"{path.stem} imports a_library_that_nobody_has when it works, which is not installed"


def test_for_a_module_that_an_extra_brings_the_libraries_of_the_extra_are_named(site):
    site.add("acme", LATE)
    requires = ("a-library-that-nobody-has>=2; extra == 'x'", "its-friend; extra == 'x'", "another; extra == 'y'")
    distribution(site, "optim-acme", requires=requires)
    (one,) = found("plugin acme (optim-acme 1.0)")
    assert one.severity == "note"
    assert one.what == "parts of it need libraries that are not installed: a_library_that_nobody_has"
    assert one.fix == "pip install 'a-library-that-nobody-has>=2' 'its-friend'"
