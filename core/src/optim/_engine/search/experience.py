"""Experience: a small record in the cache of each run that found something, and the records that suit a new run.

A record has what tells one architecture from another, what was asked for and on which processor, and the chain that
won. It has no weights, no samples and no path. Two models are near if most of their multiplications are by weights of
the same shapes, on inputs of about the same size: with other weights, in another opset, or from another exporter.
These give nodes other names, so options of the chain that name nodes have their places.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

from optim._engine.compare.place import Reference
from optim._engine.jobs.prepare import Answer as Prepared
from optim._engine.machine import instruction_sets
from optim._engine.plugins.registry import Registry
from optim._engine.plugins.versions import core_digest, version_keys
from optim._engine.search.board import Board
from optim._engine.search.deadline import Deadline
from optim._engine.search.keys import machine_kind
from optim._engine.search.settings import AUTO, RunSettings, SearchSeconds
from optim._engine.search.taste import DIFFER
from optim._engine.store import Store, cache_key
from optim.errors import OptimError
from optim.jobs.wire import to_wire
from optim.onnx.operators import node_places, work_by_weight

SHELF = "experience"
"""Of the cache."""

NEAR = 0.8
"""Share of what two models have in common, from which a chain is tried first; below it another chain wins as often. Of
what the chain changed there it must change as much here."""

_MOST = 200
"""Records that are kept, the last used: a run reads them all."""


def in_common(work: dict[str, float], other: dict[str, float]) -> float:
    """Returns the share of the multiplications that two models have in common, 0..1."""
    return sum(min(share, other.get(name, 0.0)) for name, share in work.items())


@dataclass(frozen=True, slots=True)
class Architecture:
    """The properties that tell one architecture from another.

    Attributes:
        work: share of the multiplications by operator and shape of its weight, such as ``MatMul 384x1536``.
        elements: of the largest input of a sample.
    """

    work: dict[str, float]
    elements: int

    def likeness(self, other: Architecture) -> float:
        """The share that both have in common, 0..1; 0 if one of them multiplies with no weight."""
        sizes = sorted((self.elements, other.elements))
        return in_common(self.work, other.work) * sizes[0] / sizes[1] if sizes[0] > 0 else 0.0

    def changed_by(self, model: Path) -> float:
        """The share of the multiplications that a model made of it does by other operators or weights, 0..1."""
        return 1.0 - in_common(self.work, work_by_weight(model))


@dataclass(frozen=True, slots=True)
class WonStep:
    """A step of a chain that won; ``keep`` and ``finer`` of its options have the places of nodes."""

    name: str
    options: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Experience:
    """The summary of one run.

    Attributes:
        model: name of the file.
        day: of the run, as ISO 8601 writes it.
        architecture: of the model.
        processor: its model, and how many processors the run might use.
        kernels: instruction sets that kernels differ by.
        target: name.
        goal: name.
        budget: in words.
        asked: digest of all that was asked for, but for the model, the samples, the seed and the time.
        made_with: digest of the versions of core, plugins and runtimes.
        searched_s: seconds that the run had.
        chain: that won.
        ratio: the goal's figure of the result to the original's, such as latency or bytes.
        drift: of the result.
        asked_s: the seconds that the user gave the run, or ``auto``.
        changed: share of the multiplications that the result does by other operators or weights, 0..1.
        is_quiet: whether other programs did not use the machine in its final timing.
    """

    model: str
    day: str
    architecture: Architecture
    processor: str
    kernels: str
    target: str
    goal: str
    budget: str
    asked: str
    made_with: str
    searched_s: float
    chain: tuple[WonStep, ...] = ()
    ratio: float = 1.0
    drift: float = 0.0
    asked_s: SearchSeconds = 0.0
    changed: float = 0.0
    is_quiet: bool = True

    def is_met_by(self, changed: float, ratio: float | None) -> bool:
        """Whether its chain does for another model what it did for this one.

        The result changes about as many multiplications, is clearly better than its original, and has half of the gain
        at least. Ratios of two runs tell no more: those of equally fast results were 0.52 and 0.60 on an idle machine,
        each in an interval of 0.05. Originals by two exporters differ too, by up to a sixth.

        Args:
            changed: share of the multiplications that the chain changed there.
            ratio: the goal's figure of the result to that of its original; None: it is not known.
        """
        is_gain = ratio is not None and DIFFER * ratio <= 1 and ratio**2 <= self.ratio
        return is_gain and changed >= NEAR * self.changed

    def after_search_of(self, others: list[Experience]) -> Experience:
        """The same, said to be found by the search of others that tells most: a quiet one, then with most seconds."""
        best = max(others, key=lambda one: (one.is_quiet, one.searched_s))
        return replace(self, searched_s=best.searched_s, asked_s=best.asked_s, is_quiet=best.is_quiet)

    def may_end(self, run: Experience) -> bool:
        """Whether a run with the same request, no more seconds and the same versions would find no more."""
        has_time = self.asked_s == run.asked_s or self.searched_s >= run.searched_s
        return has_time and self.made_with == run.made_with and self.is_quiet

    @property
    def text(self) -> str:
        """The passes of the chain."""
        return " + ".join(step.name for step in self.chain)

    @property
    def origin(self) -> str:
        """The model and the day of the run, such as ``bert.onnx on 3 November``."""
        try:
            day = date.fromisoformat(self.day)
        except ValueError:
            return self.model
        year = f" {day.year}" if day.year != date.today().year else ""
        return f"{self.model} on {day.day} {day:%B}{year}"

    @property
    def key(self) -> str:
        """The key of the record in the cache: a later run that finds the same for the same takes its place."""
        same = replace(self, model="", day="", ratio=0.0, drift=0.0, searched_s=0.0, made_with="", changed=0.0)
        return cache_key(SHELF, to_wire(replace(same, asked_s=0.0, is_quiet=True)))


def of_run(
    board: Board,
    settings: RunSettings,
    registry: Registry,
    prepared: Prepared,
    reference: Reference,
    time: Deadline,
    targets: Sequence[str],
) -> Experience:
    """The record of a run before its search: optim compares it with earlier ones, and adds the result.

    ``targets`` are the names of all targets of the run, if it has several.
    """
    sample = reference.feed_set().sample(prepared.timed[0])
    plugins = version_keys(plugin.info for plugin in registry.plugins)
    elements = max((array.size for array in sample.values()), default=0)
    asked = replace(settings, source=Path(), data=None, export=None, component="", seed=0, trace="")
    asked = replace(asked, search_seconds=AUTO, fresh=False, goal_is_said=True)
    return Experience(
        model=settings.source.name,
        day=date.today().isoformat(),
        architecture=Architecture(work_by_weight(board.original.model.path), int(elements)),
        processor=machine_kind(),
        kernels=" ".join(instruction_sets()),
        target=board.target.name,
        goal=settings.goal,
        budget="rounding error" if settings.lossless else settings.budget(0.0).text,
        asked=cache_key("asked", to_wire(asked), to_wire(board.target), sorted(targets))[:16],
        made_with=cache_key("made with", prepared.versions, plugins, core_digest())[:16],
        searched_s=time.announced_s,
        asked_s=settings.search_seconds,
    )


def nearest(known: list[Experience], run: Experience) -> list[Experience]:
    """Those of the same request on the same processor whose model is near, the best chain first, each chain once."""
    found: dict[str, Experience] = {}
    for one in known:
        alike = (one.processor, one.kernels, one.asked) == (run.processor, run.kernels, run.asked)
        likeness = one.architecture.likeness(run.architecture) if alike and one.chain else 0.0
        chain = repr(one.chain)
        if likeness >= NEAR and (chain not in found or found[chain].searched_s < one.searched_s):
            found[chain] = one
    return sorted(found.values(), key=lambda one: one.ratio)


_NAME_NODES = ("keep", "finer")
"""Options that leave nodes in a finer precision: the pass holds without them, if its drift does."""


def with_places(options: dict[str, Any], given: Path | None) -> dict[str, Any]:
    """Returns options of a pass with the places of nodes instead of their names.

    Args:
        options: of a step.
        given: the model that the step was given; None: nobody knows, and options name no node then.
    """
    return _translated(options, lambda: node_places(given) if given is not None else {})


def with_names(options: dict[str, Any], given: Path) -> dict[str, Any]:
    """Returns options of a pass with the names that nodes have in a model; places that it lacks are left out."""
    return _translated(options, lambda: {place: name for name, place in node_places(given).items()})


def _translated(options: dict[str, Any], words: Callable[[], dict[str, str]]) -> dict[str, Any]:
    """The options with other words for the nodes that they name; a record may have anything in their place."""
    naming = [name for name in _NAME_NODES if options.get(name) and isinstance(options[name], list | tuple)]
    known = words() if naming else {}
    return options | {name: [known[str(word)] for word in options[name] if str(word) in known] for name in naming}


def keep(store: Store, new: Experience) -> str:
    """Keep a summary; returns why it could not be kept, in one sentence."""
    try:
        store.write(SHELF, new.key, to_wire(new))
        store.keep_newest(SHELF, _MOST)
    except OptimError as error:
        return f"what this run found was not saved for later runs: {error.cause}"
    return ""


def read(store: Store) -> tuple[list[Experience], str]:
    """All summaries, and a sentence on those that cannot be read, which are deleted; empty if all can."""
    found, damaged = store.read_all(SHELF, Experience)
    said = "records of earlier runs in the cache could not be read, and optim deleted these"
    return found, f"{said}: {damaged}" if damaged else ""
