"""Make ``src/optim_prepost/web/operators.json``: which operators onnxruntime-web has, by the package itself.

WebGPU and WebNN: the tables of the package's own documents. WASM: the package has no table; listed are the operators
of the steps, and tests/prepost/test_web.py opens and runs them on WASM.

usage: python plugins-prepost/make_operator_tables.py
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from optim_prepost.plans.catalog import KINDS
from optim_prepost.web.packages import ONNXRUNTIME_WEB, require

TABLE = Path(__file__).parent / "src" / "optim_prepost" / "web" / "operators.json"
ROW = re.compile(r"^\| (\w+) \| ([^|]+) \|", re.MULTILINE)
PART = re.compile(r"([\w.]+)\(([^)]*)\)")


def main() -> None:
    """Write the tables."""
    folder = require(ONNXRUNTIME_WEB)
    version = json.loads((folder / "package.json").read_text(encoding="utf-8"))["version"]
    tables = {
        "package": ONNXRUNTIME_WEB[0],
        "version": version,
        "wasm": sorted({operator for kind in KINDS.values() if not kind.custom for operator in kind.operators}),
        "webgpu": read_table(folder / "docs" / "webgpu-operators.md"),
        "webnn": read_table(folder / "docs" / "webnn-operators.md"),
    }
    TABLE.write_text(json.dumps(tables, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print(f"wrote {TABLE}: {len(tables['webgpu'])} operators on WebGPU, {len(tables['webnn'])} on WebNN")


def read_table(path: Path) -> dict[str, str]:
    """Operators (``domain:Name``, the standard domain left out) and the opsets that a document lists for them."""
    found: dict[str, str] = {}
    for name, opsets in ROW.findall(path.read_text(encoding="utf-8")):
        for domain, versions in PART.findall(opsets):
            key = name if domain == "ai.onnx" else f"{domain}:{name}"
            found[key] = versions.replace(" ", "")
    return found


if __name__ == "__main__":
    main()
