"""Which nodes of a graph run in a 16-bit type, and why the others do not.

A node is left in float32 when

- its operator has no such type, or the provider has no kernel for it;
- it computes indices, angles or counts, which 16 bits cannot tell apart (``Cast`` to integers, ``Sin``, ``CumSum``, and
  what leads to them);
- a value that it reads or makes goes beyond the range on the samples, or a constant of it does not survive rounding;
- the user, or the repair, said so.

A node that only moves numbers goes with its neighbours.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

import onnx_ir as ir

from optim_plugins.ort.graph.float_values import is_float32
from optim_plugins.ort.graph.operator_types import Signature, signature, type_text
from optim_plugins.ort.kernels import has_kernel, is_listed, runs_as_cpu
from optim_plugins.ort.precision.misread_epsilons import misread_epsilons
from optim_plugins.ort.precision.operator_kinds import ANY_TYPE, EXACT, MOVES, NEVER, SMALL_ADDENDS, WEIGHTED
from optim_plugins.ort.precision.sixteen_bit_numbers import Fit, Narrow, fit

_STANDARD = ("", "ai.onnx")


_TINY = 2.0**-13
_LEARNED_ELEMENTS = 1024
"""A constant of so many elements is a learned layer's: what comes before it leads to no index."""


class Obstacle(enum.Enum):
    """What kind of reason keeps a node in float32."""

    KERNEL = "the provider has no kernel"
    NODE = "the node itself, its numbers, or the user"
    OTHERS = "it reads no numbers, or follows its neighbours"


@dataclass(frozen=True, slots=True)
class WhyNot:
    """Why a node stays in float32: the kind decides, the text is for people."""

    text: str
    obstacle: Obstacle = Obstacle.NODE


@dataclass
class CastPlan:
    """What a conversion does.

    Attributes:
        narrow: type variables that change, by node.
        why_not: how many nodes with float32 values stay in float32, by reason.
        fits: how each constant rounds, as far as that was looked at.
    """

    narrow: dict[ir.Node, frozenset[str]] = field(default_factory=dict)
    why_not: Counter[WhyNot] = field(default_factory=Counter)
    fits: dict[ir.Value, Fit] = field(default_factory=dict)

    def wants(self, node: ir.Node, types: Signature | None, place: int) -> bool:
        """Whether an input of a node is read in the narrow type."""
        return types is not None and types.input(place) in self.narrow.get(node, frozenset())


def name_of(node: ir.Node) -> str:
    """What ``keep`` calls a node: its name, or that of its first output where it has none."""
    return node.name or (node.outputs[0].name if node.outputs else "") or ""


def make_plan(
    graph: ir.Model,
    narrow: Narrow,
    provider: str,
    *,
    keep: Collection[str] = (),
    keep_operators: Collection[str] = (),
    largest: Mapping[str, float] | None = None,
    until_one: bool = False,
) -> CastPlan:
    """Decide about every node of the graph and its subgraphs; functions of the model's own stay as they are.

    Args:
        graph: with types, see :func:`optim_plugins.ort.graph.float_values.infer_types`; left alone.
        narrow: the type.
        provider: that will run it.
        keep: names of nodes to leave in float32.
        keep_operators: operators to leave in float32.
        largest: greatest finite magnitude by value name, measured; where a value is missing it is taken to fit.
        until_one: look at numbers of products until one fits: whether there is any takes no more, and to look at the
            weights of 1 GB takes many seconds.
    """
    plan, chosen, found = CastPlan(), frozenset(keep), False
    of_products = until_one and any(node.op_type in WEIGHTED for node in graph.graph.all_nodes())
    exact, misread = _exact_nodes(graph), misread_epsilons(graph)
    for node in graph.graph.all_nodes():
        types = signature(node, graph.graph.opset_imports)
        variables = _float_variables(node, types)
        if not variables and not any(map(is_float32, (*node.inputs, *node.outputs))):
            continue
        reason = _reason_against(node, types, variables, narrow, provider)
        if not reason and types is not None:
            variables = frozenset(v for v in variables if types.takes(v, narrow.onnx))
            if node in exact:
                reason = WhyNot("it leads to an index, an angle or a count")
            elif node in misread:
                reason = WhyNot("onnxruntime would take another epsilon")
            elif name_of(node) in chosen:
                reason = WhyNot("named to be kept")
            elif node.op_type in keep_operators and node.op_type not in MOVES:
                reason = WhyNot(f"{node.op_type} is kept")
            elif not found if not of_products else not found and node.op_type in WEIGHTED:
                reason = _out_of_range(node, types, variables, narrow, largest or {}, plan.fits)
        if reason:
            plan.why_not[reason] += 1
        else:
            plan.narrow[node] = variables
            found = until_one and (found or node.op_type in WEIGHTED)
    _follow_neighbours(plan)
    return plan


def _float_variables(node: ir.Node, types: Signature | None) -> frozenset[str]:
    """Type variables that are float32 at this node."""
    if types is None:
        return frozenset()
    found = {types.input(place) for place, value in enumerate(node.inputs) if is_float32(value)}
    found |= {types.output(place) for place, value in enumerate(node.outputs) if is_float32(value)}
    return frozenset(variable for variable in found if variable in types.allowed)


def _reason_against(
    node: ir.Node, types: Signature | None, variables: frozenset[str], narrow: Narrow, provider: str
) -> WhyNot | None:
    if types is None:
        return WhyNot(f"nobody defines {node.op_type}")
    if node.domain in _STANDARD and (node.op_type in NEVER or _draws_numbers(node)):
        return WhyNot(f"{node.op_type} is not for 16 bits")
    if node.domain in _STANDARD and node.attributes.get_string("reduction", "none") != "none":
        return WhyNot(f"{node.op_type} with a reduction is not for 16 bits")
    if any(value is not None and _holds_tensors(value) for value in (*node.inputs, *node.outputs)):
        return WhyNot(f"{node.op_type} handles a sequence or an optional")
    if node.op_type in ANY_TYPE:
        return WhyNot(f"{node.op_type} reads no numbers", Obstacle.OTHERS)
    able = [variable for variable in variables if types.takes(variable, narrow.onnx)]
    if not able or _changes_width(node, narrow):
        return WhyNot(f"{node.op_type} takes no {narrow}")
    domain = "" if node.domain in _STANDARD else node.domain
    if not is_listed(provider):
        return None
    if has_kernel(provider, domain, node.op_type, types.since, dict.fromkeys(able, type_text(narrow.onnx))):
        return None
    runs_wide = has_kernel(provider, domain, node.op_type, types.since, dict.fromkeys(able, "tensor(float)"))
    if runs_as_cpu(provider) and narrow is Narrow.FLOAT16 and runs_wide:
        return None  # onnxruntime puts casts around it
    return WhyNot(f"{provider} has no {narrow} kernel for {node.op_type}", Obstacle.KERNEL)


def _draws_numbers(node: ir.Node) -> bool:
    """Whether it is a Dropout that may be told to train: in another type it draws other numbers."""
    return node.op_type == "Dropout" and len(node.inputs) > 2 and node.inputs[2] is not None


def _holds_tensors(value: ir.Value) -> bool:
    """Whether it is a sequence or an optional, whose tensors must stay what its type says."""
    return isinstance(value.type, ir.SequenceType | ir.OptionalType)


def _changes_width(node: ir.Node, narrow: Narrow) -> bool:
    """Whether it is a Cast between float32 and the narrow type, such as an earlier conversion left."""
    ends = {value.dtype for value in (*node.inputs, *node.outputs) if value is not None}
    return node.op_type == "Cast" and node.domain in _STANDARD and ends == {ir.DataType.FLOAT, narrow.onnx}


def _out_of_range(
    node: ir.Node,
    types: Signature,
    variables: frozenset[str],
    narrow: Narrow,
    largest: Mapping[str, float],
    fits: dict[ir.Value, Fit],
) -> WhyNot | None:
    if narrow is Narrow.BFLOAT16:
        return None
    ends = [(types.input(place), value) for place, value in enumerate(node.inputs)]
    ends += [(types.output(place), value) for place, value in enumerate(node.outputs)]
    for variable, value in ends:
        if value is None or variable not in variables or not is_float32(value):
            continue
        if not largest.get(value.name or "", 0.0) <= narrow.largest:
            return WhyNot(f"its numbers go beyond {narrow.largest:.0f}")
        if value.is_initializer() and value.const_value is not None:
            if value not in fits:
                fits[value] = fit(value.const_value.numpy(), narrow)
            if not fits[value].is_close and not (node.op_type in SMALL_ADDENDS and _is_tiny(value)):
                return WhyNot("a constant of it does not survive rounding")
    return None


def _is_tiny(value: ir.Value) -> bool:
    """Whether it is one number next to zero, of which only that it is not zero matters."""
    tensor = value.const_value
    return tensor is not None and tensor.size == 1 and bool(abs(float(tensor.numpy().reshape(-1)[0])) <= _TINY)


def _exact_nodes(graph: ir.Model) -> set[ir.Node]:
    """What computes indices, angles or counts, back to the last learned layer or to the inputs."""
    waiting: list[ir.Value] = []
    for node in graph.graph.all_nodes():
        if node.domain not in _STANDARD:
            continue
        if node.op_type in EXACT or (node.op_type == "Cast" and _is_integer(node.outputs[0].dtype)):
            waiting += [value for value in node.inputs if value is not None and is_float32(value)]
        types = signature(node, graph.graph.opset_imports)
        if types is not None:
            fixed = (place for place in range(len(node.inputs)) if types.input(place) == "tensor(float)")
            waiting += [value for place in fixed if (value := node.inputs[place]) is not None]
    found: set[ir.Node] = set()
    while waiting:
        producer = waiting.pop().producer()
        if producer is None or producer in found or _is_learned(producer):
            continue
        found.add(producer)
        waiting += [value for value in producer.inputs if value is not None and is_float32(value)]
    return found


def _is_learned(node: ir.Node) -> bool:
    return any(
        value is not None and value.const_value is not None and value.const_value.size >= _LEARNED_ELEMENTS
        for value in node.inputs
    )


def _is_integer(dtype: ir.DataType | None) -> bool:
    return dtype is not None and dtype.name.startswith(("INT", "UINT"))


def _follow_neighbours(plan: CastPlan) -> None:
    """Leave in float32 what only moves numbers between nodes that are left there."""
    changed = True
    while changed:
        changed = False
        for node in [node for node in plan.narrow if node.op_type in MOVES and node.domain in _STANDARD]:
            sources = [value.producer() for value in node.inputs if value is not None and is_float32(value)]
            from_narrow = any(source is not None and source in plan.narrow for source in sources)
            if not from_narrow and not any(reader in plan.narrow for reader in _readers(node)):
                del plan.narrow[node]
                plan.why_not[WhyNot("its neighbours are in float32", Obstacle.OTHERS)] += 1
                changed = True


def _readers(node: ir.Node) -> Iterator[ir.Node]:
    for value in node.outputs:
        for use in value.uses():
            yield use.node
