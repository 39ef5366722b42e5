"""Files of compiled graphs: an EPContext node may refer to one beside the model, as weights are referred to.

    EPContext(ep_cache_context="model_qnn.bin", embed_mode=0)

So does an entry of the graph's metadata, for what a runtime compiles that no node stands for: an artefact.

    metadata_props["optim.artefact/program.bin"] = "model.onnx.program.bin"

In the store such a file is called by the digest of its bytes, as a data file is.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

import onnx
import onnx_ir as ir

from optim.errors import OptimError
from optim.onnx.digests import file_digest

_OPERATOR, _FILE, _EMBEDDED = "EPContext", "ep_cache_context", "embed_mode"


ARTEFACT = "optim.artefact/"
"""Beginning of the keys of metadata that name artefacts; the rest is what its pass calls it."""

_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,80}")


def artefacts_of(path: Path) -> dict[str, Path]:
    """The artefacts of a graph, by what its pass called them."""
    graph = onnx.load(path, load_external_data=False)
    return {name: path.parent / file for name, file in _artefacts(graph)}


def set_artefacts(graph: ir.Model, artefacts: Mapping[str, Path | str]) -> None:
    """Say which artefacts a graph has from now on: what was compiled of another graph is none of its own.

    Args:
        graph: changed in place; it then refers to files by their whole paths, until they are stored.
        artefacts: files by what they are called.

    Raises:
        OptimError[bad-artefact]: a name that cannot be a file's, or a file that is not there.
    """
    for key in [key for key in graph.metadata_props if key.startswith(ARTEFACT)]:
        del graph.metadata_props[key]
    for name, given in artefacts.items():
        path = Path(given)
        if not _PLAIN_NAME.fullmatch(name) or not path.is_file():
            raise OptimError(
                "bad-artefact",
                f"'{name}' cannot be kept beside a model",
                f"{path} is not there" if _PLAIN_NAME.fullmatch(name) else "its name has other than letters and -._",
                "a pass writes it into context.scratch and hands it over: context.save(..., artefacts={'a.bin': path})",
            )
        graph.metadata_props[f"{ARTEFACT}{name}"] = str(path.absolute())


def _artefacts(model: onnx.ModelProto) -> Iterator[tuple[str, str]]:
    for entry in model.metadata_props:
        name = entry.key.removeprefix(ARTEFACT)
        if entry.key != name and entry.value and _PLAIN_NAME.fullmatch(name):
            yield name, entry.value


def context_files(model: onnx.ModelProto) -> list[str]:
    """Names of the files that EPContext nodes refer to, and of artefacts, sorted, each once."""
    found = {file for _, file in _artefacts(model)}
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
        if (stored := _stored(folder / name, store)) is not None:
            node.attributes[_FILE] = ir.AttrString(_FILE, stored)
    for key in [key for key in graph.metadata_props if key.startswith(ARTEFACT)]:
        if (stored := _stored(folder / graph.metadata_props[key], store)) is not None:
            graph.metadata_props[key] = stored


def _stored(source: Path, store: Path) -> str | None:
    """The name of a file's copy in the store; None where it lies there."""
    if source.parent.resolve() == store.resolve():
        return None
    store.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=store, suffix=".tmp", delete=False) as stream:
        temporary = Path(stream.name)
    try:
        shutil.copyfile(source, temporary)
        final = store / f"{file_digest(temporary)}.data"
        os.replace(temporary, final)
    finally:
        temporary.unlink(missing_ok=True)
    return final.name


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
    for key in sorted(key for key in graph.metadata_props if key.startswith(ARTEFACT)):
        known = graph.metadata_props[key]
        place = folder / f"{name}.{key.removeprefix(ARTEFACT)}"
        shutil.copyfile(store / known, place)
        places[key] = place
        graph.metadata_props[key] = place.name
    return list(places.values())


def _referring(graph: ir.Model) -> Iterator[tuple[ir.Node, str]]:
    for node in graph.graph:
        if node.op_type == _OPERATOR and _FILE in node.attributes and not node.attributes.get_int(_EMBEDDED, 0):
            name = node.attributes.get_string(_FILE)
            if name:
                yield node, name
