"""Which plugins may be loaded, and which hook API they were written for."""

from __future__ import annotations

import pytest
from plugin_packages import GOOD, Site, site

from optim import OptimError, hooks
from optim._engine.plugins.permission import allow_file
from optim._engine.plugins.registry import load_registry

__all__ = ["Site", "site"]


def test_a_plugin_for_the_hook_api_before_is_used_with_a_warning_and_then_refused(site, monkeypatch):
    site.add("acme", GOOD)
    monkeypatch.setattr(hooks, "HOOK_API", 2)
    plugin = load_registry(only=["acme"]).plugin("acme")
    assert plugin.state == "ok"
    assert plugin.warnings == ("was written for hook API 1, which the next minor release refuses: it is 2 now",)
    monkeypatch.setattr(hooks, "OLDEST_HOOK_API", 2)
    assert load_registry(only=["acme"]).plugin("acme").state == "incompatible"


def test_a_hook_that_will_go_is_announced(site, monkeypatch):
    site.add("acme", GOOD)
    monkeypatch.setattr(hooks, "DEPRECATED_HOOKS", {"optim_fuse": "use optim_melt"})
    assert load_registry(only=["acme"]).plugin("acme").warnings == ("optim_fuse goes with hook API 2: use optim_melt",)


# What may be loaded.


def states(site):
    found = load_registry(only=["acme", "zenith"]).plugins
    return {plugin.name: (str(plugin.state), plugin.reason) for plugin in found}


def test_the_machines_list_binds_and_the_environment_only_takes_away(site, monkeypatch, tmp_path):
    site.add("acme", GOOD)
    site.add("zenith", "raise SystemExit('it was imported')")
    path = tmp_path / "plugins.toml"
    monkeypatch.setattr("optim._engine.plugins.permission.allow_file", lambda: path)
    path.write_text('allow = ["optim-acme/acme"]')
    assert states(site)["acme"] == ("ok", "")
    assert states(site)["zenith"] == ("disabled", f"not allowed by {path}")
    monkeypatch.setenv("OPTIM_ALLOW_PLUGINS", "zenith")
    assert states(site)["acme"] == ("disabled", "not allowed by OPTIM_ALLOW_PLUGINS")
    assert states(site)["zenith"] == ("disabled", f"not allowed by {path}")


def test_no_variable_moves_the_machines_list(monkeypatch, tmp_path):
    before = allow_file()
    for variable in ("XDG_CONFIG_DIRS", "XDG_CONFIG_HOME", "HOME"):
        monkeypatch.setenv(variable, str(tmp_path))
    assert allow_file() == before
    assert before.is_absolute()


def test_a_list_that_may_not_be_read_is_not_taken_for_none(monkeypatch, tmp_path):
    monkeypatch.setattr("optim._engine.plugins.permission.allow_file", lambda: tmp_path)  # a folder: reading it fails
    with pytest.raises(OptimError, match="cannot be used"):
        load_registry()


@pytest.mark.parametrize("text", ["allow = 'ort'", "nothing = 1", "allow = [", "allow = [1]"])
def test_a_list_that_cannot_be_read_allows_nothing(site, monkeypatch, tmp_path, text):
    path = tmp_path / "plugins.toml"
    monkeypatch.setattr("optim._engine.plugins.permission.allow_file", lambda: path)
    path.write_text(text)
    with pytest.raises(OptimError, match=r"plugins\.toml") as caught:
        load_registry()
    assert caught.value.reference == "bad-allow-list"
