"""The targets: CUDA and TensorRT on a GPU, and a way to prepare models for them where there is none."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import replace

from optim import Target
from optim.errors import OptimError, unknown_name
from optim.providers import CUDA, TENSORRT

_CPU = "CPUExecutionProvider"
_SETTINGS = ("device", "fallback", "copies")
_FALLBACK = "fallback to the CPU is allowed (fallback=cpu): nodes that the GPU's providers do not run ran on the CPU"
_COPIES = "the figures include the copies of inputs to the GPU and of outputs from it (copies=timed)"
COPIES = "copies=timed"
"""In the name of a target whose figures include copies."""

PREPARE = "tensorrt.prepare"

_HARMLESS_CUDA = (
    "arena_extend_strategy",
    "cudnn_conv1d_pad_to_nc1d",
    "cudnn_conv_algo_search",
    "cudnn_conv_use_max_workspace",
    "device_id",
    "do_copy_in_default_stream",
    "enable_cuda_graph",
    "enable_skip_layer_norm_strict_mode",
    "fuse_conv_bias",
    "gpu_mem_limit",
    "prefer_nhwc",
    "sdpa_kernel",
    "tunable_op_enable",
    "tunable_op_max_tuning_duration_ms",
    "tunable_op_tuning_enable",
    "use_ep_level_unified_stream",
    "use_tf32",
)
_HARMLESS_TENSORRT = (
    "device_id",
    "trt_auxiliary_streams",
    "trt_bf16_enable",
    "trt_build_heuristics_enable",
    "trt_builder_optimization_level",
    "trt_context_memory_sharing_enable",
    "trt_cuda_graph_enable",
    "trt_fp16_enable",
    "trt_int8_enable",
    "trt_layer_norm_fp32_fallback",
    "trt_max_partition_iterations",
    "trt_max_workspace_size",
    "trt_min_subgraph_size",
    "trt_op_types_to_exclude",
    "trt_profile_max_shapes",
    "trt_profile_min_shapes",
    "trt_profile_opt_shapes",
    "trt_sparsity_enable",
)
"""Options for the ``session.json`` of a stranger: others name files, load libraries, or are addresses in memory."""


def cuda_targets() -> tuple[Target, ...]:
    """CUDA, and preparing for it without a GPU."""
    return (_on_device(_cuda(), CUDA), _offline("cuda", CUDA))


def tensorrt_targets() -> tuple[Target, ...]:
    """TensorRT with CUDA behind it, and preparing for it without a GPU."""
    return (_on_device(_tensorrt(), TENSORRT), _offline("tensorrt", TENSORRT, requires=(PREPARE,)))


def _cuda() -> Target:
    device = {"device_id": "0"}
    return Target(
        "cuda", "cuda", CUDA, device, device="NVIDIA GPU", shapes_on_cpu=True, harmless_options=_HARMLESS_CUDA
    )


def _tensorrt() -> Target:
    return Target(
        "tensorrt",
        "tensorrt",
        TENSORRT,
        {"device_id": "0"},
        also={CUDA: {"device_id": "0"}},
        device="NVIDIA GPU, TensorRT",
        shapes_on_cpu=True,
        requires=(PREPARE,),
        harmless_options=_HARMLESS_TENSORRT,
    )


def _on_device(target: Target, provider: str) -> Target:
    index = int(target.provider_options["device_id"])
    return replace(
        target,
        probe=lambda: gpu_missing(provider, index),
        identify=lambda: _identified(index),
        free_memory=lambda: _free_bytes(index),
        configure=_configuring(target, provider),
    )


def _offline(name: str, provider: str, *, requires: tuple[str, ...] = ()) -> Target:
    return Target(
        f"{name}-offline",
        f"{name}-offline",
        _CPU,
        device="CPU, in place of an NVIDIA GPU",
        timed=False,
        prepares_for=provider,
        requires=requires,
        remark=(
            "nothing was run on a GPU: onnxruntime computed the graph on the CPU, 16-bit floats by conversion to "
            f"float32. Open the result with --target {name} on the GPU before you trust it there"
        ),
        probe=_runtime_missing,
    )


def gpu_missing(provider: str, index: int = 0) -> str | None:
    """Why models cannot be run by a provider of NVIDIA's here, without importing the runtime."""
    from optim_plugins.nvidia.gpu.device import NoDevice, find_device
    from optim_plugins.nvidia.gpu.libraries import build_missing, built_for, library_missing

    name = "cuda" if provider == CUDA else "tensorrt"
    instead = f" (without a GPU: --target {name}-offline)"
    device = find_device(index)
    if isinstance(device, NoDevice):
        return device.reason + instead
    if reason := build_missing():
        return reason
    built = built_for()
    if device.driver_cuda[0] < built[0]:
        return (
            f"the driver {device.driver} runs CUDA {device.driver_cuda[0]}.{device.driver_cuda[1]} at most, and "
            f"onnxruntime is built for CUDA {built[0]}.{built[1]}: update the driver"
        )
    return library_missing(provider) or None


def _identified(index: int) -> str:
    from optim_plugins.nvidia.gpu.device import GpuDevice, find_device

    device = find_device(index)
    return device.text if isinstance(device, GpuDevice) else ""


def _free_bytes(index: int) -> int | None:
    from optim_plugins.nvidia.gpu.device import memory_in_use

    found = memory_in_use(index)
    return None if found is None else found.free_bytes


def _configuring(target: Target, provider: str) -> Callable[[Mapping[str, str]], Target]:
    """``cuda:device=1,fallback=cpu,copies=timed``.

    Raises:
        OptimError[unknown-target-setting]: lists the near ones.
        OptimError[bad-target-setting]: a value that the key does not take.
    """

    def configured(settings: Mapping[str, str]) -> Target:
        for key in settings:
            if key not in _SETTINGS:
                raise unknown_name("target setting", key, _SETTINGS, fix=f"--target {target.name}:device=0")
        index = settings.get("device", "0")
        if not index.isdecimal():
            raise _bad(target.name, "device", index, "the number of a GPU as nvidia-smi lists them, from 0", "0")
        for key, value in (("fallback", "cpu"), ("copies", "timed")):
            if settings.get(key, value) != value:
                raise _bad(target.name, key, settings[key], value, value)
        remarks = [text for key, text in (("fallback", _FALLBACK), ("copies", _COPIES)) if key in settings]
        options = {"device_id": index}
        chosen = replace(
            target,
            provider_options=options,
            also=dict.fromkeys(target.also, options),
            fallback="fallback" in settings,
            remark="; ".join(remarks),
        )
        return _on_device(chosen, provider)

    return configured


def _bad(target: str, key: str, value: str, wanted: str, example: str) -> OptimError:
    return OptimError.usage(
        "bad-target-setting",
        f"target {target} has no {key}={value}",
        f"{key} is {wanted}",
        f"--target {target}:{key}={example}",
    )


def _runtime_missing() -> str | None:
    found = importlib.util.find_spec("onnxruntime") is not None
    return None if found else "onnxruntime is not installed: pip install 'onnxruntime>=1.24.2,<1.33'"
