"""What runs in the subprocess: ``python -m optim.jobs.worker``.

The first line on stdin names a job, ``{"job": "package.module", "request": {...}}``; the module has a dataclass
``Request`` and a function ``run(request, channel)``. Requests and answers go over private copies of stdin and stdout:
descriptor 0 becomes empty and descriptor 1 stderr before any plugin is imported, so nothing that a library or a child
of it prints can get between the answers, and none can eat a request.
The process ends, with everything it started, when its stdin closes: a parent that was killed leaves no orphans.
"""

from __future__ import annotations

import contextlib
import errno
import importlib
import os
import queue
import signal
import sys
import threading
import traceback
from dataclasses import asdict
from typing import BinaryIO

from optim.errors import OptimError, disk_error
from optim.jobs.channel import Channel
from optim.jobs.doing import tell_by
from optim.jobs.memory import peak_memory_bytes

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)


def main() -> None:
    """Run one job and exit."""
    lines, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    requests: queue.Queue[bytes] = queue.Queue()
    threading.Thread(target=_read_requests, args=(lines, requests), daemon=True).start()
    channel = Channel(answers, requests)
    tell_by(channel.doing)
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
    if isinstance(error, OSError) and error.errno in _NO_ROOM:
        error = disk_error(error, "there is no room in the cache, or it cannot be written")
    if isinstance(error, OptimError):
        return {"optim": {**asdict(error), "status": int(error.status)}}
    text = str(error).strip() or repr(error)
    frames = traceback.extract_tb(error.__traceback__)
    where = f"{os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else ""  # noqa: PTH119
    return {
        "type": type(error).__name__,
        "message": text,
        "where": where,
        "traceback": "".join(traceback.format_exception(error)),
    }


def _run(channel: Channel) -> None:
    message = channel.receive()
    module = importlib.import_module(message["job"])
    from optim.jobs.wire import from_wire, to_wire

    answer = module.run(from_wire(module.Request, message["request"]), channel)
    channel.send({"result": to_wire(answer), "peak_memory_bytes": peak_memory_bytes()})


def _read_requests(lines: BinaryIO, requests: queue.Queue[bytes]) -> None:
    for line in lines:
        requests.put(line)
    if hasattr(os, "killpg") and os.getpgrp() == os.getpid():
        with contextlib.suppress(OSError):
            os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(130)


if __name__ == "__main__":
    main()
