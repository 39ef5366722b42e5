"""OpenVINO's properties that a model is opened with, by the names that OpenVINO gives them.

They stand in a model's session settings under the name of the runtime. OpenVINO's own default of precision is not
optim's: on a processor with bfloat16 it would round what nobody asked it to.
"""

from __future__ import annotations

from collections.abc import Mapping

from optim import Model, SessionConfig, Target

RUNTIME = "openvino"
DEVICE = "DEVICE"
"""Not a property of OpenVINO's: where the model is compiled for."""

MODEL_CACHE = "MODEL_CACHE"
"""Neither: whether what is compiled is kept for the next time; where is not the model's to say."""

PRECISION = "INFERENCE_PRECISION_HINT"
STREAMS = "NUM_STREAMS"
THREADS = "INFERENCE_NUM_THREADS"
HYPER_THREADING = "ENABLE_HYPER_THREADING"
PINNING = "ENABLE_CPU_PINNING"
CORE_TYPE = "SCHEDULING_CORE_TYPE"
GROUP_SIZE = "DYNAMIC_QUANTIZATION_GROUP_SIZE"
KV_PRECISION = "KV_CACHE_PRECISION"
DENORMALS = "CPU_DENORMALS_OPTIMIZATION"
LOW_PRECISION = "LP_TRANSFORMS_MODE"
"""Whether 8-bit products are made of Q/DQ pairs; a property of the CPU that OpenVINO's documentation does not list."""

_HINT = "PERFORMANCE_HINT"

_OF_PROCESSOR = (HYPER_THREADING, PINNING, CORE_TYPE, DENORMALS, THREADS, LOW_PRECISION)
HARMLESS = (
    DEVICE,
    MODEL_CACHE,
    PRECISION,
    STREAMS,
    THREADS,
    HYPER_THREADING,
    PINNING,
    CORE_TYPE,
    GROUP_SIZE,
    KV_PRECISION,
    DENORMALS,
    LOW_PRECISION,
    _HINT,
)
"""What the settings of a stranger's run folder may say: no file, no library. ``CACHE_DIR`` and ``WEIGHTS_PATH`` are
none of them."""

DEFAULTS = {PRECISION: "f32", _HINT: "LATENCY"}


def settings_of(model: Model, target: Target) -> tuple[str, dict[str, str]]:
    """The device that a model is compiled for, and its properties: the target's, and the model's own over them."""
    chosen = {**DEFAULTS, **target.provider_options, **model.session.provider_options.get(RUNTIME, {})}
    device = chosen.pop(DEVICE, "CPU")
    if not device.startswith("CPU"):
        for name in _OF_PROCESSOR:
            chosen.pop(name, None)
    return device, chosen


def as_session(properties: Mapping[str, str]) -> SessionConfig:
    """Session settings with these properties."""
    return SessionConfig(provider_options={RUNTIME: dict(properties)})
