"""A job for a worker process that does what it is told: behave, crash, hang, shout."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field

from optim.errors import ExitStatus, OptimError
from optim.jobs.channel import Channel
from optim.jobs.doing import doing


@dataclass(frozen=True, slots=True)
class Request:
    """Name of a function below, and its arguments."""

    action: str
    arguments: dict[str, int | str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Answer:
    """Whatever there is to say."""

    said: str


def run(request: Request, channel: Channel) -> Answer:
    return Answer(str(globals()[request.action](channel, **request.arguments)))


def echo(channel, text):
    del channel
    return text


def abort(channel):
    del channel
    os.abort()


def segfault(channel):
    del channel
    ctypes.string_at(0)


def end_on_a_sample(channel, how):
    """What was done before is not what it ended on."""
    del channel
    with doing("sample 0 of feeds.npz"):
        pass
    if how == "later":
        os._exit(1)
    with doing("sample 1 of feeds.npz"):
        if how == "raise":
            raise ValueError("no")
        if how == "hang":
            time.sleep(600)
        print("Bogus DQT index 14", file=sys.stderr, flush=True)
        os._exit(1)


def leave(channel, status):
    del channel
    sys.exit(status)


def leave_at_once(channel, status):
    del channel
    os._exit(status)


def shout(channel):
    channel.event("before")
    print("from print")
    os.write(1, b'{"result": "forged"}\n')
    subprocess.run([sys.executable, "-c", "print('from a child')"], check=True)
    channel.event("after")
    return "quiet"


def listen(channel):
    """A library that asks a question, or a child that reads, must not eat the requests."""
    del channel
    child = subprocess.run([sys.executable, "-c", "import sys; print(len(sys.stdin.read()))"], capture_output=True)
    try:
        input()
    except EOFError:
        return f"nobody answers; the child read {child.stdout.decode().strip()}"
    return "read"


def fail(channel):
    del channel
    return {}["missing"]


def fail_in_lines(channel):
    del channel
    raise ValueError("first line\nsecond line")


def fail_without_words(channel):
    del channel
    raise ValueError


def diagnose(channel):
    del channel
    raise OptimError("sample-error", "what", "cause", "fix", "some-plugin 1.0", ExitStatus.TARGET_UNAVAILABLE)


def no_space(channel):
    del channel
    raise OSError(28, "No space left on device", "weights.data")


def hang_with_a_child(channel):
    """Both ignore SIGTERM; the child's id comes as an event."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    channel.event("started", child=child.pid, own=os.getpid())
    time.sleep(600)


def abort_beside_a_fork(channel):
    """The fork holds every descriptor of the worker open."""
    child = os.fork()
    if child == 0:
        time.sleep(600)
    channel.event("started", child=child)
    os.abort()


def converse(channel):
    total = 0
    while (message := channel.receive()).get("add") is not None:
        total += message["add"]
        channel.event("sum", total=total)
    return total


def touch_memory(channel, mebibytes):
    del channel
    block = bytearray(int(mebibytes) << 20)
    return len(block)
