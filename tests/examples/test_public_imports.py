"""Examples import what everyone may import: no module below ``optim._engine``, none of a plugin's own."""

from __future__ import annotations

import ast
from pathlib import Path

EXAMPLES = Path(__file__).parents[2] / "examples"


def is_private(module: str) -> bool:
    package = module.partition(".")[0]
    return module.startswith("optim._") or package.startswith("optim_plugins")


def test_examples_import_public_modules_only() -> None:
    found = {}
    for path in EXAMPLES.rglob("*.py"):
        nodes = [
            one for one in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(one, ast.ImportFrom | ast.Import)
        ]
        names = [one.module or "" if isinstance(one, ast.ImportFrom) else one.names[0].name for one in nodes]
        found[path.relative_to(EXAMPLES).as_posix()] = [name for name in names if is_private(name)]
    assert "minilm/demo.py" in found
    assert {path: names for path, names in found.items() if names} == {}
