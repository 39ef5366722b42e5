"""Settings of the graph's optimization baked into the graph itself, where its consumer leaves it as it is then."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from optim import Lab
from optim.engine.layouts import this_machine
from optim.jobs import WorkerFailed
from optim.layout import Laid, Result
from optim.model import SessionConfig
from optim.onnx import describe_model, model_size_bytes
from optim_plugins.layouts.carried_settings import SWITCHED_OFF
from optim_plugins.layouts.deliver import bake_job

_LEVEL = "graph_optimization_level"
_LARGEST_BYTES = 1 << 30
"""The runtime writes weights into the graph, which protobuf bounds at 2 GiB, and opens it twice."""

_MOST_S = 900.0
"""As long as a candidate of a run may take."""


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
def baked(lab: Lab, result: Result, laid: Laid) -> Iterator[Baked | None]:
    """While it lasts, the result with the runtime's own graph; None where that is not possible, or changes nothing.

    Args:
        lab: of the result.
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
        lab.say("baking the settings into the graph")
        request = bake_job.Request(result.model, lab.setup.target, laid.session, Path(scratch))
        try:
            answer = lab.call(bake_job.__name__, request, bake_job.Answer, timeout_s=_MOST_S)
        except WorkerFailed:
            yield None
            return
        if answer.graph is None:
            yield None
            return
        model = describe_model(answer.graph, session=left, digest=answer.graph.name)
        yield Baked(replace(result, model=model), left, f"{answer.runtime} on {this_machine().cpu}")


def _left(session: SessionConfig) -> SessionConfig:
    """Settings without those that decide what graph the runtime makes."""
    options = {name: value for name, value in session.session_options.items() if name != _LEVEL}
    entries = {key: text for key, text in session.session_config.items() if key != SWITCHED_OFF}
    return replace(session, session_options=options, session_config=entries, disabled_optimizers=())
