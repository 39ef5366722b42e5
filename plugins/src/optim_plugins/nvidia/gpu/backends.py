"""Models on NVIDIA's GPUs through ONNX Runtime, and on the CPU where they are only prepared.

What the record of ONNX Runtime says was run where is told (``executed_on``): shapes may be computed on the CPU, floats
may not. The GPU build that cannot start a provider is an error, with the missing library and how to get it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from optim import ExitStatus, Model, OptimError, Session, SessionConfig, Target
from optim.onnx import OnnxRuntimeBackend
from optim.providers import CUDA, TENSORRT

BUILT_FOR = "optim.tensorrt.built-for"
"""Metadata of a graph that holds engines: the device and the versions that they were built for."""

_HARNESS = {"session.force_spinning_stop": "1"}
"""Threads of one session must not spin into the next one's time; never part of a model's settings."""


class CudaBackend(OnnxRuntimeBackend):
    """ONNX Runtime's CUDA provider."""

    name = "cuda"

    def open(self, model: Model, target: Target) -> Session:
        """Open on the GPU; a node of floats that is left to the CPU is an error that names it."""
        from optim.onnx import open_session, operator_libraries
        from optim_plugins.nvidia.gpu.bound_session import BoundSession, DeviceMemory, naming_full_memory
        from optim_plugins.nvidia.gpu.device import memory_in_use
        from optim_plugins.nvidia.gpu.provider_settings import ON
        from optim_plugins.nvidia.gpu.targets import COPIES

        index = int(target.provider_options.get("device_id", "0"))

        def used_bytes() -> int | None:
            found = memory_in_use(index)
            return None if found is None else found.used_bytes

        before = used_bytes()
        with naming_full_memory():
            session = open_session(
                model.path, model.session, target, extra_config=_HARNESS, libraries=operator_libraries(model.opset)
            )
        tuned = model.session.provider_options
        replayed = (
            tuned.get(CUDA, {}).get("enable_cuda_graph") == "1"
            or tuned.get(TENSORRT, {}).get("trt_cuda_graph_enable") == ON
        )
        return BoundSession(
            session,
            target.provider,
            DeviceMemory("cuda", index, used_bytes, before),
            copies_timed=COPIES in target.name,
            replayed=replayed,
        )

    def equivalent_settings(self, target: Target) -> Sequence[SessionConfig]:
        """Those of every provider, and products without TF32, which CUDA rounds to unless it is told not to."""
        return (*super().equivalent_settings(target), SessionConfig(provider_options={CUDA: {"use_tf32": "0"}}))

    def versions(self) -> Mapping[str, str]:
        """onnxruntime, and the CUDA that it is built with."""
        from optim_plugins.nvidia.gpu.libraries import built_for

        return {**super().versions(), "CUDA": ".".join(map(str, built_for()))}


class TensorrtBackend(CudaBackend):
    """ONNX Runtime's TensorRT provider, with CUDA for what TensorRT leaves."""

    name = "tensorrt"

    def open(self, model: Model, target: Target) -> Session:
        """Open with engines and timings kept for this device and these versions.

        Raises:
            OptimError[engine-elsewhere]: the graph holds engines that another device or version built.
        """
        from optim_plugins.nvidia.gpu.engine_cache import built_for, cache_options
        from optim_plugins.ort.precision.provider_switches import switched_on, types_of

        here = built_for(target.hardware)
        made = model.ir_to_read().metadata_props.get(BUILT_FOR, here)
        if made != here:
            raise OptimError(
                "engine-elsewhere",
                f"the engines in {model.path.name} were built for another device or version",
                f"built for: {made}; here: {here}",
                "build them here, from the model without engines: optim run MODEL --target tensorrt "
                "--with tensorrt.engine",
                "optim-plugins",
                ExitStatus.TARGET_UNAVAILABLE,
            )
        switches = switched_on(TENSORRT, types_of(model.ir_to_read())).provider_options.get(TENSORRT, {})
        options = {**cache_options(target.hardware, model.digest), **switches, **target.provider_options}
        return super().open(model, replace(target, provider_options=options))

    def versions(self) -> Mapping[str, str]:
        """onnxruntime, CUDA and TensorRT."""
        from optim_plugins.nvidia.gpu.libraries import tensorrt_version

        return {**super().versions(), "TensorRT": tensorrt_version() or "of the system"}


class CudaOfflineBackend(OnnxRuntimeBackend):
    """The CPU, for preparing models for CUDA where there is no GPU."""

    name = "cuda-offline"


class TensorrtOfflineBackend(OnnxRuntimeBackend):
    """The CPU, for preparing models for TensorRT where there is no GPU."""

    name = "tensorrt-offline"
