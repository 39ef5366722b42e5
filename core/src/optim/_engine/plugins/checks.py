"""Whether what a hook returned is what its contract says; each check answers with the defect, or nothing."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

from optim._engine.plugins.plugin import PluginInfo
from optim.backend import Backend
from optim.goal import Basis, Goal, Words
from optim.hooks import OWN_COMMANDS, RESERVED_NAMES, Command
from optim.layout import Layout
from optim.metric import Metric, MetricFamily
from optim.origin import Origin
from optim.passes import Pass, Role, Stage
from optim.source_passes import AnyPass, Exporter, SourcePass
from optim.target import Target
from optim.user_code import FUNCTION_NAME
from optim.workplace import Cluster

_KEBAB = r"[a-z][a-z0-9]*(?:-[a-z0-9]+)*"
_PASS_NAME = re.compile(rf"{_KEBAB}\.[a-z0-9]+(?:-[a-z0-9]+)*")
_NAME = re.compile(r"[a-z0-9]+(?:[-_.][a-z0-9]+)*")

_PASS_BASES: dict[Stage, type] = {Stage.PRE_EXPORT: SourcePass, Stage.EXPORT: Exporter}
BASES = {"backend": Backend, "layout": Layout, "workplace": Cluster, "goal": Goal, "origin": Origin}
"""Base class of what a plugin offers, by kind; plugins offer functions or values of other kinds."""


def pass_defect(stage: Stage, item: Any, plugin: PluginInfo) -> str:
    """Returns why ``item`` is no pass that ``plugin`` may contribute to ``stage``."""
    if defect := _base_defect(item, _PASS_BASES.get(stage, Pass)):
        return defect
    name, where = getattr(item, "name", None), f"class {item.__qualname__}"
    if not isinstance(name, str) or not _PASS_NAME.fullmatch(name):
        return f"{where} has the name {name!r}; it must be plugin dot kebab-case, e.g. '{plugin.name}.fold-constants'"
    if name.partition(".")[0] != plugin.name:
        return f"pass {name} must be called {plugin.name}.{name.partition('.')[2]}: it belongs to plugin {plugin.name}"
    return _attribute_defect(item)


def target_defect(item: Any, plugin: PluginInfo) -> str:
    """Returns why ``item`` is no target."""
    if not isinstance(item, Target):
        return f"returned {_described(item)}, not a Target"
    if not isinstance(item.name, str) or not _NAME.fullmatch(item.name):
        return f"target {item.name!r} must be called in lower case, e.g. 'cuda' or 'qnn-htp'"
    if not item.backend:
        return f"target {item.name} names no backend"
    if not item.runs_on:
        return f"target {item.name} names neither a provider of onnxruntime nor the runtime that it runs on (runtime=)"
    return _reserved_defect("target", item.name, plugin)


def metric_defect(item: Any, plugin: PluginInfo) -> str:
    """Returns why ``item`` is no metric."""
    if not isinstance(item, Metric | MetricFamily):
        return f"returned {_described(item)}, not a Metric"
    if isinstance(item, MetricFamily):
        for attribute in (item.make, item.options):
            if isinstance(attribute, str) and not FUNCTION_NAME.fullmatch(attribute):
                return f"metric {item.name} names {attribute!r}; it must be 'package.module:name'"
    return _name_defect(item, "a metric") or _reserved_defect("metric", item.name, plugin)


def class_defect(kind: str, item: Any, plugin: PluginInfo) -> str:
    """Returns why ``item`` is no class of a backend, a layout, a workplace, a goal or an origin."""
    return (
        _base_defect(item, BASES[kind])
        or _name_defect(item, f"class {item.__qualname__}")
        or (_layout_defect(item) if kind == "layout" else "")
        or (_cluster_defect(item) if kind == "workplace" else "")
        or (_goal_defect(item) if kind == "goal" else "")
        or _reserved_defect(kind, item.name, plugin)
    )


def _layout_defect(item: type[Layout]) -> str:
    if defect := _line_defect(item, "layout", "summary") or _line_defect(item, "layout", "consumer"):
        return defect
    if not isinstance(getattr(item, "opener", None), Path):
        return f"layout {item.name}: 'opener' must be the path of a Python file"
    return _options_defect(item, "layout")


def _cluster_defect(item: type[Cluster]) -> str:
    if isinstance(item.schemes, tuple) and all(isinstance(scheme, str) for scheme in item.schemes):
        return ""
    return f"workplace {item.name}: 'schemes' must be a tuple of texts, not {item.schemes!r}"


def _goal_defect(item: type[Goal]) -> str:
    if item.basis is not Basis.CLOCK or item.clock is Goal.clock:
        return f"goal {item.name} has no clock of its own: it must define 'clock', and leave 'basis' as it is"
    if not isinstance(item.words, Words):
        return f"goal {item.name}: 'words' must be Words, not {_described(item.words)}"
    return _line_defect(item, "goal", "summary")


def command_defect(item: Any, plugin: PluginInfo) -> str:
    """Returns why ``item`` names no command that a plugin may add."""
    path = item.path if isinstance(item, Command) else item
    if not isinstance(path, str) or not FUNCTION_NAME.fullmatch(path):
        return f"returned {path!r}, not 'package.module:command'"
    verb = command_verb(path)
    if verb in OWN_COMMANDS:
        return f"{path}: 'optim {verb}' is a command of optim itself"
    return _reserved_defect("command", verb, plugin)


def function_defect(item: Any, plugin: PluginInfo) -> str:
    """Returns why ``item`` names no function, or class."""
    named = isinstance(item, str) and FUNCTION_NAME.fullmatch(item)
    return "" if named else f"returned {item!r}, not 'package.module:function'"


def command_verb(item: Command | str) -> str:
    """Returns what users call the command ``package.module:name``: its name there, with dashes."""
    path = item.path if isinstance(item, Command) else item
    return path.rpartition(":")[2].replace("_", "-")


def _reserved_defect(kind: str, name: str, plugin: PluginInfo) -> str:
    """Returns why a plugin may not use a name that users know as another's, or nothing."""
    owner = RESERVED_NAMES[kind].get(name, plugin.name)
    return "" if owner == plugin.name else f"{kind} {name} is reserved for plugin {owner}: call it {plugin.name}-{name}"


def _base_defect(item: Any, base: type) -> str:
    if not inspect.isclass(item) or not issubclass(item, base):
        return f"returned {_described(item)}, not a subclass of {base.__name__}"
    missing = sorted(getattr(item, "__abstractmethods__", ()))
    return f"class {item.__qualname__} does not implement {', '.join(missing)}" if missing else ""


def _name_defect(item: Any, where: str) -> str:
    name = getattr(item, "name", None)
    if isinstance(name, str) and _NAME.fullmatch(name):
        return ""
    return f"{where} has the name {name!r}; names are in lower case, e.g. 'onnxruntime'"


def _line_defect(item: Any, kind: str, attribute: str) -> str:
    text = getattr(item, attribute, None)
    is_line = isinstance(text, str) and text.strip() and "\n" not in text
    return "" if is_line else f"{kind} {item.name} needs a {attribute} of one line"


def _attribute_defect(item: AnyPass) -> str:
    if defect := _line_defect(item, "pass", "summary"):
        return defect
    for attribute in ("before", "after"):
        names = getattr(item, attribute)
        if not isinstance(names, tuple) or not all(isinstance(name, str) for name in names):
            return f"pass {item.name}: '{attribute}' must be a tuple of pass names, not {names!r}"
    return _options_defect(item, "pass") or (_pass_defect(item) if issubclass(item, Pass) else "")


def _options_defect(item: AnyPass | type[Layout], kind: str) -> str:
    options = item.options
    if isinstance(options, type) or (isinstance(options, str) and FUNCTION_NAME.fullmatch(options)):
        return ""
    found = repr(options) if isinstance(options, str) else _described(options)
    return f"{kind} {item.name}: 'options' must be a class or 'package.module:Class', not {found}"


def _pass_defect(item: type[Pass]) -> str:
    if not isinstance(item.role, Role):
        return f"pass {item.name}: 'role' must be one of {', '.join(f'Role.{role.name}' for role in Role)}"
    for attribute in ("lossy", "session_only", "calibrates"):
        if not isinstance(getattr(item, attribute), bool):
            return f"pass {item.name}: '{attribute}' must be True or False"
    for attribute in ("makes", "hardware"):
        if not isinstance(getattr(item, attribute), str):
            return f"pass {item.name}: '{attribute}' must be a text"
    if not isinstance(item.alternatives, str | None):
        return f"pass {item.name}: 'alternatives' must be the name of a group, or None"
    return ""


def _described(item: Any) -> str:
    if item is None:
        return "None"
    return f"class {item.__qualname__}" if inspect.isclass(item) else f"something of type {type(item).__name__}"
