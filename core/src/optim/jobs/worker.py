"""What runs in the subprocess: ``python -m optim.jobs.worker HANDLE``, or a fork of the fork server.

The first message names a job, ``{"job": "package.module", "request": {...}}``; the module has a dataclass ``Request``
and a function ``run(request, channel)``. Requests and answers go over a pipe of their own; stdin is empty and stdout is
stderr, so nothing that a library or a child of it prints can get between the answers, and none can eat a request.
The process ends, with everything it started, when the pipe closes: a parent that was killed leaves no orphans.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import queue
import sys
import sysconfig
import threading
import time
import traceback
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn

import optim
from optim.errors import OptimError, disk_error, is_disk_full
from optim.jobs.doing import tell_by
from optim.jobs.leftovers import end_group
from optim.jobs.resources import peak_memory_bytes
from optim.jobs.seldom import put_off_what_is_seldom_needed
from optim.jobs.talk import Channel, Talk, inherited


def main() -> None:
    """Run one job and exit."""
    put_off_what_is_seldom_needed()
    work(inherited(int(sys.argv[1])))


def work(talk: Talk) -> NoReturn:
    """Run the job that the other end names, and end this process."""
    requests: queue.Queue[dict[str, Any]] = queue.Queue()
    threading.Thread(target=_read_requests, args=(talk, requests), daemon=True).start()
    channel = Channel(talk, requests)
    tell_by(channel.send)
    status = 0
    try:
        _run(channel)
    except BaseException as error:
        channel.send({"error": describe_error(error), "peak_memory_bytes": peak_memory_bytes()})
        status = 1
    sys.stderr.flush()
    os._exit(status)  # threads of a runtime or a plugin must not keep the process alive


def describe_error(error: BaseException) -> dict[str, object]:
    """An exception as JSON: an OptimError by its fields, anything else by its type and where it was raised."""
    if isinstance(error, OSError) and (is_disk_full(error.errno) or error.errno == errno.EROFS):
        error = disk_error(error, "there is no room in the cache, or it cannot be written")
    trace = foreign_first(error)
    if isinstance(error, OptimError):
        return {"optim": asdict(error), "traceback": trace}
    text, starved = str(error).strip() or repr(error), isinstance(error, MemoryError)
    frames = traceback.extract_tb(error.__traceback__)
    where = f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""  # noqa: PTH119
    return {"type": type(error).__name__, "message": text, "where": where, "traceback": trace, "starved": starved}


def _run(channel: Channel) -> None:
    message = channel.receive()
    module = importlib.import_module(message["job"])
    from optim.jobs.wire import from_wire, to_wire

    answer = module.run(from_wire(module.Request, message["request"]), channel)
    took = {"peak_memory_bytes": peak_memory_bytes(), "processor_s": time.process_time()}
    channel.send({"result": to_wire(answer), **took})


def _read_requests(talk: Talk, requests: queue.Queue[dict[str, Any]]) -> None:
    with contextlib.suppress(EOFError, OSError):
        while True:
            requests.put(talk.receive())
    end_group(os.getpid())
    os._exit(130)


_CARRIERS = ("click", "pluggy", "stevedore")
"""Libraries that call plugins for us: their frames say nothing."""


def foreign_first(error: BaseException) -> str:
    """The whole traceback; before it the frames of others than optim, of the exception nearest to the cause."""
    whole = "".join(traceback.format_exception(error))
    for one in reversed(_chain(error)):
        frames = [frame for frame in traceback.extract_tb(one.__traceback__) if _is_foreign(frame.filename)]
        if frames:
            own = "".join([*traceback.format_list(frames), *traceback.format_exception_only(one)])
            return f"In the plugin (the whole traceback follows):\n{own}\n{whole}"
    return whole


def _chain(error: BaseException) -> list[BaseException]:
    found: list[BaseException] = []
    now: BaseException | None = error
    while now is not None and now not in found:
        found.append(now)
        now = now.__cause__ or (None if now.__suppress_context__ else now.__context__)
    return found


def _is_foreign(file: str) -> bool:
    path = Path(file).resolve()
    if file.startswith("<") or path.is_relative_to(_OPTIM):
        return False
    _, installed, package = path.as_posix().partition("/site-packages/")
    return package.partition("/")[0] not in _CARRIERS if installed else not path.is_relative_to(_PYTHON)


_OPTIM = Path(optim.__file__).resolve().parent
_PYTHON = Path(sysconfig.get_paths()["stdlib"]).resolve()


if __name__ == "__main__":
    main()
