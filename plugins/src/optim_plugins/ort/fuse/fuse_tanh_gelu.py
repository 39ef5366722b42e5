"""Gelu by tanh, however it was written out, as onnxruntime's FastGelu: one pass over the tensor in place of eight.

    y = x * (1 + Tanh(p(x))) * 0.5        the three factors in any order, p(x) = sqrt(2 / pi) * (x + 0.044715 * x ** 3)

The polynomial may be written in any way that adds and multiplies ``x`` and numbers: ``x * x * x``, ``Pow(x, 3)``,
``x * (1 + 0.044715 * x * x)``. jax and TensorFlow write products, torch a power. onnxruntime itself recognizes none of
these on CPUs.

Source: Hendrycks and Gimpel, Gaussian Error Linear Units, 2016.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx_ir as ir
from numpy.polynomial import polynomial
from numpy.typing import NDArray

from optim.onnx import only_reader
from optim_plugins.ort.graph.float_values import is_float32
from optim_plugins.ort.graph.known_attributes import are_known
from optim_plugins.ort.graph.known_values import producer, scalar
from optim_plugins.ort.graph.node_writer import NodeWriter, take_over
from optim_plugins.ort.graph.written_gelu import halved_product

_DOMAIN = "com.microsoft"
_KNOWN: dict[str, tuple[str, ...]] = {}
"""None of the nodes has an attribute since opset 7."""

_WANTED = math.sqrt(2 / math.pi) * np.array([0, 1, 0, 0.044715])
_SAME = 1e-6
"""How far a coefficient may be off: they are written in float32."""

_MOST_STEPS = 12
"""Of a polynomial, one inside the other: the longest way to write it that was met has five."""


def fuse_tanh_gelu(graph: ir.Model) -> int:
    """Fuse in place, in the main graph; how many. What is not read any more stays to be dropped."""
    writer = NodeWriter(graph, "gelu")
    count = 0
    for node in list(graph.graph):
        if node.op_type != "Tanh" or node.domain not in ("", "ai.onnx"):
            continue
        added = only_reader(node.outputs[0], "Add")
        opened = next((one for one in added.inputs if one is not node.outputs[0]), None) if added is not None else None
        found = halved_product(added.outputs[0], None) if added is not None and scalar(opened) == 1 else None
        if added is None or found is None or not _is_gelu(node.inputs[0], found.source, found.last):
            continue
        if not are_known((node, added, *found.nodes), _KNOWN):
            continue
        writer.before = found.last
        take_over(found.last.outputs[0], writer.add("FastGelu", [found.source], domain=_DOMAIN))
        count += 1
    if count:
        graph.opset_imports.setdefault(_DOMAIN, 1)
    return count


def _is_gelu(inside: ir.Value | None, source: ir.Value, last: ir.Node) -> bool:
    """Whether the polynomial is Gelu's, and no number's shape makes the result larger than ``source``."""
    result = last.outputs[0]
    if (
        not is_float32(source)
        or source.shape is None
        or result.shape is None
        or source.shape.rank() != result.shape.rank()
    ):
        return False
    found = _polynomial(inside, source, _MOST_STEPS)
    return found is not None and len(found) == len(_WANTED) and bool(np.abs(found - _WANTED).max() < _SAME)


def _polynomial(value: ir.Value | None, source: ir.Value, steps: int) -> NDArray[np.floating[Any]] | None:
    """The coefficients of a value as a polynomial of ``source``, the constant one first; None where it is none."""
    if value is source:
        return np.array([0.0, 1.0])
    number = scalar(value)
    if number is not None:
        return np.array([number])
    node = producer(value, "Add", "Sub", "Mul", "Div", "Pow")
    if node is None or steps == 0:
        return None
    one, two = (_polynomial(each, source, steps - 1) for each in node.inputs)
    if one is None or two is None:
        return None
    if node.op_type in ("Add", "Sub"):
        return polynomial.polyadd(one, two) if node.op_type == "Add" else polynomial.polysub(one, two)
    if node.op_type == "Mul":
        found = polynomial.polymul(one, two)
    elif len(two) > 1 or (node.op_type == "Div" and two[0] == 0):
        return None
    elif node.op_type == "Div":
        found = one / two[0]
    elif two[0] in (1, 2, 3):
        found = polynomial.polypow(one, int(two[0]))
    else:
        return None
    return found if len(found) <= len(_WANTED) else None
