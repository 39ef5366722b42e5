"""The providers that would run the nodes of a model on a target; nothing is computed."""

from __future__ import annotations

from pathlib import Path

from optim._engine.graphs.file_there import check_file
from optim._engine.jobs import assign
from optim._engine.jobs.runner import Runner
from optim._engine.plugins.registry import load_registry, require_target
from optim._engine.store import Store
from optim.errors import ExitStatus, OptimError
from optim.jobs.owner import ending_workers
from optim.jobs.process import WorkerFailed
from optim.onnx.backend import OnnxRuntimeBackend
from optim.providers.names import CPU
from optim.target import Target

_TIMEOUT_S = 900.0
"""Providers that compile a whole graph take minutes for a large one."""


def assignment_on(model: Path, target: str) -> tuple[Target, assign.Answer]:
    """The target, and which nodes of a model its provider takes.

    Raises:
        OptimError[not-assigned]: the target does not run on onnxruntime, or stands in for an absent device.
        OptimError[not-opened]: the process that opened the model ended.
        OptimError: the model is missing, or the provider cannot be used here.
    """
    check_file(model)
    registry = load_registry()
    found = require_target(registry, target)
    is_stand_in = found.provider == CPU and found.made_for != CPU
    if is_stand_in or not issubclass(registry.backend(found.backend), OnnxRuntimeBackend):
        raise OptimError.usage(
            "not-assigned",
            f"target {found.name} has no provider of onnxruntime that takes or leaves nodes",
            f"it runs models on {found.runs_on}",
            f"name a provider: optim inspect {model} --target ep:OpenVINOExecutionProvider",
        )
    try:
        with ending_workers():
            request = assign.Request(model.absolute(), found.plain)
            return found, Runner(Store(), lambda _text: None).call(assign.JOB, request, timeout_s=_TIMEOUT_S)
    except WorkerFailed as failed:
        if failed.error is not None:
            raise failed.error from failed
        raise OptimError(
            "not-opened",
            f"{model.name} could not be opened on target {found.name}",
            failed.reason,
            "optim inspect MODEL --target cpu shows whether the model itself opens",
            status=ExitStatus.TARGET_UNAVAILABLE,
        ) from failed
