"""What the passes that convert precision share: whether there is something to convert, and the conversion itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from functools import lru_cache
from pathlib import Path

import onnx_ir as ir
from onnx_ir.passes.common import LiftConstantsToInitializersPass

from optim import APPLICABLE, Applicable, Context, Interface, Model, OptimError, PassResult, Target
from optim.errors import some_of
from optim.onnx import read_ir
from optim_plugins.ort.graph.fixed_weights import fix_weights
from optim_plugins.ort.graph.float_values import infer_types
from optim_plugins.ort.graph.operator_types import signature, type_text
from optim_plugins.ort.kernels import has_kernel, is_listed
from optim_plugins.ort.precision.insert_casts import Narrower
from optim_plugins.ort.precision.measured_magnitudes import Ranges, measure_ranges
from optim_plugins.ort.precision.operator_kinds import MOVES, WEIGHTED
from optim_plugins.ort.precision.precision_plan import CastPlan, Obstacle, make_plan, name_of
from optim_plugins.ort.precision.provider_switches import switched_on
from optim_plugins.ort.precision.sixteen_bit_numbers import Narrow
from optim_plugins.ort.precision.sixteen_bit_weights import LEAST_ELEMENTS, readers, store_narrow

_LEAST_OPSET = {Narrow.FLOAT16: 11, Narrow.BFLOAT16: 13}
_CONVERTING = frozenset(("MatMulNBits", "GroupQueryAttention"))
"""Their kernels take float16 and compute in float32."""

_MODULE = "optim_plugins.ort.precision.changed_interface"


def can_convert(model: Model, target: Target, narrow: Narrow) -> Applicable:
    """Whether the opset has the type, and something of the model's weight can be computed in it."""
    found = can_store(model, narrow, 0)
    if not found:
        return found
    graph = _typed_to_read(model.path, model.path.stat().st_mtime_ns)
    plan = make_plan(graph, narrow, target.made_for, until_one=True)
    objection = _objection(graph, plan, narrow, target.made_for)
    return Applicable.no(objection) if objection else APPLICABLE


def can_store(model: Model, narrow: Narrow, least_elements: int = LEAST_ELEMENTS) -> Applicable:
    """Whether the opset has the type, and a float32 weight has so many elements."""
    opset, least = model.opset.get("", 1), _LEAST_OPSET[narrow]
    if opset < least:
        return Applicable.no(f"the model has opset {opset}, {narrow} needs {least}: --with ort.convert-opset")
    tensors = [value.const_value for part in model.ir_to_read().graphs() for value in part.initializers.values()]
    floats = [tensor for tensor in tensors if tensor is not None and tensor.dtype == ir.DataType.FLOAT]
    if least_elements and not any(tensor.size >= least_elements for tensor in floats):
        return Applicable.no(f"no float32 weight has {least_elements} elements")
    return APPLICABLE


def is_fast(model: Model, target: Target, narrow: Narrow) -> Applicable:
    """No where the provider is known to compute most of the model's products in float32, between casts."""
    if not is_listed(target.made_for):
        return APPLICABLE
    slow, fast = set(), 0
    nodes = [node for node in model.ir_to_read().graph.all_nodes() if node.op_type in WEIGHTED - _CONVERTING]
    for node in nodes:
        types = signature(node, model.opset)
        domain = "" if node.domain in ("", "ai.onnx") else node.domain
        variables = {types.input(0): type_text(narrow.onnx)} if types else {}
        if types and has_kernel(target.made_for, domain, node.op_type, types.since, variables):
            fast += 1
        else:
            slow.add(node.op_type)
    if not nodes:
        return Applicable.no("no product is left that computes in float32")
    if 2 * fast >= len(nodes):
        return APPLICABLE
    return Applicable.no(
        f"known not to have a fast kernel on this machine: {_runtime()} has none for {some_of(sorted(slow), 5)} in "
        f"{narrow} on {target.made_for}, and would compute in float32 between casts"
    )


def convertible(model: Model, narrow: Narrow, keep_operators: Collection[str] = ()) -> list[str]:
    """Names of the nodes that may compute in the narrow type somewhere, in graph order, but those that move numbers."""
    graph = _typed(model)
    plan = make_plan(graph, narrow, "", keep_operators=keep_operators)
    return [name_of(node) for node in graph.graph.all_nodes() if node in plan.narrow and node.op_type not in MOVES]


def convert(
    model: Model,
    context: Context,
    narrow: Narrow,
    *,
    keep: Collection[str],
    keep_operators: Collection[str] = (),
    io: bool = False,
) -> PassResult:
    """The model in the narrow type, as far as it goes."""
    graph = _typed(model)
    ranges, notes = _ranges(model, context, narrow)
    plan = make_plan(
        graph, narrow, context.target.made_for, keep=keep, keep_operators=keep_operators, largest=ranges.largest
    )
    names = {name_of(node) for node in graph.graph.all_nodes()}
    unknown = sorted(set(keep) - names)
    if unknown:
        notes.append(f"keep names no node: {', '.join(unknown)}")
    if objection := _objection(graph, plan, narrow, context.target.made_for):
        return PassResult(model, changed=False, notes=(*notes, objection))
    inputs = [value.name for value in model.inputs if value.dtype == "float32"] if io else []
    outputs = [value.name for value in model.outputs if value.dtype == "float32"] if io else []
    narrower = Narrower(graph, narrow, plan, io=io, masks=ranges.masks)
    narrower.rewrite()
    counts = {**narrower.counts, "nodes left in float32": sum(plan.why_not.values())}
    notes += [f"left in float32: {reasons}"] if (reasons := _reasons(plan)) else []
    notes += [f"masks beyond the range brought into it: {', '.join(sorted(ranges.masks))}"] if ranges.masks else []
    interface = _interface(inputs, outputs)
    narrowed = context.save(graph, model).with_session(switched_on(context.target.made_for, [narrow.onnx]))
    return PassResult(narrowed, changed=True, notes=tuple(notes), counts=counts, interface=interface)


def weight_readers(model: Model) -> list[str]:
    """Names of the nodes whose weights :func:`convert_weights` would convert."""
    graph = model.ir()
    fix_weights(graph)
    return readers(graph)


def convert_weights(model: Model, context: Context, narrow: Narrow, keep: Collection[str] = ()) -> PassResult:
    """The model with its weights in the narrow type, and cast back where they are read."""
    graph = model.ir()
    fix_weights(graph)
    done, left = store_narrow(graph, narrow, keep)
    notes = (f"{left} weights do not survive rounding and stay float32",) if left else ()
    if not done:
        return PassResult(model, changed=False, notes=(*notes, "no weight is left to convert"))
    counts = {"weights converted": done, "weights left in float32": left}
    stored = context.save(graph, model).with_session(switched_on(context.target.made_for, [narrow.onnx]))
    return PassResult(stored, changed=True, notes=notes, counts=counts)


def _objection(graph: ir.Model, plan: CastPlan, narrow: Narrow, provider: str) -> str:
    """Why a plan is worth nothing: it leaves every product in float32, or everything."""
    if any(node.op_type in WEIGHTED for node in plan.narrow):
        return ""
    weighted = {node.op_type for node in graph.graph.all_nodes() if node.op_type in WEIGHTED}
    if weighted and any(why.obstacle is Obstacle.KERNEL for why in plan.why_not):
        return f"{_runtime()} has no {narrow} kernel for {some_of(sorted(weighted), 5)} on {provider}"
    if weighted or all(node.op_type in MOVES for node in plan.narrow):
        return f"nothing is left to convert: {_reasons(plan) or 'no node computes in float32'}"
    return ""


def _typed(model: Model) -> ir.Model:
    """The graph with the type of every value; constants are initializers, so that they can be rounded."""
    return _with_types(model.ir())


def _with_types(graph: ir.Model) -> ir.Model:
    fix_weights(graph)
    LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(graph)
    infer_types(graph)
    return graph


@lru_cache(maxsize=1)
def _typed_to_read(path: Path, modified_ns: int) -> ir.Model:
    """The same for several passes that look at one file in a row; none of them changes it."""
    return _with_types(read_ir(path))


def _ranges(model: Model, context: Context, narrow: Narrow) -> tuple[Ranges, list[str]]:
    """What the samples show; nothing, and a note, where the model does not run on this processor."""
    if narrow is Narrow.BFLOAT16:
        return Ranges(), []
    try:
        ranges = measure_ranges(_typed(model), model.session, narrow, context.store, context.samples())
    except OptimError as error:
        return Ranges(), [f"ranges were not measured: {error.cause or error.what}"]
    if not ranges.samples:
        return ranges, [f"ranges were not measured: the model ran on no sample{_first_refusal(ranges)}"]
    asked = ranges.samples + len(ranges.refused)
    left_out = f"ranges were measured on {ranges.samples} of {asked} samples{_first_refusal(ranges)}"
    return ranges, [left_out] if ranges.refused else []


def _first_refusal(ranges: Ranges) -> str:
    return f": {ranges.refused[0]}" if ranges.refused else ""


def _interface(inputs: list[str], outputs: list[str]) -> Interface | None:
    if not inputs and not outputs:
        return None
    names = {"inputs": inputs, "outputs": outputs}
    return Interface(f"{_MODULE}:feeds_as_float16", f"{_MODULE}:outputs_as_float32", names)


def _reasons(plan: CastPlan) -> str:
    """Why nodes stay in float32, most frequent first."""
    said: Counter[str] = Counter()
    for why, count in plan.why_not.items():
        if why.obstacle is not Obstacle.OTHERS:
            said[why.text] += count
    return "; ".join(f"{count} {'node' if count == 1 else 'nodes'}: {reason}" for reason, count in said.most_common(6))


def _runtime() -> str:
    import onnxruntime

    return f"onnxruntime {onnxruntime.__version__}"
