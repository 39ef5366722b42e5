"""What a plugin may not import while it loads: every command would wait for it, ``optim --plugins list`` too."""

from __future__ import annotations

import sys

HEAVY = ("numpy", "onnx", "onnx_ir", "onnxruntime", "pydantic", "torch")
"""Libraries that take longer to import than a listing may take; import them inside functions."""


def heavy_modules() -> frozenset[str]:
    """Those that this process has imported so far."""
    return frozenset(name for name in HEAVY if name in sys.modules)
