"""Files of compiled graphs: an EPContext node may refer to one beside the model, as weights are referred to.

    EPContext(ep_cache_context="model_qnn.bin", embed_mode=0)

So does an entry of the graph's metadata, for what a runtime compiles that no node stands for: an artefact.

    metadata_props["optim.artefact/program.bin"] = "model.onnx.program.bin"

A file that a pass hands to the run folder, whatever becomes of the graph afterwards, is named in the same way: an
attachment.

    metadata_props["optim.attachment/support.onnx_adapter"] = "support.onnx_adapter"

In the store such a file is called by the digest of its bytes, as a data file is.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import onnx
import onnx_ir as ir

from optim.errors import OptimError
from optim.onnx.data_files import file_digest, keep_by_digest, unnamed_file

_OPERATOR, _FILE, _EMBEDDED = "EPContext", "ep_cache_context", "embed_mode"
"""A node without ``embed_mode`` has the compiled graph in it: ONNX Runtime's schema gives it the default 1."""

ARTEFACT = "optim.artefact/"
"""Beginning of the keys of metadata that name artefacts; the rest is what its pass calls it."""

ATTACHMENT = "optim.attachment/"
"""Beginning of the keys that name attachments; the rest is what the file is called in the run folder."""

ARRAY_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,80}\.(onnx_adapter|safetensors|npz)")
"""What an attachment may be called: files of arrays, which nothing in a run folder imports or runs."""

_FITS = {ARTEFACT: re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,80}"), ATTACHMENT: ARRAY_FILE}
"""By the beginning of a key, what the rest of it may be."""


def named_files(path: Path, prefix: str) -> dict[str, Path]:
    """Returns the artefacts or the attachments of a graph, by what the pass or the run folder calls them."""
    metadata = {entry.key: entry.value for entry in onnx.load(path, load_external_data=False).metadata_props}
    return {
        key.removeprefix(prefix): path.parent / file
        for key, file in _naming(metadata).items()
        if key.startswith(prefix)
    }


def name_files(graph: ir.Model, prefix: str, files: Mapping[str, Path | str], *, beside: bool = False) -> None:
    """Names the artefacts or the attachments that a graph has from now on.

    Args:
        graph: changed in place; it then refers to files by their whole paths, until they are stored.
        prefix: ``ARTEFACT``, for files that were compiled of this graph; or ``ATTACHMENT``.
        files: by what they are called.
        beside: whether the graph keeps those that it has.

    Raises:
        OptimError[bad-artefact]: a name that cannot be a file's, or a file that is not there.
    """
    for key in [] if beside else [key for key in graph.metadata_props if key.startswith(prefix)]:
        del graph.metadata_props[key]
    for name, given in files.items():
        path, fits = Path(given), _FITS[prefix].fullmatch(name)
        if not fits or not path.is_file():
            wrong = "its name has other than letters and -._"
            if prefix == ATTACHMENT:
                wrong += ", or another suffix than .onnx_adapter, .safetensors, .npz"
            raise OptimError(
                "bad-artefact",
                f"'{name}' cannot be kept beside a model",
                f"{path} is not there" if fits else wrong,
                "a pass writes it into context.scratch and hands it over: context.save(..., artefacts={'a.bin': path})",
            )
        graph.metadata_props[f"{prefix}{name}"] = str(path.absolute())


def _naming(metadata: Mapping[str, str]) -> dict[str, str]:
    """Returns the entries of metadata that name files; a stranger's model may have others of that beginning."""
    return {
        key: file
        for key, file in sorted(metadata.items())
        for prefix, fits in _FITS.items()
        if key.startswith(prefix) and fits.fullmatch(key.removeprefix(prefix)) and file
    }


def context_files(model: onnx.ModelProto) -> list[str]:
    """Names of the files that EPContext nodes refer to, of artefacts and attachments, sorted, each once."""
    found = set(_naming({entry.key: entry.value for entry in model.metadata_props}).values())
    for node in model.graph.node:
        if node.op_type == _OPERATOR:
            values = {attribute.name: attribute for attribute in node.attribute}
            is_apart = _EMBEDDED in values and values[_EMBEDDED].i == 0
            if is_apart and _FILE in values and values[_FILE].s:
                found.add(values[_FILE].s.decode("utf-8", "replace"))
    return sorted(found)


def store_contexts(graph: ir.Model, folder: Path, store: Path) -> None:
    """Copy the files of compiled graphs from ``folder`` into the store, and have ``graph`` refer to them there."""
    _refer(graph, lambda _, file: _stored(folder / file, store))


def _stored(source: Path, store: Path) -> str:
    """Returns the name of a file in the store, and copies it there unless it lies there."""
    if source.parent.resolve() == store.resolve():
        return source.name
    store.mkdir(parents=True, exist_ok=True)
    with unnamed_file(store) as temporary:
        shutil.copyfile(source, temporary)
        final = store / f"{file_digest(temporary)}.data"
        keep_by_digest(temporary, final)
    return final.name


def deliver_contexts(graph: ir.Model, store: Path, folder: Path, name: str) -> list[Path]:
    """Copy the files of compiled graphs beside a delivered model, whose name theirs begin with, and refer to them."""
    places: dict[str, Path] = {}

    def delivered(key: str, file: str) -> str:
        place = places.get(file) or folder / f"{name}.context{len(places) or ''}.bin"
        if key:
            artefact = f"{name}.{key.removeprefix(ARTEFACT)}"
            place = folder / (key.removeprefix(ATTACHMENT) if key.startswith(ATTACHMENT) else artefact)
        shutil.copyfile(store / file, place)
        places[key or file] = place
        return place.name

    _refer(graph, delivered)
    return list(places.values())


def _refer(graph: ir.Model, to: Callable[[str, str], str]) -> None:
    """Has a graph refer to its files by other names, and takes out metadata that only looks as if it named files.

    Args:
        graph: changed in place.
        to: returns the new name, given the key of metadata, empty for an EPContext node, and the old name.
    """
    for node in graph.graph:
        is_apart = node.op_type == _OPERATOR and not node.attributes.get_int(_EMBEDDED, 1)
        if is_apart and (file := node.attributes.get_string(_FILE)):
            node.attributes[_FILE] = ir.AttrString(_FILE, to("", file))
    found = _naming(graph.metadata_props)
    for key in [key for key in graph.metadata_props if key.startswith(tuple(_FITS)) and key not in found]:
        del graph.metadata_props[key]
    for key, file in found.items():
        graph.metadata_props[key] = to(key, file)
