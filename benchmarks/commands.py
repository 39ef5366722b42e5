"""Commands of optim for other scripts: their answer, their seconds, and other programs that compute meanwhile."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
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
