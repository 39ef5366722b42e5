"""What a caller hands over as ``data=`` and ``metric=``: objects of the program, under names that jobs can read.

Jobs run in processes of their own, and a cache tells feeds by their bytes: both need a file. That of arrays lives as
long as the call, and a lock names it by :data:`optim._engine.feeds.named.GIVEN_FEEDS` alone.
"""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any, TypeAlias, cast

from optim._engine.compare.metric_spec import MetricSpec, parse_metric
from optim._engine.feeds.named import GIVEN_FEEDS
from optim.arrays import Array, is_float
from optim.errors import OptimError
from optim.metric import Metric

Sample: TypeAlias = Mapping[str, Any]
"""Arrays by the names of inputs, and labels by names that begin with ``label``."""

Data: TypeAlias = str | PathLike[str] | Sample | Iterable[Sample] | Callable[..., Sample | Iterable[Sample]]
"""What ``data=`` takes: a file, a folder, ``package.module:function``; one sample; several; or a function of them."""

TaskMetric: TypeAlias = str | Metric | Callable[..., "float | Array"]
"""A name of ``optim metrics``, ``package.module:function``, a metric, or a function of outputs, labels and feeds."""


@contextmanager
def named_data(data: Data | None, seed: int) -> Iterator[str | None]:
    """The feeds as a run names them; a file of arrays is there until the end of the context.

    Raises:
        OptimError[bad-data]: it is nothing that samples could be read from.
        OptimError[feeds-empty]: it has no samples.
        OptimError[feeds-function-failed]: the function raised.
    """
    if data is None or isinstance(data, str | PathLike):
        yield None if data is None else str(data)
        return
    with tempfile.TemporaryDirectory(prefix="optim-") as folder:
        path = Path(folder) / GIVEN_FEEDS
        _write(_samples(data, seed), path)
        yield str(path)


def _samples(data: Sample | Iterable[Sample] | Callable[..., Any], seed: int) -> Iterator[Sample]:
    from optim._engine.feeds.sources import called_samples

    if isinstance(data, Mapping):
        yield data
    elif callable(data):
        name = getattr(data, "__name__", type(data).__name__)
        for _, arrays in called_samples(data, name, seed):
            yield arrays
    elif isinstance(data, Iterable) and not hasattr(data, "shape"):
        yield from data
    else:
        raise _bad(f"data is {_article(data)}", "several inputs need names, so one does too")


def _write(samples: Iterator[Sample], path: Path) -> None:
    """Write numbered samples, one array at a time; no more than a run would read."""
    import numpy as np

    from optim._engine.feeds.sources import MAX_SAMPLES

    count = 0
    with zipfile.ZipFile(path, "w") as archive:
        for sample in samples:
            if count > MAX_SAMPLES:
                break
            if not isinstance(sample, Mapping):
                raise _bad(f"sample {count} is {_article(sample)}", "a sample is a mapping of names to arrays")
            for name, value in sample.items():
                entry = zipfile.ZipInfo(f"{count}/{name}.npy")
                with archive.open(entry, "w", force_zip64=True) as file:
                    np.lib.format.write_array(file, _array(value, name, count), allow_pickle=False)
            count += 1
    if not count:
        raise OptimError.usage("feeds-empty", "data has no samples", "it ends before the first", "give at least one")


def _array(value: Any, name: str, sample: int) -> Array:
    """An array without Python objects in it; text is text."""
    import numpy as np

    from optim._engine.feeds.sources import without_torch

    try:
        array = np.asarray(without_torch(value))
    except (ValueError, TypeError, NotImplementedError) as error:  # tensors that are sparse, or have no data
        raise _bad(f"'{name}' of sample {sample} is not an array", str(error)) from error
    if array.dtype.isbuiltin == 2 and is_float(array.dtype):  # bfloat16 and its like, whose names numpy's files lose
        array = array.astype(np.float32)
    if array.dtype == object and all(isinstance(item, str) for item in array.flat):
        array = array.astype(str)
    if array.dtype.hasobject:
        raise _bad(f"'{name}' of sample {sample} holds Python objects", "a model takes numbers or text")
    return cast("Array", array)


def _article(value: object) -> str:
    name = type(value).__name__
    return f"{'an' if name[0].lower() in 'aeiou' else 'a'} {name}"


def _bad(what: str, cause: str) -> OptimError:
    fix = "data={'input_name': array} for one sample, a list of such for several, or a function that returns them"
    return OptimError.usage("bad-data", what, cause, fix)


@dataclass(frozen=True, slots=True)
class MadeUp:
    """How samples are made up, where the caller says it.

    Attributes:
        samples: how many; 0: as many as usual.
        sizes: by dimension.
        mask: what it hides: ``full``, ``end`` or ``start``; empty: as usual.
    """

    samples: int = 0
    sizes: Mapping[str, int] = field(default_factory=dict)
    mask: str = ""

    def __bool__(self) -> bool:
        """Whether the caller said anything."""
        return bool(self.samples or self.sizes or self.mask)

    @property
    def text(self) -> str:
        """The sentence of a report about the samples."""
        said = [f"{name}={size}" for name, size in self.sizes.items()]
        said += [f"mask {self.mask}"] if self.mask else []
        said += ["so use of the mask is not tested"] if self.mask == "full" else []
        return ", ".join(["synthesized", *said])


@contextmanager
def sized_data(model: Path, asked: MadeUp, data: Data | None, seed: int) -> Iterator[Data | None]:
    """The samples that are made up as the caller says, in a file that is there until the end; else ``data``.

    Raises:
        OptimError[conflicting-request]: samples are given, or the model has to be exported first.
        OptimError[bad-samples]: a number of samples or a kind of mask that cannot be.
        OptimError: see :func:`optim._engine.feeds.synthesize.sized_feeds`.
    """
    if not asked:
        yield data
        return
    _require_made_up(model, asked, data)
    from optim._engine.feeds.archives import write_archive
    from optim._engine.feeds.synthesize import SAMPLES, sized_feeds
    from optim._engine.runs.compare.prepared import resolve
    from optim.onnx.files import describe_model

    described = describe_model(resolve(model)[0])
    with tempfile.TemporaryDirectory(prefix="optim-") as folder:
        path = Path(folder) / "synthesized.npz"
        made = {
            f"{number}/{name}": array
            for number in range(asked.samples or SAMPLES)
            for name, array in sized_feeds(described, asked.sizes, seed, number=number, mask=asked.mask).items()
        }
        write_archive(path, made)
        try:
            yield path
        except OptimError as error:
            if error.reference == "prepare-failed":
                error.fix = (
                    "name sizes that the model takes: --size sequence=16; optim inspect MODEL shows its dimensions"
                )
            raise


def _require_made_up(model: Path, asked: MadeUp, data: Data | None) -> None:
    from optim._engine.feeds.sources import MAX_SAMPLES
    from optim._engine.sources.naming import needs_export

    if data is not None:
        raise OptimError.usage(
            "conflicting-request",
            "--size, --samples and --mask exclude --data",
            "they are for synthesized samples, and --data has samples of its own sizes",
            "leave --data out, or --size, --samples and --mask",
        )
    if needs_export(str(model)):
        raise OptimError.usage(
            "conflicting-request",
            f"{model} has to be exported before its samples can be given sizes",
            "sizes are by the dimensions of a graph",
            f"optim export {model} -o exported",
        )
    if asked.mask not in ("", "full", "end", "start"):
        raise OptimError.usage(
            "bad-samples", f"the mask cannot be {asked.mask}", "known: full, end, start", "--mask end"
        )
    if not 0 <= asked.samples <= MAX_SAMPLES:
        cause = f"optim synthesizes 1 to {MAX_SAMPLES} samples"
        raise OptimError.usage("bad-samples", f"there cannot be {asked.samples} samples", cause, "--samples 8")


@contextmanager
def named_metric(metric: TaskMetric | None) -> Iterator[MetricSpec | None]:
    """The metric as a run names it; a function of the program can be called until the end of the context.

    Raises:
        OptimError[bad-option]: options that are no TOML.
    """
    if metric is None or isinstance(metric, str):
        yield parse_metric(metric) if metric else None
        return
    from optim._engine.compare.metrics import served

    with served(metric if isinstance(metric, Metric) else _of_function(metric)) as spec:
        yield spec


def _of_function(function: Callable[..., Any]) -> Metric:
    from optim._engine.compare.metrics import metric_of

    name = getattr(function, "__name__", type(function).__name__)
    higher = bool(getattr(function, "higher_is_better", True))
    return metric_of(function, name if name.isidentifier() else "metric", higher_is_better=higher)
