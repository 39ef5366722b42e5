"""Tiny wheels, made by hand: what a package index would have."""

from __future__ import annotations

import zipfile
from pathlib import Path


def make_wheel(folder: Path, name: str, version: str = "1.0", *, code: str = "", extra: dict[str, str] | None = None):
    """A wheel with one module; ``extra``: more files of its metadata folder."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}-py3-none-any.whl"
    info = f"{name}-{version}.dist-info"
    files = {
        f"{name}.py": code or f"VERSION = {version!r}\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        **{f"{info}/{inner}": text for inner, text in (extra or {}).items()},
    }
    record = "".join(f"{inner},,\n" for inner in [*files, f"{info}/RECORD"])
    with zipfile.ZipFile(path, "w") as archive:
        for inner, text in {**files, f"{info}/RECORD": record}.items():
            archive.writestr(inner, text)
    return path
