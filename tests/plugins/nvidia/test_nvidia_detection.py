"""What is said of a GPU, a driver and libraries that are there, or not. NVML is a fake: there is no GPU here."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from optim import OptimError
from optim.providers import CUDA, CUDA_COMMAND, TENSORRT, TENSORRT_COMMAND
from optim_plugins.nvidia.gpu import device, libraries, targets
from optim_plugins.nvidia.gpu.device import GpuDevice, MemoryInUse, NoDevice, find_device, memory_in_use

L4 = GpuDevice("NVIDIA L4", 23 << 30, (8, 9), "580.95.05", (13, 0))


def _set(pointer: Any, value: Any) -> None:
    pointer._obj.value = value


class Nvml:
    """One GPU, as NVML tells of it; ``failing`` are the functions that do not answer."""

    def __init__(self, count: int = 1, failing: tuple[str, ...] = ()) -> None:
        self.count, self.failing, self.open = count, failing, 0

    def __getattribute__(self, name: str) -> Any:
        found = object.__getattribute__(self, name)
        return (lambda *_: 999) if name.startswith("nvml") and name in self.failing else found

    def nvmlInit_v2(self) -> int:  # noqa: N802
        self.open += 1
        return 0

    def nvmlShutdown(self) -> int:  # noqa: N802
        self.open -= 1
        return 0

    def nvmlDeviceGetCount_v2(self, count: Any) -> int:  # noqa: N802
        _set(count, self.count)
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, index: Any, handle: Any) -> int:  # noqa: N802
        _set(handle, 1000 + index.value)
        return 0

    def nvmlDeviceGetMemoryInfo(self, handle: Any, memory: Any) -> int:  # noqa: N802
        assert handle.value == 1000
        memory._obj.total, memory._obj.free, memory._obj.used = 23 << 30, 20 << 30, 3 << 30
        return 0

    def nvmlDeviceGetCudaComputeCapability(self, _handle: Any, major: Any, minor: Any) -> int:  # noqa: N802
        _set(major, 8)
        _set(minor, 9)
        return 0

    def nvmlSystemGetCudaDriverVersion_v2(self, version: Any) -> int:  # noqa: N802
        _set(version, 13000)
        return 0

    def nvmlDeviceGetName(self, _handle: Any, name: Any, size: Any) -> int:  # noqa: N802
        assert len(name) == size.value
        name.value = b"NVIDIA L4"
        return 0

    def nvmlSystemGetDriverVersion(self, version: Any, _size: ctypes.c_uint) -> int:  # noqa: N802
        version.value = b"580.95.05"
        return 0


@pytest.fixture(autouse=True)
def _no_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.fixture
def gpu_build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of a GPU build for CUDA 13, and a folder with all libraries that it needs."""
    capi, found = tmp_path / "capi", tmp_path / "libraries"
    capi.mkdir()
    found.mkdir()
    for name in ("libonnxruntime_providers_cuda.so", "onnxruntime_providers_cuda.dll"):
        (capi / name).touch()
    (capi / "build_and_package_info.py").write_text("package_name = 'onnxruntime-gpu'\ncuda_version = '13.0'\n")
    for library in libraries.needed(TENSORRT, 13):
        (found / library.file).touch()
    monkeypatch.setattr(libraries, "runtime_folder", lambda: capi)
    monkeypatch.setattr(libraries, "_is_installed", lambda name: name == "onnxruntime-gpu")
    monkeypatch.setattr(libraries, "_folders", lambda: iter([found]))
    monkeypatch.setattr(libraries, "_LOADER_CACHE", tmp_path / "no-cache")
    monkeypatch.setattr(device, "_load", Nvml)
    yield found


def test_a_device_is_described_by_what_its_speed_depends_on(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = Nvml()
    monkeypatch.setattr(device, "_load", lambda: nvml)
    assert find_device() == L4
    assert L4.text == "NVIDIA L4, 23 GiB, compute capability 8.9, driver 580.95.05"
    assert memory_in_use() == MemoryInUse(20 << 30, 3 << 30)
    assert nvml.open == 0


@pytest.mark.parametrize(
    ("nvml", "index", "said"),
    [
        (Nvml(count=0), 0, "finds no GPU"),
        (Nvml(), 1, "there is no GPU 1"),
        (Nvml(failing=("nvmlInit_v2",)), 0, "NVML error 999"),
        (Nvml(failing=("nvmlDeviceGetHandleByIndex_v2",)), 0, "does not give GPU 0"),
    ],
)
def test_why_there_is_no_gpu(monkeypatch: pytest.MonkeyPatch, nvml: Nvml, index: int, said: str) -> None:
    monkeypatch.setattr(device, "_load", lambda: nvml)
    found = find_device(index)
    assert isinstance(found, NoDevice)
    assert said in found.reason


def test_without_a_driver_the_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing() -> None:
        raise OSError("libnvidia-ml.so.1: cannot open shared object file")

    monkeypatch.setattr(device, "_load", missing)
    assert "there is no NVIDIA driver" in (targets.gpu_missing(CUDA) or "")
    assert "--target cuda-offline" in (targets.gpu_missing(CUDA) or "")
    assert memory_in_use() is None


def test_a_mask_that_hides_all_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    assert "CUDA_VISIBLE_DEVICES hides every GPU" in (targets.gpu_missing(CUDA) or "")


@pytest.mark.parametrize("provider", [CUDA, TENSORRT])
def test_where_all_is_there_a_target_is_available_and_tells_its_device(gpu_build: Path, provider: str) -> None:
    offered = targets.cuda_targets() if provider == CUDA else targets.tensorrt_targets()
    assert offered[0].unavailable() is None
    assert offered[0].plain.hardware == L4.text


@pytest.mark.parametrize(
    ("provider", "name", "said", "command"),
    [
        (CUDA, "libcublasLt", "libcublasLt", CUDA_COMMAND),
        (CUDA, "libcudnn", "libcudnn", CUDA_COMMAND),
        (TENSORRT, "libnvinfer", "libnvinfer", TENSORRT_COMMAND),
        (CUDA, "libnvinfer", "", ""),
    ],
)
def test_the_missing_library_is_named_with_the_command_that_brings_it(
    gpu_build: Path, provider: str, name: str, said: str, command: str
) -> None:
    library = next(one for one in libraries.needed(TENSORRT, 13) if one.linux == name)
    (gpu_build / library.file).unlink()
    found = targets.gpu_missing(provider)
    assert found == (f"{library.file} is missing: {command}" if said else None)


def test_another_major_version_of_a_library_is_named(gpu_build: Path) -> None:
    library = next(one for one in libraries.needed(TENSORRT, 13) if one.linux == "libnvinfer")
    (gpu_build / library.file).rename(gpu_build / library.named(11))
    assert f"{library.named(11)} is of another major version: {TENSORRT_COMMAND}" in (
        targets.gpu_missing(TENSORRT) or ""
    )


def test_a_driver_that_is_too_old_for_the_builds_cuda_is_named(
    gpu_build: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Nvml, "nvmlSystemGetCudaDriverVersion_v2", lambda _self, version: _set(version, 12040))
    assert "runs CUDA 12.4 at most, and onnxruntime is built for CUDA 13.0" in (targets.gpu_missing(CUDA) or "")


def test_the_build_for_the_cpu_and_two_builds_are_told_apart(
    gpu_build: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for file in (tmp_path / "capi").glob("*onnxruntime_providers_cuda*"):
        file.unlink()
    assert "is a build for the CPU: pip uninstall -y onnxruntime &&" in (targets.gpu_missing(CUDA) or "")
    monkeypatch.setattr(libraries, "_is_installed", lambda _name: True)
    assert "both installed" in (targets.gpu_missing(CUDA) or "")
    monkeypatch.setattr(libraries, "_is_installed", lambda _name: False)
    monkeypatch.setattr(libraries, "runtime_folder", lambda: None)
    assert "not installed" in (targets.gpu_missing(CUDA) or "")
    assert libraries.built_for() == (13, 0)


def test_a_user_chooses_device_fallback_and_copies() -> None:
    tensorrt = targets.tensorrt_targets()[0]
    assert tensorrt.configure is not None
    chosen = tensorrt.configure({"device": "1", "fallback": "cpu", "copies": "timed"})
    assert chosen.provider_options == {"device_id": "1"}
    assert chosen.also == {CUDA: {"device_id": "1"}}
    assert chosen.fallback
    assert "copies" in chosen.remark and "fallback" in chosen.remark


@pytest.mark.parametrize(
    ("settings", "reference"),
    [
        ({"devise": "1"}, "unknown-target-setting"),
        ({"device": "-1"}, "bad-target-setting"),
        ({"fallback": "gpu"}, "bad-target-setting"),
        ({"copies": "no"}, "bad-target-setting"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(settings: dict[str, str], reference: str) -> None:
    configure = targets.cuda_targets()[0].configure
    assert configure is not None
    with pytest.raises(OptimError, match=reference):
        configure(settings)


def test_offline_targets_say_that_nothing_ran_on_a_gpu() -> None:
    for offline, provider in ((targets.cuda_targets()[1], CUDA), (targets.tensorrt_targets()[1], TENSORRT)):
        assert (offline.provider, offline.made_for, offline.timed) == ("CPUExecutionProvider", provider, False)
        assert "nothing was run on a GPU" in offline.remark
        assert offline.unavailable() is None
