"""Settings of the graph's optimization baked into the graph itself, where its consumer leaves it as it is then."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from optim._engine.runs.layouts import bake_job
from optim._engine.search.workbench import Workbench
from optim.jobs.process import WorkerFailed
from optim.layout import Laid, Result
from optim.layout.settings import SWITCHED_OFF
from optim.model import SessionConfig
from optim.onnx.files import describe_model, model_size_bytes

_LEVEL = "graph_optimization_level"
_LARGEST_BYTES = 1 << 30
"""The runtime writes weights into the graph, which protobuf bounds at 2 GiB, and opens it twice."""


@dataclass(frozen=True, slots=True)
class Baked:
    """A result whose graph has its settings.

    Attributes:
        result: the same, with that graph.
        left: its settings that are not in the graph.
        tied_to: runtime and processor.
    """

    result: Result
    left: SessionConfig
    tied_to: str


@contextmanager
def baked(bench: Workbench, result: Result, laid: Laid) -> Iterator[Baked | None]:
    """While it lasts, the result with the runtime's own graph; None where that is not possible, or changes nothing.

    Args:
        bench: prepared on the result.
        result: with its tuned settings.
        laid: how a layout wrote it.
    """
    left = _left(result.model.session)
    if (
        left == result.model.session
        or model_size_bytes(result.model) > _LARGEST_BYTES
        or not laid.graph.endswith(".onnx")
    ):
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="optim-bake-") as scratch:
        bench.say("baking the settings into the graph")
        request = bake_job.Request(result.model, bench.target, laid.session, Path(scratch))
        try:
            answer = bench.runner.call(bake_job.JOB, request, timeout_s=bench.settings.timeout_s)
        except WorkerFailed:
            yield None
            return
        if answer.graph is None:
            yield None
            return
        model = describe_model(answer.graph, session=left, digest=answer.graph.name)
        versions = " ".join(f"{name} {version}" for name, version in sorted(bench.prepared.versions.items()))
        from optim._engine.machine import this_machine

        yield Baked(replace(result, model=model), left, f"{versions} on {this_machine().cpu}")


def _left(session: SessionConfig) -> SessionConfig:
    """Settings without those that decide what graph the runtime makes."""
    options = {name: value for name, value in session.session_options.items() if name != _LEVEL}
    entries = {key: text for key, text in session.session_config.items() if key != SWITCHED_OFF}
    return replace(session, session_options=options, session_config=entries, disabled_optimizers=())
