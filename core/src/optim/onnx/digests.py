"""Digests: what a model is called in the store, and how two models are known to be the same."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import onnx

from optim.model import SessionConfig
from optim.onnx.data_files import file_digest
from optim.onnx.external_data import external_files

_STORED = re.compile(r"[0-9a-f]{64}")


def model_digest(path: Path, session: SessionConfig) -> str:
    """Sha256 of a graph, of the data files it refers to, and of its session settings where there are any, hex.

    A graph in the store is called by its digest, and refers to data files called by theirs, so nothing is read.
    """
    digest = path.stem
    if not _STORED.fullmatch(digest):
        files = [path, *(path.parent / location for location in external_files(path))]
        digest = hashlib.sha256("".join(map(file_digest, files)).encode()).hexdigest()
    if session == SessionConfig():
        return digest
    return hashlib.sha256(f"{digest}{json.dumps(asdict(session), sort_keys=True)}".encode()).hexdigest()


def operations_digest(graph: bytes) -> str:
    """Digest of what a graph does to its inputs, hex: graphs that differ in names and order of nodes have the same.

    Weights that lie in files count by type and shape, so that what takes the same time is the same, and constants
    inside the graph by their numbers too.

    Args:
        graph: a serialized ``ModelProto``.
    """
    model = onnx.ModelProto.FromString(graph)
    opsets = sorted((one.domain, one.version) for one in model.opset_import)
    return _hash(opsets, _operations(model.graph, {}))


def _operations(graph: onnx.GraphProto, around: Mapping[str, str]) -> str:
    """Digest of a graph, whose values around it are called by their digests."""
    known = {**around, "": ""}
    for place, given in enumerate(graph.input):
        known[given.name] = _hash("input", place if around else given.name, given.type.SerializeToString())
    for tensor in graph.initializer:
        known[tensor.name] = _hash("weight", tensor.data_type, list(tensor.dims), _content(tensor))
    nodes = []
    for node in graph.node:
        attributes = sorted(
            [one.name, _operations(one.g, known) if one.HasField("g") else one.SerializeToString(deterministic=True)]
            for one in node.attribute
        )
        made = _hash(node.domain, node.op_type, attributes, [known[name] for name in node.input])
        nodes.append(made)
        known |= {name: _hash(made, place) for place, name in enumerate(node.output) if name}
    results = [[known[result.name], "" if around else result.name] for result in graph.output]
    return _hash(sorted(nodes), results)


def _content(tensor: onnx.TensorProto) -> bytes:
    """The numbers of a tensor that lie inside the graph, whatever it is called."""
    if tensor.data_location == onnx.TensorProto.EXTERNAL:
        return b""
    unnamed = onnx.TensorProto()
    unnamed.CopyFrom(tensor)
    for field in ("name", "doc_string", "external_data", "metadata_props"):
        unnamed.ClearField(field)
    return bytes(unnamed.SerializeToString(deterministic=True))


def _hash(*parts: object) -> str:
    return hashlib.sha256(repr(parts).encode()).hexdigest()
