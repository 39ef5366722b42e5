"""A file of stored outputs: an ``.npz`` with the outputs of each run, and a text in JSON that says what was run.

::

    about     JSON in UTF-8, as bytes: model, runtime, target, samples; of each run the digests of what it was fed
    a0, a1    the arrays; equal ones are there once

Nothing in it is a pickle, and reading one executes nothing. Runs are found by the digests of their feeds: so the file
fits the samples that it was made with, whatever they are called elsewhere.
"""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Self

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from optim import OptimError
from optim.arrays import Array, Feeds, Outputs, dtype_of
from optim.errors import disk_error, some_of

_ABOUT = "about"
_MOST_ABOUT_BYTES = 64 << 20
FORMAT = "optim-outputs-1"
_MOST_NAMES = 6


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class StoredArray(_Part):
    """An output: its place in the file, its type as numpy or ml_dtypes calls it, and its digest."""

    place: str
    dtype: str
    digest: str


class StoredRun(_Part):
    """One run: the digest of each input, and its outputs by name."""

    feeds: dict[str, str]
    outputs: dict[str, StoredArray]


class About(_Part):
    """What was run.

    Attributes:
        format: of the file.
        model: name of the model's file.
        sha256: of its graph and weights.
        target: that it ran on.
        runtime: versions of the libraries that ran it, by distribution.
        samples: where they came from.
        count: of the samples.
        runs: of them, and of the further feeds that a comparison runs the reference on.
    """

    format: str
    model: str
    sha256: str
    target: str
    runtime: dict[str, str]
    samples: str
    count: int
    runs: tuple[StoredRun, ...]

    @property
    def text(self) -> str:
        """One clause for a person."""
        runtime = ", ".join(f"{name} {version}" for name, version in sorted(self.runtime.items()))
        return (
            f"the stored outputs of {self.model} (sha256 {self.sha256[:12]}) by {runtime} on target {self.target}, "
            f"samples: {self.samples} ({self.count})"
        )


class OutputsWriter:
    """Writes runs one by one; the file appears under its name when :meth:`finish` is called."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._making = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        self._archive = zipfile.ZipFile(self._making, "w", zipfile.ZIP_DEFLATED, compresslevel=1)
        self._places: dict[str, str] = {}
        self._runs: dict[tuple[tuple[str, str], ...], StoredRun] = {}

    def has(self, feeds: Feeds) -> bool:
        """Whether a run on these feeds is written."""
        return tuple(digests_of(feeds).items()) in self._runs

    def add(self, feeds: Feeds, outputs: Outputs) -> None:
        """Write one run."""
        digests = digests_of(feeds)
        stored = {name: self._stored(_plain(array)) for name, array in outputs.items()}
        self._runs[tuple(digests.items())] = StoredRun(feeds=digests, outputs=stored)

    def finish(self, **about: object) -> About:
        """Put the file in place, with what :class:`About` says of the model."""
        said = About.model_validate({**about, "format": FORMAT, "runs": tuple(self._runs.values())})
        self._write(_ABOUT, np.frombuffer(said.model_dump_json().encode(), np.uint8))
        self._archive.close()
        os.replace(self._making, self._path)
        return said

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._archive.close()
        self._making.unlink(missing_ok=True)

    def _stored(self, array: Array) -> StoredArray:
        digest = digest_of(array)
        if digest not in self._places:
            self._places[digest] = f"a{len(self._places)}"
            self._write(self._places[digest], array)
        return StoredArray(place=self._places[digest], dtype=array.dtype.name, digest=digest)

    def _write(self, place: str, array: Array) -> None:
        raw = array.view(f"V{array.dtype.itemsize}") if array.dtype.isbuiltin == 2 else array
        with self._archive.open(f"{place}.npy", "w", force_zip64=True) as stream:
            np.lib.format.write_array(stream, raw, allow_pickle=False)


class StoredOutputs:
    """A file that is read; :meth:`open` makes one.

    Attributes:
        path: of the file.
        about: what it says of itself.
        digest: of that, which has the digests of all arrays.
    """

    def __init__(self, path: Path, about: About, digest: str) -> None:
        self.path, self.about, self.digest = path, about, digest

    @classmethod
    def open(cls, path: Path) -> Self:
        """Read what a file says of itself, and no array.

        Raises:
            OptimError[bad-outputs-file]: it is not there, or ``optim outputs`` did not write it.
        """
        try:
            with zipfile.ZipFile(path) as archive:
                if archive.getinfo(f"{_ABOUT}.npy").file_size > _MOST_ABOUT_BYTES:
                    raise _bad(path, "what it says of itself is longer than any file of optim outputs")
            with np.load(path, allow_pickle=False) as arrays:
                text = arrays[_ABOUT].tobytes()
            about = About.model_validate_json(text)
        except FileNotFoundError as error:
            raise _bad(path, "there is no such file") from error
        except OSError as error:
            raise disk_error(error, f"{path.name} cannot be read") from error
        except KeyError as error:
            raise _bad(path, "it has no entry 'about': optim outputs did not write it") from error
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"]))
            raise _bad(path, f"what it says of itself cannot be read: {where} {first['msg']}".rstrip()) from error
        except (ValueError, zipfile.BadZipFile, EOFError, NotImplementedError) as error:
            raise _bad(path, f"it is no .npz file that can be read: {error}") from error
        if about.format != FORMAT:
            raise _bad(path, f"it has format '{about.format}', and this version reads '{FORMAT}'")
        return cls(path, about, hashlib.sha256(text).hexdigest())

    @property
    def outputs(self) -> dict[str, str]:
        """Types of the outputs, by name."""
        first = self.about.runs[0].outputs if self.about.runs else {}
        return {name: one.dtype for name, one in first.items()}

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of what the model was fed."""
        return tuple(self.about.runs[0].feeds) if self.about.runs else ()

    def find(self, feeds: Feeds) -> Outputs:
        """What was computed of these feeds.

        Raises:
            OptimError[other-samples]: the file has no run of them.
            OptimError[bad-outputs-file]: it was changed since it was written.
        """
        digests = digests_of(feeds)
        runs = (run for run in self.about.runs if run.feeds.items() <= digests.items())
        run = next(runs, None)
        if run is None:
            raise self._other_samples(digests)
        try:
            with np.load(self.path, allow_pickle=False) as arrays:
                return {name: _read(arrays, one) for name, one in run.outputs.items()}
        except (OSError, KeyError, ValueError, TypeError, zipfile.BadZipFile, EOFError) as error:
            raise _bad(self.path, f"an array in it cannot be read: {error}") from error

    def _other_samples(self, digests: Mapping[str, str]) -> OptimError:
        differ = [
            name for name in self.inputs if all(run.feeds.get(name) != digests.get(name) for run in self.about.runs)
        ]
        about = self.about
        return OptimError.usage(
            "other-samples",
            f"{self.path.name} has no outputs for these samples",
            f"no stored sample has the same values for {_named(differ or self.inputs)}; the file has "
            f"{about.count} sample{'s' * (about.count != 1)}: {about.samples}",
            "give --data with the samples that the file was made with, or make the file again: "
            f"optim outputs {about.model} --data SAMPLES -o {self.path.name}",
        )


def digests_of(feeds: Feeds) -> dict[str, str]:
    """The digest of each array, by name."""
    return {name: digest_of(_plain(np.asarray(array))) for name, array in sorted(feeds.items())}


def digest_of(array: Array) -> str:
    """sha256 over type, shape and bytes, hex."""
    array = np.ascontiguousarray(array)
    return hashlib.sha256(f"{array.dtype.name} {array.shape}".encode() + array.tobytes()).hexdigest()


def _plain(array: Array) -> Array:
    """Texts, which a runtime gives as Python objects, as an array that has their letters."""
    return array.astype(np.str_) if array.dtype.kind == "O" else array


def _read(arrays: Mapping[str, Array], one: StoredArray) -> Array:
    array = arrays[one.place]
    found = array.view(dtype_of(one.dtype)) if array.dtype.kind == "V" else array
    if digest_of(found) != one.digest:
        raise ValueError(f"{one.place} is not what was written")
    return found


def _named(names: Iterable[str]) -> str:
    return some_of([f"'{name}'" for name in names], _MOST_NAMES)


def _bad(path: Path, cause: str) -> OptimError:
    return OptimError.usage(
        "bad-outputs-file",
        f"{path.name} is no file of stored outputs",
        cause,
        f"optim outputs MODEL --data samples.npz -o {path.name}",
    )
