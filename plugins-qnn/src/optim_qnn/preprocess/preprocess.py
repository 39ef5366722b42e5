"""``qnn.preprocess``: a graph as HTP takes it.

Before::

    input_ids [batch, seq] -> ... Shape, Range, Expand ... -> x / Erf / GatherND / Where(IsNaN(softmax)) ...

After::

    input_ids [1, 128] -> ... -> Gelu / Reshape / Softmax ...

- The pass fixes dynamic dimensions: to ``shapes`` or ``dimensions``, else to the shape of all samples of ``--data``.
- onnxruntime folds constants.
- onnxruntime applies its fusions for QNN: Gelu, LpNormalization, SpaceToDepth, LayerNormalization.
- The pass replaces operators that HTP rejects (:mod:`optim_qnn.rewrites`).
- The pass turns inputs and outputs to channels-last if an option says so, and gives every node a name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from optim import APPLICABLE, Applicable, Context, Interface, Model, Pass, PassResult, Role, Target
from optim.errors import OptimError, unknown_name

if TYPE_CHECKING:
    import onnx_ir as ir

    from optim import TensorInfo
    from optim_qnn.preprocess.preprocess_options import PreprocessOptions

_LAYOUT = "optim_qnn.preprocess.channel_last"


class Preprocess(Pass):
    """Fixed shapes, fusions and rewrites for HTP."""

    name = "qnn.preprocess"
    summary = "fixes shapes, and applies the fusions and rewrites that HTP needs"
    options = "optim_qnn.preprocess.preprocess_options:PreprocessOptions"
    role = Role.REQUESTED

    def applicable(self, model: Model, target: Target) -> Applicable:
        """If the graph is not compiled yet; the counts show whether there was anything to do."""
        compiled = any(node.op_type == "EPContext" for node in model.ir().graph)
        return Applicable.no("the model is compiled already") if compiled else APPLICABLE

    def refuse_for(self, options: PreprocessOptions, model: Model, target: Target) -> None:
        """Names and shapes that the inputs and outputs cannot have."""
        from optim.onnx import require_shapes

        _require_names(options, model)
        require_shapes(model.ir(), options.dimensions, options.shapes)

    def refuse_without_data(self, options: PreprocessOptions, model: Model) -> None:
        """Shapes that nobody said."""
        dynamic = [info.name for info in self.inputs_for(options, model) if info.is_dynamic]
        if dynamic and not options.shapes:
            raise _nobody_said(dynamic)

    def inputs_for(self, options: PreprocessOptions, model: Model) -> tuple[TensorInfo, ...]:
        """The inputs with what the options fix."""
        from optim.onnx import fixed_inputs, require_shapes

        sizes = require_shapes(model.ir(), options.dimensions, options.shapes)
        return fixed_inputs(model.inputs, sizes, options.shapes)

    def apply(self, model: Model, options: PreprocessOptions, context: Context) -> PassResult:
        """Fix, fold, fuse, rewrite, turn, name."""
        from optim_qnn.preprocess.channel_last import turned, turned_names
        from optim_qnn.preprocess.fold_constants import folded
        from optim_qnn.preprocess.fusions import fused
        from optim_qnn.rewrites.rules import rewrite

        _require_names(options, model)
        graph = model.ir()
        notes = fix(graph, model, _shapes_of(options, model), context)
        graph = folded(graph, context)
        graph, counts = fused(graph, context, layer_norm=options.fuse_layer_norm)
        counts |= rewrite(graph)
        inputs, outputs = options.channel_last_inputs, options.channel_last_outputs
        if inputs or outputs:
            graph = turned(graph, context, inputs, outputs)
        name_nodes(graph)
        after = context.save(graph, model)
        if after.digest == model.digest:
            return PassResult(model, changed=False, notes=("HTP can run the graph unchanged",))
        if not counts and not notes:
            notes = ("constants are folded, shapes inferred, nodes named; no operator had to be rewritten",)
        parameters = turned_names(inputs, outputs)
        interface = (
            Interface(f"{_LAYOUT}:feeds_channel_last", f"{_LAYOUT}:outputs_channel_first", parameters)
            if inputs or outputs
            else None
        )
        return PassResult(after, changed=True, notes=notes, counts=counts, interface=interface)


def _shapes_of(options: PreprocessOptions, model: Model) -> dict[str, tuple[int, ...]]:
    """The shapes of dynamic inputs as options say them, by input.

    Raises:
        OptimError[dynamic-without-data]: sizes of dimensions leave an input dynamic.
    """
    if not options.dimensions:
        return dict(options.shapes)
    from optim.onnx import fixed_inputs

    fixed = fixed_inputs(model.inputs, options.dimensions)
    if left := [info.name for info in fixed if info.is_dynamic]:
        raise _nobody_said(left)
    dynamic = {info.name for info in model.inputs if info.is_dynamic}
    return {
        info.name: tuple(size for size in info.shape or () if isinstance(size, int))
        for info in fixed
        if info.name in dynamic
    }


def _nobody_said(dynamic: Sequence[str]) -> OptimError:
    return OptimError.usage(
        "dynamic-without-data",
        "HTP needs fixed shapes, and none are given",
        f"dynamic: {', '.join(dynamic)}; without --data the shapes would be synthesized",
        "give --data with samples of the shape you will run, "
        f'or --with "qnn.preprocess:shapes={{{dynamic[0]}=[1, 128]}}"',
        "optim-plugin-qnn",
    )


def fix(graph: ir.Model, model: Model, given: Mapping[str, Sequence[int]], context: Context) -> tuple[str, ...]:
    """Fix dynamic inputs; what became of them, for the report."""
    from optim.onnx import fix_shapes, require_shapes_of, shapes_of_feeds

    dynamic = [info.name for info in model.inputs if info.is_dynamic]
    if not dynamic and not given:
        return ()
    shapes: Mapping[str, Sequence[int]] = given
    if not shapes:
        if not context.feeds_given:
            raise _nobody_said(dynamic)
        shapes = shapes_of_feeds(model.inputs, context.samples())
    fix_shapes(graph, {}, shapes)
    require_shapes_of(graph, context.samples())
    said = ", ".join(f"{name} {'x'.join(map(str, shape))}" for name, shape in shapes.items() if name in dynamic)
    where = "as asked" if given else "as in the samples"
    return (f"dynamic inputs are fixed {where}: {said}",)


def _require_names(options: PreprocessOptions, model: Model) -> None:
    for names, values, kind in (
        (options.channel_last_inputs, model.inputs, "input"),
        (options.channel_last_outputs, model.outputs, "output"),
    ):
        known = [value.name for value in values]
        for name in names:
            if name not in known:
                raise unknown_name(
                    kind,  # errors: unknown-input, unknown-output
                    name,
                    known,
                    fix="optim inspect MODEL shows inputs and outputs",
                )


def name_nodes(graph: ir.Model) -> None:
    """Names, unique ones: quantization and the provider's messages call nodes by them."""
    taken: set[str] = set()
    for number, node in enumerate(graph.graph):
        if not node.name or node.name in taken:
            node.name = f"{node.op_type}_{number}"
        taken.add(node.name)
