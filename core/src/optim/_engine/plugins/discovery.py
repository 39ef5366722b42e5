"""Finds the installed plugins and loads them; one that breaks is listed with its reason and stops nothing.

A plugin is an entry point of group ``optim.plugins``. stevedore loads them. Which there are is asked of
``importlib.metadata``: stevedore's own listing has no distribution, drops duplicates, and comes from a cache that can
miss a plugin just added. What may not be loaded (see ``permission.py``) is not imported.

A module or an object is a plugin if it names the hook API and has hooks that exist. pluggy accepts a misspelt hook
without a word until ``check_pending``, and may leave a plugin registered whose hooks do not fit. Here every defect of a
plugin is found when it is registered, named, and its plugin unregistered.
"""

from __future__ import annotations

import importlib.metadata
import inspect
import json
import re
import sys
import traceback
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from functools import cache

import pluggy
from stevedore.extension import Extension, ExtensionManager

from optim import hooks as contract
from optim._engine.plugins.guard import TookTooLongError, UnrulyError, limited
from optim._engine.plugins.permission import current_permission
from optim._engine.plugins.plugin import LoadedPlugin, PluginInfo, State
from optim._engine.plugins.versions import headers
from optim._engine.stdout import stdout_on_stderr
from optim.errors import describe_exception
from optim.hooks import ENTRY_POINT_GROUP, OptimHooks, hookspec

HEAVY = ("numpy", "onnx", "onnx_ir", "onnxruntime", "pydantic", "torch")
"""Libraries that take longer to import than a listing may take: every command would wait for a plugin that imports one
while it loads; import them inside functions."""

PLUGIN_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")

_PREFIX = "optim_"

ENGINE_PARTS = ("adapter_opener", "deliverer", "generator", "pipeline", "recorder", "renderer")
"""Parts that only distributions of this repository bring. Each is a protocol in the module that has its ``EnginePart``.
The hook ``optim_KINDs`` names classes for it. Their exchange with core may change with every release."""


@hookspec
def _classes() -> Sequence[str]:  # type: ignore[empty-body]
    """``package.module:Class`` of what does it; the first is used."""


EngineHooks = type("EngineHooks", (), {f"{_PREFIX}{kind}s": _classes for kind in ENGINE_PARTS})
_HOOKS = {name for spec in (OptimHooks, EngineHooks) for name in vars(spec) if name.startswith(_PREFIX)}


def discover(manager: pluggy.PluginManager | None = None, *, only: Collection[str] | None = None) -> list[LoadedPlugin]:
    """Load the installed plugins and register the sound ones.

    Returns:
        Every plugin found, also those that failed, by name and then by package.
    """
    return _Plugins(manager or new_manager(), only).plugins


def installed_names() -> list[str]:
    """Names of the installed plugins, none of them loaded."""
    return sorted({entry.name for entry in importlib.metadata.entry_points(group=ENTRY_POINT_GROUP)})


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


def new_manager() -> pluggy.PluginManager:
    """A plugin manager that knows optim's hooks and no plugin yet."""
    manager = pluggy.PluginManager("optim")
    manager.add_hookspecs(OptimHooks)
    manager.add_hookspecs(EngineHooks)
    return manager


def register(manager: pluggy.PluginManager, info: PluginInfo, implementation: object) -> LoadedPlugin:
    """Registers a plugin with ``manager`` if it keeps the contract; otherwise leaves no trace of it there."""
    state, reason = _check_api(implementation)
    if reason:
        return LoadedPlugin(info, state, reason)
    try:
        manager.register(implementation, info.name)
        reason = _hook_defect(manager, implementation)
        manager.check_pending()
    except pluggy.PluginValidationError as error:
        reason = reason or " ".join(str(error).split())
    except ValueError:
        return LoadedPlugin(info, State.FAILED, f"is the same object as plugin '{manager.get_name(implementation)}'")
    if reason:
        if manager.is_registered(implementation):  # which pluggy releases leave it registered differs
            manager.unregister(implementation)
        return LoadedPlugin(info, State.FAILED, reason)
    hooks = tuple(sorted(caller.name for caller in manager.get_hookcallers(implementation) or ()))
    warnings = tuple(_deprecated(implementation, hooks))
    return LoadedPlugin(info, hooks=hooks, implementation=implementation, warnings=warnings)


def _deprecated(implementation: object, hooks: tuple[str, ...]) -> Iterator[str]:
    """Yields what this plugin uses that the next hook API will not have."""
    api = getattr(implementation, "OPTIM_HOOK_API", contract.HOOK_API)
    if api < contract.HOOK_API:
        yield f"was written for hook API {api}, which the next minor release refuses: it is {contract.HOOK_API} now"
    for name in hooks:
        if name in contract.DEPRECATED_HOOKS:
            yield f"{name} goes with hook API {contract.HOOK_API + 1}: {contract.DEPRECATED_HOOKS[name]}"


def _check_api(implementation: object) -> tuple[State, str]:
    if inspect.isclass(implementation):
        return State.FAILED, f"its entry point names the class {implementation.__name__}: name an instance or a module"
    api = getattr(implementation, "OPTIM_HOOK_API", None)
    if api is None:
        return State.FAILED, f"does not say OPTIM_HOOK_API = {contract.HOOK_API}, the hook API that it was written for"
    if type(api) is not int:
        return State.FAILED, f"OPTIM_HOOK_API must be a whole number, not {api!r}"
    if not contract.OLDEST_HOOK_API <= api <= contract.HOOK_API:
        older = "an older" if api < contract.HOOK_API else "a newer"
        return State.INCOMPATIBLE, f"was written for {older} hook API, {api}; this optim has {contract.HOOK_API}"
    return State.OK, ""


def _hook_defect(manager: pluggy.PluginManager, implementation: object) -> str:
    """Returns why a registered plugin's functions are not the hooks it meant, or nothing."""
    callers = manager.get_hookcallers(implementation) or []
    for name in sorted(caller.name for caller in callers):
        if name not in _HOOKS:
            return _misspelt(name)
    for caller in callers:
        for found in caller.get_hookimpls():
            if found.plugin is implementation and (found.wrapper or found.hookwrapper):
                return f"{caller.name} is a hook wrapper; optim calls hooks one by one, so there is nothing to wrap"
    return _undecorated(manager, implementation)


def _undecorated(manager: pluggy.PluginManager, implementation: object) -> str:
    for name in dir(implementation):
        if not name.startswith(_PREFIX) or not inspect.isroutine(getattr(implementation, name, None)):
            continue
        if manager.parse_hookimpl_opts(implementation, name) is None:
            return f"{name} lacks the decorator optim.hookimpl" if name in _HOOKS else _misspelt(name)
    return ""


def _misspelt(name: str) -> str:
    import difflib  # only a defect needs it

    near = difflib.get_close_matches(name, sorted(_HOOKS), n=1)
    return f"there is no hook {name}" + (f"; did you mean {near[0]}?" if near else "")
