"""NNCF, imported without what is not needed: it sends nothing, prints nothing, and loads no torch.

Torch is only there for torch models, and would take three times as long to import as all else. NNCF imports it itself,
and again with each call, to ask whether a model is one of torch.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import logging
import os
import sys
from collections.abc import Iterator
from typing import Any

from optim_openvino.runtime.quiet_import import quiet_openvino

INSTALL = "pip install 'optim-plugin-openvino[nncf]'"


def missing() -> str | None:
    """Why its passes cannot run, or None."""
    return None if importlib.util.find_spec("nncf") is not None else f"NNCF is not installed: {INSTALL}"


@contextlib.contextmanager
def quiet_nncf() -> Iterator[Any]:
    """The module ``nncf``; while it lasts, its progress bars go nowhere."""
    os.environ.setdefault("NNCF_CI", "1")  # no telemetry
    quiet_openvino()
    with contextlib.redirect_stdout(io.StringIO()), _without_torch():
        import nncf
        import nncf.onnx

        nncf.set_log_level(logging.ERROR)
        yield nncf


@contextlib.contextmanager
def _without_torch() -> Iterator[None]:
    """Imports of torch fail, unless it was imported before."""
    if "torch" in sys.modules:
        yield
        return
    sys.modules["torch"] = None  # type: ignore[assignment]  # how Python says that a module cannot be imported
    try:
        yield
    finally:
        del sys.modules["torch"]
