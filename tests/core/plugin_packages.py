"""Real plugin distributions on disk: a dist-info folder and modules, as pip would leave them."""

from __future__ import annotations

import importlib
import itertools
import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

CORE = Path(__file__).parents[2] / "core" / "src"

_numbers = itertools.count()

GOOD = textwrap.dedent("""
    from optim import APPLICABLE, Backend, Metric, Pass, PassResult, Target, hookimpl

    OPTIM_HOOK_API = 1

    class Shrink(Pass):
        name = "{plugin}.shrink"
        summary = "Makes it small."

        def applicable(self, model, target):
            return APPLICABLE

        def apply(self, model, options, context):
            return PassResult(model, False, ("nothing to do",))

    @hookimpl
    def optim_fuse(target):
        return [Shrink]

    @hookimpl
    def optim_targets():
        return [Target("{plugin}-device", "reference", device="a {plugin}")]
""")


class Site:
    """A folder like site-packages."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def add(
        self,
        plugin: str,
        source: str,
        *,
        package: str = "",
        version: str = "1.0",
        editable: bool = False,
        attribute: str = "",
        files: Mapping[str, str] | None = None,
    ) -> Path:
        """Install one distribution with one plugin; the module that implements it.

        ``{plugin}`` and ``{module}`` in the source are replaced by the plugin's name and the module's.
        """
        package = package or f"optim-{plugin}"
        module = f"optim_test_{package.replace('-', '_').lower()}_{next(_numbers)}"
        info = self.folder / f"{package.replace('-', '_')}-{version}.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
        (info / "entry_points.txt").write_text(f"[optim.plugins]\n{plugin} = {module}{attribute}\n")
        if editable:
            (info / "direct_url.json").write_text(json.dumps({"url": "file:///src", "dir_info": {"editable": True}}))
        for name, text in {f"{module}.py": source, **(files or {})}.items():
            text = textwrap.dedent(text).replace("{plugin}", plugin).replace("{module}", module)
            (self.folder / name).write_text(text)
        importlib.invalidate_caches()
        return self.folder / f"{module}.py"

    def run(self, *arguments: str, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run ``optim`` in a process of its own that sees this folder."""
        return self.python("-m", "optim", *arguments, environment=environment)

    def python(self, *arguments: str, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run Python with this folder on its path."""
        path = os.pathsep.join([str(self.folder), str(CORE), os.environ.get("PYTHONPATH", "")])
        return subprocess.run(
            [sys.executable, *arguments],
            env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", **(environment or {})},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """An empty folder of plugins, seen by this process; its modules are forgotten afterwards."""
    folder = tmp_path / "site"
    folder.mkdir()
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.delenv("OPTIM_DISABLE_PLUGINS", raising=False)
    yield Site(folder)
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(str(folder)):
            del sys.modules[name]
