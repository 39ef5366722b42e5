"""Chains against the original: timed in one race, or only opened and compared where the target cannot be timed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from optim._engine.compare.place import Place
from optim._engine.gate.budget import Budget
from optim._engine.jobs import lane
from optim._engine.jobs.lane import Ready
from optim._engine.search.machine import available_memory_bytes
from optim._engine.search.measure.race import Admit, Effort, LaneResult, as_base, look, race
from optim._engine.search.state import Candidate
from optim._engine.search.workbench import Workbench
from optim.errors import OptimError
from optim.target import Target


def race_chains(
    bench: Workbench,
    candidates: Sequence[Candidate],
    effort: Effort,
    *,
    purpose: str,
    samples: tuple[int, ...] | None = None,
    measure_task: bool = False,
    budget: Budget | None = None,
    places: Sequence[Place] = (),
) -> tuple[LaneResult, list[LaneResult]]:
    """Time chains against the original; compares their outputs first, on ``samples`` or on the explored ones.

    With ``samples=()`` nothing is compared; with ``measure_task`` the task metric is measured on all its samples.
    What does not keep within ``budget`` is not timed. At ``places`` the original itself is timed elsewhere, after
    the chains.
    """
    prepared = bench.prepared
    samples = prepared.explored if samples is None else samples
    key = bench.keys.race(candidates, purpose, samples, effort, budget, places, measure_task=measure_task)
    known = bench.runner.known(key, tuple[LaneResult, list[LaneResult]])
    if known is not None:
        return known
    original = comparable_original(bench, candidates[0])
    base = lane.Request(
        original.model, bench.place, bench.reference, (), prepared.timed, original.interfaces, given=original.given
    )
    task = measure_task and bench.reference.task is not None
    lanes = [
        lane.Request(n.model, bench.place, bench.reference, samples, prepared.timed, n.interfaces, task, n.given)
        for n in candidates
    ]
    lanes += [replace(base, place=place) for place in places]
    admit = _admission(candidates, budget, bench.target) if budget else None
    result = race(base, lanes, effort, bench.settings.seed, admit)
    if original.recast is not None:  # the very model that it is timed against: apart by noise only
        count = len(candidates)
        paired = zip(result[1][:count], candidates, strict=True)
        own = [as_base(r) if n.model.digest == original.model.digest else r for r, n in paired]
        result = result[0], [*own, *result[1][count:]]
    bench.runner.count += 1
    if not any(found.failure for found in result[1]):
        bench.runner.keep(key, result)
    return result


def check_chain(bench: Workbench, candidate: Candidate) -> LaneResult:
    """Open a model on a target that cannot be timed, and compare it on every sample the gate uses."""
    samples = bench.prepared.compared
    key = bench.keys.check(candidate, samples)
    known = bench.runner.known(key, LaneResult)
    if known is not None:
        return known
    request = lane.Request(
        candidate.model,
        bench.place,
        bench.reference,
        samples,
        (),
        candidate.interfaces,
        bench.reference.task is not None,
        given=candidate.given,
    )
    result = look(request, bench.settings.timeout_s)
    bench.runner.count += 1
    if not result.failure:
        bench.runner.keep(key, result)
    return result


def comparable_original(bench: Workbench, candidate: Candidate) -> Candidate:
    """The original as it is timed against a chain: with the step that changed what goes in and comes out.

    Raises:
        OptimError[recast-failed]: that step does not do for the original what it did for the chain.
    """
    if candidate.recast is None:
        return bench.original
    offered = bench.registry.find_pass(candidate.recast.pass_name, bench.target)
    tried = bench.try_one(bench.original, offered, candidate.recast.options, bench.settings.timeout_s)
    if tried.answer is None or not tried.answer.result.changed:
        raise OptimError(
            "recast-failed",
            f"{offered.name} does not work on the original model",
            tried.failure or "; ".join(tried.answer.result.notes if tried.answer else ()),
            "it worked on a model made from it: this is an issue of its plugin",
            offered.plugin.release,
        )
    result = tried.answer.result
    return bench.original.after(candidate.recast, result.model, tried.answer.size_bytes, result.interface)


def lanes_at_once(bench: Workbench) -> int:
    """How many models may be open together: half of the free memory, three times a model's size each."""
    each = 3 * bench.original.size_bytes + (150 << 20)
    return max(2, min(24, int(available_memory_bytes() * 0.5 / each)))


def _admission(candidates: Sequence[Candidate], budget: Budget, target: Target) -> Admit:
    """Who may race: what is wrong would only make what is right look slow."""

    def admit(place: int, ready: Ready) -> bool:
        lossy = candidates[place].is_lossy or not target.exact
        return not budget.objection(ready.comparisons, lossy, ready.task)

    return admit
