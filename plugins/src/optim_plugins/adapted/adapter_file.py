"""Files of adapters: ``.onnx_adapter``, ``.safetensors`` and ``.npz``, by their suffix.

Names of arrays are names of a model's inputs. onnxruntime's own format keeps two numbers beside them, the versions of
the adapter and of the model that it is for; so do the other two, each in its own way.
"""

from __future__ import annotations

import importlib.util
import os
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from optim.arrays import Array
from optim.errors import OptimError

ONNX_ADAPTER = ".onnx_adapter"
"""Suffix of ONNX Runtime's own format of adapters."""

SAFETENSORS, NPZ = ".safetensors", ".npz"
SUFFIXES = (ONNX_ADAPTER, SAFETENSORS, NPZ)

_VERSIONS = "optim.versions"
"""Array of an ``.npz``, and key of a ``.safetensors``, that has both versions."""


@dataclass(frozen=True, slots=True)
class Adapter:
    """Weights of an adapter.

    Attributes:
        arrays: arrays by input of the model.
        version: version of the adapter, as its author counts.
        model_version: version of the model that it is for; 0: unknown.
    """

    arrays: Mapping[str, Array]
    version: int = 1
    model_version: int = 0


def read_adapter(path: Path, suffix: str = "") -> Adapter:
    """Reads an adapter from its file.

    Args:
        path: the file.
        suffix: format of the file, if its name does not say it.

    Raises:
        OptimError[adapter-missing]: there is no such file.
        OptimError[adapter-unknown-format]: the suffix is unknown.
        OptimError[adapter-unreadable]: the file is damaged, cut off or something else, or too new for this onnxruntime.
        OptimError[adapter-empty]: the file has no array.
        OptimError[safetensors-missing]: the library that reads the format is not installed.
    """
    if not path.is_file():
        raise OptimError.usage(
            "adapter-missing",
            f"there is no adapter {path}",
            "it is not a file",
            "optim adapters convert PEFT_FOLDER --for MODEL -o FILE.onnx_adapter",
        )
    read = _reader(path, suffix or path.suffix)
    try:
        found = read(path)
    except OptimError:
        raise
    except Exception as error:  # each library raises its own over what it cannot read
        raise OptimError(
            "adapter-unreadable",
            f"{path} cannot be read",
            _first_line(error),
            "copy the file again, or convert the adapter again: optim adapters convert",
        ) from error
    _require_weights(found, path)
    return found


def _require_weights(adapter: Adapter, path: Path) -> None:
    if not adapter.arrays:
        raise OptimError("adapter-empty", f"{path} has no weights", "it holds no array", "convert the adapter again")


def require_format(path: Path) -> None:
    """Refuses a file name of an unknown format.

    Raises:
        OptimError[adapter-unknown-format]: the suffix is none of ``SUFFIXES``.
    """
    if path.suffix not in SUFFIXES:
        raise _unknown_format(path)


def write_adapter(adapter: Adapter, path: Path) -> None:
    """Writes an adapter, reads it back, and then replaces an earlier file of the same name.

    Raises:
        OptimError[adapter-unknown-format]: the suffix is none of ``SUFFIXES``.
        OptimError[adapter-empty]: there is nothing to write.
        OptimError[adapter-damaged]: the file does not have what was written.
        OptimError[adapter-dtype]: the format has no such type.
        OptimError[safetensors-missing]: the library that writes the format is not installed.
    """
    writers: Mapping[str, Callable[[Adapter, Path], None]] = {
        ONNX_ADAPTER: _write_onnx,
        SAFETENSORS: _write_safetensors,
        NPZ: _write_npz,
    }
    require_format(path)
    _require_weights(adapter, path)
    temporary = path.with_name(f".{path.stem}.{uuid.uuid4().hex}{path.suffix}")
    try:
        writers[path.suffix](adapter, temporary)
        _require_same(read_adapter(temporary), adapter, path)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _require_same(back: Adapter, adapter: Adapter, path: Path) -> None:
    same = back.version == adapter.version and back.model_version == adapter.model_version
    same = same and set(back.arrays) == set(adapter.arrays)
    if not same or any(not _equal(back.arrays[name], array) for name, array in adapter.arrays.items()):
        raise OptimError(
            "adapter-damaged",
            f"{path} does not hold what was written",
            "its arrays differ when they are read back",
            "try again; if it comes again, write .safetensors",
        )


def _reader(path: Path, suffix: str) -> Callable[[Path], Adapter]:
    readers = {ONNX_ADAPTER: _read_onnx, SAFETENSORS: _read_safetensors, NPZ: _read_npz}
    if suffix not in readers:
        raise _unknown_format(path)
    return readers[suffix]


def _write_onnx(adapter: Adapter, path: Path) -> None:
    import onnxruntime as ort

    made = ort.AdapterFormat()
    made.set_adapter_version(adapter.version)
    made.set_model_version(adapter.model_version)
    arrays = {name: np.ascontiguousarray(array) for name, array in adapter.arrays.items()}
    try:
        values = {name: ort.OrtValue.ortvalue_from_numpy(array) for name, array in arrays.items()}
    except RuntimeError as error:
        raise _no_such_type(adapter, ONNX_ADAPTER) from error
    made.set_parameters(values)  # keeps no reference to them: they must live until the file is written
    made.export_adapter(str(path))
    del values, arrays


def _read_onnx(path: Path) -> Adapter:
    import onnxruntime as ort

    found = ort.AdapterFormat.read_adapter(str(path))
    values = found.get_parameters()
    arrays = {name: np.array(value.numpy()) for name, value in values.items()}
    return Adapter(arrays, found.get_adapter_version(), found.get_model_version())


def _write_safetensors(adapter: Adapter, path: Path) -> None:
    _need_safetensors(path)
    from safetensors.numpy import save_file

    arrays = {name: np.ascontiguousarray(array) for name, array in adapter.arrays.items()}
    save_file(arrays, str(path), metadata={_VERSIONS: f"{adapter.version} {adapter.model_version}"})


def _read_safetensors(path: Path) -> Adapter:
    _need_safetensors(path)
    from safetensors import safe_open

    with safe_open(str(path), framework="numpy") as file:
        version, model_version = map(int, (file.metadata() or {}).get(_VERSIONS, "1 0").split())
        return Adapter({name: file.get_tensor(name) for name in file.keys()}, version, model_version)  # noqa: SIM118


def _write_npz(adapter: Adapter, path: Path) -> None:
    from optim.engine.adapters import write_archive

    if any(array.dtype.isbuiltin != 1 for array in adapter.arrays.values()):
        raise _no_such_type(adapter, NPZ)
    versions = np.array([adapter.version, adapter.model_version])
    write_archive(path, {**adapter.arrays, _VERSIONS: versions})


def _read_npz(path: Path) -> Adapter:
    from optim.engine.adapters import read_archive

    try:
        arrays = dict(next(read_archive(path))[1])
    except OptimError as error:
        raise ValueError(error.cause) from error
    version, model_version = map(int, arrays.pop(_VERSIONS, np.array([1, 0])))
    return Adapter(arrays, version, model_version)


def _no_such_type(adapter: Adapter, suffix: str) -> OptimError:
    dtypes = ", ".join(sorted({str(array.dtype) for array in adapter.arrays.values()}))
    return OptimError(
        "adapter-dtype", f"a file {suffix} cannot hold these arrays", f"they are {dtypes}", "write .safetensors"
    )


def _need_safetensors(path: Path) -> None:
    if importlib.util.find_spec("safetensors") is None:
        raise OptimError.usage(
            "safetensors-missing",
            f"{path} cannot be opened",
            "safetensors is not installed",
            "pip install safetensors, or use .onnx_adapter",
        )


def _unknown_format(path: Path) -> OptimError:
    return OptimError.usage(
        "adapter-unknown-format",
        f"{path} is not a file of an adapter",
        f"its name ends in '{path.suffix}'",
        f"name it {path.stem}.onnx_adapter, .safetensors or .npz",
    )


def _equal(back: Array, given: Array) -> bool:
    return back.dtype == given.dtype and back.shape == given.shape and back.tobytes() == given.tobytes()


def _first_line(error: Exception) -> str:
    """What a library says; of onnxruntime without the place in its own code."""
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    return text.rsplit(") ", 1)[-1] if "onnxruntime_src" in text else text
