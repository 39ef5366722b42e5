"""The parent's side: one subprocess, its conversation, and what became of it."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any, Self

from optim.errors import ExitStatus, OptimError
from optim.jobs.doing import Limit, PluginCall
from optim.jobs.fork_server import KEPT, Forked, Server, can_fork
from optim.jobs.leftovers import MARK_VARIABLE, end_descendants, end_group, end_marked
from optim.jobs.owner import FOLDER_VARIABLE, workers_folder
from optim.jobs.resources import ended_for_memory, usable_memory_bytes
from optim.jobs.talk import pair

_STDERR_TAIL_BYTES = 4000
_alive: set[WorkerProcess] = set()


def encodable(text: str) -> str:
    """Writes lone surrogates, as in names of files that are no UTF-8, as escapes: no report could hold them."""
    return text.encode("utf-8", "backslashreplace").decode()


@dataclass(eq=False)
class WorkerFailed(Exception):  # noqa: N818 - it states what happened to the worker
    """The work in a subprocess did not come back.

    Attributes:
        reason: one line for the report.
        kind: ``crashed``, ``starved`` (the system ended it for lack of memory), ``timeout``, ``limit`` (that of a
            plugin's call), ``raised`` or ``protocol``.
        details: traceback, or the end of its stderr.
        error: the OptimError that the job raised, if it did.
        doing: what the job did at the end, if that is known.
        call: code of a plugin that ran, if some did.
        printed: the end of its output.
        events: its earlier messages, if nothing followed them at the time.
    """

    reason: str
    kind: str
    details: str = ""
    error: OptimError | None = None
    doing: str = ""
    printed: str = ""
    call: PluginCall | None = None
    events: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Names of files may have what no report could hold."""
        self.reason, self.details = encodable(self.reason), encodable(self.details)

    def __str__(self) -> str:
        """The reason."""
        return self.reason

    @property
    def is_defect(self) -> bool:
        """Whether its code has a defect: an exception other than an ``OptimError``, or an end without an answer."""
        return self.error is None and self.kind in ("raised", "crashed", "protocol")


def expect_workers() -> None:
    """Have what workers need imported while this process does its own imports: for who surely starts one soon."""
    if not can_fork(os.environ):
        return
    environment = environment_of_workers()

    def start() -> None:
        with contextlib.suppress(OSError):  # the first worker finds out
            KEPT.get(environment)

    threading.Thread(target=start, daemon=True).start()


def environment_of_workers() -> dict[str, str]:
    """What workers of this process are started with, but for their marks."""
    return {**os.environ, "PYTHONHASHSEED": "0", "PYTHONUNBUFFERED": "1", FOLDER_VARIABLE: str(workers_folder())}


@contextlib.contextmanager
def server_apart(modules: Sequence[str]) -> Iterator[Server | None]:
    """A fork server for a few workers alone: their memory lies where that of no other server's workers does.

    It has imported the modules that they need, starts no worker after the block, and ends with the last of them. None:
    workers are programs of their own anyway, or it cannot be started.
    """
    environment, server = environment_of_workers(), None
    if can_fork(environment):
        with contextlib.suppress(OSError):
            server = Server(environment, modules=modules)
    try:
        yield server
    finally:
        if server is not None:
            server.retire()


class WorkerProcess:
    """A subprocess in its own process group that runs one job; a context manager that kills the group at its end.

    Args:
        job: module of the job, e.g. ``optim._engine.jobs.candidate``.
        request: JSON values of its ``Request``.
        fresh: start a program, where else it may be a fork: memory then lies elsewhere in each.
        server: forks it, in place of this process's own.
    """

    def __init__(self, job: str, request: Any, *, fresh: bool = False, server: Server | None = None) -> None:
        self.peak_memory_bytes, self.processor_s = 0, 0.0
        self._doing = ""
        self._call: PluginCall | None = None
        self._mark = secrets.token_hex(8)
        self._ended_before = ended_for_memory()
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed in close()
        self._talk, its_end = pair()
        with its_end:
            self._process = self._start(job, its_end.fileno(), fresh=fresh, server=server)
        _alive.add(self)
        self.send({"job": job, "request": request})

    def _start(self, job: str, handle: int, *, fresh: bool, server: Server | None) -> Spawned | Forked:
        environment = {**environment_of_workers(), MARK_VARIABLE: self._mark}
        if server is not None or (can_fork(environment) and not fresh):
            with contextlib.suppress(OSError):  # no server: the worker tells better what is wrong
                forked = (server or KEPT.get(environment)).fork(job, handle, self._stderr)
                folder = os.sep  # relative paths lead nowhere where the working folder has been removed
                with contextlib.suppress(OSError):
                    folder = os.getcwd()  # noqa: PTH109 - a string for the worker
                self.send({"environment": environment, "folder": folder})
                return forked
        return Spawned(handle, self._stderr, environment)

    def send(self, message: Mapping[str, Any]) -> None:
        """Tell the worker something; a worker that is gone shows at the next ``receive``."""
        with contextlib.suppress(OSError):
            self._talk.send(message)

    def receive(self, timeout_s: float, *, of_s: float | None = None) -> dict[str, Any]:
        """The next message of the worker.

        Args:
            timeout_s: to wait for it.
            of_s: the time that the whole job has, where this is the rest of it.

        Raises:
            WorkerFailed: it raised, crashed, wrote something else than the protocol, or said nothing in time.
        """
        deadline = time.monotonic() + timeout_s
        while True:
            try:
                message = self._talk.receive(deadline - time.monotonic())
            except TimeoutError:
                late = f"did not finish within {of_s or timeout_s:.3g} s{self._on()} and was stopped{self._stop()}"
                raise self._failed(late + self._in(), "timeout") from None
            except ValueError as error:
                self.kill()
                raise self._failed(f"broke the worker protocol: {error}{self._on()}{self._in()}", "protocol") from None
            except (EOFError, OSError):
                raise self._crash() from None
            if "doing" in message:
                self._doing = message["doing"]
            elif "calling" in message:
                told = message["calling"]
                self._call = PluginCall(**{**told, "limit": Limit(**told["limit"])}) if told else None
            else:
                break
        self.peak_memory_bytes = max(self.peak_memory_bytes, message.get("peak_memory_bytes", 0))
        self.processor_s = message.get("processor_s", self.processor_s)
        if "error" in message:
            raise _raised(message["error"], self._doing, self._stderr_tail(), self._call)
        return message

    def _stop(self) -> str:
        """End it, and what it has started; words for that, to follow what was said of it."""
        process = self._process.process
        ended = end_descendants(process) if process is not None else []
        self.kill()
        return _with_it(ended + end_marked(self._mark))

    def _on(self) -> str:
        """What it was busy with, for the end of a sentence."""
        return f" on {self._doing}" if self._doing else ""

    def _in(self) -> str:
        """The plugin's code that ran, for the end of a sentence."""
        return f" while {self._call.text}" if self._call else ""

    def _failed(self, reason: str, kind: str) -> WorkerFailed:
        printed = self._stderr_tail()
        details = printed if kind in ("crashed", "starved", "protocol") else ""
        return WorkerFailed(reason, kind, details, None, self._doing, printed, self._call)

    def result(
        self, timeout_s: float, on_event: Callable[[dict[str, Any]], None] | None = None, *, of_silence: bool = False
    ) -> Any:
        """Follow the worker's events until its result; ``of_silence`` counts the time from the last event."""
        deadline = time.monotonic() + timeout_s
        while True:
            message = self.receive(timeout_s if of_silence else deadline - time.monotonic(), of_s=timeout_s)
            if "result" in message:
                return message["result"]
            if on_event:
                on_event(message)

    def kill(self) -> None:
        """End the whole process group at once."""
        self._process.kill()

    def close(self) -> None:
        """Kill what is left of it and release its pipe."""
        if self in _alive:
            _alive.discard(self)
            self.kill()
            self._talk.close()
            self._stderr.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _crash(self) -> WorkerFailed:
        code = self._process.wait()
        what = f"exit status {code}"
        if code < 0:
            with contextlib.suppress(ValueError):
                what = signal.Signals(-code).name
        last = [line[:200] for line in self._stderr_tail().strip().splitlines()[-1:]]
        left = _with_it(end_marked(self._mark))
        if what == "SIGALRM" and self._call and (limit := self._call.limit).seconds is not None:
            late = f"took longer than {limit.seconds:.3g} s, {limit.why}{self._on()}{self._in()}"
            return self._failed(late, "limit")
        starved = what == "SIGKILL" and ended_for_memory() > self._ended_before
        want = f", for lack of memory (there are {usable_memory_bytes() / 1e9:.2g} GB)" if starved else ""
        reason = ": ".join([f"its process ended with {what}{self._on()}{left}{want}{self._in()}", *last])
        return self._failed(reason, "starved" if starved else "crashed")

    def _stderr_tail(self) -> str:
        with contextlib.suppress(OSError, ValueError):
            end = self._stderr.seek(0, os.SEEK_END)
            self._stderr.seek(max(0, end - _STDERR_TAIL_BYTES))
            return self._stderr.read().decode(errors="replace")
        return ""


def kill_all() -> None:
    """End every worker that is still alive, e.g. after Ctrl-C; who waits for one sees that it ended."""
    for worker in list(_alive):
        worker.kill()


def run_job(
    job: str, request: Any, timeout_s: float, on_event: Callable[[dict[str, Any]], None] | None = None
) -> tuple[Any, int]:
    """Does one job in a process of its own.

    Args:
        job: full name of the module of the job.
        request: request as JSON values (``to_wire``).
        timeout_s: time limit in seconds. It ends the job and all processes that it started.
        on_event: gets each message of the job.

    Returns:
        The JSON values of its answer, and its peak resident memory in bytes.

    Raises:
        WorkerFailed: the job did not come back.
    """
    with WorkerProcess(job, request) as worker:
        result = worker.result(timeout_s, on_event)
        return result, worker.peak_memory_bytes


def _with_it(ended: list[str]) -> str:
    return f", with what it had left running: {', '.join(ended)}" if ended else ""


def _raised(error: dict[str, Any], doing: str, printed: str = "", call: PluginCall | None = None) -> WorkerFailed:
    if "optim" in error:
        known = OptimError(**{**error["optim"], "status": ExitStatus(error["optim"]["status"])})
        reason = known.what + (f": {known.cause}" if known.cause else "")
        return WorkerFailed(reason, "raised", error["traceback"], known, "", printed, call)
    message = error["message"].splitlines()[0][:300]
    where = f" (at {error['where']})" if error["where"] else ""
    reason = f"{error['type']}: {message}{where}" + (f" on {doing}" if doing else "")
    kind = "starved" if error["starved"] else "raised"
    return WorkerFailed(reason, kind, error["traceback"], None, doing, printed, call)


class Spawned:
    """``python -m optim.jobs.worker`` in its own process group: on every system, and for what must share nothing.

    Args:
        handle: the worker's end of the connection, inherited.
        output: what it writes to stdout and stderr goes here.
        environment: of the worker, whole.
    """

    def __init__(self, handle: int, output: IO[bytes], environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "optim.jobs.worker", str(handle)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=dict(environment),
            **_handing_down(handle),
        )
        threading.Thread(target=self._end_group_with_leader, daemon=True).start()

    @property
    def process(self) -> int:
        """Its id."""
        return self._process.pid

    def kill(self) -> None:
        """End the whole process group at once; returns when it has ended."""
        end_group(self._process.pid)
        with contextlib.suppress(OSError):
            self._process.kill()
        self._process.wait()

    def wait(self) -> int:
        """The exit status when it has ended, below zero for a signal."""
        return self._process.wait()

    def _end_group_with_leader(self) -> None:
        """What the worker started ends with it: a fork that holds its pipe open would hide its end."""
        if hasattr(os, "waitid"):
            with contextlib.suppress(OSError):  # it has been collected already
                os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)  # its id stays taken until then
                end_group(self._process.pid)


def _handing_down(handle: int) -> dict[str, Any]:
    """What ``Popen`` is told so that the worker gets the end of a pipe, and a group of its own."""
    if sys.platform == "win32":
        os.set_handle_inheritable(handle, True)
        return {"startupinfo": subprocess.STARTUPINFO(lpAttributeList={"handle_list": [handle]})}
    return {"pass_fds": (handle,), "start_new_session": True}
