from __future__ import annotations

import os
from dataclasses import replace

import pytest
from plugin_packages import GOOD, Site, site

from optim._engine.plugins import versions
from optim._engine.plugins.discovery import discover
from optim._engine.plugins.plugin import LoadedPlugin, State
from optim._engine.plugins.registry import load_registry
from optim._engine.plugins.versions import carried_key, libraries_of, plugin_version_key, version_keys

__all__ = ["site"]


def loaded(site: Site, name: str = "acme") -> LoadedPlugin:
    (plugin,) = discover(only={name})
    return plugin


def test_a_plugin_is_listed_with_its_package_version_and_location(site):
    module = site.add("acme", GOOD, package="Acme-Tools", version="2.3")
    plugin = loaded(site)
    assert (plugin.state, plugin.reason) == (State.OK, "")
    assert (plugin.info.package, plugin.info.version, plugin.info.location) == ("Acme-Tools", "2.3", str(module))
    assert plugin.hooks == ("optim_fuse", "optim_targets")
    assert not plugin.info.editable


def test_an_object_in_a_module_can_be_the_plugin(site):
    site.add(
        "acme",
        """
        from optim import hookimpl

        class Acme:
            OPTIM_HOOK_API = 1

            @hookimpl
            def optim_tune(self, target):
                return []

        acme = Acme()
    """,
        attribute=":acme",
    )
    assert (loaded(site).state, loaded(site).hooks) == (State.OK, ("optim_tune",))


NOISY = """
import os, subprocess, sys
print("by print")
os.write(1, b"by write\\n")
subprocess.run([sys.executable, "-c", "print('by a child')"])
sys.__stdout__.write("by the real stdout\\n")
"""

BROKEN = {
    "raises": ("raise RuntimeError('no\\nway')", "RuntimeError: no"),
    "asserts": ("assert 1 == 2, 'arithmetic'", "AssertionError: arithmetic"),
    "leaves": ("import os; os._exit(0)", "loading would have ended the program (os._exit, status 0)"),
    "exits": ("import sys; sys.exit(3)", "loading would have ended the program (SystemExit, status 3)"),
    "raises-a-base-exception": ("raise GeneratorExit", "GeneratorExit"),
    "lacks-a-library": ("import a_library_nobody_has", "ModuleNotFoundError: No module named 'a_library_nobody_has'"),
    "is-no-python": ("def f(:", "SyntaxError: "),
    "names-no-api": ("", "does not say OPTIM_HOOK_API = 1"),
    "names-a-wrong-api": ("OPTIM_HOOK_API = '1'", "OPTIM_HOOK_API must be a whole number, not '1'"),
    "misspells-a-hook": (
        "from optim import hookimpl\nOPTIM_HOOK_API = 1\n@hookimpl\ndef optim_fuze(target): return []",
        "there is no hook optim_fuze; did you mean optim_fuse?",
    ),
    "misspells-without-decorator": (
        "OPTIM_HOOK_API = 1\ndef optim_quantise(target): return []",
        "there is no hook optim_quantise; did you mean optim_quantize?",
    ),
    "forgets-the-decorator": (
        "OPTIM_HOOK_API = 1\ndef optim_fuse(target): return []",
        "optim_fuse lacks the decorator optim.hookimpl",
    ),
    "wants-other-arguments": (
        "from optim import hookimpl\nOPTIM_HOOK_API = 1\n@hookimpl\ndef optim_fuse(goal): return []",
        "Argument(s) {'goal'} are declared in the hookimpl but can not be found in the hookspec",
    ),
    "wraps": (
        "from optim import hookimpl\nOPTIM_HOOK_API = 1\n"
        "@hookimpl(wrapper=True)\ndef optim_fuse(target): return (yield)",
        "optim_fuse is a hook wrapper",
    ),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_plugin_that_breaks_is_listed_with_its_reason_and_stops_no_other(site, kind):
    source, reason = BROKEN[kind]
    site.add("broken", source)
    site.add("acme", GOOD)
    acme, broken = discover(only={"acme", "broken"})
    assert acme.state is State.OK
    assert broken.state is State.FAILED
    assert reason in broken.reason
    assert "\n" not in broken.reason
    assert broken.implementation is None


def test_a_plugin_that_raises_keeps_its_traceback_for_debugging(site):
    site.add("acme", "def f():\n    raise RuntimeError('no')\nf()")
    assert "in f" in loaded(site).traceback


def test_a_keyboard_interrupt_while_loading_is_the_users(site):
    site.add("acme", "raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        discover(only={"acme"})


@pytest.mark.parametrize(("api", "age"), [(0, "older"), (7, "newer")])
def test_a_plugin_for_another_hook_api_is_incompatible(site, api, age):
    site.add("acme", f"OPTIM_HOOK_API = {api}")
    plugin = loaded(site)
    assert plugin.state is State.INCOMPATIBLE
    assert age in plugin.reason
    assert f", {api};" in plugin.reason


def test_of_two_plugins_with_one_name_both_are_reported_and_neither_is_loaded(site):
    site.add("acme", "raise RuntimeError('was loaded')", package="one")
    site.add("between", GOOD)
    site.add("acme", "raise RuntimeError('was loaded')", package="two", version="2.0")
    first, second, between = discover(only={"acme", "between"})
    assert (first.state, second.state, between.state) == (State.FAILED, State.FAILED, State.OK)
    assert first.reason == "two 2.0 has a plugin 'acme' too; neither is used, uninstall one"
    assert second.reason.startswith("one 1.0 has a plugin 'acme' too")


def test_two_names_for_one_module_are_an_error_of_the_second(site):
    module = site.add("acme", GOOD)
    (site.folder / "optim_acme-1.0.dist-info" / "entry_points.txt").write_text(
        f"[optim.plugins]\nacme = {module.stem}\nbeta = {module.stem}\n"
    )
    acme, beta = discover(only={"acme", "beta"})
    assert acme.state is State.OK
    assert beta.reason == "is the same object as plugin 'acme'"


def test_a_class_as_entry_point_is_refused(site):
    site.add("acme", "class Acme:\n    OPTIM_HOOK_API = 1", attribute=":Acme")
    assert "names the class Acme" in loaded(site).reason


def test_a_plugin_name_must_be_kebab_case(site):
    site.add("Acme_Tools", GOOD)
    assert "must be kebab-case" in loaded(site, "Acme_Tools").reason


def test_what_a_plugin_prints_while_loading_stays_off_stdout(site, capfd):
    site.add("acme", NOISY + GOOD)
    os.write(1, b"before\n")
    assert loaded(site).state is State.OK
    os.write(1, b"after\n")
    out, err = capfd.readouterr()
    assert out == "before\nafter\n"
    assert all(words in err for words in ("by print", "by write", "by a child", "by the real stdout"))


def test_a_disabled_plugin_is_listed_and_not_loaded(site, monkeypatch):
    site.add("acme", "raise RuntimeError('was loaded')")
    monkeypatch.setenv("OPTIM_DISABLE_PLUGINS", "other, acme")
    assert (loaded(site).state, loaded(site).reason) == (State.DISABLED, "by OPTIM_DISABLE_PLUGINS")


def test_a_worker_loads_the_plugin_that_it_needs_and_no_other(site):
    site.add("acme", GOOD)
    site.add("other", "raise KeyboardInterrupt")
    (plugin,) = load_registry(only=["acme"]).plugins
    assert plugin.implementation.OPTIM_HOOK_API == 1


def test_an_installed_plugin_is_known_by_its_version(site):
    site.add("acme", GOOD, version="1.5")
    assert plugin_version_key(loaded(site).info) == "1.5"


def test_a_plugin_is_known_by_the_libraries_that_it_asks_for_too(site):
    site.add("acme", GOOD)
    package = site.folder / "optim_acme-1.0.dist-info" / "METADATA"
    package.write_text(package.read_text() + "Requires-Dist: optim-test-library>=1; extra == 'fast'\n")
    library = site.folder / "optim_test_library-1.0.dist-info" / "METADATA"
    library.parent.mkdir()
    keys, carried = [], []
    for version in ("1.0", "1.0", "2.0"):
        library.write_text(f"Metadata-Version: 2.1\nName: optim-test-library\nVersion: {version}\n")
        libraries_of.cache_clear()
        keys.append(plugin_version_key(loaded(site).info))
        carried.append(carried_key(loaded(site).info))
    assert keys[0] == keys[1] != keys[2]
    assert len(set(carried)) == 1  # on another machine it may lack what it can do without


def test_a_plugin_is_the_same_on_another_machine_however_it_was_installed(site):
    module = site.add("acme", GOOD)
    carried = carried_key(loaded(site).info)
    (site.folder / "optim_acme-1.0.dist-info" / "direct_url.json").write_text('{"dir_info": {"editable": true}}')
    assert loaded(site).info.editable and carried_key(loaded(site).info) == carried
    module.write_text(module.read_text() + "# another\n")
    assert carried_key(loaded(site).info) != carried


def test_an_editable_plugin_is_known_by_its_source_and_not_by_times(site):
    module = site.add("acme", GOOD, editable=True)
    info = loaded(site).info
    assert info.editable
    key = plugin_version_key(info)
    os.utime(module, (1, 1))
    assert plugin_version_key(info) == key
    module.write_text(module.read_text() + "\n")
    assert plugin_version_key(info) != key


def test_keys_of_several_plugins_are_those_of_each_and_read_a_package_once(site, monkeypatch):
    site.add("acme", GOOD, editable=True)
    info = loaded(site).info
    twin = replace(info, name="twin")
    read = []
    walk = versions._source_files
    monkeypatch.setattr(versions, "_source_files", lambda root: read.append(root) or walk(root))
    assert version_keys([info, twin]) == {"acme": plugin_version_key(info), "twin": plugin_version_key(twin)}
    assert len(read) == 3, "once for both, and once for each alone"


def test_the_source_of_an_editable_package_is_all_its_files(site):
    folder = site.folder / "optim_test_tree"
    (folder / "sub").mkdir(parents=True)
    (folder / "__init__.py").write_text("")
    (folder / "sub" / "data.json").write_text("1")
    module = site.add("acme", GOOD, editable=True)
    (folder / "plugin.py").write_text(module.read_text())
    (site.folder / "optim_acme-1.0.dist-info" / "entry_points.txt").write_text(
        "[optim.plugins]\nacme = optim_test_tree.plugin\n"
    )
    info = loaded(site).info
    key = plugin_version_key(info)
    (folder / "__pycache__").mkdir(exist_ok=True)
    (folder / "__pycache__" / "junk.pyc").write_bytes(b"2")
    assert plugin_version_key(info) == key
    (folder / "sub" / "data.json").write_text("2")
    assert plugin_version_key(info) != key
