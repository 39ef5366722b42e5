"""What stands for a plugin's code in the key of a cached step."""

from __future__ import annotations

import hashlib
import importlib.util
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from optim._engine.plugins.plugin import PluginInfo


def plugin_version_key(plugin: PluginInfo) -> str:
    """The plugin's version; for an editable install with a digest of its source, which changes without the version.

    The digest covers contents and relative paths of every file of the plugin's top package; times do not count.
    What lies in the environment of an isolated plugin counts too.
    """
    from optim.isolation.environments import installed_environment

    environment = installed_environment(plugin.name)
    inside = f"@{environment.key[:16]}" if environment else ""
    if not plugin.editable:
        return plugin.version + inside
    return f"{plugin.version}+{source_digest(plugin.entry_point.partition(':')[0].strip())[:16]}{inside}"


@cache
def core_digest() -> str:
    """The digest of optim's own source, as this process found it: what it imported is what it runs."""
    return source_digest("optim")


def source_digest(module: str) -> str:
    """Sha256 over the source of the top package (below any namespace package) that ``module`` belongs to, hex."""
    digest = hashlib.sha256()
    for root in _roots(module):
        for file in _source_files(root):
            digest.update(f"{file.relative_to(root.parent).as_posix()}\0".encode())
            digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()


def _roots(module: str) -> list[Path]:
    """The folder of the top package, or the file of a top module."""
    parts = module.split(".")
    for count in range(1, len(parts) + 1):
        spec = importlib.util.find_spec(".".join(parts[:count]))
        if spec is None:
            break
        if spec.origin is not None:
            return [Path(spec.origin).parent if spec.submodule_search_locations else Path(spec.origin)]
    return []


def _source_files(root: Path) -> Iterator[Path]:
    if root.is_file():
        yield root
        return
    for path in sorted(root.iterdir()):
        if path.name.startswith(".") or path.name == "__pycache__" or path.suffix in {".pyc", ".pyo"}:
            continue
        if path.is_dir():
            yield from _source_files(path)
        else:
            yield path
