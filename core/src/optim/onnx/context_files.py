"""Files of compiled graphs: an EPContext node may refer to one beside the model, as weights are referred to.

    EPContext(ep_cache_context="model_qnn.bin", embed_mode=0)

In the store such a file is called by the digest of its bytes, as a data file is.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import onnx
import onnx_ir as ir

from optim.errors import OptimError
from optim.onnx.digests import file_digest

_OPERATOR, _FILE, _EMBEDDED = "EPContext", "ep_cache_context", "embed_mode"


def context_files(model: onnx.ModelProto) -> list[str]:
    """Names of the files that EPContext nodes refer to, sorted, each once."""
    found = set()
    for node in model.graph.node:
        if node.op_type == _OPERATOR:
            values = {attribute.name: attribute for attribute in node.attribute}
            if _FILE in values and (_EMBEDDED not in values or values[_EMBEDDED].i == 0) and values[_FILE].s:
                found.add(values[_FILE].s.decode("utf-8", "replace"))
    return sorted(found)


def check_context_files(model: onnx.ModelProto, path: Path) -> None:
    """Refuse a compiled model whose file cannot, or must not, be read.

    Raises:
        OptimError[external-data-outside]: it is not in the model's own folder.
        OptimError[external-data-missing]: there is no such file.
    """
    for name in context_files(model):
        found = path.parent / name
        what = f"the compiled graph of {path} cannot be used"
        plain = PurePosixPath(name.replace("\\", "/"))
        if plain.is_absolute() or ".." in plain.parts or found.is_symlink():
            raise OptimError(
                "external-data-outside",
                what,
                f"it refers to '{name}', which is not in the model's own folder",
                "put the file beside the model and compile it there",
            )
        if not found.is_file():
            raise OptimError(
                "external-data-missing",
                what,
                f"it refers to '{name}', which is not there",
                f"copy {name} into {path.parent}",
            )


def store_contexts(graph: ir.Model, folder: Path, store: Path) -> None:
    """Copy the files of compiled graphs into the store, and refer to them there.

    Args:
        graph: changed in place.
        folder: of the model that it was read from.
        store: folder of the store.
    """
    for node, name in _referring(graph):
        source = folder / name
        if source.parent.resolve() == store.resolve():
            continue
        store.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=store, suffix=".tmp", delete=False) as stream:
            temporary = Path(stream.name)
        try:
            shutil.copyfile(source, temporary)
            final = store / f"{file_digest(temporary)}.data"
            os.replace(temporary, final)
        finally:
            temporary.unlink(missing_ok=True)
        node.attributes[_FILE] = ir.AttrString(_FILE, final.name)


def deliver_contexts(graph: ir.Model, store: Path, folder: Path, name: str) -> list[Path]:
    """Copy the files of compiled graphs beside a delivered model, and refer to them there.

    Args:
        graph: changed in place.
        store: where they lie.
        folder: to deliver to.
        name: of the model's file; theirs begin with it.
    """
    places: dict[str, Path] = {}
    for node, known in _referring(graph):
        if known not in places:
            number = f"{len(places)}" if places else ""
            places[known] = folder / f"{name}.context{number}.bin"
            shutil.copyfile(store / known, places[known])
        node.attributes[_FILE] = ir.AttrString(_FILE, places[known].name)
    return list(places.values())


def _referring(graph: ir.Model) -> Iterator[tuple[ir.Node, str]]:
    for node in graph.graph:
        if node.op_type == _OPERATOR and _FILE in node.attributes and not node.attributes.get_int(_EMBEDDED, 0):
            name = node.attributes.get_string(_FILE)
            if name:
                yield node, name
