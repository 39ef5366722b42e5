"""Where TensorRT keeps engines and timings: below optim's cache, in a folder for each device and set of versions.

An engine runs on the kind of GPU, and with the TensorRT, that it was built with. What another device or version left is
in another folder, so it is never loaded: the engine is built anew. Each model has a folder in there: ONNX Runtime calls
an engine by the name of the model's file, its values and its types, and would load one of other weights, or one that
was built with another search for kernels, other memory or normalizations of another precision.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
from collections.abc import Mapping
from pathlib import Path

from optim.folders import cache_folder
from optim_plugins.nvidia.gpu.provider_settings import ON

_FOLDER = "tensorrt-engines"
_NAME = 16
"""Hex digits of a folder's name: enough that two sets of versions never share one."""


def cache_options(hardware: str, model_digest: str) -> Mapping[str, str]:
    """Options of the TensorRT provider with which engines and timings are kept for this device and these versions.

    Args:
        hardware: what :attr:`optim.Target.hardware` says of the device.
        model_digest: of the graph and its settings; timings are shared by all models.
    """
    folder = cache_place(hardware)
    engines = folder / model_digest[:_NAME]
    engines.mkdir(parents=True, exist_ok=True)
    (folder / "built-for.txt").write_text(f"{built_for(hardware)}\n", encoding="utf-8")
    return {
        "trt_engine_cache_enable": ON,
        "trt_engine_cache_path": str(engines),
        "trt_timing_cache_enable": ON,
        "trt_timing_cache_path": str(folder),
    }


def cache_place(hardware: str) -> Path:
    """The folder of this device and these versions."""
    digest = hashlib.sha256(built_for(hardware).encode()).hexdigest()
    return cache_folder() / _FOLDER / digest[:_NAME]


def built_for(hardware: str) -> str:
    """What an engine depends on, in one line: the device with its driver, TensorRT, onnxruntime."""
    from optim_plugins.nvidia.gpu.libraries import tensorrt_version

    runtime = next(filter(None, map(_version, ("onnxruntime-gpu", "onnxruntime"))), "unknown")
    return f"{hardware or 'no device'}; TensorRT {tensorrt_version() or 'of the system'}; onnxruntime {runtime}"


def other_engines(hardware: str) -> list[str]:
    """What engines in the cache were built for that this device and these versions do not load."""
    own = cache_place(hardware)
    places = sorted(path.parent for path in own.parent.glob("*/built-for.txt") if path.parent != own)
    found = [place for place in places if any(place.glob("*/*.engine"))]
    return [(place / "built-for.txt").read_text(encoding="utf-8").strip() for place in found]


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""
