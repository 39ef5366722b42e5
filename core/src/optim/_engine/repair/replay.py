"""What a pass does to each node, replayed: one application and one run for the errors of all nodes.

The error of a node is what the pass makes of it alone, given what it is given in the unchanged model. Added back into
the unchanged model (:mod:`optim._engine.repair.isolate` shows the graphs), errors give the drift of any set of
converted nodes for one run, without applying the pass or opening a model again. To first order that is what converting
them does; what the sum of many does to each other is left out, so whoever decides measures in the end.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from optim._engine.compare.place import compare_run, mapped_feeds, mapped_outputs
from optim._engine.gate.drift import worst_drift
from optim._engine.repair import isolate
from optim._engine.repair.costs import OwnError
from optim._engine.repair.isolate import NodePlace
from optim._engine.repair.pass_probe import PassProbe
from optim.arrays import Array, Feeds
from optim.backend import Session
from optim.drift import relative_distance
from optim.errors import describe_exception
from optim.jobs.resources import free_memory_bytes

MOST_BYTES = 1 << 30
"""Of intermediate values held in memory; a sample that needs more is not replayed.

A detector of text with 83 convolutions needs 0.88 GB for a picture of 736 x 992. With a fourth of this it was not
replayed, and measuring nodes by applying the pass took longer than a search has.
"""

_SHARE_OF_FREE = 0.25
"""Of the free memory, where that is less: the runtime has as much again while it runs."""


class NoReplay(Exception):  # noqa: N818 - a way that is closed, not an error
    """This pass cannot be replayed on this model; the message says why."""


@dataclass(frozen=True, slots=True)
class _Replayed:
    """One sample: its feeds as the model takes them, the original's, and what every value is off by."""

    sample: int
    feeds: Feeds
    original_feeds: Feeds
    errors: Mapping[str, Array]
    zeros: Mapping[str, Array]


class Replay:
    """A pass's nodes, replayed on a few samples; a context manager.

    Args:
        probe: the pass on a model.
        samples: of the run.
        finer: nodes that are replayed in the precision between too.

    Attributes:
        errors: by the name of the node, in graph order.
        runs: how often the model was run to measure a set.

    Raises:
        NoReplay: a graph of this kind cannot be made or run, or takes too much memory.
    """

    def __init__(self, probe: PassProbe, samples: Sequence[int], finer: Collection[str] = ()) -> None:
        self._probe = probe
        self._wanted = frozenset(finer)
        self._samples = samples
        self._open = ExitStack()
        self.errors: dict[str, OwnError] = {}
        self._made: dict[str, tuple[str, ...]] = {}
        self.runs = 0

    def __enter__(self) -> Self:
        try:
            self._prepare()
        except NoReplay:
            self._open.close()
            raise
        except Exception as error:  # a pass or a runtime that does not take such a graph
            self._open.close()
            raise NoReplay(describe_exception(error)) from error
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @property
    def overflowing(self) -> list[str]:
        """Nodes that make NaN or infinity of what the unchanged model computes, in graph order."""
        return [name for name, error in self.errors.items() if not math.isfinite(error.relative)]

    def drift(self, converted: Collection[str]) -> float:
        """Drift from the original with the errors of these nodes added, the worst of the replayed samples."""
        chosen = {value for name in converted for value in self._made[name]}
        worst = 0.0
        asked = self._probe.request.comparison
        for one in self._replayed:
            added = {
                isolate.error_name(name): (one.errors if name in chosen else one.zeros)[name] for name in one.errors
            }
            outputs = self._session.run({**one.feeds, **added})
            fed, variations = one.original_feeds, self._variations
            found = compare_run(outputs, asked.reference, one.sample, fed, asked.interfaces, variations)
            worst = max(worst, worst_drift(found).relative_error)
            self.runs += 1
        return worst

    def _prepare(self) -> None:
        probe = self._probe
        places = isolate.find_places(probe.request.model.ir(), probe.nodes)
        if not places:
            raise NoReplay("none of its nodes is in the main graph")
        self._made = {place.name: place.made for place in places}
        arrays = self._capture(places)
        outputs = self._replay(places, arrays)
        local = {place.name: _own_error(place, arrays, outputs) for place in places}
        made = {name for names in self._made.values() for name in names}
        self._replayed = [  # outputs go as their differences are known
            _difference(sample, values, got, made, probe)
            for sample, values, got in zip(self._samples, arrays, outputs, strict=True)
        ]
        finer = self._errors_between([place for place in places if place.name in self._wanted], places, arrays)
        self.errors = {
            name: replace(error, finer=finer[name] / error.relative)
            if math.isfinite(finer.get(name, math.inf)) and 0 < error.relative < math.inf
            else error
            for name, error in local.items()
        }
        arrays.clear()
        self._session = self._injected()
        self._variations = self._probe.request.comparison.reference.variations()

    def _errors_between(
        self, refined: Sequence[NodePlace], places: Sequence[NodePlace], arrays: Sequence[Mapping[str, Array]]
    ) -> dict[str, float]:
        """The errors of these nodes in the precision between, from another replay; none where that is not possible."""
        if not refined:
            return {}
        try:
            outputs = self._replay(places, arrays, frozenset(place.name for place in refined))
            return {place.name: _own_error(place, arrays, outputs).relative for place in refined}
        except Exception:  # a pass or a runtime that does not take it in such a graph
            return {}

    def _capture(self, places: Sequence[NodePlace]) -> list[dict[str, Array]]:
        """Every value that these nodes are given or make, on each sample."""
        probe = self._probe
        made = {name for place in places for name in place.made}
        wanted = made.union(*(place.given for place in places))
        times_made = 2 if self._wanted else 1
        most = min(MOST_BYTES, int(free_memory_bytes() * _SHARE_OF_FREE))
        graph = probe.request.model.ir()
        isolate.captured(graph, wanted)
        found = []
        with probe.written(graph) as model, probe.opened(model) as session:
            for sample in self._samples:
                feeds = probe.feeds(sample)
                values = {**feeds, **session.run(feeds)}
                found.append({name: array for name, array in values.items() if name in wanted})
                sizes = [(name in made, array.nbytes) for values in found for name, array in values.items()]
                needed = sum(size * (1 + times_made * is_made) for is_made, size in sizes)
                if needed > most:
                    raise NoReplay(f"its intermediate values take {needed / 1e9:.2g} GB of memory, too much")
        return found

    def _replay(
        self, places: Sequence[NodePlace], arrays: Sequence[Mapping[str, Array]], finer: Collection[str] = ()
    ) -> list[dict[str, Array]]:
        """What the pass makes of every node's outputs, on each sample."""
        probe = self._probe
        graph = probe.request.model.ir()
        floats = {name: array for name, array in arrays[0].items() if array.dtype.kind == "f"}
        givens = {name: array for place in places for name in place.given if (array := arrays[0].get(name)) is not None}
        isolate.isolated(graph, places, {**givens, **floats})
        samples = [{isolate.given_name(name): values[name] for name in givens} for values in arrays]
        with probe.written(graph) as model, probe.applied(model, (), lambda: samples, finer) as result:
            if not result.changed:
                raise NoReplay("; ".join(result.notes))
            interfaces = (result.interface,) if result.interface else ()
            with probe.opened(result.model) as session:
                return [
                    dict(mapped_outputs(session.run(mapped_feeds(feeds, interfaces)), interfaces)) for feeds in samples
                ]

    def _injected(self) -> Session:
        graph = self._probe.request.model.ir()
        isolate.injected(graph, self._replayed[0].errors)
        model = self._open.enter_context(self._probe.written(graph))
        return self._open.enter_context(self._probe.opened(model))


def _own_error(
    place: NodePlace, arrays: Sequence[Mapping[str, Array]], outputs: Sequence[Mapping[str, Array]]
) -> OwnError:
    """How far a node's outputs are off, without its error in the precision between."""
    worst = work = 0.0
    for values, got in zip(arrays, outputs, strict=True):
        for name in place.made:
            if name in got and values[name].dtype.kind == "f":
                if values[name].shape != got[name].shape:
                    changed = f"{list(values[name].shape)} became {list(got[name].shape)}"
                    raise NoReplay(f"the pass changes a shape: {changed}")
                worst = max(worst, relative_distance(values[name], got[name]))
                work = max(work, place.work(values[name]))
    return OwnError(worst, place.kind, work=work)


def _difference(
    sample: int, values: Mapping[str, Array], got: dict[str, Array], made: Collection[str], probe: PassProbe
) -> _Replayed:
    """What every value is off by; nothing for one that overflows, whose node is left alone anyway.

    ``got`` is empty afterwards: its arrays and the differences together would take twice the memory.
    """
    zeros = _zeros_like({name: values[name] for name in got if name in made and values[name].dtype.kind == "f"})
    errors = {}
    for name in list(got):
        array = got.pop(name)
        if name not in zeros:
            continue
        with np.errstate(all="ignore"):
            error = np.subtract(np.asarray(array, values[name].dtype), values[name])
        errors[name] = error if np.isfinite(error).all() else zeros[name]
    original = probe.request.comparison.reference.feed_set().sample(sample)
    if not errors:
        raise NoReplay("none of its nodes makes floating-point numbers")
    return _Replayed(sample, probe.feeds(sample), original, errors, zeros)


def _zeros_like(arrays: Mapping[str, Array]) -> dict[str, Array]:
    """Zeros in the shape of each array, all in the memory of the largest."""
    sizes: dict[np.dtype[Any], int] = {}
    for array in arrays.values():
        sizes[array.dtype] = max(sizes.get(array.dtype, 0), array.size)
    memory = {dtype: np.zeros(size, dtype) for dtype, size in sizes.items()}
    return {name: memory[array.dtype][: array.size].reshape(array.shape) for name, array in arrays.items()}
