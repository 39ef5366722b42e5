"""``tensorrt.engine``: TensorRT's engines inside the result, so that a device does not have to build them.

Before::

    x -> Conv -> ... -> y                               an engine is built whenever no cache has it

After::

    x -> EPContext(ep_cache_context) -> y               built; for this GPU, this TensorRT and this onnxruntime

An engine of another device or version is refused when the model is opened (``engine-elsewhere``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim import (
    APPLICABLE,
    Applicable,
    Context,
    ExitStatus,
    Model,
    OptimError,
    Pass,
    PassResult,
    Role,
    SessionConfig,
    Target,
)
from optim.providers import TENSORRT
from optim_plugins.nvidia.gpu.provider_settings import ON

if TYPE_CHECKING:
    from optim_plugins.nvidia.tensorrt.engine_options import EngineOptions

_ENGINE = "EPContext"
_RESULT = "engine.onnx"


class Engine(Pass):
    """The graph as engines of this device."""

    name = "tensorrt.engine"
    summary = "builds TensorRT's engines for this GPU, and stores them inside the model or beside it"
    options = "optim_plugins.nvidia.tensorrt.engine_options:EngineOptions"
    role = Role.REQUESTED
    lossy = True  # TensorRT chooses kernels by its clock: two engines of one graph need not round alike
    hardware = "the GPU and the versions that it will run on"

    def applicable(self, model: Model, target: Target) -> Applicable:
        """If TensorRT is installed, and sizes are fixed or have profiles."""
        if target.provider != TENSORRT:
            return Applicable.no("engines are built on the GPU that they run on: --target tensorrt")
        if any(node.op_type == _ENGINE for node in model.ir().graph):
            return Applicable.no("the model is an engine already")
        dynamic = [info.name for info in model.inputs if info.is_dynamic]
        if dynamic and "trt_profile_max_shapes" not in model.session.provider_options.get(TENSORRT, {}):
            return Applicable.no(
                f"input {dynamic[0]} is dynamic and has no profile: tensorrt.tune-provider makes one of the samples, "
                "ort.fix-shapes fixes it"
            )
        return APPLICABLE

    def apply(self, model: Model, options: EngineOptions, context: Context) -> PassResult:
        """Open once, and have the runtime write what it built."""
        from optim_plugins.nvidia.gpu.backends import BUILT_FOR
        from optim_plugins.nvidia.gpu.engine_cache import built_for

        path = context.scratch / _RESULT
        _build(model, options, context, str(path))
        if not path.is_file():
            raise OptimError(
                "not-built",
                "TensorRT built no engine",
                "it takes no node of the graph",
                "optim run --target cuda runs it",
                "optim-plugins",
                ExitStatus.NOT_HELD,
            )
        graph = context.adopt(path, model).ir()
        if {value.name for value in graph.graph.outputs} != {info.name for info in model.outputs}:
            raise OptimError(
                "not-built",
                "TensorRT built an engine of a part of the graph",
                f"its model ends in {', '.join(str(value.name) for value in graph.graph.outputs)}: the provider writes "
                "one engine alone, and CUDA runs what is left",
                "optim run --target tensorrt without tensorrt.engine keeps engines in a cache",
                "optim-plugins",
                ExitStatus.NOT_HELD,
            )
        graph.metadata_props[BUILT_FOR] = built_for(context.target.hardware)
        nodes = list(graph.graph)
        engines = sum(node.op_type == _ENGINE for node in nodes)
        counts = {_ENGINE: engines, "nodes left to others": len(nodes) - engines}
        note = f"built for {graph.metadata_props[BUILT_FOR]}"
        return PassResult(context.save(graph, model), changed=True, counts=counts, notes=(note,))


def _build(model: Model, options: EngineOptions, context: Context, path: str) -> None:
    from optim.onnx import open_session
    from optim_plugins.ort.precision.provider_switches import switched_on, types_of

    types = switched_on(TENSORRT, types_of(model.ir_to_read()))
    settings = types.updated(SessionConfig(provider_options={TENSORRT: written_to(path, embed=options.embed)}))
    open_session(model.path, model.session.updated(settings), context.target)


def written_to(path: str, *, embed: bool) -> dict[str, str]:
    """Options with which TensorRT's provider writes a model of its engines; it reads no ``ep.context_*`` from Python.

    Args:
        path: of the model; engines that are not inside it are kept in its folder, as a cache of them.
        embed: whether they are inside it.
    """
    chosen = {
        "trt_dump_ep_context_model": ON,
        "trt_ep_context_file_path": path,
        "trt_ep_context_embed_mode": str(int(embed)),
    }
    return chosen if embed else {**chosen, "trt_engine_cache_enable": ON}
