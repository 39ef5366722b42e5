"""The one way to have a job done: an answer that was kept, or a process of its own, counted, its end put into words.

What calls jobs side by side is submitted to a ``concurrent.futures.Executor``: threads, each holding one process of
this machine, or waiting for one of a :class:`~optim.workplace.Workplace`, whose workers are dask's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import KW_ONLY, dataclass
from typing import Any, Protocol, TypeVar

from optim._engine.jobs.job import Answer, Job, Request
from optim._engine.store import Store
from optim._engine.trace import Action, Recorder
from optim.errors import ExitStatus, OptimError
from optim.jobs.process import WorkerFailed
from optim.jobs.resources import usable_processors
from optim.jobs.wire import from_wire, to_wire
from optim.workplace import Done, Work, Workplace

Say = Callable[[str], None]
Event = dict[str, Any]
T = TypeVar("T")
Item = TypeVar("Item")

_WAY_OUT_OF_SAMPLE = "give samples with --data that the model takes; optim --debug shows the whole trace"

_WAY_OUT_OF_MEMORY = "end other programs, or give more memory (in a container: a higher limit)"

_WAY_OUT_OF_CRASH = "give other samples with --data; if these fail too, report it to the makers of the runtime"

_WAY_OUT_OF_CALL = "report it to the package below; optim --debug shows the end of its output"


class Waits(Protocol):
    """What a run waits for, of which no second is search time."""

    def await_quiet_end(self) -> None:
        """Return when a job that is not timed may begin on this machine."""

    def stood_still(self, seconds: float) -> None:
        """Note that a job elsewhere has just stood still for so long."""


@dataclass(eq=False)
class Runner:
    """Runs jobs, keeps their answers, and counts both.

    Attributes:
        fresh: take no kept answer.
        executor: what :meth:`side_by_side` submits to; without one it does one after the other.
        elsewhere: machines that do the jobs; None: this one does.
        waits: for when a job may begin, and told what stood still; None: nobody.
        count: jobs that were run.
        from_cache: answers that were kept by an earlier one.
        peak_memory_bytes: the most that one of them held.
        trace: notes every job, where there is one.
    """

    store: Store
    say: Say
    _: KW_ONLY
    fresh: bool = False
    executor: Executor | None = None
    elsewhere: Workplace | None = None
    waits: Waits | None = None
    count: int = 0
    from_cache: int = 0
    peak_memory_bytes: int = 0
    trace: Recorder | None = None

    def call(
        self,
        job: Job[Request, Answer],
        request: Request,
        *,
        timeout_s: float,
        key: str | None = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> Answer:
        """A job's answer: the one that is kept under ``key``, or what its process says; without a key it is not kept.

        Raises:
            WorkerFailed: it did not come back.
        """
        known = self.known(key, job.answer) if key else None
        if known is not None:
            return known
        self.count += 1
        with self.noted(job.module, request) as action:
            done = self._do(job, request, timeout_s, action, on_event)
            action.answer = done.answer
        answer = from_wire(job.answer, done.answer)
        self.peak_memory_bytes = max(self.peak_memory_bytes, done.peak_memory_bytes)
        if key:
            self.keep(key, answer)
        return answer

    def need(
        self,
        job: Job[Request, Answer],
        request: Request,
        *,
        timeout_s: float,
        reference: str,
        doing: str,
        release: str = "",
    ) -> Answer:
        """The answer of a job that the whole run depends on; what it says on its way is said on.

        Args:
            job: the kind of work.
            request: what it is told.
            timeout_s: seconds it may take.
            reference: of the error, e.g. ``ingest-failed``.
            doing: what the job does, for the error, e.g. ``ingest model.onnx``.
            release: the distribution whose runtime it runs models with, where it does.

        Raises:
            OptimError: the job's own, or ``reference`` where it did not come back.
        """
        try:
            return self.call(
                job, request, timeout_s=timeout_s, on_event=lambda event: self.say(event.get("text", doing))
            )
        except WorkerFailed as failed:
            if failed.error:
                raise failed.error from failed
            package, way_out = "", "run the same command as optim --debug for the whole trace"
            if failed.kind == "starved":
                way_out = _WAY_OUT_OF_MEMORY
            elif failed.kind == "raised":
                way_out = _WAY_OUT_OF_SAMPLE if failed.doing else way_out
            elif failed.call is not None:
                package, way_out = failed.call.release, _WAY_OUT_OF_CRASH if failed.doing else _WAY_OUT_OF_CALL
            elif failed.doing:  # by the runtime, whatever the sample is
                package, way_out = release, _WAY_OUT_OF_CRASH if release else _WAY_OUT_OF_SAMPLE
            raise OptimError(
                reference,
                # errors: ingest-failed, prepare-failed, measure-failed
                # errors: source-load-failed, source-export-failed, source-verify-failed
                f"could not {doing}",
                failed.reason,
                way_out,
                package,
            ) from failed

    def ask_passes(self, job: Job[Request, Answer], request: Request, timeout_s: float, subject: str) -> Answer:
        """The answer of a job that calls the passes that must hold, before the original is opened.

        Raises:
            OptimError[pass-failed]: it did not come back; the error names the pass that ran, and its plugin.
            OptimError: the job's own.
        """
        try:
            return self.call(job, request, timeout_s=timeout_s)
        except WorkerFailed as failed:
            if failed.error:
                raise failed.error from failed
            during = f" while {failed.call.text}" if failed.call and failed.kind == "raised" else ""
            raise OptimError(
                "pass-failed",
                f"a required pass failed on {subject} before the model was opened",
                failed.reason + during,
                "optim --debug shows where; report it to the package below, which brings the pass",
                failed.call.release if failed.call else "",
                ExitStatus.NOT_HELD,
            ) from failed

    def follow(
        self, job: Job[Request, Answer], request: Request, on_event: Callable[[Event], None], *, silence_s: float
    ) -> None:
        """Hear what a job says on its way, until it is done; whoever hears it counts what it is worth.

        Raises:
            WorkerFailed: it did not come back.
        """
        with self.noted(job.module, request) as action:
            self._do(job, request, silence_s, action, on_event, of_silence=True)

    def _do(
        self,
        job: Job[Request, Answer],
        request: Request,
        limit_s: float,
        action: Action,
        on_event: Callable[[Event], None] | None,
        *,
        of_silence: bool = False,
    ) -> Done:
        """A job, here or elsewhere; what it says on its way is noted and heard, also if it fails."""

        def hear(event: Event) -> None:
            action.events.append(event)
            if on_event:
                on_event(event)

        if self.elsewhere is None or job.here:
            if self.waits is not None and not job.timed:
                self.waits.await_quiet_end()
            with job.start(request) as worker:
                answer = worker.result(limit_s, hear, of_silence=of_silence)
                action.processor_s = worker.processor_s
                return Done(answer, peak_memory_bytes=worker.peak_memory_bytes)
        try:
            done = self.elsewhere.do(Work(job.module, to_wire(request), limit_s, of_silence, job.timed))
        except WorkerFailed as failed:
            for event in failed.events:
                hear(event)
            raise
        if done.stalled_s and self.waits is not None:
            self.waits.stood_still(done.stalled_s)
        for event in done.events:
            hear(event)
        return done

    def noted(self, name: str, request: object) -> AbstractContextManager[Action]:
        """Records the work inside as an action of the trace, if there is a trace."""
        return self.trace.action(name, request) if self.trace is not None else nullcontext(Action())

    def known(self, key: str, kind: type[T], *, holds: Callable[[T], bool] | None = None) -> T | None:
        """What is kept under a key; None where nothing is, where it no longer holds, or where all is to be fresh."""
        found = None if self.fresh else self.store.read("steps", key, kind)
        if found is None or (holds is not None and not holds(found)):
            return None
        self.from_cache += 1
        return found

    def keep(self, key: str, value: object) -> None:
        """Keep what :meth:`known` then finds."""
        self.store.write("steps", key, to_wire(value))

    def side_by_side(self, function: Callable[[Item], T], items: Iterable[Item]) -> list[T]:
        """A function that calls jobs, on several items at the same time; in order."""
        return list((self.executor.map if self.executor else map)(function, items))


@contextmanager
def thread_executor(at_once: int = 0) -> Iterator[Executor]:
    """Threads, each holding one process: ``at_once``, or as many as processors, at most four."""
    executor = ThreadPoolExecutor(at_once or min(4, usable_processors()))
    try:
        yield executor
    finally:
        executor.shutdown(wait=True, cancel_futures=True)
