"""The search on a stand-in: exported from the same source, prepared and searched as any model."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from optim._engine.reports.outcome import Verdict
from optim._engine.runs.judge import judge_search
from optim._engine.runs.lab.after_run import look_after
from optim._engine.runs.stand_in.layers import StandIn
from optim._engine.runs.stand_in.names import Nodes, names_nodes, nodes_of
from optim._engine.search.deadline import LEAST_S, Deadline, Start
from optim._engine.search.plan import Plan
from optim._engine.search.state import Candidate, Trial, unique
from optim._engine.search.time_estimate import Load
from optim._engine.search.workbench import Workbench
from optim._engine.sources.exported import ExportConditions, ExportedSource, export

_LANES_OF_THE_END = 3
"""Opened for a chain that is proven on the whole model: the original, the result, and one of them once more."""

_MOST_CHAINS = 3
"""Each takes as long as a large model is read, written and run."""


@dataclass(frozen=True, slots=True)
class Chain:
    """A chain that holds on a stand-in.

    Attributes:
        candidate: what it made of the stand-in.
        nodes: of the model that a step was applied to, by the step's place, where its options name some of them.
    """

    candidate: Candidate
    nodes: Mapping[int, Nodes]

    @property
    def text(self) -> str:
        """Its passes."""
        return " + ".join(step.pass_name for step in self.candidate.steps)


@dataclass(frozen=True, slots=True)
class Found:
    """What came of the search on a stand-in: its verdict, and the chains to try on the whole model, the best first."""

    verdict: Verdict
    chains: tuple[Chain, ...]


def search_stand_in(bench: Workbench, plan: Plan, stand_in: StandIn, load: Load) -> Found:
    """Search a stand-in, in the time that the run has but for applying what is found to the whole model.

    What passes made of the stand-in is deleted afterwards: chains are what comes of it.

    Args:
        bench: of the whole model, prepared.
        plan: which passes are tried.
        stand_in: how many layers it has.
        load: of the whole model.

    Raises:
        OptimError: the source does not export with fewer layers, or they do not run.
    """
    bench.say(f"searching on {stand_in.text}: the whole model would take longer than its time")
    before = set(bench.store.models.iterdir())
    with TemporaryDirectory(dir=bench.store.root, prefix="scratch-") as folder:
        small = _prepared(bench, _exported(bench, stand_in), _seconds(bench, load), Path(folder))
        verdict = judge_search(small, plan)
        look_after(small, small, replace(verdict, original=None), verdict.searches)
        verdict.searches = ()
        chains = tuple(chain for one in _candidates(verdict) if (chain := _chain(small, one)) is not None)
    bench.runner.count += small.runner.count
    bench.runner.from_cache += small.runner.from_cache
    for note in small.deadline.notes:
        bench.deadline.note(f"{stand_in.text}: {note}")
    bench.store.keep_only(set(bench.store.models.iterdir()) - before, {bench.original.model.path})
    return Found(verdict, chains)


def _candidates(verdict: Verdict) -> list[Candidate]:
    """Chains to try: the one that won first, then by speed."""
    best = [verdict.result.candidate] if verdict.result is not None else []
    held = [point for point in verdict.points if point.within]
    held.sort(key=lambda point: (not point.proven, point.measured.ratio or math.inf))
    return [one for one in unique([*best, *(point.candidate for point in held)]) if one.steps][:_MOST_CHAINS]


def _chain(small: Workbench, candidate: Candidate) -> Chain | None:
    """A chain with the nodes that options of its steps may name; None where it does not repeat on the stand-in itself.

    Its steps were tried before, so this takes no time.
    """
    nodes: dict[int, Nodes] = {}
    before = small.original
    for place, step in enumerate(candidate.steps):
        if names_nodes(step.options):
            nodes[place] = nodes_of(before.model)
        offered = small.registry.find_pass(step.pass_name, small.target)
        tried = small.try_one(Trial(before, offered, step.options), small.settings.timeout_s)
        if tried.answer is None:
            return None
        result = tried.answer.result
        before = before.after(step, result.model, tried.answer.size_bytes, result.interface)
    return Chain(candidate, nodes)


def _exported(bench: Workbench, stand_in: StandIn) -> ExportedSource:
    """The source with fewer layers, its graph on the weights of the whole model."""
    assert bench.settings.export is not None
    conditions = ExportConditions(
        bench.registry,
        bench.store,
        _saying(bench, stand_in),
        bench.target,
        bench.settings.needed_timeout_s,
        bench.settings.source_choice,
        bench.settings.fresh,
        beside=bench.original.model,
    )
    return export(replace(bench.settings.export, layers=stand_in.layers, weights="copy"), conditions)


def _prepared(bench: Workbench, exported: ExportedSource, seconds: float, folder: Path) -> Workbench:
    """The stand-in with feeds and reference; the user's own samples lose the past of layers that it does not have."""
    model = exported.graphs[0].model
    data = bench.settings.data
    if data is not None:
        _write_samples(bench, {info.name for info in model.inputs}, folder)
        data = str(folder)
    settings = replace(bench.settings, export=exported.request, search_seconds=seconds, data=data)
    small = Workbench(settings, bench.registry, bench.store, bench.executor, bench.say, exported)
    small.runner.trace = bench.runner.trace
    small.deadline = Deadline(seconds, small.turns.now, Start())  # the run around it counted the start of the command
    source = small.ingest()
    small.prepare(source.model, small.check_options(source.model), small.deadline.for_original)
    small.deadline.note_size(exported.graphs[0].size_bytes)
    small.hold_to_time()
    return small


def _write_samples(bench: Workbench, inputs: set[str], folder: Path) -> None:
    feeds = bench.reference.feed_set()
    for sample in bench.prepared.compared:
        arrays = {name: array for name, array in feeds.sample(sample).items() if name in inputs}
        np.savez(folder / f"{sample}.npz", allow_pickle=False, **arrays)


def _seconds(bench: Workbench, load: Load) -> float:
    """What is left of the run but for its end: two steps of a chain applied to the whole model, and its last race."""
    end_s = 2 * load.candidate_s + _LANES_OF_THE_END * load.lane_s
    return max(LEAST_S, bench.deadline.spare_s - end_s)


def _saying(bench: Workbench, stand_in: StandIn) -> Callable[[str], None]:
    return lambda text: bench.say(f"{stand_in.text}: {text}")
