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
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

import onnx
import onnx_ir as ir

from optim.errors import OptimError
from optim.onnx.data_files import file_digest, keep_by_digest

_OPERATOR, _FILE, _EMBEDDED = "EPContext", "ep_cache_context", "embed_mode"


ARTEFACT = "optim.artefact/"
"""Beginning of the keys of metadata that name artefacts; the rest is what its pass calls it."""

ATTACHMENT = "optim.attachment/"
"""Beginning of the keys that name attachments; the rest is what the file is called in the run folder."""

_PLAIN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,80}")
ARRAY_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,80}\.(onnx_adapter|safetensors|npz)")
"""What an attachment may be called: files of arrays, which nothing in a run folder imports or runs."""


def artefacts_of(path: Path) -> dict[str, Path]:
    """The artefacts of a graph, by what its pass called them."""
    graph = onnx.load(path, load_external_data=False)
    return {name: path.parent / file for name, file in _named(graph, ARTEFACT)}


def attachments_of(path: Path) -> dict[str, Path]:
    """The attachments of a graph, by what they are called in the run folder."""
    graph = onnx.load(path, load_external_data=False)
    return {name: path.parent / file for name, file in _named(graph, ATTACHMENT)}


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
    _name_files(graph, artefacts, ARTEFACT, _PLAIN_NAME)


def attach(graph: ir.Model, attachments: Mapping[str, Path | str]) -> None:
    """Name further attachments of a graph, beside those that it has: ``.onnx_adapter``, ``.safetensors`` or ``.npz``.

    Args:
        graph: changed in place; it then refers to them by their whole paths, until they are stored.
        attachments: files by what they are called in the run folder.

    Raises:
        OptimError[bad-artefact]: a name that cannot be a file's, or a file that is not there.
    """
    _name_files(graph, attachments, ATTACHMENT, ARRAY_FILE)


def keep_attachments(graph: ir.Model, path: Path) -> None:
    """Give a graph that a library wrote the attachments of the graph at ``path`` that it was made from."""
    for key in [key for key in graph.metadata_props if key.startswith(ATTACHMENT)]:
        del graph.metadata_props[key]
    attach(graph, attachments_of(path))


def _name_files(graph: ir.Model, files: Mapping[str, Path | str], prefix: str, fits: re.Pattern[str]) -> None:
    for name, given in files.items():
        path = Path(given)
        if not fits.fullmatch(name) or not path.is_file():
            wrong = "its name has other than letters and -._"
            wrong = (
                wrong if fits is _PLAIN_NAME else f"{wrong}, or another suffix than .onnx_adapter, .safetensors, .npz"
            )
            raise OptimError(
                "bad-artefact",
                f"'{name}' cannot be kept beside a model",
                f"{path} is not there" if fits.fullmatch(name) else wrong,
                "a pass writes it into context.scratch and hands it over: context.save(..., artefacts={'a.bin': path})",
            )
        graph.metadata_props[f"{prefix}{name}"] = str(path.absolute())


def _named(model: onnx.ModelProto, prefix: str) -> Iterator[tuple[str, str]]:
    fits = ARRAY_FILE if prefix == ATTACHMENT else _PLAIN_NAME
    for entry in model.metadata_props:
        name = entry.key.removeprefix(prefix)
        if entry.key != name and entry.value and fits.fullmatch(name):
            yield name, entry.value


def context_files(model: onnx.ModelProto) -> list[str]:
    """Names of the files that EPContext nodes refer to, of artefacts and attachments, sorted, each once."""
    found = {file for prefix in (ARTEFACT, ATTACHMENT) for _, file in _named(model, prefix)}
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
    for key in _keys(graph):
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
        keep_by_digest(temporary, final)
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
    for key in _keys(graph):
        attached = key.startswith(ATTACHMENT)
        place = folder / (key.removeprefix(ATTACHMENT) if attached else f"{name}.{key.removeprefix(ARTEFACT)}")
        shutil.copyfile(store / graph.metadata_props[key], place)
        places[key] = place
        graph.metadata_props[key] = place.name
    return list(places.values())


def _keys(graph: ir.Model) -> list[str]:
    """Keys of metadata that name files, in order; others of that beginning, as of a stranger's model, are taken out."""
    found = []
    for key in sorted(key for key in graph.metadata_props if key.startswith((ARTEFACT, ATTACHMENT))):
        attached = key.startswith(ATTACHMENT)
        fits = (
            ARRAY_FILE.fullmatch(key.removeprefix(ATTACHMENT))
            if attached
            else _PLAIN_NAME.fullmatch(key.removeprefix(ARTEFACT))
        )
        if fits and graph.metadata_props[key]:
            found.append(key)
        else:
            del graph.metadata_props[key]
    return found


def _referring(graph: ir.Model) -> Iterator[tuple[ir.Node, str]]:
    for node in graph.graph:
        if node.op_type == _OPERATOR and _FILE in node.attributes and not node.attributes.get_int(_EMBEDDED, 0):
            name = node.attributes.get_string(_FILE)
            if name:
                yield node, name
