"""The verdict of ``optim.verify`` on a pair, with what it says."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
import pytest
from jobs_here import _Channel, _Here, done_here

import optim
from gate.case import Case, Verdict
from optim._engine.jobs.job import Job
from optim.errors import OptimError


class _NoRounds(_Channel):
    """Tells a lane to end once it has compared."""

    def receive(self) -> dict[str, Any]:
        return {}


class _LaneHere(_Here):
    """A lane in this process: hundreds of pairs would otherwise start a process each."""

    def receive(self, timeout_s: float) -> dict[str, Any]:
        if self._said is None:
            said: list[dict[str, Any]] = []
            self.channel = _NoRounds(said.append)
            self.result(timeout_s)
            self._said = said
        return self._said.pop(0)

    def close(self) -> None:
        pass


@contextmanager
def all_done_here() -> Iterator[None]:
    """Every job, lanes too, runs in this process."""
    with done_here(), pytest.MonkeyPatch.context() as patch:
        start = Job.start

        def start_here(job: Job[Any, Any], request: object, **how: Any) -> Any:
            return _LaneHere(job, request) if job.module.endswith(".lane") else start(job, request, **how)

        patch.setattr(Job, "start", start_here)
        yield


@dataclass(frozen=True, slots=True)
class Found:
    """What verify says of a pair.

    Attributes:
        verdict: in one of our words.
        text: in its own words.
    """

    verdict: Verdict
    text: str


def judged(case: Case, folder: Path) -> Found:
    """Verify a pair with the default budget of a run; the models are written into ``folder``."""
    paths = []
    for name, model in (("reference", case.reference), ("other", case.other)):
        path = folder / f"{name}.onnx"
        onnx.save(model, path)
        paths.append(path)
    try:
        with all_done_here():
            found = optim.verify(*paths, data=case.samples, seed=0)
    except OptimError as error:
        return Found(Verdict.ERROR, f"error[{error.reference}]: {error.what}: {error.cause}")
    return Found(_verdict(found), found.verdict)


def _verdict(found: optim.Verification) -> Verdict:
    """``lossless`` is read beside ``within``: either of them is a promise to the user."""
    if found.verdict.startswith(Verdict.NOT_JUDGED):
        return Verdict.NOT_JUDGED
    if found.lossless:
        return Verdict.EQUAL
    return Verdict.WITHIN if found.within else Verdict.REFUSED
