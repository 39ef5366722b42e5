"""What can go wrong with an isolated worker, as diagnoses."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from optim.errors import ExitStatus, OptimError, is_disk_full
from optim.isolation.isolation import Isolation

_LOG_TAIL_BYTES = 4000
_MOST_CHARACTERS = 500


def not_installed(isolation: Isolation) -> OptimError:
    """The environment is not there, or was made for another version of the plugin."""
    return OptimError(
        "not-installed-isolated",
        f"plugin {isolation.plugin} has no environment that fits its version",
        "its libraries cannot live beside optim's",
        f"optim plugins install {isolation.plugin}",
        status=ExitStatus.USAGE,
    )


def worker_failed(isolation: Isolation, what: str, log: Path) -> OptimError:
    """The worker itself did not come through; ``log`` is what it printed."""
    said: list[str] = []
    with contextlib.suppress(OSError):
        said = log.read_bytes()[-_LOG_TAIL_BYTES:].decode(errors="replace").strip().splitlines()
    cause = what + (f"; its log ends: {said[-1][:300]}" if said else "")
    return OptimError(
        "isolated-worker-failed",
        f"the worker of plugin {isolation.plugin} failed",
        cause,
        "run it again: another worker is started; if it fails each time, make its environment anew: "
        f"optim plugins remove {isolation.plugin} && optim plugins install {isolation.plugin}",
        status=ExitStatus.INTERNAL,
    )


def job_failed(isolation: Isolation, job: str, error: dict[str, Any]) -> OptimError:
    """The job raised."""
    what = f"{job} of plugin {isolation.plugin} failed"
    message = str(error.get("message", ""))[:_MOST_CHARACTERS]
    if is_disk_full(error.get("errno")):
        return OptimError("disk-full", what, message, "free some space: optim cache prune", status=ExitStatus.USAGE)
    fix = "optim plugins doctor; if it finds nothing, report this to the plugin"
    return OptimError("isolated-job-failed", what, f"{error.get('type')}: {message}", fix, status=ExitStatus.NOT_HELD)
