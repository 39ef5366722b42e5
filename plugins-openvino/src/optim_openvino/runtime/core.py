"""OpenVINO's entry, and what it says of devices."""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def core() -> Any:
    """One a process: it loads the libraries of devices.

    Raises:
        OptimError[openvino-damaged]: it cannot be imported, or is not whole.
    """
    from optim_openvino.runtime.quiet_import import quiet_openvino
    from optim_openvino.runtime.refusals import damaged

    try:
        return quiet_openvino().Core()
    except (ImportError, AttributeError) as error:
        raise damaged(error) from error


@cache
def capabilities(device: str) -> frozenset[str]:
    """Precisions and abilities of a device, in OpenVINO's words (``BF16``, ``INT8``); none of one that is not there."""
    try:
        return frozenset(core().get_property(device, "OPTIMIZATION_CAPABILITIES"))
    except RuntimeError:
        return frozenset()
