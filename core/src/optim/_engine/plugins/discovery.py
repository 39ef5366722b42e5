"""Finds the installed plugins and loads them; one that breaks is listed with its reason and stops nothing.

A plugin is an entry point of group ``optim.plugins``. stevedore loads them. Which there are is asked of
``importlib.metadata``: stevedore's own listing has no distribution, drops duplicates, and comes from a cache that can
miss a plugin just added. What may not be loaded (see ``permission.py``) is not imported.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import stat
import sys
import traceback
from collections import defaultdict
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import pluggy
from stevedore.extension import Extension, ExtensionManager

from optim._engine.plugins.contract import new_manager, register
from optim._engine.plugins.guard import EndsProgramError, TookTooLongError, limited
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
    return sorted({entry.name for entry in entry_points()})


def entry_points() -> tuple[importlib.metadata.EntryPoint, ...]:
    """Entry points of all plugins, as ``importlib.metadata`` lists them.

    It reads a file of each installed package, 8 ms of processor time for a hundred of them: in each worker, too. What
    it said is kept until one of these files, or a folder that packages lie in, is another.
    """
    return _known.entry_points()


class _Known:
    """What was found last, and what it was found in."""

    def __init__(self) -> None:
        self._folders: dict[str, tuple[object, list[Path]]] = {}
        self._found: tuple[object, tuple[importlib.metadata.EntryPoint, ...]] | None = None

    def entry_points(self) -> tuple[importlib.metadata.EntryPoint, ...]:
        now = self._seen()
        if self._found is None or self._found[0] != now:
            self._found = now, tuple(importlib.metadata.entry_points(group=ENTRY_POINT_GROUP))
        return self._found[1]

    def _seen(self) -> object:
        """What tells every state of the path from another: its folders, and the files that name entry points."""
        files = [file for part in sys.path for file in self._files_of(part)]
        return tuple(sys.path), tuple(sys.meta_path), tuple(map(_state, files))

    def _files_of(self, part: str) -> list[Path]:
        """A folder of the path, and the files of packages in it; listed anew when the folder has changed."""
        folder = Path(part)
        state = _state(folder)
        known = self._folders.get(part)
        if known is None or known[0] != state:
            listed = sorted(folder.iterdir()) if state and stat.S_ISDIR(state[0]) else []
            inside = [one / "entry_points.txt" for one in listed if one.suffix in _DESCRIBED]
            known = self._folders[part] = state, [folder, *inside]
        return known[1]


def _state(path: Path) -> tuple[int, ...]:
    """What changes when a file is written or replaced, or a folder's list is another; empty where there is none."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return ()
    return found.st_mode, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns


_DESCRIBED = (".dist-info", ".egg-info")
_known = _Known()


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
        self._rivals: dict[str, list[PluginInfo]] = defaultdict(list)
        self._infos: dict[int, PluginInfo] = {}  # by identity: entry points of two packages may be equal
        self.plugins: list[LoadedPlugin] = []
        with stdout_on_stderr():
            super().__init__(ENTRY_POINT_GROUP)

    def list_entry_points(self) -> list[importlib.metadata.EntryPoint]:
        """All entry points, duplicates too, in the same order on every machine."""
        found = [(_info(entry), entry) for entry in entry_points() if self._only is None or entry.name in self._only]
        found.sort(key=lambda one: (one[0].name, one[0].package, one[0].entry_point))
        for info, entry in found:
            self._rivals[entry.name].append(info)
            self._infos[id(entry)] = info
        return [entry for _, entry in found]

    def _load_one_plugin(self, ep: importlib.metadata.EntryPoint, *how: object) -> Extension | None:
        info = self._infos[id(ep)]
        self.plugins.append(self._unwanted(info) or self._load(ep, info, *how))
        return None

    def _unwanted(self, info: PluginInfo) -> LoadedPlugin | None:
        """The plugin with its reason, where it must not be loaded at all."""
        if refusal := self._permission.refusal(info):
            return LoadedPlugin(info, State.DISABLED, refusal)
        if len(self._rivals[info.name]) > 1:
            others = [rival.release for rival in self._rivals[info.name] if rival != info] or [info.release]
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
            info = replace(info, location=_source_of(entry) or info.location)
            verdict = register(self._manager, info.name, implementation)
        except KeyboardInterrupt:
            raise
        except EndsProgramError as error:
            return LoadedPlugin(info, State.FAILED, str(error), traceback.format_exc())
        except TookTooLongError as error:
            reason = f"{error}: every command would wait for it"
            return LoadedPlugin(info, State.FAILED, reason, traceback.format_exc())
        except BaseException as error:  # a plugin may raise anything, and must cost only itself
            missing = (error.name or "").partition(".")[0] if isinstance(error, ModuleNotFoundError) else ""
            why, trace = describe_exception(error), traceback.format_exc()
            return LoadedPlugin(info, State.FAILED, why, trace, missing_module=missing)
        if verdict.state is not State.OK:
            return LoadedPlugin(info, verdict.state, verdict.reason)
        warnings = (*verdict.warnings, *_slow_start(_heavy_modules() - before))
        return LoadedPlugin(info, hooks=verdict.hooks, implementation=implementation, warnings=warnings)


def _slow_start(imported: Collection[str]) -> tuple[str, ...]:
    """A word about what loading the plugin brought in; one that another plugin brought before is that one's."""
    if not imported:
        return ()
    return (f"imports {', '.join(sorted(imported))} while it loads, and every command waits for that",)


def _info(entry: importlib.metadata.EntryPoint) -> PluginInfo:
    if entry.dist is None:
        return PluginInfo(entry.name, "unknown", "", entry.value)
    metadata = headers(entry.dist)
    return PluginInfo(
        entry.name,
        metadata["Name"] or "unknown",
        metadata["Version"] or "",
        entry.value,
        str(entry.dist.locate_file("")),
        _is_editable(entry.dist),
    )


def _is_editable(dist: importlib.metadata.Distribution) -> bool:
    """Whether pip says so (PEP 610)."""
    try:
        return bool(json.loads(dist.read_text("direct_url.json") or "{}").get("dir_info", {}).get("editable", False))
    except (ValueError, AttributeError):
        return False


def _source_of(entry: importlib.metadata.EntryPoint) -> str | None:
    return getattr(sys.modules.get(entry.module), "__file__", None)


def _heavy_modules() -> frozenset[str]:
    """Those that this process has imported so far."""
    return frozenset(name for name in HEAVY if name in sys.modules)
