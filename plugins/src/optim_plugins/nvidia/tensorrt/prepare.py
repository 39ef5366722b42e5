"""``tensorrt.prepare``: a graph as TensorRT reads it.

- The pass folds constants and infers shapes, because ONNX Runtime gives TensorRT no part with unknown shapes.
- The pass writes ONNX Runtime's own operators as standard ones
  (:mod:`optim_plugins.nvidia.tensorrt.plain_operators`). CUDA runs the others, and a note names them.
- The pass tells TensorRT which types beside float32 are in the graph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim import APPLICABLE, Applicable, Context, Model, Pass, PassResult, Role, Target
from optim.providers import TENSORRT

if TYPE_CHECKING:
    from optim import NoOptions

_ENGINE = "EPContext"
_PREPARED = "optim.tensorrt.prepared"
"""Metadata of a prepared graph: it is another one even where all else stayed, so that a chain with this pass is never
taken for one without."""


class Prepare(Pass):
    """Standard operators, with shapes."""

    name = "tensorrt.prepare"
    summary = "infers shapes, and writes ONNX Runtime's own operators as standard ones that TensorRT reads"
    role = Role.REQUESTED
    after = ("ort.fix-shapes", "ort.convert-opset", "ort.clean")

    def applicable(self, model: Model, target: Target) -> Applicable:
        """If the graph has no engine yet."""
        built = any(node.op_type == _ENGINE for node in model.ir().graph)
        return Applicable.no("the model is an engine already") if built else APPLICABLE

    def apply(self, model: Model, options: NoOptions, context: Context) -> PassResult:
        """Fold, infer, rewrite."""
        from optim_plugins.nvidia.gpu.engine_cache import other_engines
        from optim_plugins.nvidia.tensorrt.plain_operators import write_plainly
        from optim_plugins.ort.precision.provider_switches import switched_on, types_of
        from optim_plugins.ort.prepare.clean_graph import clean

        graph = model.ir()
        clean(graph)
        counts, left = write_plainly(graph)
        clean(graph)
        graph.metadata_props[_PREPARED] = "yes"
        notes = [f"left to CUDA, because TensorRT does not have them: {', '.join(left)}"] if left else []
        others = other_engines(context.target.hardware) if context.target.timed else []
        if others:
            notes.append(f"engines in the cache that another version built are built again: {'; '.join(others)}")
        after = context.save(graph, model).with_session(switched_on(TENSORRT, types_of(graph)))
        if after.digest == model.digest:
            notes.append("the graph was prepared before")
            return PassResult(model, changed=False, notes=tuple(notes))
        return PassResult(after, changed=True, notes=tuple(notes), counts=counts)
