"""``ort.fix-shapes``: dynamic dimensions made fixed.

Before::

    input_ids [batch, seq] -> Gather -> embedded [batch, seq, 384]

After ``dimensions={batch=1, seq=128}``, or ``shapes={input_ids=[1, 128]}``::

    input_ids [1, 128] -> Gather -> embedded [1, 128, 384]

The model then takes inputs of that shape only, so it only runs if it is named, or if a target needs it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from optim import APPLICABLE, Applicable, Context, Model, OptimError, Pass, PassResult, Role, Target, TensorInfo

if TYPE_CHECKING:
    from optim_plugins.ort.prepare.fix_shapes_options import FixShapesOptions


class FixShapes(Pass):
    """Dynamic dimensions made fixed."""

    name = "ort.fix-shapes"
    summary = "fixes dynamic dimensions, by the name of a dimension or by the shape of an input"
    options = "optim_plugins.ort.prepare.fix_shapes_options:FixShapesOptions"
    role = Role.REQUESTED
    before = ("ort.clean", "ort.convert-opset", "ort.fuse-transformer")

    def applicable(self, model: Model, target: Target) -> Applicable:
        """If an input has a dynamic dimension."""
        dynamic = any(info.is_dynamic and info.is_tensor for info in model.inputs)
        return APPLICABLE if dynamic else Applicable.no("the inputs have fixed shapes already")

    def refuse_for(self, options: FixShapesOptions, model: Model, target: Target) -> None:
        """Names and sizes that the inputs cannot have."""
        from optim.onnx import require_shapes

        require_shapes(model.ir(), options.dimensions, options.shapes)

    def inputs_for(self, options: FixShapesOptions, model: Model) -> tuple[TensorInfo, ...]:
        """The inputs with what the options fix."""
        from optim.onnx import fixed_inputs, require_shapes

        sizes = require_shapes(model.ir(), options.dimensions, options.shapes)
        return fixed_inputs(model.inputs, sizes, options.shapes)

    def apply(self, model: Model, options: FixShapesOptions, context: Context) -> PassResult:
        """Fix what the options name, or what all samples have in common."""
        from optim.onnx import fix_shapes, require_shapes_of
        from optim_plugins.ort.graph.opened_graph import refusal
        from optim_plugins.ort.kernels import CPU_PROVIDER

        graph = model.ir()
        is_asked = context.target.provider == CPU_PROVIDER and not refusal(graph)
        is_said = options.dimensions or options.shapes
        fix_shapes(graph, options.dimensions, options.shapes if is_said else _shapes_in_common(model, context))
        require_shapes_of(graph, context.samples())
        reason = refusal(graph) if is_asked else ""
        if reason:  # its shape inference looks into branches that never run, and contradicts itself there
            return PassResult(model, changed=False, notes=(f"onnxruntime refuses it with these shapes: {reason}",))
        return _result(model, context.save(graph, model))


def _shapes_in_common(model: Model, context: Context) -> Mapping[str, Sequence[int]]:
    """The shapes that all samples have.

    Raises:
        OptimError[conflicting-shapes]: they have several; the fix is the pass with a size for each name.
    """
    from optim.onnx import shapes_of_feeds

    try:
        return shapes_of_feeds(model.inputs, context.samples())
    except OptimError as error:
        names = dict.fromkeys(size for info in model.inputs for size in info.shape or () if isinstance(size, str))
        if not names:
            raise
        sizes = ", ".join(f"{name}=1" for name in names)
        fix = f'--with "ort.fix-shapes:dimensions={{{sizes}}}" with your sizes, or --data with samples of one shape'
        raise replace(error, fix=fix) from error


def _result(before: Model, after: Model) -> PassResult:
    """What became fixed, and what did not."""
    pairs = list(zip(before.inputs, after.inputs, strict=True))
    fixed = [f"{new.name} {_text(new)}" for old, new in pairs if new.shape != old.shape]
    left = [f"{new.name} {_text(new)}" for _, new in pairs if new.is_dynamic and new.is_tensor]
    notes = [f"fixed: {', '.join(fixed)}"] + ([f"still dynamic: {', '.join(left)}"] if left else [])
    return PassResult(after, changed=True, notes=tuple(notes), counts={"inputs": len(fixed)})


def _text(info: TensorInfo) -> str:
    return "x".join("?" if size is None else str(size) for size in info.shape or ()) or "scalar"
