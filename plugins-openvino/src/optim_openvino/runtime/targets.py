"""The target ``openvino``, and what may stand behind its name: ``--target openvino:device=GPU,threads=4``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from optim import OptimError, Target
from optim.errors import unknown_name
from optim_openvino.runtime.installed import device_missing
from optim_openvino.runtime.properties import DEVICE, HARMLESS, RUNTIME, STREAMS, THREADS

_DEVICE = re.compile(r"(CPU|GPU|NPU|AUTO)(\.\d+)?")
_SETTINGS = ("device", "streams", "threads")
_NAMES = {"CPU": "CPU", "GPU": "Intel GPU", "NPU": "Intel NPU", "AUTO": "the device that OpenVINO chooses"}
_ROUNDS = "the NPU computes in 16 bits, whatever the model says"

TARGET = Target(
    "openvino",
    "openvino",
    runtime=RUNTIME,
    reads_onnx=True,
    device="CPU",
    harmless_options=HARMLESS,
    probe=partial(device_missing, "CPU"),
    configure=lambda settings: _configured(settings),
)


def _configured(settings: Mapping[str, str]) -> Target:
    """The target with settings.

    Raises:
        OptimError[unknown-target-setting]: lists the near ones.
        OptimError[bad-target-setting]: a value that the key does not take.
    """
    for key in settings:
        if key not in _SETTINGS:
            raise unknown_name("target setting", key, _SETTINGS, fix="--target openvino:device=GPU,threads=4")
    device = settings.get("device", "CPU").upper()
    found = _DEVICE.fullmatch(device)
    if found is None:
        raise _bad("device", settings["device"], "CPU, GPU, NPU or AUTO, with a number if there are several: GPU.1")
    options = {DEVICE: device} if "device" in settings else {}
    for key, name in (("streams", STREAMS), ("threads", THREADS)):
        if key in settings:
            options[name] = _count(key, settings[key])
    npu = found[1] == "NPU"
    return replace(
        TARGET,
        provider_options=options,
        threads=int(options.get(THREADS, 0)),
        device=_NAMES[found[1]] + (found[2] or ""),
        exact=not npu,
        remark=_ROUNDS if npu else "",
        probe=partial(device_missing, device),
    )


def _count(key: str, text: str) -> str:
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise _bad(key, text, "a count, 1 or more")
    return text


def _bad(key: str, value: str, takes: str) -> OptimError:
    return OptimError.usage(
        "bad-target-setting",
        f"target openvino has no {key}={value}",
        f"{key} is {takes}",
        "--target openvino:device=CPU,threads=4",
    )
