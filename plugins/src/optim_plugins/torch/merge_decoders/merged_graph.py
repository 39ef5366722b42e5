"""Two exports of one decoder, without and with a past, become one graph (Optimum wrote them apart until 2024).

    decoder_model.onnx             input_ids, ...                    -> logits, present.*
    decoder_with_past_model.onnx   input_ids, past_key_values.*, ... -> logits, present.*

        -> past given = Shape(past_key_values.0.key)[length] > 0
           If(past given)
               then: nodes of decoder_with_past_model
               else: nodes of decoder_model
           with the weights of both outside of the branches, those of equal bytes once

What only one of the two takes (``encoder_hidden_states``) is an input of the merged graph; what only the first returns
(keys and values of the encoder) is passed through by the other.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import onnx
from onnx import TensorProto, helper

from optim import Model, OptimError
from optim.cli_kit import read_model
from optim.onnx import check_graph, describe_model, subgraphs

PAST = "past_key_values."
PRESENT = "present."


@dataclass(frozen=True, slots=True)
class Merged:
    """What came of two decoders.

    Attributes:
        model: one graph, in the store.
        without: the decoder without a past, in the store.
        with_past: the other.
        shared: tensors that both had.
        shared_bytes: of those, stored once.
    """

    model: Model
    without: Model
    with_past: Model
    shared: int
    shared_bytes: int


def merge_graphs(without: Path, with_past: Path, store: Path) -> Merged:
    """Merge two decoders.

    Args:
        without: takes no past.
        with_past: takes ``past_key_values.*``.
        store: a folder for the result and both originals.

    Raises:
        OptimError[decoders-do-not-fit]: they are not two exports of one decoder.
        OptimError: a file cannot be used, as of :func:`optim.cli_kit.models.read_model`.
    """
    first, second = read_model(without, store), read_model(with_past, store)
    protos = [onnx.load(model.path, load_external_data=False) for model in (first, second)]
    _require_pair(protos[0], protos[1], without, with_past)
    weights = _Weights(store)
    bodies = [
        _body(proto.graph, weights.hoist(proto.graph), prefix)
        for proto, prefix in zip(protos, ("prefill", "decode"), strict=True)
    ]
    graph = _merged_graph(protos[0].graph, protos[1].graph, bodies, weights.tensors)
    model = helper.make_model(
        graph,
        opset_imports=_opsets(protos),
        ir_version=max(proto.ir_version for proto in protos),
        functions=_functions(protos),
    )
    encoded = model.SerializeToString(deterministic=True)
    path = store / f"{hashlib.sha256(encoded).hexdigest()}.onnx"
    path.write_bytes(encoded)
    check_graph(model, path)
    return Merged(describe_model(path), first, second, weights.shared, weights.shared_bytes)


def _merged_graph(
    first: onnx.GraphProto, second: onnx.GraphProto, bodies: list[onnx.GraphProto], weights: list[TensorProto]
) -> onnx.GraphProto:
    inputs = {value.name: value for value in (*first.input, *second.input)}
    past = next(name for name in inputs if name.startswith(PAST) and ".encoder." not in name)
    rank = len(inputs[past].type.tensor_type.shape.dim)
    names = [value.name for value in first.output]
    nodes = [
        helper.make_node("Shape", [past], ["past/length"], name="past/Shape", start=rank - 2, end=rank - 1),
        helper.make_node("Greater", ["past/length", "past/none"], ["past/longer"], name="past/Greater"),
        helper.make_node("Squeeze", ["past/longer"], ["past/given"], name="past/Squeeze"),
        helper.make_node("If", ["past/given"], names, name="dispatch", then_branch=bodies[1], else_branch=bodies[0]),
    ]
    none = helper.make_tensor("past/none", TensorProto.INT64, [1], [0])
    outputs = [_with_free_dimensions(value) for value in first.output]
    return helper.make_graph(nodes, "merged_decoder", list(inputs.values()), outputs, [none, *weights])


class _Weights:
    """Initializers of both graphs; those of equal type, shape and bytes are one."""

    def __init__(self, store: Path) -> None:
        self._store = store
        self._names: dict[str, str] = {}
        self._taken: set[str] = set()
        self.tensors: list[TensorProto] = []
        self.shared = 0
        self.shared_bytes = 0

    def hoist(self, graph: onnx.GraphProto) -> dict[str, str]:
        """What the graph's initializers are called in the merged graph."""
        known = set(self._names)
        renamed = {}
        for tensor in graph.initializer:
            key = self._key(tensor)
            if key in known:
                self.shared += 1
                self.shared_bytes += _size(tensor)
            if key not in self._names:
                name = tensor.name
                while name in self._taken:
                    name += "_"
                self._taken.add(name)
                self._names[key] = name
                kept = TensorProto()
                kept.CopyFrom(tensor)
                kept.name = name
                self.tensors.append(kept)
            renamed[tensor.name] = self._names[key]
        return renamed

    def _key(self, tensor: TensorProto) -> str:
        digest = hashlib.sha256(f"{tensor.data_type}{list(tensor.dims)}".encode())
        entry = {item.key: item.value for item in tensor.external_data}
        if entry:
            with (self._store / entry["location"]).open("rb") as stream:
                stream.seek(int(entry.get("offset", "0")))
                left = int(entry["length"])
                while left and (piece := stream.read(min(left, 16 << 20))):
                    digest.update(piece)
                    left -= len(piece)
        else:
            digest.update(onnx.numpy_helper.to_array(tensor).tobytes())
        return digest.hexdigest()


def _body(graph: onnx.GraphProto, weights: dict[str, str], prefix: str) -> onnx.GraphProto:
    """The nodes of a graph as a branch: names of its own have a prefix, inputs and weights are those outside."""
    outside = {value.name: value.name for value in graph.input} | weights
    outputs = []
    nodes = list(graph.node)
    body = onnx.GraphProto(name=prefix)
    for value in graph.output:
        renamed = _with_free_dimensions(value)
        renamed.name = f"{prefix}/{value.name}"
        outputs.append(renamed)
        if value.name in outside:  # an output that no node makes
            nodes.append(helper.make_node("Identity", [value.name], [f"{prefix}/{value.name}"]))
    body.node.extend(_renamed(node, outside, prefix) for node in nodes)
    body.output.extend(outputs)
    return body


def _renamed(node: onnx.NodeProto, outside: dict[str, str], prefix: str) -> onnx.NodeProto:
    copy = onnx.NodeProto()
    copy.CopyFrom(node)
    del copy.metadata_props[:]
    copy.name = f"{prefix}/{node.name}"

    def new_name(name: str) -> str:
        if not name or name.startswith(f"{prefix}/"):
            return name
        return outside.get(name) or f"{prefix}/{name}"

    for names in (copy.input, copy.output):
        renamed = [new_name(name) for name in names]
        del names[:]
        names.extend(renamed)
    for attribute in copy.attribute:
        for inner in subgraphs(attribute):
            _rename_inside(inner, outside, prefix)
    return copy


def _rename_inside(graph: onnx.GraphProto, outside: dict[str, str], prefix: str) -> None:
    own = {tensor.name for tensor in graph.initializer} | {value.name for value in graph.input}
    visible = {name: new for name, new in outside.items() if name not in own}
    nodes = [_renamed(node, visible, prefix) for node in graph.node]
    del graph.node[:]
    graph.node.extend(nodes)
    del graph.value_info[:]
    for value in (*graph.input, *graph.output, *graph.initializer):
        value.name = visible.get(value.name) or f"{prefix}/{value.name}"


def _require_pair(first: onnx.ModelProto, second: onnx.ModelProto, without: Path, with_past: Path) -> None:
    """See that they are two exports of one decoder, and let the second return everything that the first does."""
    taken, taken_with = _names(first.graph.input), _names(second.graph.input)
    if any(name.startswith(PAST) for name in taken) or not any(name.startswith(PAST) for name in taken_with):
        raise _unfit(
            "the first must take no past, and the second one",
            f"{without.name} takes {', '.join(sorted(taken)[:4])}; the other {', '.join(sorted(taken_with)[:4])}",
            f"optim merge-decoders {with_past} {without} -o OUT",
        )
    opsets = [{entry.domain: entry.version for entry in proto.opset_import} for proto in (first, second)]
    for domain in opsets[0].keys() & opsets[1].keys():
        if opsets[0][domain] != opsets[1][domain]:
            raise _unfit(
                "they are of two opsets",
                f"{domain or 'ai.onnx'} {opsets[0][domain]} and {opsets[1][domain]}",
                "export both with the same opset",
            )
    returned = _names(second.graph.output)
    for value in first.graph.output:
        passed = value.name.replace(PRESENT, PAST, 1)
        if value.name in returned:
            continue
        if passed not in taken_with:
            raise _unfit(
                f"the second does not return '{value.name}'",
                f"it returns {', '.join(sorted(returned)[:4])}",
                "export both again, from one model",
            )
        second.graph.node.append(helper.make_node("Identity", [passed], [value.name], name=f"pass {passed}"))
        second.graph.output.append(value)
    order = {value.name: value for value in second.graph.output}
    outputs = [order[value.name] for value in first.graph.output]
    del second.graph.output[:]
    second.graph.output.extend(outputs)


def _unfit(what: str, cause: str, fix: str) -> OptimError:
    return OptimError.usage("decoders-do-not-fit", f"these are not two exports of one decoder: {what}", cause, fix)


def _functions(protos: Iterable[onnx.ModelProto]) -> list[onnx.FunctionProto]:
    found: dict[tuple[str, str], onnx.FunctionProto] = {}
    for proto in protos:
        for function in proto.functions:
            known = found.setdefault((function.domain, function.name), function)
            if known.SerializeToString(deterministic=True) != function.SerializeToString(deterministic=True):
                raise _unfit(
                    f"function {function.name} is another in each", "", "export both again with one version of the tool"
                )
    return list(found.values())


def _opsets(protos: Iterable[onnx.ModelProto]) -> Iterator[onnx.OperatorSetIdProto]:
    found = {entry.domain: entry.version for proto in protos for entry in proto.opset_import}
    return (helper.make_opsetid(domain, version) for domain, version in found.items())


def _with_free_dimensions(value: onnx.ValueInfoProto) -> onnx.ValueInfoProto:
    """An output whose named dimensions may be called otherwise in the other branch."""
    copy = onnx.ValueInfoProto()
    copy.CopyFrom(value)
    del copy.metadata_props[:]
    return copy


def _names(values: Iterable[onnx.ValueInfoProto]) -> set[str]:
    return {value.name for value in values}


def _size(tensor: TensorProto) -> int:
    entry = {item.key: item.value for item in tensor.external_data}
    return int(entry["length"]) if entry else int(onnx.numpy_helper.to_array(tensor).nbytes)
