"""Whether ONNX Runtime's GPU build and the libraries that it needs are here: found on the disk, nothing is loaded."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from optim.providers import BUILD_COMMAND, CUDA, CUDA_COMMAND, TENSORRT, TENSORRT_COMMAND

_OTHER_FIRST = "they overwrite each other"
_LOADER_CACHE = Path("/etc/ld.so.cache")
_SYSTEM_FOLDERS = ("/lib64", "/usr/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib")
_CUDA_VERSION = re.compile(r"^cuda_version\s*=\s*['\"](\d+)\.(\d+)", re.MULTILINE)
_MAJORS = range(8, 20)
"""Of libraries that may be installed in place of the right ones: cuDNN 8 to CUDA 19."""

_OLDEST_CUDA = (13, 0)
"""What onnxruntime-gpu 1.31 from PyPI is built with, where the build does not say."""


@dataclass(frozen=True, slots=True)
class Library:
    """A library that a provider needs: its name on Linux and on Windows, and the major version that is loaded."""

    linux: str
    windows: str
    major: int

    @property
    def file(self) -> str:
        """The file that is loaded on this system."""
        return self.named(self.major)

    def named(self, major: int) -> str:
        """The file of another major version."""
        return f"{self.windows}{major}.dll" if sys.platform == "win32" else f"{self.linux}.so.{major}"


def needed(provider: str, cuda_major: int) -> tuple[Library, ...]:
    """What a provider's own library is linked against, as ``readelf -d`` shows of onnxruntime-gpu 1.31.1."""
    cuda = (
        Library("libcublasLt", "cublasLt64_", cuda_major),
        Library("libcublas", "cublas64_", cuda_major),
        Library("libcudart", "cudart64_", cuda_major),
        Library("libcudnn", "cudnn64_", 9),
    )
    tensorrt = (Library("libnvinfer", "nvinfer_", 10), Library("libnvonnxparser", "nvonnxparser_", 10))
    linked = (Library("libcurand", "curand64_", 10),) if sys.platform != "win32" else ()
    return (*cuda, *linked, *(tensorrt if provider == TENSORRT else ()))


def build_missing() -> str:
    """Why ONNX Runtime here has no provider for GPUs, with the command that brings it; empty where it has one."""
    installed = [name for name in ("onnxruntime", "onnxruntime-gpu") if _is_installed(name)]
    if len(installed) > 1:
        return (
            f"onnxruntime and onnxruntime-gpu are both installed, and {_OTHER_FIRST}: "
            f"pip uninstall -y onnxruntime onnxruntime-gpu && {CUDA_COMMAND}"
        )
    folder = runtime_folder()
    if folder is None:
        return f"onnxruntime-gpu is not installed: {CUDA_COMMAND}"
    name = "onnxruntime_providers_cuda.dll" if sys.platform == "win32" else "libonnxruntime_providers_cuda.so"
    if not (folder / name).is_file():
        return f"the onnxruntime that is installed is a build for the CPU: {BUILD_COMMAND}"
    return ""


def library_missing(provider: str) -> str:
    """The first library that a provider needs and that is not here, with the command that brings it; empty for none."""
    folders = list(_folders())
    for library in needed(provider, built_for()[0]):
        if _is_there(library.file, folders):
            continue
        command = TENSORRT_COMMAND if library.linux.startswith("libnv") else CUDA_COMMAND
        majors = (major for major in _MAJORS if major != library.major)
        other = next((major for major in majors if _is_there(library.named(major), folders)), None)
        if other is not None:
            return f"{library.file} is missing, {library.named(other)} is of another major version: {command}"
        return f"{library.file} is missing: {command}"
    return ""


def built_for() -> tuple[int, int]:
    """The CUDA version that the installed ONNX Runtime is built with."""
    folder = runtime_folder()
    path = folder / "build_and_package_info.py" if folder else None
    found = _CUDA_VERSION.search(path.read_text(encoding="utf-8")) if path and path.is_file() else None
    return (int(found[1]), int(found[2])) if found else _OLDEST_CUDA


def tensorrt_version() -> str:
    """Version of the Python package of TensorRT, or what stands for it; empty where none is found."""
    for name in ("tensorrt-cu13-libs", "tensorrt_cu13_libs", "tensorrt-cu13", "tensorrt"):
        if _is_installed(name):
            return importlib.metadata.version(name)
    return ""


def runtime_folder() -> Path | None:
    """Where ONNX Runtime's own libraries lie."""
    found = importlib.util.find_spec("onnxruntime")
    places = list(found.submodule_search_locations or ()) if found else []
    return Path(places[0]) / "capi" if places else None


def _is_there(name: str, folders: list[Path]) -> bool:
    if any((folder / name).exists() for folder in folders):
        return True
    try:
        return name.encode() in _LOADER_CACHE.read_bytes()
    except OSError:
        return False


def _folders() -> Iterator[Path]:
    """Where the loader looks, and the Python packages that :func:`optim.providers.start.preload` loads from."""
    variable = "PATH" if sys.platform == "win32" else "LD_LIBRARY_PATH"
    yield from (Path(place) for place in os.environ.get(variable, "").split(os.pathsep) if place)
    yield from (Path(place) for place in _SYSTEM_FOLDERS)
    for package, inside in (("nvidia", ("*/lib", "*/bin", "*/bin/*")), ("tensorrt_libs", (".",))):
        found = importlib.util.find_spec(package)
        for place in (found.submodule_search_locations or ()) if found else ():
            for pattern in inside:
                yield from [Path(place)] if pattern == "." else Path(place).glob(pattern)


def _is_installed(distribution: str) -> bool:
    try:
        importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


__all__ = ["CUDA", "TENSORRT", "build_missing", "built_for", "library_missing", "needed", "tensorrt_version"]
