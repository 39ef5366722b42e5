"""Samples that the user gives: found where ``--data`` says, read, fitted to the model and kept."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from optim._engine.feeds.archives import Found, read_archive, unreadable
from optim._engine.feeds.feedset import FeedSet, FeedWriter, InputAssumption
from optim._engine.feeds.fitting import fit_sample
from optim._engine.feeds.named import require_feeds
from optim._engine.feeds.traces import trace_inputs
from optim.errors import OptimError
from optim.model import Model, TensorInfo
from optim.onnx.skeleton import read_skeleton
from optim.user_code import find_function


def read_samples(spec: str, seed: int) -> Iterator[Found]:
    """Samples of a ``.npz``, a folder of them, or ``package.module:function``.

    Raises:
        OptimError: feeds-missing, feeds-unreadable, feeds-pickled, feeds-too-large, feeds-function-failed.
    """
    path = Path(spec)
    if path.is_dir():
        files = sorted(path.glob("*.npz"), key=_natural)
        if not files:
            raise OptimError(
                "feeds-empty",
                f"there are no input samples in {path}",
                "the folder holds no .npz file",
                "write samples into it: numpy.savez('000.npz', **inputs)",
            )
        for file in files:
            yield from read_archive(file)
    elif path.is_file():
        yield from read_archive(path)
    elif path.exists():
        raise unreadable(path, "it is a pipe, a device or a socket, no .npz file")
    else:
        require_feeds(spec)
        yield from called_samples(_find_function(spec), spec, seed)


def called_samples(function: Callable[..., Any], name: str, seed: int) -> Iterator[Found]:
    """Samples that a function returns: one mapping, or an iterable of them."""
    parameters = inspect.signature(function).parameters
    try:
        made = function(seed=seed) if "seed" in parameters else function()
        samples: Iterable[Any] = [made] if isinstance(made, Mapping) else made
        for index, arrays in enumerate(samples):
            where = f"{name} sample {index}"
            yield where, _plain_arrays(where, arrays)
    except OptimError:
        raise
    except (Exception, SystemExit) as error:
        raise OptimError(
            "feeds-function-failed",
            f"{name} failed",
            f"{type(error).__name__}: {error}",
            f"call {name} by hand: without arguments, or with seed=..., it must return an iterable of mappings",
        ) from error


def _plain_arrays(where: str, given: Any) -> dict[str, Any]:
    """A sample with torch tensors as arrays, everything else as it is."""
    if not isinstance(given, Mapping):
        raise OptimError(
            "feeds-function-failed",
            f"{where} is not a mapping of input names to arrays",
            f"it is a {type(given).__name__}",
            "yield {'input_name': array, ...} for each sample",
        )
    return {str(name): without_torch(value) for name, value in given.items()}


def without_torch(value: Any) -> Any:
    """A tensor of torch as an array; bfloat16, which numpy lacks, as float32, which holds all of it; others as given.

    Raises:
        TypeError, NotImplementedError: it is sparse, or has no data.
    """
    if not hasattr(value, "detach"):
        return value
    tensor = value.detach().cpu()
    return (tensor.float() if str(tensor.dtype) == "torch.bfloat16" else tensor).numpy()


def _find_function(spec: str) -> Callable[..., Any]:
    module_name, _, name = spec.partition(":")
    try:
        function = find_function(spec)
    except (Exception, SystemExit) as error:
        raise OptimError(
            "feeds-missing",
            f"there is no function {spec}",
            f"{type(error).__name__}: {error}",
            f"python -c 'from {module_name} import {name}' must work in {Path.cwd()}",
        ) from error
    if not callable(function):
        cause = f"it is a {type(function).__name__}"
        raise OptimError("feeds-missing", f"{spec} is no function", cause, "name a function that returns samples")
    found: Callable[..., Any] = function
    return found


def _natural(path: Path) -> list[tuple[int, str]]:
    """Order by numbers inside names: 2.npz before 10.npz."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", path.name)]


MAX_SAMPLES = 4096
"""More are not read: a generator without an end must not fill the disk."""


def load_feeds(spec: str, model: Model, folder: Path, seed: int) -> FeedSet:
    """Read, check and keep the feeds that the user names.

    Args:
        spec: a ``.npz`` whose names are inputs; a ``.npz`` of ``<i>/<input>`` samples; a folder of either; or
            ``package.module:function``, called without arguments or with ``seed``, which returns an iterable of
            mappings. The working folder is importable.
        model: whose inputs they must fit; those that have a default may be left out. Integers and floats may be
            narrower than the model takes, and float64 is taken for float32; each conversion is an assumption of the
            result.
        folder: where to keep them.
        seed: of the run.

    Raises:
        OptimError: feeds-missing, feeds-unreadable, feeds-pickled, feeds-too-large, feeds-function-failed, feeds-empty,
            and those of :func:`optim._engine.feeds.fitting.fit_sample`. Nothing is left in ``folder``.
    """
    rows, defaults = trace_inputs(model.path).rows, _inputs_with_default(model.path)
    notes: dict[InputAssumption, None] = {}
    with FeedWriter(folder) as writer:
        for where, arrays in read_samples(spec, seed):
            if writer.count == MAX_SAMPLES:
                notes[InputAssumption("", f"only the first {MAX_SAMPLES} samples are used")] = None
                break
            fitted = fit_sample(arrays, model.inputs, where, rows=rows, defaults=defaults)
            notes.update(dict.fromkeys(fitted.notes))
            writer.add(fitted.feeds, fitted.labels)
        if writer.count == 0:
            raise OptimError("feeds-empty", f"{spec} has no samples", "it has none", "give at least one")
        origin = spec if ":" in spec else Path(spec).name
        return writer.finish(origin, tuple(notes))


def _inputs_with_default(path: Path) -> tuple[TensorInfo, ...]:
    """The inputs of a graph that are initializers as well: a run may leave them out."""
    graph = read_skeleton(path).graph
    initializers = {tensor.name for tensor in graph.initializer}
    return tuple(TensorInfo.of(value) for value in graph.input if value.name in initializers)
