"""A graph in another version of the standard operators, by the converters of onnxscript and onnx; or why not.

Both convert one operator after the other, and leave some as they are that mean something else in the other version, or
with attributes that it does not know. So nodes are looked at before and afterwards.
"""

from __future__ import annotations

import logging

import onnx
import onnx_ir as ir

from optim_plugins.ort.graph.fixed_weights import fix_weights
from optim_plugins.ort.graph.inferred_shapes import infer_shapes

_STANDARD = ("", "ai.onnx")
_OVER_ONE_AXIS = frozenset(("Hardmax", "LogSoftmax", "Softmax"))
"""Since opset 13 they look at one axis, before at it and all behind it."""

_ONE_AXIS_SINCE, _SCAN_SINCE, _CONSTANTS_SINCE_IR = 13, 9, 4
_SMALL_BYTES = 64 << 10


def convert_graph(graph: ir.Model, version: int) -> str:
    """Change the graph; the reason where that does not go, and the graph is of no use then."""
    imports = graph.graph.opset_imports
    if "ai.onnx" in imports:
        imports[""] = imports.pop("ai.onnx")
    if "" not in imports:
        return "it has no standard operators"
    before = imports[""]
    if reason := _meaning_lost(graph, before, version):
        return reason
    fix_weights(graph)
    graph.ir_version = max(graph.ir_version, _CONSTANTS_SINCE_IR)  # converters write constants that are no inputs
    _bring_in(graph)
    if reason := _converted(graph, version):
        return reason
    return next((reason for node in graph.graph.all_nodes() if (reason := _unknown(node, before, version))), "")


def _meaning_lost(graph: ir.Model, before: int, version: int) -> str:
    """What means something else in the other version, and converters leave as it is."""
    nodes = [node for node in graph.graph.all_nodes() if node.domain in _STANDARD]
    if min(before, version) < _SCAN_SINCE <= max(before, version) and any(node.op_type == "Scan" for node in nodes):
        return f"a Scan of opset 8 takes batches, one of opset {_SCAN_SINCE} does not"
    if version >= _ONE_AXIS_SINCE or before < _ONE_AXIS_SINCE:
        return ""
    found = [node for node in nodes if node.op_type in _OVER_ONE_AXIS]
    if found:
        infer_shapes(graph)
    for node in found:
        source = node.inputs[0]
        rank = len(source.shape) if source is not None and source.shape is not None else 0
        axis = node.attributes.get_int("axis", -1)
        if not rank or axis % rank != rank - 1:
            return f"{node.op_type} over axis {axis} takes all axes behind it, too, before opset {_ONE_AXIS_SINCE}"
        node.attributes["axis"] = ir.AttrInt64("axis", rank - 1)
    return ""


def _bring_in(graph: ir.Model) -> None:
    """Small weights into memory, those of branches too: onnx looks for their files in the working folder."""
    from optim.onnx import embedded_tensor

    for part in graph.graphs():
        for value in part.initializers.values():
            tensor = value.const_value
            if isinstance(tensor, ir.ExternalTensor) and (part is not graph.graph or tensor.nbytes <= _SMALL_BYTES):
                value.const_value = embedded_tensor(tensor)


def _converted(graph: ir.Model, version: int) -> str:
    """Run the converters; what they say where they refuse."""
    from onnxscript.version_converter import convert_version

    heard = _Heard()
    logger = logging.getLogger("onnxscript.version_converter")
    propagates, logger.propagate = logger.propagate, False
    logger.addHandler(heard)
    try:
        convert_version(graph, version, fallback=True)
    except Exception as error:  # a converter that has no rule for an operator raises anything
        return _plain(error)
    finally:
        logger.removeHandler(heard)
        logger.propagate = propagates
    return "" if graph.opset_imports.get("") == version else heard.reason or "the converter refused"


def _unknown(node: ir.Node, before: int, version: int) -> str:
    """What the version does not know of a node; attributes that say what goes without saying are taken out."""
    if node.domain not in _STANDARD:
        return ""
    try:
        known = onnx.defs.get_schema(node.op_type, version, "").attributes
    except onnx.defs.SchemaError:
        return f"opset {version} has no {node.op_type}"
    for name in [name for name in node.attributes if name not in known]:
        if not _goes_without_saying(node, name, before):
            return f"{node.op_type} has no attribute '{name}' in opset {version}"
        del node.attributes[name]
    return ""


def _goes_without_saying(node: ir.Node, name: str, before: int) -> bool:
    """Whether an attribute has its default, which is how the operator was before it had the attribute."""
    value = node.attributes[name].value
    if name == "dilations":
        return all(size == 1 for size in value)
    if name == "saturate":
        return node.outputs[0].dtype is None or not node.outputs[0].dtype.name.startswith("FLOAT8")
    try:
        default = onnx.defs.get_schema(node.op_type, before, "").attributes[name].default_value
    except (onnx.defs.SchemaError, KeyError):
        return False
    return bool(default.name) and onnx.helper.get_attribute_value(default) == value


class _Heard(logging.Handler):
    """The converter logs why it gave up, and returns the model as it was."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.reason = ""

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info and record.exc_info[1] is not None:
            self.reason = _plain(record.exc_info[1])


def _plain(error: BaseException) -> str:
    """The last clause of what a converter says: before it stand files and assertions of its own."""
    text = " ".join(str(error).split())
    return text.rsplit("failed: ", 1)[-1] or type(error).__name__
