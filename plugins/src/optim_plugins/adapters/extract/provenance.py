"""Which module of peft a node or a weight belongs to, and what it is there.

A weight has the name that peft gave its parameter, since the ``torch`` plugin folds nothing where there are adapters::

    model.layers.0.self_attn.q_proj.lora_A.default.weight

Where something folded or quantized it since, the node that reads it still says where it comes from: in the metadata of
the dynamo exporter, whose last scopes are the module and its part. TorchScript says the module alone, in the name of
the node, so there the weight's own name must be left.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass

import onnx_ir as ir

_PARTS = (
    "lora_A|lora_B|lora_magnitude_vector|lora_embedding_A|lora_embedding_B|hada_w1_a|hada_w1_b|hada_w2_a|hada_w2_b"
    "|hada_t1|hada_t2|lokr_\\w+|ia3_l|oft_\\w+|vera_lambda_\\w+|randlora_\\w+"
)
_PARAMETER = re.compile(
    rf"^(?P<module>.+)\.(?P<part>{_PARTS})\.(?P<adapter>[^./]+?)(?:\.(?P<kind>weight|bias))?(?:_\w+)?$"
)
_SCOPE = re.compile(r"^(?P<module>.+)\.(?P<part>lora_A|lora_B)\.(?P<adapter>[^./]+)$")
_SCOPES = "pkg.torch.onnx.name_scopes"
_WRAPPER = "module."
"""What the exporter calls the module that a source is wrapped in; its parameters lose it too."""


@dataclass(frozen=True, slots=True)
class PeftPart:
    """A part of an adapter.

    Attributes:
        module: that it adapts, as the exported model calls it.
        part: as peft calls it, e.g. ``lora_A``.
        adapter: its name, e.g. ``default``.
        is_bias: whether it is a bias.
    """

    module: str
    part: str
    adapter: str
    is_bias: bool = False


def part_of_parameter(name: str) -> PeftPart | None:
    """What a weight of that name is; None where it is of no adapter."""
    match = _PARAMETER.match(name)
    return PeftPart(match["module"], match["part"], match["adapter"], match["kind"] == "bias") if match else None


def part_of_node(node: ir.Node) -> PeftPart | None:
    """Which layer of an adapter a node computes, as the exporter says; None where it says none."""
    try:
        scopes = ast.literal_eval(node.metadata_props.get(_SCOPES, "[]"))
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return None
    for scope in reversed(scopes if isinstance(scopes, list) else []):
        match = _SCOPE.match(str(scope))
        if match:
            return PeftPart(match["module"].removeprefix(_WRAPPER), match["part"], match["adapter"])
    return None
