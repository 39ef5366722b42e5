"""What is wrong with the plugins of this installation, and how to mend each thing."""

from __future__ import annotations

import importlib.metadata
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

from optim.engine.installation import (
    DISABLE_VARIABLE,
    LoadedPlugin,
    PluginInfo,
    Registry,
    State,
    SurveyedPass,
    survey_passes,
)
from optim.errors import OptimError
from optim.hooks import Command
from optim.metric import MetricFamily
from optim.passes import Stage
from optim_plugins.diagnose.installation.environment import diagnose
from optim_plugins.diagnose.installation.imports import import_defect, missing_in_functions

_RUNTIMES = (
    "onnxruntime",
    "onnxruntime-gpu",
    "onnxruntime-directml",
    "onnxruntime-openvino",
    "onnxruntime-training",
    "onnxruntime-silicon",
    "ort-nightly",
    "ort-nightly-gpu",
)
"""Distributions that all install the same package ``onnxruntime``: of two, the last one written wins."""


class Severity(StrEnum):
    """PROBLEM: something does not work, or not as it says. NOTE: it may be meant so."""

    PROBLEM = "problem"
    NOTE = "note"


@dataclass(frozen=True, slots=True)
class Remark:
    """One thing."""

    severity: Severity
    subject: str
    what: str
    fix: str


def examine(registry: Registry) -> list[Remark]:
    """Everything that is wrong, problems first."""
    passes = survey_passes(registry)
    for kind in ("backend", "metric", "layout", "goal", "command"):
        registry.offered(kind)  # every hook is asked, so that the registry knows its problems
    found = [
        *_runtime(),
        *_requirements(registry.plugins),
        *_plugins(registry.plugins),
        *_environments(registry.plugins),
        *_offers(registry),
        *_targets(registry),
        *_order(registry),
        *_unresolved(passes, registry),
        *_lazy_names(passes, registry),
        *_late_imports(passes, registry),
        *_unknown_disabled(registry),
    ]
    return sorted(found, key=lambda finding: finding.severity is not Severity.PROBLEM)


def _runtime() -> Iterator[Remark]:
    installed = [name for name in _RUNTIMES if _version(name)]
    if len(installed) > 1:
        keep = "onnxruntime-gpu" if "onnxruntime-gpu" in installed else installed[0]
        yield Remark(
            Severity.PROBLEM,
            " and ".join(installed),
            "install the same files: which one runs is undefined, and removing one breaks the other",
            f"pip uninstall -y {' '.join(installed)} && pip install {keep}   # or {_others(installed, keep)}",
        )
    elif not installed:
        yield Remark(
            Severity.NOTE,
            "onnxruntime",
            "is not installed: targets that need it cannot be used",
            "pip install 'onnxruntime>=1.24.2,<1.33'",
        )
    elif not _files_are_there(installed[0]):
        yield Remark(
            Severity.PROBLEM,
            installed[0],
            "is installed, but its files are missing",
            f"pip install --force-reinstall --no-deps {installed[0]}",
        )


def _files_are_there(package: str) -> bool:
    """Whether the libraries that pip recorded for a package exist: removing one build takes the other's along.

    Nothing is imported to find out: that may be what is broken. A package without a record is taken to be whole.
    """
    recorded = importlib.metadata.files(package)
    if recorded is None:
        return True
    libraries = [path for path in recorded if path.suffix in {".so", ".pyd"}]
    return bool(libraries) and all(Path(str(path.locate())).exists() for path in libraries)


def _others(installed: list[str], keep: str) -> str:
    return " or ".join(name for name in installed if name != keep)


def _requirements(plugins: Iterable[LoadedPlugin]) -> Iterator[Remark]:
    """What the packages say that they need, and is not there, or in another version."""
    for package in dict.fromkeys(["optim-core", *(plugin.info.package for plugin in plugins)]):
        for requirement in _needs(package):
            version = _version(requirement.name)
            if version and requirement.specifier.contains(version, prereleases=True):
                continue
            what = f"needs {requirement}, " + (f"and {version} is installed" if version else "which is not installed")
            yield Remark(Severity.PROBLEM, package, what, f"pip install '{requirement}'")


def _needs(package: str) -> Iterator[Requirement]:
    for requirement in _requirements_of(package):
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield requirement


def _requirements_of(package: str) -> Iterator[Requirement]:
    """What the metadata of a distribution asks for, extras included; lines that cannot be read are left out."""
    try:
        lines = importlib.metadata.requires(package) or ()
    except importlib.metadata.PackageNotFoundError:
        return
    for line in lines:
        with suppress(InvalidRequirement):
            yield Requirement(line)


def _plugins(plugins: Iterable[LoadedPlugin]) -> Iterator[Remark]:
    for plugin in plugins:
        subject = f"plugin {plugin.info}"
        if plugin.state is State.INCOMPATIBLE:
            fix = f"update {plugin.info.package} and optim-core: docs/install.md#update"
            yield Remark(Severity.PROBLEM, subject, plugin.reason, fix)
        elif plugin.state is State.FAILED:
            yield Remark(Severity.PROBLEM, subject, plugin.reason, _repair(plugin))
        for warning in plugin.warnings:
            yield Remark(Severity.NOTE, subject, warning, f"update {plugin.info.package}")


def _environments(plugins: Iterable[LoadedPlugin]) -> Iterator[Remark]:
    """Of isolated plugins: one that was never made may be meant so, one that is broken is not."""
    for plugin in plugins:
        if plugin.state is State.OK and plugin.isolation is not None and (found := diagnose(plugin.isolation)):
            severity = Severity.PROBLEM if found.broken else Severity.NOTE
            yield Remark(severity, f"plugin {plugin.info}", found.what, found.fix)


def _repair(plugin: LoadedPlugin) -> str:
    if plugin.missing_module:
        return f"install what brings the module '{plugin.missing_module}', or: pip uninstall {plugin.info.package}"
    if plugin.is_rivalled:
        return f"pip uninstall {plugin.info.package}   # or the other one"
    return f"optim --debug plugins show {plugin.name}   # then report it to the makers of {plugin.info.package}"


def _offers(registry: Registry) -> Iterator[Remark]:
    for problem in registry.problems:
        yield Remark(
            Severity.PROBLEM,
            f"plugin {problem.plugin}",
            f"{problem.hook}: {problem.reason}",
            f"optim --disable-plugin {problem.plugin.name} ...   # until {problem.plugin.package} is repaired",
        )


def _targets(registry: Registry) -> Iterator[Remark]:
    for name, offer in registry.offered("target").items():
        target = offer.value
        if target.backend not in registry.offered("backend"):
            yield Remark(
                Severity.PROBLEM,
                f"target {name}",
                f"runs on backend {target.backend}, which no plugin brings",
                f"install the plugin that does; {offer.plugin.package} should say which",
            )
        elif reason := registry.unavailable(target):
            fix = "install what is missing, or name another target: optim targets"
            yield Remark(Severity.NOTE, f"target {name}", reason, fix)


def _order(registry: Registry) -> Iterator[Remark]:
    seen: set[str] = set()
    for target in registry.targets().values():
        for stage in Stage:
            try:
                registry.ordered(stage, target)
            except OptimError as error:
                if error.cause not in seen:
                    seen.add(error.cause)
                    yield Remark(Severity.PROBLEM, error.what, error.cause, error.fix)


def _unresolved(passes: Iterable[SurveyedPass], registry: Registry) -> Iterator[Remark]:
    """Names in before and after: of a plugin that is here and has no such pass, they are misspelt."""
    there = {plugin.name for plugin in registry.plugins if plugin.state is State.OK}
    absent: dict[tuple[str, str], list[str]] = defaultdict(list)
    for item in passes:
        for name in item.unresolved:
            plugin = re.split(r"[.:]", name)[0]
            if plugin in there and name == f"{plugin}:*":
                continue  # all passes of a plugin that has none
            if plugin in there:
                what = (
                    f"names {name} in before or after; plugin {plugin} has no such pass in stage {item.offered.stage}"
                )
                fix = f"report it to the makers of {item.offered.plugin.package}"
                yield Remark(Severity.PROBLEM, f"pass {item.offered.name}", what, fix)
            else:
                absent[item.offered.name, plugin].append(name)
    alike: dict[tuple[str, str], list[str]] = defaultdict(list)
    for (subject, plugin), names in absent.items():
        alike[", ".join(names), plugin].append(subject)
    for (names_there, plugin), subjects in alike.items():
        what = f"names {names_there} in before or after, and plugin {plugin} is not installed"
        fix = f"nothing, unless you want plugin {plugin}: install it"
        yield Remark(Severity.NOTE, f"pass {', '.join(subjects)}", what, fix)


def _lazy_names(passes: Iterable[SurveyedPass], registry: Registry) -> Iterator[Remark]:
    """What plugins name as ``module:name`` and nobody has imported yet: a library that is missing shows here first."""
    named: dict[tuple[str, str], tuple[str, PluginInfo]] = {}
    for item in passes:
        options = item.offered.pass_class.options
        if isinstance(options, str):
            named[f"pass {item.offered.name}", options] = ("its options", item.offered.plugin)
    for name, offer in registry.offered("metric").items():
        if isinstance(offer.value, MetricFamily):
            for what, path in (("its function", offer.value.make), ("its options", offer.value.options)):
                if isinstance(path, str):
                    named[f"metric {name}", path] = (what, offer.plugin)
    for name, offer in registry.offered("layout").items():
        if isinstance(offer.value.options, str):
            named[f"layout {name}", offer.value.options] = ("its options", offer.plugin)
    for name, offer in registry.offered("command").items():
        path = offer.value.path if isinstance(offer.value, Command) else str(offer.value)
        named[f"command {name}", path] = ("its code", offer.plugin)
    for (subject, path), (what, plugin) in named.items():
        if defect := import_defect(path):
            fix = f"install what it needs, or report it to the makers of {plugin.package}"
            yield Remark(Severity.PROBLEM, subject, f"{what}, {path}, cannot be imported: {defect}", fix)


def _late_imports(passes: Iterable[SurveyedPass], registry: Registry) -> Iterator[Remark]:
    """What plugins import when they work, and is not there; what their distribution calls optional is a note."""
    modules = {(item.offered.pass_class.__module__, item.offered.plugin) for item in passes}
    for kind in ("backend", "layout"):
        modules |= {(offer.value.__module__, offer.plugin) for offer in registry.offered(kind).values()}
    for kind in ("metric", "command"):
        modules |= {
            (path.partition(":")[0], offer.plugin)
            for offer in registry.offered(kind).values()
            if (path := _import_path(offer.value))
        }
    missing = {(plugin, *found) for module, plugin in modules for found in missing_in_functions(module)}
    importers: dict[tuple[PluginInfo, str], str] = {}
    for plugin, who, name in sorted(missing, key=str):
        importers.setdefault((plugin, name), who)
    optional: dict[tuple[PluginInfo, str], list[str]] = defaultdict(list)
    for (plugin, name), who in importers.items():
        if extras := _extras(plugin.package).get(name.replace("_", "-")):
            optional[plugin, plugin.name if plugin.name in extras else extras[0]].append(name)
            continue
        what = f"{who} imports {name} when it works, which is not installed"
        fix = f"install what brings the module '{name}'; {plugin.package} should say which"
        yield Remark(Severity.PROBLEM, f"plugin {plugin}", what, fix)
    for (plugin, extra), names in optional.items():
        what = f"parts of it need libraries that are not installed: {', '.join(names)}"
        needed = (requirement for requirement in _requirements_of(plugin.package) if extra in _extras_of(requirement))
        libraries = " ".join(f"'{one.name}{one.specifier}'" for one in needed)
        yield Remark(Severity.NOTE, f"plugin {plugin}", what, f"pip install {libraries}")


def _import_path(value: object) -> str:
    """Where the code of a metric or a command lies."""
    if isinstance(value, Command | str):
        return value.path if isinstance(value, Command) else value
    made = value.make if isinstance(value, MetricFamily) else getattr(value, "call", None)
    return made if isinstance(made, str) else getattr(made, "__module__", "")


def _extras(package: str) -> dict[str, list[str]]:
    """What a distribution asks for in extras alone, and in which."""
    found: dict[str, list[str]] = defaultdict(list)
    for requirement in _requirements_of(package):
        for extra in _extras_of(requirement):
            found[requirement.name.lower()].append(extra)
    return found


def _extras_of(requirement: Requirement) -> list[str]:
    return re.findall(r"extra == ['\"]([^'\"]+)", str(requirement.marker or ""))


def _unknown_disabled(registry: Registry) -> Iterator[Remark]:
    known = {plugin.name for plugin in registry.plugins}
    names = [name for part in os.environ.get(DISABLE_VARIABLE, "").split(",") if (name := part.strip())]
    for name in names:
        if name not in known:
            left = ",".join(sorted(known & set(names)))
            fix = f"export {DISABLE_VARIABLE}={left}" if left else f"unset {DISABLE_VARIABLE}"
            yield Remark(Severity.PROBLEM, DISABLE_VARIABLE, f"names plugin {name}, which is not installed", fix)


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name) or ""
    except importlib.metadata.PackageNotFoundError:
        return ""
