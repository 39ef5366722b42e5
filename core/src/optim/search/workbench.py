"""Where the search has things done: jobs in subprocesses, their answers kept, failures put into words.

Jobs are submitted to a ``concurrent.futures.Executor`` (threads here, each holding one subprocess); another executor,
such as dask's, fits the same seam. Races are not submitted: they hold the machine's clock.
"""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from optim.errors import ExitStatus, OptimError
from optim.gate.budget import Budget
from optim.gate.drift import worst_drift
from optim.gate.repair import Repair
from optim.graphs.files import is_whole
from optim.jobs import candidate, ingest, lane, offer, prepare, repair, sensitivity
from optim.jobs.ingest import Answer as Ingested
from optim.jobs.ingest import Request as IngestRequest
from optim.jobs.lane import Ready
from optim.jobs.place import Place, Reference
from optim.metrics.spec import require_known
from optim.model import Model
from optim.plugins.offers import OfferedPass
from optim.plugins.registry import Registry
from optim.plugins.versions import plugin_version_key, source_digest
from optim.processes.process import WorkerFailed, WorkerProcess, run_job
from optim.search.machine import available_memory_bytes, machine_key
from optim.search.nodes import Node
from optim.search.restore import restore
from optim.search.settings import RunSettings
from optim.sources.make import ExportedSource, make_graphs
from optim.sources.pipeline import Choice
from optim.store import Store, cache_key
from optim.target import Target
from optim.timing.race import Admit, Effort, LaneResult, as_base, look, race
from optim.wire import from_wire, to_wire

Say = Callable[[str], None]

_REPAIR_EVALUATIONS = 40
_REPAIR_SAMPLES = 8
_REPAIR_GRACE_S = 10.0
"""For the evaluation that was begun in time."""

_REPLAYED_SAMPLES = 1
_WAY_OUT_OF_SAMPLE = "mend that sample, or leave it out of --data; --debug shows the whole trace"
_MARGIN = 0.97
"""Aim a little below the budget where some samples are not looked at."""


@dataclass(frozen=True, slots=True)
class Tried:
    """A candidate job's answer, or why there is none; ``ran_out`` where it was stopped for its time."""

    answer: candidate.Answer | None
    failure: str
    seconds: float
    ran_out: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """What a pass offers for a model: proposals, or the reason there are none; ``failed`` where it broke down."""

    proposals: tuple[offer.Proposal, ...]
    reason: str = ""
    failed: bool = False


class Workbench:
    """The jobs of one run."""

    def __init__(
        self, settings: RunSettings, registry: Registry, store: Store, executor: Executor, say: Say,
        exported: ExportedSource | None = None,
    ) -> None:  # fmt: skip
        self.settings = settings
        self.exported = exported
        self.registry = registry
        self.store = store
        self.say = say
        self.from_cache = 0
        self.computed = 0
        self.peak_memory_bytes = 0
        self.made: set[Path] = set()
        self._executor = executor
        self._asked_before: dict[str, Asked] = {}
        self._core_key = source_digest("optim")
        target = registry.target(settings.target)
        backends = registry.offered("backend")
        registry.backend(target.backend)
        self.target = target.plain
        self.place = Place(self.target, backends[target.backend].plugin.name)
        offered = {name: offer.plugin.name for name, offer in registry.offered("metric").items()}
        self._metric = require_known(settings.metric, offered) if settings.metric else None
        self._backend_key = plugin_version_key(backends[target.backend].plugin)
        self.prepared: prepare.Answer
        self.reference: Reference
        self.original: Node

    def ingest(self) -> Ingested:
        """Bring the source into the store; it is the original from then on."""
        found = self._ingest_source()
        self.original = Node(found.model, found.size_bytes)
        return found

    def ingest_file(self, path: Path) -> Ingested:
        """Bring a file into the store."""
        self.say(f"reading {path.name}")
        answer = self._must(ingest, IngestRequest(path.absolute(), self.store.models), "ingest")
        return from_wire(Ingested, answer)

    def _ingest_source(self, *, fresh: bool = False) -> Ingested:
        """The user's file, or the graph of what was exported."""
        if self.settings.export is None:
            return self.ingest_file(self.settings.source)
        if self.exported is None or fresh:
            self.exported = make_graphs(
                self.settings.export, self.target, self.registry, self.store, source_choice(self.settings), self.say,
                timeout_s=self.settings.timeout_s, fresh=fresh or self.settings.fresh,
            )  # fmt: skip
        graphs = self.exported.graphs
        graph = self.exported.graph(self.settings.component) if self.settings.component else graphs[0]
        return Ingested(graph.model, graph.size_bytes, graph.operators)

    def prepare(self, model: Model) -> prepare.Answer:
        """Feeds, reference outputs and the tolerance; afterwards candidates can be tried."""
        self.say("running the original")
        key = cache_key(
            "prepare", model.digest, self._place_key(), self._data_key(), self.settings.seed,
            self.settings.most_samples, self._metric_key(), to_wire(self.settings.max_loss),
            time.time_ns() if self._metric and self._metric.is_function else 0,
        )  # fmt: skip
        holder: list[Any] = []

        def make(folder: Path) -> None:
            request = prepare.Request(
                model, self.place, self.settings.data, folder / "feeds", folder / "outputs", self.settings.seed,
                self.settings.most_samples, self._metric, self.settings.max_loss,
            )  # fmt: skip
            holder.append(self._must(prepare, request, "prepare"))
            self.store.write("steps", key, holder[0])

        known = None if self.settings.fresh else self.store.read("steps", key)
        folder = self.store.root / "references" / key
        if known is None and folder.is_dir():
            shutil.rmtree(folder)
        folder, _ = self.store.folder("references", key, make)
        self.prepared = from_wire(prepare.Answer, holder[0] if holder else known)
        if not holder:
            self.from_cache += 1
        task = self.prepared.task
        self.reference = Reference(
            folder / "feeds", folder / "outputs", model, self.prepared.compared,
            replace(task, rows=folder / "task.npy") if task else None,
        )  # fmt: skip
        return self.prepared

    def ask_side_by_side(self, nodes: Sequence[Node], passes: Sequence[OfferedPass]) -> None:
        """Ask about several models at the same time; :meth:`ask` then knows the answers."""
        list(self._executor.map(lambda node: self.ask(node, passes), nodes))

    def ask(self, node: Node, passes: Sequence[OfferedPass]) -> dict[str, Asked]:
        """What each pass offers for a model; one subprocess for all, a new one after a crash."""
        found: dict[str, Asked] = {}
        left = []
        for offered in passes:
            key = self._offer_key(node, offered)
            if key in self._asked_before:
                found[offered.name] = self._asked_before[key]
                continue
            known = self._known(key)
            if known is None:
                left.append(offered)
            else:
                self.from_cache += 1
                found[offered.name] = _asked(from_wire(offer.Offer, known))
        while left:
            answers, broken = self._ask_once(node, left)
            for answer in answers:
                offered = next(p for p in left if p.name == answer.name)
                self.store.write("steps", self._offer_key(node, offered), to_wire(answer))
                found[answer.name] = self._asked_before[self._offer_key(node, offered)] = _asked(answer)
                self.computed += 1
            if broken is not None:
                self._restored(node)
                found[broken[0]] = Asked((), broken[1], failed=True)
            left = [offered for offered in left if offered.name not in found]
        return found

    def try_all(self, wanted: Sequence[tuple[Node, OfferedPass, dict[str, Any]]], timeout_s: float) -> Iterator[Tried]:
        """Apply and judge candidates at the same time; in order.

        Where one of them damaged a model of the store, all are tried again one by one: it may have been any of them.
        """
        futures = [
            self._executor.submit(self._try, node, offered, options, timeout_s) for node, offered, options in wanted
        ]
        found = [future.result() for future in futures]
        broke = [node for (node, _, _), tried in zip(wanted, found, strict=True) if tried.answer is None]
        damaged = [self._restored(node) for node in broke]
        if any(damaged) and len(wanted) > 1:
            found = [self.try_one(*one, timeout_s, anew=True) for one in wanted]
        yield from found

    def try_one(
        self, node: Node, offered: OfferedPass, options: dict[str, Any], timeout_s: float, *, anew: bool = False
    ) -> Tried:
        """Apply one pass and judge the result on the explored samples; if it broke, see that it broke nothing else."""
        tried = self._try(node, offered, options, timeout_s, anew=anew)
        if tried.answer is None:
            self._restored(node)
        return tried

    def _try(
        self, node: Node, offered: OfferedPass, options: dict[str, Any], timeout_s: float, *, anew: bool = False
    ) -> Tried:
        key = self._candidate_key(node, offered, options)
        known = None if anew else self._known(key)
        if known is not None:
            answer = from_wire(candidate.Answer, known["answer"])
            if is_whole(answer.result.model.path):
                self.made |= {answer.result.model.path} if answer.result.changed else set()
                self.from_cache += 1
                return Tried(answer, "", known["seconds"])
        self.say(f"trying {offered.name} {_short(options)}")
        request = self._candidate_request(node, offered, options, self.prepared.explored)
        started = time.monotonic()
        phases = ["applying"]
        try:
            data = self._job(candidate, request, timeout_s, lambda event: phases.append(event["event"]))
        except WorkerFailed as failed:
            why, took = _candidate_failure(failed, phases[-1]), time.monotonic() - started
            return Tried(None, why, took, ran_out=failed.kind == "timeout")
        seconds = time.monotonic() - started
        answer = from_wire(candidate.Answer, data)
        self.made |= {answer.result.model.path} if answer.result.changed else set()
        self.store.write("steps", key, {"answer": data, "seconds": seconds})
        return Tried(answer, "", seconds)

    def repair(
        self, node: Node, offered: OfferedPass, options: dict[str, Any], tried: Tried, limit: float, seconds: float
    ) -> Repair | None:
        """Which nodes a candidate that broke the budget must leave alone; None where nothing was found in time."""
        assert tried.answer is not None
        whole = worst_drift(tried.answer.comparisons).relative_l2
        samples = self.prepared.compared[:_REPAIR_SAMPLES]
        key = cache_key("repair", self._candidate_key(node, offered, options), limit, samples)
        known = self._known(key)
        if known is not None:
            self.from_cache += 1
            return from_wire(repair.Answer, known).repair
        self.say(f"repairing {offered.name}: drift {whole:.3g}, {limit:.3g} allowed")
        asked = self._candidate_request(node, offered, options, samples)
        replayed = self.prepared.explored[:_REPLAYED_SAMPLES]
        goal = limit if len(samples) == len(self.prepared.compared) else limit * _MARGIN
        request = repair.Request(asked, replayed, whole, goal, _REPAIR_EVALUATIONS, seconds)
        try:
            data = self._job(repair, request, seconds + max(_REPAIR_GRACE_S, 2 * tried.seconds))
        except WorkerFailed:
            self._restored(node)
            return None
        found = from_wire(repair.Answer, data).repair
        if found is not None:  # with more time another run may find what this one did not
            self.store.write("steps", key, data)
        return found

    def sensitivity(
        self, node: Node, offered: OfferedPass, options: dict[str, Any], *, seconds: float, exact: bool
    ) -> sensitivity.Answer:
        """What a lossy pass costs at each node of a model; see :mod:`optim.jobs.sensitivity`.

        Raises:
            OptimError: not-applicable, nothing-to-measure, measure-failed.
        """
        self.say(f"trying {offered.name} {_short(options)}")
        asked = self._candidate_request(node, offered, options, self.prepared.compared[:_REPAIR_SAMPLES])
        request = sensitivity.Request(asked, self.prepared.explored[:_REPLAYED_SAMPLES], exact, seconds)
        return from_wire(sensitivity.Answer, self._must(sensitivity, request, "measure"))

    def race(
        self, nodes: Sequence[Node], effort: Effort, *, purpose: str, samples: tuple[int, ...] | None = None,
        measure_task: bool = False, budget: Budget | None = None, places: Sequence[Place] = (),
    ) -> tuple[LaneResult, list[LaneResult]]:  # fmt: skip
        """Time nodes against the original; compares their outputs first, on ``samples`` or on the explored ones.

        With ``samples=()`` nothing is compared; with ``measure_task`` the task metric is measured on all its samples.
        What does not keep within ``budget`` is not timed. At ``places`` the original itself is timed elsewhere, after
        the nodes.
        """
        samples = self.prepared.explored if samples is None else samples
        key = cache_key(
            "race", purpose, [(n.model.digest, [to_wire(i) for i in n.interfaces]) for n in nodes], samples,
            self._reference_key(), machine_key(), self.prepared.timed, effort.least_rounds, effort.drop,
            measure_task, to_wire(budget) if budget else None, [to_wire(place) for place in places],
        )  # fmt: skip
        known = self._known(key)
        if known is not None:
            self.from_cache += 1
            return from_wire(LaneResult, known[0]), from_wire(list[LaneResult], known[1])
        original = self.comparable_original(nodes[0])
        base = lane.Request(
            original.model, self.place, self.reference, (), self.prepared.timed, original.interfaces,
            given=original.given,
        )  # fmt: skip
        lanes = [
            lane.Request(
                n.model, self.place, self.reference, samples, self.prepared.timed, n.interfaces,
                measure_task and self.reference.task is not None, n.given,
            )
            for n in nodes
        ]  # fmt: skip
        lanes += [replace(base, place=place) for place in places]
        admit = _admission(nodes, budget, self.target) if budget else None
        result = race(base, lanes, effort, self.settings.seed, admit)
        if original.recast is not None:  # the very model that it is timed against: apart by noise only
            count = len(nodes)
            paired = zip(result[1][:count], nodes, strict=True)
            own = [as_base(r) if n.model.digest == original.model.digest else r for r, n in paired]
            result = result[0], [*own, *result[1][count:]]
        self.computed += 1
        if not any(found.failure for found in result[1]):
            self.store.write("steps", key, [to_wire(result[0]), to_wire(result[1])])
        return result

    def comparable_original(self, node: Node) -> Node:
        """The original as it is timed against a chain: with the step that changed what goes in and comes out.

        Raises:
            OptimError[recast-failed]: that step does not do for the original what it did for the chain.
        """
        if node.recast is None:
            return self.original
        offered = self.registry.find_pass(node.recast.pass_name, self.target)
        tried = self.try_one(self.original, offered, node.recast.options, self.settings.timeout_s)
        if tried.answer is None or not tried.answer.result.changed:
            raise OptimError(
                "recast-failed", f"{offered.name} does not work on the original model",
                tried.failure or "; ".join(tried.answer.result.notes if tried.answer else ()),
                "it worked on a model made from it: this is an issue of its plugin", offered.plugin.release,
            )  # fmt: skip
        result = tried.answer.result
        return self.original.after(node.recast, result.model, tried.answer.size_bytes, result.interface)

    def check(self, node: Node) -> LaneResult:
        """Open a model on a target that cannot be timed, and compare it on every sample the gate uses."""
        samples = self.prepared.compared
        key = cache_key(
            "check", node.model.digest, [to_wire(i) for i in node.interfaces], samples, self._reference_key()
        )
        known = self._known(key)
        if known is not None:
            self.from_cache += 1
            return from_wire(LaneResult, known)
        request = lane.Request(
            node.model, self.place, self.reference, samples, (), node.interfaces,
            self.reference.task is not None, given=node.given,
        )  # fmt: skip
        result = look(request, self.settings.timeout_s)
        self.computed += 1
        if not result.failure:
            self.store.write("steps", key, to_wire(result))
        return result

    def lanes_at_once(self) -> int:
        """How many models may be open together: half of the free memory, three times a model's size each."""
        each = 3 * self.original.size_bytes + (150 << 20)
        return max(2, min(24, int(available_memory_bytes() * 0.5 / each)))

    def _candidate_key(self, node: Node, offered: OfferedPass, options: dict[str, Any]) -> str:
        return cache_key(
            "candidate", node.model.digest, [to_wire(i) for i in node.interfaces], offered.name,
            plugin_version_key(offered.plugin), options, self._reference_key(), self.settings.seed,
            self.prepared.explored,
        )  # fmt: skip

    def _candidate_request(
        self, node: Node, offered: OfferedPass, options: dict[str, Any], samples: tuple[int, ...]
    ) -> candidate.Request:
        lossy = node.is_lossy or offered.over_models.lossy
        return candidate.Request(
            node.model, offered.name, offered.plugin.name, options, self.place, self.reference, samples,
            node.interfaces, self.store.models, self.settings.seed, lossy, lossy and self.reference.task is not None,
            node.given,
        )  # fmt: skip

    def _ask_once(self, node: Node, passes: Sequence[OfferedPass]) -> tuple[list[offer.Offer], tuple[str, str] | None]:
        asked = []
        for offered in passes:
            named = self.settings.named_options(offered.name)
            options = dict(named.options) if named and named.options is not None else None
            asked.append(offer.Asked(offered.name, offered.plugin.name, options, self._is_forced(offered)))
        request = offer.Request(
            node.model, self.target, tuple(asked), self.store.models, self.reference.feeds, self.settings.seed,
            self.settings.goal,
        )  # fmt: skip
        answers: list[offer.Offer] = []
        current = passes[0].name
        with WorkerProcess("optim.jobs.offer", to_wire(request)) as worker:
            try:
                while True:
                    message = worker.receive(min(self.settings.timeout_s, 120.0))
                    if "result" in message:
                        return answers, None
                    if message["event"] == "asking":
                        current = message["name"]
                    elif message["event"] == "offer":
                        answers.append(from_wire(offer.Offer, message["offer"]))
            except WorkerFailed as failed:
                return answers, (current, failed.reason)

    def _restored(self, node: Node) -> bool:
        """Make damaged files of the original and of a chain anew; whether there were any."""

        def rebuild() -> Path:
            chain = self.original
            for step in node.steps:
                offered = self.registry.find_pass(step.pass_name, self.target)
                tried = self._try(chain, offered, step.options, self.settings.timeout_s, anew=True)
                if tried.answer is None:
                    break
                result = tried.answer.result
                chain = chain.after(step, result.model, tried.answer.size_bytes, result.interface)
            return chain.model.path

        def read_again() -> Path:
            self.say("a pass damaged the original in the cache")
            return self._ingest_source(fresh=True).model.path

        original = restore(self.original.model.path, read_again)
        return restore(node.model.path, rebuild) or original

    def _job(
        self, job: Any, request: object, timeout_s: float, on_event: Callable[[dict[str, Any]], None] | None = None
    ) -> Any:
        self.computed += 1
        data, peak = run_job(job.__name__, to_wire(request), timeout_s, on_event)
        self.peak_memory_bytes = max(self.peak_memory_bytes, peak)
        return data

    def _must(self, job: Any, request: object, what: str) -> Any:
        """A job that the whole run depends on."""
        try:
            return self._job(job, request, self.settings.timeout_s, lambda event: self.say(event.get("text", what)))
        except WorkerFailed as failed:
            if failed.error:
                raise failed.error from failed
            raise OptimError(
                f"{what}-failed", f"could not {what} {self.settings.source.name}", failed.reason,
                _WAY_OUT_OF_SAMPLE if failed.doing else "run it with --debug for the whole trace",
                status=ExitStatus.BAD_INPUT,
            ) from failed  # fmt: skip

    def _known(self, key: str) -> Any | None:
        return None if self.settings.fresh else self.store.read("steps", key)

    def _offer_key(self, node: Node, offered: OfferedPass) -> str:
        named = self.settings.named_options(offered.name)
        options = dict(named.options) if named and named.options is not None else None
        return cache_key(
            "offer",
            node.model.digest,
            offered.name,
            plugin_version_key(offered.plugin),
            options,
            self._is_forced(offered),
            self.settings.goal,
            self._reference_key(),
            self.settings.seed,
            machine_key(),
        )

    def _is_forced(self, offered: OfferedPass) -> bool:
        return self.settings.named_options(offered.name) is not None or offered.name in self.target.requires

    def _place_key(self) -> object:
        return [self._core_key, to_wire(self.target), self._backend_key]

    def _reference_key(self) -> object:
        task = self.prepared.task
        measured = task and [self._metric_key(), task.digest, task.samples, task.explored]
        return [self._place_key(), self.prepared.versions, self.prepared.digest, self.original.model.digest, measured]

    def _metric_key(self) -> object:
        """What tells one task metric from another; the source of a user's function is known when it was found."""
        if self._metric is None:
            return None
        offered = self.registry.offered("metric").get(self._metric.name) if self._metric.plugin else None
        return [to_wire(self._metric), plugin_version_key(offered.plugin) if offered else ""]

    def _data_key(self) -> object:
        """What tells one set of feeds from another before it is read."""
        data = self.settings.data
        if data is None:
            return None
        if not Path(data).exists():
            return [data, time.time_ns()]  # a function may return something else each time
        path = Path(data).absolute()
        files = sorted(path.rglob("*.npz")) if path.is_dir() else [path]
        return [str(path), [(f.name, f.stat().st_size, f.stat().st_mtime_ns) for f in files]]


def source_choice(settings: RunSettings) -> Choice:
    """What the user said of passes, for those before there is a model."""
    return Choice({named.name: named.options for named in settings.named}, settings.without)


@contextmanager
def thread_executor() -> Iterator[Executor]:
    """Threads, each holding one subprocess: half as many as processors, at least one, at most four."""
    executor = ThreadPoolExecutor(max(1, min(4, (os.cpu_count() or 2))))
    try:
        yield executor
    finally:
        executor.shutdown(wait=True, cancel_futures=True)


def _admission(nodes: Sequence[Node], budget: Budget, target: Target) -> Admit:
    """Who may race: what is wrong would only make what is right look slow."""

    def admit(place: int, ready: Ready) -> bool:
        lossy = nodes[place].is_lossy or not target.exact
        return not budget.objection(ready.comparisons, lossy, ready.task)

    return admit


def _asked(answer: offer.Offer) -> Asked:
    return Asked(answer.proposals, answer.reason)


def _candidate_failure(failed: WorkerFailed, phase: str) -> str:
    doing = {
        "applying": "while it was applied",
        "applied": "when the result was opened",
        "opened": "when the result was run",
    }
    if failed.kind == "raised":
        return failed.reason
    return f"{failed.reason} ({doing.get(phase, phase)})"


def _short(options: dict[str, Any]) -> str:
    text = ", ".join(f"{key}={value}" for key, value in options.items() if value not in (None, (), [], {}))
    return f"({text})" if text else ""
