"""For other scripts: optim's commands, with answer and seconds; programs beside it; any, as on another machine."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def optim(*words: str, cache: str = "") -> dict[str, Any]:
    """What a command prints as JSON; with a cache of its own where one is named."""
    environment = {**os.environ, **({"OPTIM_CACHE_DIR": cache} if cache else {})}
    command = [sys.executable, "-m", "optim", *words, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    try:
        found: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        raise SystemExit(done.stderr) from None
    return found


def fresh_run(*words: str) -> tuple[dict[str, Any], float]:
    """The report of ``optim run`` from an empty cache, and the seconds of the whole command."""
    with tempfile.TemporaryDirectory(prefix="optim-cache-") as cache:
        began = time.monotonic()
        report = optim("run", *words, cache=cache)
        return report, time.monotonic() - began


@contextmanager
def busy(programs: int) -> Iterator[None]:
    """Keep so many programs computing."""
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(programs)]
    try:
        yield
    finally:
        for one in running:
            one.kill()
            one.wait()


def become(
    description: str, environment: Callable[[], Mapping[str, str]], tool: str, needless: Callable[[], str] = str
) -> None:
    """Becomes the command that the words of this script name.

    Args:
        description: of this script.
        environment: what the command has in its environment, besides what is there; Linux on x86-64, gcc and the tool
            are there when it is asked for.
        tool: of binutils, that makes it.
        needless: why this machine need not run a command so; empty where it makes a difference.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--where-possible", action="store_true", help="elsewhere: say why not, and end with 0")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="a program and its words")
    asked = parser.parse_args()
    if not asked.command:
        parser.error("say what to run")
    missing = [name for name in ("gcc", tool) if shutil.which(name) is None]
    reason = ""
    if sys.platform != "linux" or platform.machine() != "x86_64" or missing:
        reason = f"it takes Linux on x86-64 with gcc and binutils; not here: {', '.join(missing) or 'these'}"
    if asked.where_possible and (reason := reason or needless()):
        print(f"not run, {reason}: {' '.join(asked.command)}")
        return
    if reason:
        raise SystemExit(reason)
    sys.stdout.flush()
    os.execvpe(asked.command[0], asked.command, {**os.environ, **environment()})


def instruction_sets() -> str:
    """The instruction sets that products of integers and half floats use; ``?`` where the system does not say them."""
    path = Path("/proc/cpuinfo")
    flags = set(path.read_text().split()) if path.is_file() else set()
    return ", ".join(sorted(flags & {"avx2", "avx_vnni", "avx512_vnni", "avx512_bf16", "amx_bf16", "amx_int8"})) or "?"


def say(text: str) -> None:
    """Print the time and where the script is, to stderr."""
    print(time.strftime("%H:%M:%S"), text, file=sys.stderr, flush=True)
