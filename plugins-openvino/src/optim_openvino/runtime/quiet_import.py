"""OpenVINO imported without its telemetry: nothing that optim runs sends anything anywhere.

With the package ``openvino-telemetry``, which NNCF brings, importing OpenVINO forks a process that sends an event.
"""

from __future__ import annotations

import sys
from typing import Any

_TELEMETRY = "openvino_telemetry"


def quiet_openvino() -> Any:
    """The module ``openvino``; where it was imported before, as it was imported."""
    known = _TELEMETRY in sys.modules or "openvino" in sys.modules
    if not known:
        sys.modules[_TELEMETRY] = None  # type: ignore[assignment]  # how Python says that it cannot be imported
    try:
        import openvino
    finally:
        if not known:
            del sys.modules[_TELEMETRY]
    return openvino
