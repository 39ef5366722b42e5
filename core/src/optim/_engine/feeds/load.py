"""Feeds that the user gives."""

from __future__ import annotations

from pathlib import Path

from optim._engine.feeds.feedset import FeedSet, FeedWriter, InputAssumption
from optim._engine.feeds.fitting import fit_sample
from optim._engine.feeds.sources import read_samples
from optim._engine.feeds.traces import trace_inputs
from optim.errors import OptimError
from optim.model import Model, TensorInfo
from optim.onnx.skeleton import read_skeleton

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
        for sample in read_samples(spec, seed):
            if writer.count == MAX_SAMPLES:
                notes[InputAssumption("", f"only the first {MAX_SAMPLES} samples are used")] = None
                break
            fitted = fit_sample(sample.arrays, model.inputs, sample.where, rows=rows, defaults=defaults)
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
