"""The jobs of one run: each in a subprocess of its own, counted, and its end put into words."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from optim.errors import OptimError
from optim.jobs.process import WorkerFailed, run_job
from optim.jobs.wire import to_wire

Say = Callable[[str], None]

_WAY_OUT_OF_SAMPLE = "mend that sample, or leave it out of --data; --debug shows the whole trace"


class Jobs:
    """Runs jobs and counts them.

    Attributes:
        count: jobs that were run.
        peak_memory_bytes: the most that one of them held.
    """

    def __init__(self, say: Say) -> None:
        self.count = 0
        self.peak_memory_bytes = 0
        self._say = say

    def run(
        self,
        job: ModuleType,
        request: object,
        timeout_s: float,
        on_event: Callable[[dict[str, Any]], None] | None = None,
    ) -> Any:
        """The JSON values of a job's answer.

        Raises:
            WorkerFailed: it did not come back.
        """
        self.count += 1
        data, peak = run_job(job.__name__, to_wire(request), timeout_s, on_event)
        self.peak_memory_bytes = max(self.peak_memory_bytes, peak)
        return data

    def need(self, job: ModuleType, request: object, timeout_s: float, reference: str, doing: str) -> Any:
        """As :meth:`run`, for a job that the whole run depends on; what it says is said on.

        Args:
            job: module of the job.
            request: its ``Request``.
            timeout_s: seconds it may take.
            reference: of the error, e.g. ``ingest-failed``.
            doing: what the job does, for the error, e.g. ``ingest model.onnx``.

        Raises:
            OptimError: the job's own, or ``reference`` where it did not come back.
        """
        try:
            return self.run(job, request, timeout_s, lambda event: self._say(event.get("text", doing)))
        except WorkerFailed as failed:
            if failed.error:
                raise failed.error from failed
            raise OptimError(
                reference,
                f"could not {doing}",
                failed.reason,
                _WAY_OUT_OF_SAMPLE if failed.doing else "run it with --debug for the whole trace",
            ) from failed
