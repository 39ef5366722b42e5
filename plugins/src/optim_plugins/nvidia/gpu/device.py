"""The GPUs of this machine, asked of NVML, the library that comes with NVIDIA's driver.

NVML makes no CUDA context: processes that are forked afterwards can still use the GPU, which they could not after
``cuInit``. https://docs.nvidia.com/deploy/nvml-api
"""

from __future__ import annotations

import ctypes
import os
import sys
from dataclasses import dataclass
from typing import Any

_LIBRARY = "nvml.dll" if sys.platform == "win32" else "libnvidia-ml.so.1"
_TEXT = 96
"""Bytes that NVML writes at most for a name or a version."""

_HIDDEN = ("", "-1")


@dataclass(frozen=True, slots=True)
class GpuDevice:
    """A GPU.

    Attributes:
        name: as NVIDIA sells it.
        memory_bytes: of the device.
        capability: compute capability, e.g. ``(9, 0)``.
        driver: version of the driver.
        driver_cuda: newest CUDA that the driver runs, e.g. ``(13, 0)``.
    """

    name: str
    memory_bytes: int
    capability: tuple[int, int]
    driver: str
    driver_cuda: tuple[int, int]

    @property
    def text(self) -> str:
        """What its speed depends on, in one line."""
        major, minor = self.capability
        memory = f"{self.memory_bytes / 2**30:.0f} GiB"
        return f"{self.name}, {memory}, compute capability {major}.{minor}, driver {self.driver}"


@dataclass(frozen=True, slots=True)
class NoDevice:
    """Why there is no GPU to use."""

    reason: str


@dataclass(frozen=True, slots=True)
class MemoryInUse:
    """Memory of a GPU, in bytes."""

    free_bytes: int
    used_bytes: int


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


def find_device(index: int = 0) -> GpuDevice | NoDevice:
    """The GPU of that number, as NVML counts them, or why there is none."""
    if os.environ.get("CUDA_VISIBLE_DEVICES", "all").strip() in _HIDDEN:
        return NoDevice("CUDA_VISIBLE_DEVICES hides every GPU: unset it, or name one (CUDA_VISIBLE_DEVICES=0)")
    try:
        nvml = _load()
    except OSError:
        return NoDevice(f"there is no NVIDIA driver: {_LIBRARY} cannot be loaded; install the driver of the GPU")
    if failed := nvml.nvmlInit_v2():
        return NoDevice(f"NVIDIA's driver does not answer (NVML error {failed}): nvidia-smi says more")
    try:
        return _asked(nvml, index)
    finally:
        nvml.nvmlShutdown()


def _load() -> Any:
    return ctypes.CDLL(_LIBRARY)


def _asked(nvml: Any, index: int) -> GpuDevice | NoDevice:
    count = ctypes.c_uint()
    if nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) or not count.value:
        return NoDevice("NVIDIA's driver is installed and finds no GPU: nvidia-smi lists them")
    if not 0 <= index < count.value:
        return NoDevice(f"there is no GPU {index}: the driver finds {count.value}, counted from 0")
    handle, memory = ctypes.c_void_p(), _Memory()
    if failed := nvml.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(handle)):
        return NoDevice(f"NVIDIA's driver does not give GPU {index} (NVML error {failed}): nvidia-smi says more")
    nvml.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory))
    major, minor, cuda = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
    nvml.nvmlDeviceGetCudaComputeCapability(handle, ctypes.byref(major), ctypes.byref(minor))
    nvml.nvmlSystemGetCudaDriverVersion_v2(ctypes.byref(cuda))
    name, driver = ctypes.create_string_buffer(_TEXT), ctypes.create_string_buffer(_TEXT)
    nvml.nvmlDeviceGetName(handle, name, ctypes.c_uint(_TEXT))
    nvml.nvmlSystemGetDriverVersion(driver, ctypes.c_uint(_TEXT))
    return GpuDevice(
        name.value.decode(),
        memory.total,
        (major.value, minor.value),
        driver.value.decode(),
        (cuda.value // 1000, cuda.value % 1000 // 10),
    )


def memory_in_use(index: int = 0) -> MemoryInUse | None:
    """Memory of a GPU that is free and that all programs use; None where nobody can tell."""
    try:
        nvml = _load()
    except OSError:
        return None
    if nvml.nvmlInit_v2():
        return None
    try:
        handle, memory = ctypes.c_void_p(), _Memory()
        if nvml.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(handle)):
            return None
        if nvml.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)):
            return None
        return MemoryInUse(int(memory.free), int(memory.used))
    finally:
        nvml.nvmlShutdown()
