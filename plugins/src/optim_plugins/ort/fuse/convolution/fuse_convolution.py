"""``ort.fuse-convolution``: fewer passes over the tensors between convolutions.

Nets that read images spend up to half of their time in small steps between convolutions: each reads and writes a whole
tensor. In this order:

- :mod:`~optim_plugins.ort.fuse.convolution.hard_sigmoid`: HardSwish and HardSigmoid that exporters wrote out;
- :mod:`~optim_plugins.ort.fuse.convolution.steps_behind`: scales and shifts behind a convolution, BatchNormalization
  among them, go into it;
- :mod:`~optim_plugins.ort.fuse.convolution.steps_ahead`: those before convolutions too;
- :mod:`~optim_plugins.ort.fuse.convolution.enlarging`: nearest neighbours by whole factors, as fast kernels know them;
- :mod:`~optim_plugins.ort.fuse.convolution.softmax_first`: a Softmax where its axis lies near the end;
- :mod:`~optim_plugins.ort.fuse.convolution.constants_in_full`: constants that need no broadcasting;
- :mod:`~optim_plugins.ort.fuse.convolution.neighbours_as_channels`: convolutions with few output channels, on CPUs.
- :mod:`~optim_plugins.ort.fuse.fuse_tanh_gelu`: Gelu by tanh, on CPUs.

SiLU, ``x * Sigmoid(x)``, is left as it is: onnxruntime makes its QuickGelu of it when it opens the model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim import APPLICABLE, Applicable, Context, Model, Pass, PassResult, Target

if TYPE_CHECKING:
    from collections.abc import Iterator

    import onnx_ir as ir

    from optim_plugins.ort.fuse.convolution.fuse_convolution_options import FuseConvolutionOptions

_NOTHING = (
    "no convolution has a scale or a shift beside it that it could take in, or few channels and a wide kernel, and no "
    "HardSwish or Gelu is written out"
)
_NORMALIZATIONS = "normalizations folded"


class FuseConvolution(Pass):
    """Scales and shifts into convolutions, HardSwish as onnxruntime recognizes it."""

    name = "ort.fuse-convolution"
    summary = (
        "merges scales, shifts and normalizations into convolutions, and writes HardSwish so that onnxruntime fuses it"
    )
    options = "optim_plugins.ort.fuse.convolution.fuse_convolution_options:FuseConvolutionOptions"
    after = ("ort.clean",)
    before = ("ort.fuse-transformer",)

    def applicable(self, model: Model, target: Target) -> Applicable:
        """If the model has a convolution."""
        from optim.onnx import operator_counts

        operators = operator_counts(model.path)
        found = any(operators.get(name) for name in ("Conv", "ConvTranspose"))
        return APPLICABLE if found else Applicable.no("the graph has no Conv")

    def worth_trying(self, model: Model, target: Target, goal: str) -> Applicable:
        """Where there is more to fold than onnxruntime folds itself."""
        graph = model.ir()
        counts = fold(graph)
        if counts.keys() - {_NORMALIZATIONS} or (
            _has_lanes(target) and (_take_neighbours(graph) or _write_gelus(graph))
        ):
            return APPLICABLE
        return Applicable.no("onnxruntime folds its normalizations when it opens the model" if counts else _NOTHING)

    def candidates(self, model: Model, target: Target, context: Context) -> Iterator[FuseConvolutionOptions]:
        """On a CPU with neighbours as channels first, where that changes anything."""
        from optim_plugins.ort.fuse.convolution.fuse_convolution_options import FuseConvolutionOptions

        if _has_lanes(target):
            graph = model.ir()
            fold(graph)
            if _take_neighbours(graph):
                yield FuseConvolutionOptions(neighbours=True)
        yield FuseConvolutionOptions()

    def apply(self, model: Model, options: FuseConvolutionOptions, context: Context) -> PassResult:
        """Fold; the counts say what."""
        from optim_plugins.ort.graph.fixed_weights import fix_weights
        from optim_plugins.ort.graph.known_attributes import notes_on_unknown

        graph = model.ir()
        fix_weights(graph)
        counts = fold(graph)
        if _has_lanes(context.target) and (count := _write_gelus(graph)):
            counts["Gelus written"] = count
        if options.neighbours and (count := _take_neighbours(graph)):
            counts["neighbours as channels"] = count
        notes = tuple(f"not folded: {reason}" for reason in notes_on_unknown(graph))
        if not counts:
            return PassResult(model, changed=False, notes=notes or (_NOTHING,))
        return PassResult(context.save(graph, model), changed=True, counts=counts, notes=notes)


def _has_lanes(target: Target) -> bool:
    """Whether kernels there compute a fixed number of output channels at a time."""
    from optim_plugins.ort.kernels import CPU_PROVIDER

    return target.made_for == CPU_PROVIDER


def _write_gelus(graph: ir.Model) -> int:
    """In a graph whose shapes are inferred."""
    from onnx_ir.passes.common import RemoveUnusedNodesPass

    from optim_plugins.ort.fuse.fuse_tanh_gelu import fuse_tanh_gelu

    count = fuse_tanh_gelu(graph)
    if count:
        RemoveUnusedNodesPass()(graph)
    return count


def _take_neighbours(graph: ir.Model) -> int:
    """In a graph whose shapes are inferred."""
    from onnx_ir.passes.common import RemoveUnusedNodesPass

    from optim_plugins.ort.fuse.convolution.neighbours_as_channels import take_neighbours
    from optim_plugins.ort.hardware import convolution_lanes

    count = take_neighbours(graph, convolution_lanes())
    if count:
        RemoveUnusedNodesPass()(graph)
    return count


def fold(graph: ir.Model) -> dict[str, int]:
    """Fold in place; how often each rewrite fired."""
    from onnx_ir.passes.common import RemoveUnusedNodesPass

    from optim_plugins.ort.fuse.convolution.constants_in_full import write_constants_in_full
    from optim_plugins.ort.fuse.convolution.enlarging import plain_repeats
    from optim_plugins.ort.fuse.convolution.hard_sigmoid import fuse_hard_sigmoid
    from optim_plugins.ort.fuse.convolution.softmax_first import softmax_first
    from optim_plugins.ort.fuse.convolution.steps_ahead import fold_steps_ahead
    from optim_plugins.ort.fuse.convolution.steps_behind import fold_steps_behind, is_convolution
    from optim_plugins.ort.graph.identities import drop_identities
    from optim_plugins.ort.graph.inferred_shapes import infer_shapes

    if not any(map(is_convolution, graph.graph.all_nodes())):
        return {}
    declared = [value.shape for value in graph.graph.outputs]
    drop_identities(graph)  # exporters put some between a convolution and its steps
    infer_shapes(graph)
    counts = {"hard sigmoids written": fuse_hard_sigmoid(graph)}
    if counts["hard sigmoids written"]:
        RemoveUnusedNodesPass()(graph)
    behind, ahead = fold_steps_behind(graph), fold_steps_ahead(graph)
    counts |= {_NORMALIZATIONS: behind.normalizations, "scales and shifts folded": behind.steps + ahead}
    counts["Resize as repeats"] = plain_repeats(graph)
    counts |= {"Softmax brought forward": softmax_first(graph), "constants in full": write_constants_in_full(graph)}
    RemoveUnusedNodesPass()(graph)
    for value, shape in zip(graph.graph.outputs, declared, strict=True):
        value.shape = shape
    return {name: count for name, count in counts.items() if count}
