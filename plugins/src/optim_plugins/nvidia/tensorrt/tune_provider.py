"""``tensorrt.tune-provider``: what engines TensorRT builds.

Profiles from the samples' shapes, precision, how long it looks for kernels, memory. Engines and timings are kept below
optim's cache by device and version (:mod:`optim_plugins.nvidia.gpu.engine_cache`); a model's settings name no
place on the disk. Options: https://onnxruntime.ai/docs/execution-providers/TensorRT-ExecutionProvider.html
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from optim import Context, Model, PassResult, SessionConfig, Target
from optim.providers import TENSORRT
from optim_plugins.nvidia.gpu.provider_settings import ON, ProviderSettings

if TYPE_CHECKING:
    from optim_plugins.nvidia.tensorrt.tune_provider_options import TuneProviderOptions

_FLAGS = {
    "cuda_graph": "trt_cuda_graph_enable",
    "layer_norm_float32": "trt_layer_norm_fp32_fallback",
    "sparsity": "trt_sparsity_enable",
    "share_memory": "trt_context_memory_sharing_enable",
}
_PRECISIONS = {"float16": "trt_fp16_enable", "bfloat16": "trt_bf16_enable"}
_PAIR = "QuantizeLinear"
_BOUNDED = (
    "the engine takes no size below or above those of the samples: give --data with the least and the greatest that "
    "there will be, or profiles=false"
)


class TuneProvider(ProviderSettings):
    """Profiles, precision, search for kernels, memory."""

    name = "tensorrt.tune-provider"
    summary = (
        "tries settings of TensorRT's engines: profiles from the shapes of samples, precision, kernel search, memory"
    )
    options = "optim_plugins.nvidia.tensorrt.tune_provider_options:TuneProviderOptions"
    lossy = True
    hardware = "a GPU of NVIDIA's, and TensorRT 10"

    def candidates(self, model: Model, target: Target, context: Context) -> Iterator[TuneProviderOptions]:
        """Profiles alone, with float16, with a longer search; last without profiles, where those are refused."""
        from optim_plugins.nvidia.tensorrt.tune_provider_options import TuneProviderOptions

        yield TuneProviderOptions(precision="float16")
        yield TuneProviderOptions()
        yield TuneProviderOptions(precision="float16", builder_level=5)
        yield TuneProviderOptions(precision="bfloat16")
        if any(info.is_dynamic for info in model.inputs):  # a part of the graph may begin inside: it has no profile
            yield TuneProviderOptions(profiles=False, precision="float16")

    def apply(self, model: Model, options: TuneProviderOptions, context: Context) -> PassResult:
        """Lay the settings over the model's."""
        chosen = provider_options(options, quantized=_PAIR in _operators(model))
        notes: tuple[str, ...] = ()
        if options.profiles:
            from optim_plugins.nvidia.tensorrt.profiles import profile_options

            profiles, reason = profile_options(model.inputs, context.samples())
            chosen |= profiles
            notes = (reason,) if reason else (_BOUNDED,) if profiles else ()
        tuned = model.with_session(SessionConfig(provider_options={TENSORRT: chosen} if chosen else {}))
        if tuned.digest == model.digest:
            return PassResult(model, changed=False, notes=(*notes, "the model has these settings already"))
        return PassResult(tuned, changed=True, notes=notes, counts={"settings": len(chosen)})


def provider_options(options: TuneProviderOptions, *, quantized: bool) -> dict[str, str]:
    """The provider's own names and values; a quantized graph needs kernels of 8 bits."""
    found = {key: ON for name, key in _FLAGS.items() if getattr(options, name)}
    if options.precision in _PRECISIONS:
        found[_PRECISIONS[options.precision]] = ON
    if options.integers or quantized:
        found["trt_int8_enable"] = ON
    if options.builder_level is not None:
        found["trt_builder_optimization_level"] = str(options.builder_level)
    if options.workspace_mb is not None:
        found["trt_max_workspace_size"] = str(options.workspace_mb << 20)
    if options.auxiliary_streams is not None:
        found["trt_auxiliary_streams"] = str(options.auxiliary_streams)
    return found


def _operators(model: Model) -> set[str]:
    from optim.onnx import operator_counts

    return {name.rpartition(":")[2] for name in operator_counts(model.path)}
