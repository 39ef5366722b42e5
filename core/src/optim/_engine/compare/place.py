"""Where a job's model runs, and how its outputs are compared: what every job that opens a session is told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from optim._engine.backends.held import Bounds, HeldBackend, held_backend
from optim._engine.compare.metric_spec import MetricSpec
from optim._engine.feeds.feedset import FeedSet
from optim._engine.gate.drift import OutputComparison, merge_samples
from optim._engine.gate.outputs import compare_sample, elements, require_compared
from optim._engine.gate.variation import Variation, read
from optim._engine.plugins.registry import load_registry
from optim.arrays import Feeds, Outputs
from optim.backend import Session
from optim.errors import OptimError, some_of
from optim.jobs.doing import doing
from optim.model import Model
from optim.options import import_named
from optim.passes import Interface
from optim.target import Target


@dataclass(frozen=True, slots=True)
class Place:
    """Where models of this run are opened.

    Attributes:
        target: without its probe.
        bounds: what its calls may take; None: as long as their jobs. It is not where the place is.
    """

    target: Target
    backend_plugin: str
    bounds: Bounds | None = field(default=None, compare=False)

    def backend(self) -> HeldBackend:
        """The target's backend, from its plugin alone, held to its contract."""
        return held_backend(load_registry(only=[self.backend_plugin]), self.target.backend, self.bounds)


@dataclass(frozen=True, slots=True)
class TaskUse:
    """The task metric of a run, as it was measured on the original.

    Attributes:
        samples: it is measured on at the end.
        explored: those of them that a candidate is measured on first.
        original: the original's value on :attr:`samples`.
        rows: file with what was counted on each of :attr:`samples`.
        digest: of the source of a user's function.
    """

    metric: MetricSpec
    higher_is_better: bool
    samples: tuple[int, ...]
    explored: tuple[int, ...]
    original: float
    rows: Path
    digest: str = ""


@dataclass(frozen=True, slots=True)
class Reference:
    """The original model's outputs on the feeds of the run.

    Attributes:
        feeds: folder of the feeds.
        outputs: folder with the outputs on :attr:`compared`, in that order, kept as feeds are.
        original: for the names and symbolic dimensions of inputs and outputs.
        compared: the samples there are outputs for.
        task: the task metric, where the user named one.
        max_mismatch: share of an output's texts or whole numbers that the user lets differ.
    """

    feeds: Path
    outputs: Path
    original: Model
    compared: tuple[int, ...]
    task: TaskUse | None = None
    max_mismatch: float = 0.0

    def feed_set(self) -> FeedSet:
        """The feeds of the run."""
        return FeedSet.open(self.feeds)

    def expected(self, sample: int) -> Outputs:
        """The original's outputs on one sample."""
        return FeedSet.open(self.outputs).sample(self.compared.index(sample))

    def variations(self) -> dict[str, Variation]:
        """How each of the original's outputs varies over :attr:`compared`, by name."""
        return read(self.outputs)


def mapped_feeds(feeds: Feeds, interfaces: Sequence[Interface]) -> Feeds:
    """Original feeds as the candidate takes them, through the interface of every pass that changed inputs."""
    for interface in interfaces:
        if interface.feeds:
            feeds = call_interface(interface.feeds, interface, feeds)
    return feeds


def mapped_outputs(outputs: Outputs, interfaces: Sequence[Interface]) -> Outputs:
    """The candidate's outputs as the original gives them, through the interfaces in reverse order."""
    for interface in reversed(interfaces):
        if interface.outputs:
            outputs = call_interface(interface.outputs, interface, outputs)
    return outputs


def compare_session(
    session: Session, reference: Reference, samples: Sequence[int], interfaces: Sequence[Interface]
) -> list[OutputComparison]:
    """Run a candidate on samples and compare with the original, the worst of each output.

    Raises:
        OptimError[nothing-compared]: ``samples`` is empty, or no output has an element on any sample.
        OptimError[interface-changed]: the candidate lost an output, or has one that no interface accounts for.
    """
    merged: dict[str, OutputComparison] = {}
    variations = reference.variations()
    for sample, feeds in chosen(reference.feed_set(), samples):
        outputs = session.run(mapped_feeds(feeds, interfaces))
        merged = merge_samples(merged, compare_run(outputs, reference, sample, feeds, interfaces, variations))
    if not merged:
        raise OptimError(
            "nothing-compared", "the models have nothing to compare", "there is no sample", "give --data with a sample"
        )
    if set(samples) >= set(reference.compared):  # some of them may lack what others show
        require_compared(merged.values())
    return list(merged.values())


def compare_run(
    outputs: Outputs,
    reference: Reference,
    sample: int,
    feeds: Feeds,
    interfaces: Sequence[Interface],
    variations: Mapping[str, Variation],
) -> list[OutputComparison]:
    """Compare a candidate's own outputs on one sample with the original's.

    Raises:
        OptimError: nothing-compared, interface-changed.
    """
    got, expected = elements(mapped_outputs(outputs, interfaces)), reference.expected(sample)
    if _names(got) != _names(expected):
        raise OptimError(
            "interface-changed",
            "the candidate has other outputs than the original",
            f"original: {', '.join(sorted(expected))}; candidate: {', '.join(sorted(got))}",
            "a pass that changes inputs or outputs must return PassResult(interface=...)",
        )
    found = compare_sample(expected, got, feeds, reference.original, variations)
    most = reference.max_mismatch
    return [
        replace(one, sample=f"sample {sample}", accepted=one.mismatched is not None and one.mismatched <= most)
        for one in found
    ]


def _names(outputs: Outputs) -> set[str]:
    """Names of outputs, without the places of elements of sequences."""
    return {name.partition("[")[0] for name in outputs}


def chosen(feeds: FeedSet, samples: Iterable[int]) -> Iterator[tuple[int, Feeds]]:
    """Some samples of a feed set, one at a time; the parent knows which."""
    for sample in samples:
        with doing(feeds.name_of(sample)):
            yield sample, feeds.sample(sample)


def call_interface(function: str, interface: Interface, *arguments: Any) -> Any:
    """Call what an interface names as ``package.module:function``, with the interface's parameters."""
    return import_named(function)(*arguments, **interface.parameters)


_TIMED_SHAPES = 3


def spread_of(samples: Sequence[int], most: int) -> tuple[int, ...]:
    """At most so many of some samples, spread evenly, the first among them."""
    count, last = min(len(samples), most), len(samples) - 1
    places = {round(number * last / max(1, count - 1)) for number in range(count)}
    return tuple(samples[place] for place in sorted(places))


def judged_on(feeds: FeedSet, most: int) -> tuple[int, ...]:
    """At most so many samples to compare on: first those that no pass sees, then others, spread evenly."""
    held_out = spread_of(feeds.held_out, most)
    return held_out + spread_of(feeds.calibration, most - len(held_out))


def timed_samples(compared: Sequence[int], feeds: FeedSet) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """One for each of the first distinct shapes, and what these look like."""
    found: dict[str, int] = {}
    for sample in compared:
        found.setdefault(_shape_text(feeds.sample(sample)), sample)
        if len(found) == _TIMED_SHAPES:
            break
    return tuple(found.values()), tuple(found)


def _shape_text(feeds: Feeds) -> str:
    """The shapes of one sample in a few words; many alike (past key/values) are named once."""
    words = [f"{name} {'x'.join(map(str, array.shape)) or 'scalar'}" for name, array in feeds.items()]
    return some_of(words, 4)
