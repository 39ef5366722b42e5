"""Verify one model against another, and time several against each other, without a search."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from optim.errors import ExitStatus, OptimError
from optim.gate.budget import DEFAULT_MAX_DRIFT, Budget
from optim.gate.drift import Drift, OutputComparison, worst_drift
from optim.jobs import prepare
from optim.model import SessionConfig
from optim.plugins.registry import Registry
from optim.runs.execute import require_target
from optim.runs.session_file import MODEL_FILE, read_session_file
from optim.search.nodes import Node
from optim.search.settings import RunSettings
from optim.search.workbench import Workbench, thread_executor
from optim.store import Store
from optim.timing.race import Effort, LaneResult

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Verification:
    """One model against a reference.

    Attributes:
        within: whether the drift is within the limit.
        objection: why not, or empty.
        limit: largest relative L2 that was accepted.
        tolerance: what rounding alone explains.
        drift: of the worst output.
        comparisons: every output.
        prepared: the feeds it was compared on.
    """

    within: bool
    objection: str
    limit: float
    tolerance: float
    drift: Drift
    comparisons: tuple[OutputComparison, ...]
    prepared: prepare.Answer


@dataclass(frozen=True, slots=True)
class Benchmark:
    """Models timed in lock-step; the first is what the others are compared with.

    Attributes:
        names: as the user gave them.
        sizes: in bytes, once delivered.
        results: of each.
        prepared: the feeds they were timed on.
    """

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    results: tuple[LaneResult, ...]
    prepared: prepare.Answer


def verify_models(
    reference: Path, other: Path, *, registry: Registry, store: Store, say: Say, data: str | None = None,
    target: str = "cpu", max_drift: float | None = None, seed: int = 0,
) -> Verification:  # fmt: skip
    """Compare every output of ``other`` with ``reference`` on the same feeds.

    Args:
        reference: an ``.onnx`` file or a run folder.
        other: the same.
        registry: of the plugins.
        store: the cache.
        say: told what is going on.
        data: where feeds come from; None: synthesized from the reference.
        target: where both run.
        max_drift: largest relative L2 accepted; 0.05 when None.
        seed: for synthesized feeds.

    Raises:
        OptimError: a model or the feeds cannot be used.
    """
    with workbench_for(reference, registry, store, say, data, target, seed) as (bench, _):
        candidate = _node(bench, other)
        limit = DEFAULT_MAX_DRIFT if max_drift is None else max_drift
        result = _compared(bench, candidate)
        if result.ready is None:
            raise OptimError(
                "other-failed",
                f"{other} does not run on the same feeds",
                result.failure,
                "optim inspect shows its inputs",
            )
        comparisons = result.ready.comparisons
        objection = Budget(limit, bench.prepared.tolerance).objection(comparisons, lossy=True)
        return Verification(
            not objection, objection, max(limit, bench.prepared.tolerance), bench.prepared.tolerance,
            worst_drift(comparisons), comparisons, bench.prepared,
        )  # fmt: skip


def _compared(bench: Workbench, candidate: Node) -> LaneResult:
    """The candidate's outputs on the reference's feeds; the reference is opened again only where both are timed."""
    if not bench.target.timed:
        return bench.check(candidate)
    effort = Effort(0.0, least_rounds=1, most_rounds=1, open_timeout_s=bench.settings.timeout_s)
    return bench.race([candidate], effort, purpose="verify", samples=bench.prepared.compared)[1][0]


def bench_models(
    models: Sequence[Path], *, registry: Registry, store: Store, say: Say, data: str | None = None,
    target: str = "cpu", seconds: float = 20.0, seed: int = 0,
) -> Benchmark:  # fmt: skip
    """Time models in lock-step, each in a process of its own.

    Args:
        models: ``.onnx`` files or run folders; ratios are to the first.
        registry: of the plugins.
        store: the cache.
        say: told what is going on.
        data: where feeds come from; None: synthesized from the first.
        target: where all run.
        seconds: of racing, at most.
        seed: of the order.

    Raises:
        OptimError[not-timed]: time means nothing on the target.
        OptimError: a model or the feeds cannot be used.
    """
    if not require_target(registry, target).timed:
        raise OptimError(
            "not-timed", f"nothing can be timed on target {target}", registry.target(target).remark,
            "optim targets; on a device the same target is timed", status=ExitStatus.USAGE,
        )  # fmt: skip
    with workbench_for(models[0], registry, store, say, data, target, seed) as (bench, first):
        nodes = [_node(bench, path) for path in models[1:]]
        bench.original = first
        say(f"timing {len(models)} model{'s' if len(models) > 1 else ''}")
        effort = Effort(seconds, least_rounds=10, most_rounds=40, width=0.01, drop=False)
        base, results = bench.race(nodes, effort, purpose="bench", samples=())
        if base.ready is None:
            raise OptimError(
                "bench-failed", f"{models[0]} does not run", base.failure, "optim inspect shows its inputs"
            )
        sizes = (first.size_bytes, *(node.size_bytes for node in nodes))
        return Benchmark(tuple(map(str, models)), sizes, (base, *results), bench.prepared)


@contextmanager
def workbench_for(
    model: Path, registry: Registry, store: Store, say: Say, data: str | None, target: str, seed: int
) -> Iterator[tuple[Workbench, Node]]:
    """A workbench prepared on the first model's feeds, and that model with its own settings."""
    require_target(registry, target)
    path, session = resolve(model)
    settings = RunSettings(source=path, target=target, data=data, seed=seed, fresh=True)
    with store.in_use(), thread_executor() as executor:
        bench = Workbench(settings, registry, store, executor, say)
        found = bench.ingest()
        bench.prepare(found.model)
        yield bench, replace(bench.original, model=found.model.with_session(session))


def resolve(path: Path) -> tuple[Path, SessionConfig]:
    """The graph and the settings of an ``.onnx`` file (the runtime's defaults) or of a run folder."""
    if path.is_dir():
        return path / MODEL_FILE, read_session_file(path).config
    return path, SessionConfig()


def _node(bench: Workbench, path: Path) -> Node:
    graph, session = resolve(path)
    found = bench.ingest_file(graph)
    return Node(found.model.with_session(session), found.size_bytes)
