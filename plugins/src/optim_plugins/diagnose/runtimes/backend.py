"""Models on another version of onnxruntime, which a worker in its own environment runs."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from optim import Backend, BackendLimits, Model, OptimError, Session, Target
from optim.arrays import Feeds, Outputs
from optim.providers import CPU
from optim_plugins.diagnose.runtimes.target import VERSION

_QUIET = {"session.force_spinning_stop": "1"}
"""Threads of one session must not spin into the time of the next."""


class VersionSession(Session):
    """A session in the worker of a version. Feeds and outputs pass as files; runs are timed in the worker."""

    def __init__(self, version: str, model: Model, target: Target) -> None:
        self._version, self._key, self._used_s, self._last_s = version, uuid.uuid4().hex, 0.0, 0.0
        self._fed: Feeds | None = None
        self._number = 0
        self._folder = TemporaryDirectory(prefix="optim-runtime-")
        self._tell("open_model", **opening(model, target))

    def run(self, feeds: Feeds) -> Outputs:
        """One run in the worker."""
        import numpy as np

        outputs = Path(self._folder.name, "outputs.npz")
        self._tell("run_model", **self._written(feeds), outputs=str(outputs))
        with np.load(outputs, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}

    @property
    def executed_on(self) -> Mapping[str, float]:
        """The processor."""
        return {CPU: 1.0}

    def time_runs(self, feeds: Feeds, count: int) -> list[float]:
        """Seconds as the worker took them, without the way there."""
        asked = {**self._written(feeds), "count": count, "last_s": self._last_s}
        times: list[float] = self._tell("time_model", **asked)["times"]
        self._last_s = times[-1]
        return times

    def processor_s(self) -> float:
        """Of the worker, at the end of what it was last asked."""
        return self._used_s

    def peak_memory_bytes(self) -> int:
        """Nothing is told: the worker of a version holds what other sessions left."""
        return 0

    def close(self) -> None:
        """Let the worker's session go; the worker ends with the run."""
        with contextlib.suppress(OptimError):
            self._tell("close_model")
        self._folder.cleanup()

    def _written(self, feeds: Feeds) -> dict[str, Any]:
        path = Path(self._folder.name, "feeds.npz")
        if feeds is not self._fed:
            write_feeds(feeds, path)
            self._fed, self._number = feeds, self._number + 1
        return {"feeds": str(path), "number": self._number}

    def _tell(self, job: str, **request: Any) -> dict[str, Any]:
        answer = tell(self._version, job, {**request, "key": self._key})
        self._used_s = answer["processor_s"]
        return answer


class VersionBackend(Backend):
    """One version of onnxruntime, named by the target."""

    name = "onnxruntime"
    opened_by_onnxruntime = True

    def open(self, model: Model, target: Target) -> Session:
        """Open in the worker.

        Raises:
            OptimError[session-failed]: that version refuses the model.
            OptimError[bad-target-setting]: the target has no version.
            OptimError: not-installed-isolated, isolated-worker-failed.
        """
        version = target.provider_options.get(VERSION, "")
        if not version:
            raise OptimError.usage(
                "bad-target-setting",
                "target onnxruntime needs a version",
                "no version= was given",
                "optim bench MODEL --runtime onnxruntime==1.28.0",
            )
        try:
            return VersionSession(version, model, target)
        except OptimError as error:
            if error.reference != "isolated-job-failed":
                raise
            raise OptimError(
                "session-failed",
                f"onnxruntime {version} refuses {model.path.name}",
                error.cause,
                f"optim inspect {model.path.name} shows its opset; that version may be too old for it",
            ) from error

    def limits(self) -> BackendLimits:
        """Those of the installed version; what an older one does not take it refuses itself."""
        from optim.onnx import runtime_limits

        return runtime_limits()


def opening(model: Model, target: Target) -> dict[str, Any]:
    """What the worker needs to open a model."""
    settings = target.within_threads(model.session)
    return {
        "model": str(model.path),
        "options": dict(settings.session_options),
        "config": {**_QUIET, **settings.session_config},
        "disabled": list(settings.disabled_optimizers),
    }


def write_feeds(feeds: Feeds, path: Path) -> str:
    """Feeds as a file for the worker."""
    import numpy as np

    plain = {name: array.astype(np.str_) if array.dtype.kind == "O" else array for name, array in feeds.items()}
    np.savez(path, **plain)  # type: ignore[arg-type]
    return str(path)


def tell(version: str, job: str, request: dict[str, Any]) -> dict[str, Any]:
    """Have the worker of a version do something.

    Raises:
        OptimError: not-installed-isolated, isolated-worker-failed, isolated-job-failed.
    """
    from optim.isolation import run_isolated
    from optim_plugins.diagnose.runtimes.environment import environment_of

    found: dict[str, Any] = run_isolated(environment_of(version), job, request)
    return found
