"""The samples of a run on disk: one uncompressed ``.npz`` for each, and ``feeds.json`` that says where they are from.

Every process of a run opens them by the folder's path, and reads one sample at a time.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from optim._engine.feeds.archives import write_archive
from optim.arrays import Array, Feeds, dtype_of
from optim.model import TensorInfo

_INDEX = "feeds.json"
SYNTHESIZED = "synthesized"
"""The origin of samples that were made up."""

FEWEST = 4
"""Of fewer none is held out of calibration: what is left would say too little of the model's inputs."""

LABEL_PREFIX = "label"
"""Arrays of a sample that are no input of the model and begin so are kept for task metrics."""


@dataclass(frozen=True, slots=True)
class InputAssumption:
    """What was assumed about one input, in plain words; ``input`` is empty where it is about all of them.

    Attributes:
        guessed: whether nothing in the graph tells, so that it may be far from what the model will see.
    """

    input: str
    text: str
    guessed: bool = False


@dataclass(frozen=True, slots=True)
class FeedSet:
    """The samples of a run.

    Attributes:
        folder: where they lie; all that another process needs.
        origin: what the user named (``calib.npz``), or ``synthesized``.
        digest: sha256 over names, types, shapes and bytes of every array, hex.
        assumptions: what was made up or converted.
        dtypes: name of the type of each array; numpy's own format does not tell bfloat16 from raw bytes.
        labels: names of the arrays that are labels.
    """

    folder: Path
    origin: str
    count: int
    digest: str
    assumptions: tuple[InputAssumption, ...]
    dtypes: dict[str, str]
    labels: tuple[str, ...]

    @classmethod
    def open(cls, folder: Path) -> Self:
        """The feeds that another process wrote."""
        index: dict[str, Any] = json.loads((folder / _INDEX).read_text())
        assumptions = tuple(InputAssumption(**entry) for entry in index["assumptions"])
        return cls(folder, **{**index, "assumptions": assumptions, "labels": tuple(index["labels"])})

    def __len__(self) -> int:
        return self.count

    @property
    def held_out(self) -> tuple[int, ...]:
        """Samples that no pass sees: one in four of the user's, from the third on; none of fewer than four.

        What is fitted to samples fits those best. A BERT-base in 8 bits whose ranges came from eight samples kept a
        budget of 0.026 on these, and drifted by 0.044 on the next. The first stays with the passes: of a decoder it is
        the prompt. What was made up says nothing of further samples.
        """
        is_few = self.count < FEWEST or self.origin == SYNTHESIZED
        return () if is_few else tuple(range(2, self.count, 4))

    @property
    def calibration(self) -> tuple[int, ...]:
        """Samples that passes may fit a model to: all that are not held out."""
        held_out = set(self.held_out)
        return tuple(index for index in range(self.count) if index not in held_out)

    @property
    def notes(self) -> tuple[str, ...]:
        """What a report says of synthesized samples, where nothing in the graph tells what they are like."""
        guessed = [f"'{one.input}' is {one.text}" if one.input else one.text for one in self.assumptions if one.guessed]
        if not guessed:
            return ()
        what = "some inputs are synthesized without information about their values; your data may differ"
        return (f"{what}: {'; '.join(guessed)}",)

    def iterate(self) -> Iterator[Feeds]:
        """A fresh iterator over the samples, one in memory at a time."""
        return map(self.sample, range(self.count))

    def name_of(self, index: int) -> str:
        """A sample in a message; counted from 0, as everywhere."""
        return f"synthesized sample {index}" if self.origin == SYNTHESIZED else f"sample {index} of {self.origin}"

    def sample(self, index: int) -> Feeds:
        """Returns what to feed for sample ``index``, 0 first."""
        return {name: array for name, array in self._arrays(index).items() if name not in self.labels}

    def sample_labels(self, index: int) -> Feeds:
        """The labels of sample ``index``; empty where there are none."""
        return {name: array for name, array in self._arrays(index).items() if name in self.labels}

    def _arrays(self, index: int) -> dict[str, Array]:
        if not 0 <= index < self.count:
            raise IndexError(f"sample {index} of {self.count}")
        with np.load(_sample_path(self.folder, index), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        return {name: a.view(dtype_of(self.dtypes[name])) if a.dtype.kind == "V" else a for name, a in arrays.items()}


def is_intact(folder: Path) -> bool:
    """Whether the samples in a folder are as they were written, by the checksums of their archives; reads them all."""
    try:
        found = FeedSet.open(folder)
        for index in range(found.count):
            with zipfile.ZipFile(_sample_path(folder, index)) as archive:
                if archive.testzip() is not None:
                    return False
    except (OSError, ValueError, TypeError, KeyError, RecursionError, zipfile.BadZipFile, NotImplementedError):
        return False
    return True


class FeedWriter:
    """Writes samples one by one into a folder of its own, which is gone unless :meth:`finish` is called."""

    def __init__(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        self._folder = folder
        self._digest = hashlib.sha256()
        self._dtypes: dict[str, str] = {}
        self._labels: set[str] = set()
        self._is_whole = False
        self.count = 0

    def add(self, feeds: Feeds, labels: Feeds | None = None) -> None:
        """Write one sample."""
        labels = labels or {}
        self._labels.update(labels)
        self._digest.update(f"sample {self.count}".encode())
        arrays = {name: _plain(np.asarray(given, order="C")) for name, given in {**feeds, **labels}.items()}
        self._dtypes |= {name: array.dtype.name for name, array in arrays.items()}
        plain = {name: array.view(_raw(array.dtype)) for name, array in arrays.items()}
        write_archive(_sample_path(self._folder, self.count), plain)
        for name in sorted(arrays):
            array = arrays[name]
            self._digest.update(f"{name} {array.dtype.name} {array.shape}".encode())
            self._digest.update(array.tobytes())
        self.count += 1

    def finish(self, origin: str, assumptions: tuple[InputAssumption, ...]) -> FeedSet:
        """Write what the samples are; they are kept from now on."""
        digest, labels = self._digest.hexdigest(), tuple(sorted(self._labels))
        found = FeedSet(self._folder, origin, self.count, digest, assumptions, self._dtypes, labels)
        index = {name: value for name, value in asdict(found).items() if name != "folder"}
        (self._folder / _INDEX).write_text(json.dumps(index, indent=1))
        self._is_whole = True
        return found

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if not self._is_whole:
            shutil.rmtree(self._folder, ignore_errors=True)


def _plain(array: Array) -> Array:
    """Texts, which a runtime gives as Python objects, as an array that has their letters."""
    return array.astype(np.str_) if array.dtype.kind == "O" else array


def _raw(dtype: np.dtype[np.generic]) -> np.dtype[np.generic]:
    """The type itself, or raw bytes of its size where numpy's file format has no name for it."""
    return np.dtype(f"V{dtype.itemsize}") if dtype.kind == "V" or dtype.isbuiltin == 2 else dtype


def _sample_path(folder: Path, index: int) -> Path:
    return folder / f"{index:06d}.npz"


_FEWEST = 2
"""One sample has every dimension at one size, which says nothing of its user."""


def at_one_size(feeds: FeedSet, samples: Iterable[int], inputs: Iterable[TensorInfo]) -> tuple[str, ...]:
    """Returns the dynamic dimensions beside the batch that all samples have at one size, as ``sequence=128``."""
    seen: dict[str, set[int]] = {}
    shapes = [{name: array.shape for name, array in feeds.sample(index).items()} for index in samples]
    if feeds.origin == SYNTHESIZED or len(shapes) < _FEWEST:
        return ()
    for info in inputs:
        for axis, size in enumerate(info.shape or ()):
            if axis and not isinstance(size, int):
                known = {shape[info.name][axis] for shape in shapes if len(shape.get(info.name, ())) > axis}
                seen.setdefault(size or f"{info.name}[{axis}]", set()).update(known)
    return tuple(f"{name}={next(iter(sizes))}" for name, sizes in seen.items() if len(sizes) == 1)
