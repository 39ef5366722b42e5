"""What stands for a plugin's code: in the key of a cached step, and on other machines."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from email.message import Message
from email.parser import HeaderParser
from functools import cache
from pathlib import Path

from optim._engine.plugins.plugin import PluginInfo

_REQUIRED = re.compile(r"(?P<name>[A-Za-z0-9][\w.-]*)[^;]*(?P<marker>;.*)?")
"""A requirement as metadata have it: its name, and when it counts. The rest of PEP 508 is not needed for a version, and
importing `packaging` for it takes 0.01 s of every run."""


def headers(distribution: importlib.metadata.Distribution) -> Message:
    """The fields of a distribution's metadata, without the description that follows them; empty where it has none.

    ``importlib.metadata`` parses all of it again each time that a field is asked for: a run asks for some sixty, which
    took 0.03 of 0.9 s of processor time.
    """
    text = distribution.read_text("METADATA") or distribution.read_text("PKG-INFO") or ""
    return HeaderParser().parsestr(text.partition("\n\n")[0])


def version_of(package: str) -> str:
    """The version of a distribution.

    Raises:
        importlib.metadata.PackageNotFoundError: it is not installed.
    """
    return headers(importlib.metadata.distribution(package))["Version"] or ""


def plugin_version_key(plugin: PluginInfo) -> str:
    """The plugin's version; for an editable install with a digest of its source, which changes without the version.

    The digest covers contents and relative paths of every file of the plugin's top package; times do not count.
    What lies in the environment of an isolated plugin counts too, and the libraries that its package asks for.
    """
    return version_keys([plugin])[plugin.name]


def version_keys(plugins: Iterable[PluginInfo]) -> dict[str, str]:
    """The keys of several plugins by name, at one moment: a package that brings many is read once."""
    digest_of, found = cache(_digest_of), {}
    for plugin in plugins:
        source = _source_of(plugin, digest_of) if plugin.editable else ""
        libraries = _digest(libraries_of(plugin.package))
        found[plugin.name] = f"{plugin.version}{source}{_environment_of(plugin)}{libraries}"
    return found


def carried_key(plugin: PluginInfo) -> str:
    """The same on whatever machine, however the plugin was installed there.

    The source counts always, and of libraries those that it cannot be installed without: a board needs no torch. What
    else is there, :func:`libraries_of` says.
    """
    needed = libraries_of(plugin.package, optional=False)
    return f"{plugin.version}{_source_of(plugin, _digest_of)}{_environment_of(plugin)}{_digest(needed)}"


@cache
def libraries_of(package: str, *, optional: bool = True) -> Mapping[str, str]:
    """The versions of what a distribution requires, as far as it is installed, by name."""
    try:
        required = headers(importlib.metadata.distribution(package)).get_all("Requires-Dist") or ()
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return {}
    found = {}
    for one in filter(None, map(_REQUIRED.match, required)):
        if optional or "extra" not in (one["marker"] or ""):
            with suppress(importlib.metadata.PackageNotFoundError):
                found[one["name"]] = version_of(one["name"])
    return found


def _digest(libraries: Mapping[str, str]) -> str:
    versions = " ".join(sorted(f"{name}=={version}" for name, version in libraries.items()))
    return f"&{hashlib.sha256(versions.encode()).hexdigest()[:16]}" if versions else ""


def _source_of(plugin: PluginInfo, digest_of: Callable[[tuple[Path, ...]], str]) -> str:
    return f"+{digest_of(_roots(plugin.entry_point.partition(':')[0].strip()))[:16]}"


def _environment_of(plugin: PluginInfo) -> str:
    from optim.isolation.environments import installed_environment

    environment = installed_environment(plugin.name)
    return f"@{environment.key[:16]}" if environment else ""


@cache
def core_digest() -> str:
    """The digest of optim's own source, as this process found it: what it imported is what it runs."""
    return source_digest("optim")


def source_digest(module: str) -> str:
    """Sha256 over the source of the top package (below any namespace package) that ``module`` belongs to, hex."""
    return _digest_of(_roots(module))


def _digest_of(roots: Sequence[Path]) -> str:
    digest = hashlib.sha256()
    for root in roots:
        start = len(str(root.parent)) + 1
        for file in _source_files(root):
            status = os.stat(file)  # noqa: PTH116 - there are hundreds, and a path of each costs more than its status
            digest.update(f"{Path(file[start:]).as_posix() if os.sep != '/' else file[start:]}\0".encode())
            digest.update(_content(file, status.st_size, status.st_mtime_ns, status.st_ino))
    return digest.hexdigest()


@cache
def _content(file: str, size: int, modified_ns: int, inode: int) -> bytes:
    """The digest of a file's content; a run asks some ten times, and reads what has not changed once."""
    return hashlib.sha256(Path(file).read_bytes()).digest()


def _roots(module: str) -> tuple[Path, ...]:
    """The folder of the top package, or the file of a top module."""
    parts = module.split(".")
    for count in range(1, len(parts) + 1):
        spec = importlib.util.find_spec(".".join(parts[:count]))
        if spec is None:
            break
        if spec.origin is not None:
            return (Path(spec.origin).parent if spec.submodule_search_locations else Path(spec.origin),)
    return ()


def _source_files(root: Path | str) -> Iterator[str]:
    """Every file below a folder, or the file itself; as texts, for there are hundreds and a run asks often."""
    if isinstance(root, Path) and root.is_file():
        yield str(root)
        return
    for entry in sorted(os.scandir(root), key=lambda entry: entry.name):
        if entry.name.startswith(".") or entry.name == "__pycache__" or entry.name.endswith((".pyc", ".pyo")):
            continue
        if entry.is_dir():
            yield from _source_files(entry.path)
        else:
            yield entry.path
