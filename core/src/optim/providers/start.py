"""What NVIDIA's providers need to start, and what is missing where they do not.

ONNX Runtime's GPU build imports without a GPU, lists its providers, and runs on the CPU where one of them cannot be
started: it says so in its log alone. Their libraries come in Python packages of NVIDIA's, which the loader of the
system does not look into.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from pathlib import Path

from optim._engine.stdout import prints_dropped
from optim.providers.names import CUDA, TENSORRT

CUDA_COMMAND = "pip install 'onnxruntime-gpu[cuda,cudnn]'"
BUILD_COMMAND = f"pip uninstall -y onnxruntime && {CUDA_COMMAND}"
TENSORRT_COMMAND = "pip install 'tensorrt-cu13>=10,<11'"
"""Command that installs TensorRT 10. The newest version on PyPI is 11, which onnxruntime 1.31 does not load."""

_TENSORRT_PACKAGE = "tensorrt_libs"
_FILES = {CUDA: "onnxruntime_providers_cuda", TENSORRT: "onnxruntime_providers_tensorrt"}
_NO_FILE = re.compile(r"^(?P<file>[^\s:]+): cannot open shared object file")
_DRIVER = ("libcuda.so.1", "nvcuda.dll")


@cache
def preload(provider: str) -> None:
    """Load the libraries of NVIDIA's Python packages that a provider needs; nothing for other providers.

    A missing library is not named here: onnxruntime fails to start the provider, and ``missing_library`` tells.
    """
    if provider not in _FILES:
        return
    import ctypes  # a tenth of the time to list plugins

    import onnxruntime

    with prints_dropped():  # it prints what it does not find
        onnxruntime.preload_dlls()
    for path in tensorrt_files() if provider == TENSORRT else ():
        with suppress(OSError):
            ctypes.CDLL(str(path))


def tensorrt_files() -> list[Path]:
    """The libraries of the Python package of TensorRT, in the order in which they are loaded."""
    found = importlib.util.find_spec(_TENSORRT_PACKAGE)
    folders = [Path(place) for place in (found.submodule_search_locations or ())] if found else []
    names = ("*nvinfer.so.*", "*nvinfer_plugin.so.*", "*nvonnxparser.so.*", "nvinfer*.dll", "nvonnxparser*.dll")
    return [path for folder in folders for name in names for path in sorted(folder.glob(name))]


def missing_library(provider: str) -> str:
    """Why the provider's own library does not load, in the loader's words; empty where it does, or has none."""
    if provider not in _FILES:
        return ""
    import ctypes

    import onnxruntime

    name = f"{_FILES[provider]}.dll" if sys.platform == "win32" else f"lib{_FILES[provider]}.so"
    path = Path(onnxruntime.__file__).parent / "capi" / name
    if not path.is_file():
        return f"this onnxruntime has no {name}"
    try:
        ctypes.CDLL(str(path))
    except OSError as error:
        found = _NO_FILE.match(str(error))
        return f"{found['file']} is missing" if found else str(error).replace(str(path.parent), "")
    return ""


def remedy(providers: Iterable[str], reason: str) -> str:
    """The command, or the step, that brings what is missing; empty where nobody knows it."""
    if any(name in reason for name in _DRIVER):
        return "install NVIDIA's driver, or choose a target that this machine has: optim targets"
    if "nvinfer" in reason or "nvonnxparser" in reason:
        return TENSORRT_COMMAND
    return CUDA_COMMAND if reason and any(name in _FILES for name in providers) else ""
