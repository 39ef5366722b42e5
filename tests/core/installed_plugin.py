"""Modules of this folder as installed plugins: a real distribution, seen by this process and by its workers."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@contextmanager
def installed(folder: Path, *modules: str) -> Iterator[None]:
    """Install ``<name>_plugin`` modules of this folder as plugins ``<name>``, and set up a cache of their own.

    Args:
        folder: empty; like site-packages.
        modules: e.g. ``timed_plugin``.
    """
    site = folder / "site"
    for module in modules:
        plugin = module.removesuffix("_plugin")
        info = site / f"optim_test_{plugin}-1.0.dist-info"
        info.mkdir(parents=True)
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: optim-test-{plugin}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(f"[optim.plugins]\n{plugin} = {module}\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(site), str(HERE), *_inherited()]))
        patch.setenv("OPTIM_CACHE_DIR", str(folder / "cache"))
        patch.delenv("OPTIM_DISABLE_PLUGINS", raising=False)
        patch.syspath_prepend(str(site))
        yield


def _inherited() -> list[str]:
    return [part for part in os.environ.get("PYTHONPATH", "").split(os.pathsep) if part]
