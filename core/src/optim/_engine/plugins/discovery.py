"""Finds the installed plugins and loads them; one that breaks is listed with its reason and stops nothing.

A plugin is an entry point of group ``optim.plugins``. stevedore loads them. Which there are is asked of
``importlib.metadata``: stevedore's own listing has no distribution, drops duplicates, and comes from a cache that can
miss a plugin just added. What may not be loaded (see ``permission.py``) is not imported.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import sys
import traceback
from collections.abc import Collection
from dataclasses import replace
from functools import cache

import pluggy
from stevedore.extension import Extension, ExtensionManager

from optim._engine.plugins.contract import new_manager, register
from optim._engine.plugins.guard import TookTooLongError, UnrulyError, limited
from optim._engine.plugins.permission import current_permission
from optim._engine.plugins.plugin import LoadedPlugin, PluginInfo, State
from optim._engine.plugins.versions import headers
from optim._engine.stdout import stdout_on_stderr
from optim.errors import OptimError, describe_exception
from optim.hooks import ENTRY_POINT_GROUP

HEAVY = ("numpy", "onnx", "onnx_ir", "onnxruntime", "pydantic", "torch")
"""Libraries that take longer to import than a listing may take: every command would wait for a plugin that imports one
while it loads; import them inside functions."""

PLUGIN_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


def discover(manager: pluggy.PluginManager | None = None, *, only: Collection[str] | None = None) -> list[LoadedPlugin]:
    """Load the installed plugins and register the sound ones.

    Returns:
        Every plugin found, also those that failed, by name and then by package.
    """
    return _Plugins(manager or new_manager(), only).plugins


def installed_names() -> list[str]:
    """Names of the installed plugins, none of them loaded."""
    return sorted({entry.name for entry in importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)})


def plugin_failed(plugin: LoadedPlugin, what: str = "") -> OptimError:
    """The error for needing a plugin that cannot be used; ``what`` says what could not be done."""
    return OptimError.usage(
        "plugin-failed",
        what or f"plugin {plugin.name} cannot be used",
        f"plugin {plugin.name} is {plugin.state}: {plugin.reason}",
        f"optim plugins show {plugin.name}",
        plugin.info.release,
    )


class _Plugins(ExtensionManager):  # type: ignore[misc]  # older stevedores have no types
    """stevedore's loading, with the distribution known and every failure kept."""

    def __init__(self, manager: pluggy.PluginManager, only: Collection[str] | None) -> None:
        self._manager = manager
        self._only = only
        self._permission = current_permission()
        self._infos: dict[int, PluginInfo] = {}  # by identity: entry points of two packages may be equal
        self.plugins: list[LoadedPlugin] = []
        with stdout_on_stderr():
            super().__init__(ENTRY_POINT_GROUP)

    def list_entry_points(self) -> list[importlib.metadata.EntryPoint]:
        """All entry points, duplicates too, in the same order on every machine."""
        package_of = cache(_package)  # one may bring many plugins
        found = [
            (replace(package_of(entry.dist), name=entry.name, entry_point=entry.value), entry)
            for entry in importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)
            if self._only is None or entry.name in self._only
        ]
        found.sort(key=lambda one: (one[0].name, one[0].package, one[0].entry_point))
        self._infos = {id(entry): info for info, entry in found}
        return [entry for _, entry in found]

    def _load_one_plugin(self, ep: importlib.metadata.EntryPoint, *how: object) -> Extension | None:
        info = self._infos[id(ep)]
        self.plugins.append(self._unwanted(info) or self._load(ep, info, *how))
        return None

    def _unwanted(self, info: PluginInfo) -> LoadedPlugin | None:
        """The plugin with its reason, where it must not be loaded at all."""
        if refusal := self._permission.refusal(info):
            return LoadedPlugin(info, State.DISABLED, refusal)
        if rivals := [one for one in self._infos.values() if one.name == info.name and one is not info]:
            others = [rival.release for rival in rivals if rival != info] or [info.release]
            reason = f"{' and '.join(others)} has a plugin '{info.name}' too; neither is used, uninstall one"
            return LoadedPlugin(info, State.FAILED, reason, is_rivalled=True)
        if not PLUGIN_NAME.fullmatch(info.name):
            return LoadedPlugin(info, State.FAILED, f"'{info.name}' is not a name for a plugin: it must be kebab-case")
        return None

    def _load(self, entry: importlib.metadata.EntryPoint, info: PluginInfo, *how: object) -> LoadedPlugin:
        before = _heavy_modules()
        try:
            with limited(info.name, "loading"):
                implementation = super()._load_one_plugin(entry, *how).plugin
            source = getattr(sys.modules.get(entry.module), "__file__", None)
            info = replace(info, location=source or info.location)
            plugin = register(self._manager, info, implementation)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a plugin may raise anything, and must cost only itself
            missing = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
            late = ": every command would wait for it" if isinstance(error, TookTooLongError) else ""
            why = f"{error}{late}" if isinstance(error, UnrulyError) else describe_exception(error)
            return LoadedPlugin(info, State.FAILED, why, traceback.format_exc(), missing_module=missing)
        imported = _heavy_modules() - before  # what another plugin brought before is that one's
        if plugin.state is not State.OK or not imported:
            return plugin
        slow = f"imports {', '.join(sorted(imported))} while it loads, and every command waits for that"
        return replace(plugin, warnings=(*plugin.warnings, slow))


def _package(dist: importlib.metadata.Distribution | None) -> PluginInfo:
    """Returns what a distribution says of its plugins, without their names."""
    if dist is None:
        return PluginInfo("", "unknown", "", "")
    metadata, place = headers(dist), str(dist.locate_file(""))
    return PluginInfo("", metadata["Name"] or "unknown", metadata["Version"] or "", "", place, _is_editable(dist))


def _is_editable(dist: importlib.metadata.Distribution) -> bool:
    """Whether pip says so (PEP 610)."""
    try:
        return bool(json.loads(dist.read_text("direct_url.json") or "{}").get("dir_info", {}).get("editable", False))
    except (ValueError, AttributeError):
        return False


def _heavy_modules() -> frozenset[str]:
    """Those that this process has imported so far."""
    return frozenset(name for name in HEAVY if name in sys.modules)
