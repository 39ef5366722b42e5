"""What a graph may ask for: operators that exist, tensors as inputs and outputs, and formats that a backend accepts."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from pathlib import Path

import onnx
import onnx.defs

from optim.backend import BackendLimits
from optim.errors import OptimError
from optim.model import Model
from optim.onnx.libraries import install_hint
from optim.onnx.operators import is_before_onnx, plain_domain, qualified_name, walk_nodes
from optim.onnx.skeleton import read_skeleton

_STANDARD = ("", "ai.onnx.ml")


def check_limits(model: Model, limits: BackendLimits, backend_name: str) -> None:
    """Refuse a model in a format newer than a backend accepts, or with operators of a domain that it lacks."""
    what = f"{backend_name} cannot run {model.path.name}"
    for domain, version in sorted(model.opset.items()):
        newest = limits.opset.get(domain)
        if newest is not None and version > newest:
            raise OptimError(
                "opset-too-new",
                what,
                f"it has opset {version} of domain {domain or 'ai.onnx'}; {backend_name} accepts up to {newest}",
                f"export the model with opset {newest} of {domain}"
                if domain
                else f"export the model with opset {newest}, or convert it: {_older(model, limits)}",
            )
    if model.ir_version > limits.ir_version:
        raise OptimError(
            "ir-too-new",
            what,
            f"it has IR version {model.ir_version}; {backend_name} accepts up to {limits.ir_version}",
            f"save it with an older one: {_older(model, limits)}",
        )
    _check_domains(read_skeleton(model.path), limits, backend_name, what)


def _older(model: Model, limits: BackendLimits) -> str:
    """A command that writes the model in the newest opset and IR version that are accepted, where it has newer ones."""
    name, newest = model.path.name, limits.opset.get("")
    opset = newest is not None and model.opset.get("", 0) > newest
    converted = f"m = onnx.version_converter.convert_version(m, {newest}); " if opset else ""
    ir_version = min(model.ir_version, limits.ir_version)
    return (
        f"python -c \"import onnx; m = onnx.load('{name}'); {converted}m.ir_version = {ir_version}; "
        f"onnx.save(m, 'older-{name}')\""
    )


def check_operators(model: onnx.ModelProto, path: Path) -> None:
    """Refuse operators that the standard domains do not have at the model's opset, naming the near ones.

    Those that onnxruntime has there on its own are let through: a backend without them says so itself.
    """
    versions = {plain_domain(entry.domain): entry.version for entry in model.opset_import}
    for node, domain in _foreign_nodes(model):
        if domain not in _STANDARD or domain not in versions:
            continue
        if not _exists(node.op_type, domain, versions[domain]) and not is_before_onnx(node, versions[domain]):
            cause, fix = _why_unknown(node.op_type, domain, versions[domain])
            raise OptimError(
                "unknown-operator",
                f"{path} uses operator {qualified_name(domain, node.op_type)}, which opset "
                f"{versions[domain]} does not have",
                f"at {_named(node)}: {cause}",
                fix,
            )


def check_types(model: onnx.ModelProto, path: Path) -> None:
    """Refuse inputs and outputs that are maps, which scikit-learn's converter makes of a classifier's probabilities."""
    for value in (*model.graph.input, *model.graph.output):
        if _is_map(value.type):
            raise OptimError(
                "map-type",
                f"{path} has '{value.name}', which is not a tensor",
                "it is a map, or a sequence of maps; models are compared and timed by tensors",
                _without_map(model.graph, value.name, path),
            )


def _is_map(kind: onnx.TypeProto) -> bool:
    if kind.HasField("sequence_type"):
        return _is_map(kind.sequence_type.elem_type)
    if kind.HasField("optional_type"):
        return _is_map(kind.optional_type.elem_type)
    return bool(kind.HasField("map_type"))


def _without_map(graph: onnx.GraphProto, name: str, path: Path) -> str:
    """What to do about a map: take the tensor that the ZipMap reads."""
    again = "export the model again without it; scikit-learn's converter: to_onnx(..., options={'zipmap': False})"
    maker = next((node for node in graph.node if name in node.output and node.op_type == "ZipMap"), None)
    if maker is None:
        return again
    place = [value.name for value in graph.output].index(name)
    tensors = path.with_name(f"{path.stem}-tensors{path.suffix}")
    command = (
        f"import onnx; m = onnx.load({str(path)!r}); m.graph.node.remove(next(n for n in m.graph.node "
        f"if {name!r} in n.output)); m.graph.output[{place}].CopyFrom(onnx.helper.make_tensor_value_info("
        f"{maker.input[0]!r}, onnx.TensorProto.FLOAT, ['batch', 'classes'])); onnx.save(m, {str(tensors)!r})"
    )
    return f'python -c "{command}"; or {again}'


def _check_domains(graph: onnx.ModelProto, limits: BackendLimits, backend_name: str, what: str) -> None:
    for node, domain in _foreign_nodes(graph):
        if domain not in limits.opset:
            known = ", ".join(sorted(name or "ai.onnx" for name in limits.opset))
            raise OptimError(
                "unknown-domain",
                what,
                f"{_named(node)} is {domain}:{node.op_type}; {backend_name} has operators of {known}",
                install_hint(domain)
                or "replace the operator by standard ones before export, or choose a target whose "
                "backend has it: optim targets",
            )


def _named(node: onnx.NodeProto) -> str:
    return f"node '{node.name}'" if node.name else f"the node that makes '{next(filter(None, node.output), '')}'"


def _exists(op_type: str, domain: str, version: int) -> bool:
    try:
        return not onnx.defs.get_schema(op_type, version, domain).deprecated
    except onnx.defs.SchemaError:
        return False


def _why_unknown(op_type: str, domain: str, version: int) -> tuple[str, str]:
    schemas = [schema for schema in onnx.defs.get_all_schemas_with_history() if schema.domain == domain]
    since = [schema.since_version for schema in schemas if schema.name == op_type]
    if since and min(since) > version:
        return f"{op_type} came with opset {min(since)}", f"export the model with opset_version={min(since)} or later"
    if since:
        cause = f"{op_type} was removed by opset {version}"
        return cause, f"export the model again with opset_version={version}: its exporter mixes versions"
    near = difflib.get_close_matches(op_type, sorted({schema.name for schema in schemas}), n=3, cutoff=0.6)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    return f"there is no operator of that name{hint}", "export the model again, or give the node its own domain"


def _foreign_nodes(model: onnx.ModelProto) -> Iterator[tuple[onnx.NodeProto, str]]:
    """Yields each node that is no call of a function of the model itself, with its domain."""
    own = {(plain_domain(function.domain), function.name) for function in model.functions}
    for node in walk_nodes(model):
        domain = plain_domain(node.domain)
        if (domain, node.op_type) not in own:
            yield node, domain
