"""Reads ``.npz`` of unknown origin: what an archive says of its arrays is held against bounds before any is read.

A few kilobytes can unpack to a hundred gigabytes, and a header of a hundred bytes can claim any shape. zipfile unpacks
no more of a member than its entry says; so the entry and the array's header, which must agree, bound what is read.
"""

from __future__ import annotations

import math
import re
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np

from optim.arrays import Array
from optim.errors import OptimError, describe_exception
from optim.jobs.resources import free_memory_bytes

_NUMBERED = re.compile(r"(\d+)/(.+)")
Found = tuple[str, Mapping[str, Any]]
"""One sample as it was found: what to call it in a message, such as ``calib.npz sample 3``, and its arrays by name."""

_PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
"""What numpy writes; LZMA can ask for a dictionary of gigabytes."""


def write_archive(path: Path, arrays: Mapping[str, Array]) -> None:
    """One sample as ``numpy.savez`` writes it, which takes no array that is called ``file``; without a date."""
    with zipfile.ZipFile(path, "w") as archive:
        for name, array in arrays.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, array, allow_pickle=False)


def read_archive(path: Path) -> Iterator[Found]:
    """The samples of one ``.npz``.

    Raises:
        OptimError: feeds-unreadable, feeds-pickled, feeds-too-large.
    """
    try:
        stream = path.open("rb")
    except OSError as error:
        raise unreadable(path, str(error.strerror)) from error
    with stream:
        if stream.read(6) == b"\x93NUMPY":
            raise unreadable(path, "it holds one array without a name (.npy)")
        try:
            archive = zipfile.ZipFile(stream)
        except Exception as error:  # whatever a damaged file makes of zipfile
            raise unreadable(path, "it is not a complete .npz archive") from error
        with archive:
            yield from _split(archive, path)


def unreadable(path: Path, cause: str) -> OptimError:
    """A file that is not feeds."""
    return OptimError("feeds-unreadable", f"{path} cannot be read", cause, "write it again: numpy.savez(path, **feeds)")


def _split(archive: zipfile.ZipFile, path: Path) -> Iterator[Found]:
    """One sample, or those that the names number."""
    members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
    numbered = [match for name in members if (match := _NUMBERED.fullmatch(name))]
    if not numbered or len(numbered) < len(members):
        yield _sample(archive, members, path.name, path)
        return
    samples: dict[int, dict[str, zipfile.ZipInfo]] = {}
    for match in numbered:
        samples.setdefault(int(match[1]), {})[match[2]] = members[match[0]]
    for index in sorted(samples):
        yield _sample(archive, samples[index], f"{path.name} sample {index}", path)


def _sample(archive: zipfile.ZipFile, members: Mapping[str, zipfile.ZipInfo], where: str, path: Path) -> Found:
    size, most = sum(info.file_size for info in members.values()), free_memory_bytes() // 2
    if size > most:
        raise OptimError(
            "feeds-too-large",
            f"{where} is not read",
            f"its arrays unpack to {size / 1e9:.1f} GB; half of the free memory is {most / 1e9:.1f} GB",
            "give smaller samples: one run of the model each",
        )
    return where, {name: _member(archive, info, name, path) for name, info in members.items()}


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, name: str, path: Path) -> Array:
    if info.compress_type not in _PACKED:
        raise unreadable(path, f"array '{name}' is packed in a way that numpy.savez does not use")
    try:
        with archive.open(info) as stream:
            _require_bounded(stream, info, name, path)
        with archive.open(info) as stream:
            array: Array = np.lib.format.read_array(stream, allow_pickle=False)
    except OptimError:
        raise
    except Exception as error:  # whatever a damaged member makes of zipfile, zlib, numpy and ast
        raise unreadable(path, f"array '{name}': {describe_exception(error)}") from error
    return array


def _require_bounded(stream: IO[bytes], info: zipfile.ZipInfo, name: str, path: Path) -> None:
    """Refuse an array of Python objects, and one whose header claims more bytes than its entry has."""
    version = np.lib.format.read_magic(stream)
    if version > (2, 0):
        raise ValueError(f"it is in version {version[0]}.{version[1]} of .npy, which is for records")
    is_first = version == (1, 0)
    read = np.lib.format.read_array_header_1_0 if is_first else np.lib.format.read_array_header_2_0
    shape, _, dtype = read(stream)
    if dtype.hasobject:
        raise OptimError(
            "feeds-pickled",
            f"array '{name}' of {path} is not read",
            "it holds Python objects (pickle), which could run any code when loaded",
            "save plain arrays: numpy.asarray(values, dtype='float32'); strings cannot be fed this way",
        )
    if (size := math.prod(shape) * dtype.itemsize) > info.file_size:
        raise unreadable(path, f"array '{name}' claims {size} bytes, and its entry has {info.file_size}")
