"""Whether OpenVINO is here, found without importing it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
import sys
from pathlib import Path

_LEAST = (2026, 4)
"""Before it, outputs of dynamic sizes were copied, and NNCF 3.4 wrote graphs that it did not read."""

_LEAST_TEXT = ".".join(map(str, _LEAST))
INSTALL = f"pip install 'openvino>={_LEAST_TEXT}'"

_DEVICE_NODES = {"GPU": ("/dev/dri", "renderD*"), "NPU": ("/dev/accel", "accel*")}
"""Where the kernel driver of a device shows itself on Linux."""


def version() -> str:
    """The version that is installed; empty where there is none."""
    try:
        return importlib.metadata.version("openvino")
    except importlib.metadata.PackageNotFoundError:
        return ""


def missing() -> str | None:
    """Why models cannot be run on OpenVINO here, or None."""
    found = version()
    if not found or importlib.util.find_spec("openvino") is None:
        return f"OpenVINO is not installed: {INSTALL}"
    numbers = tuple(int(part) for part in re.findall(r"\d+", found)[:2])
    if numbers < _LEAST:
        return f"OpenVINO {found} is too old, {_LEAST_TEXT} is needed: {INSTALL}"
    return None


def device_missing(device: str) -> str | None:
    """Why models cannot be run on a device of OpenVINO here, as far as a look at the file system tells."""
    reason = missing()
    kind = device.partition(".")[0]
    if reason is not None or kind not in _DEVICE_NODES or sys.platform != "linux":
        return reason
    folder, pattern = _DEVICE_NODES[kind]
    if any(Path(folder).glob(pattern)):
        return None
    return f"this machine shows no {kind}: there is no {folder}/{pattern} (is its driver loaded?)"
