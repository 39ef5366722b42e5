"""The providers that would run the nodes of a model on a target.

The runtime tells it when it opens the model, in a process of its own; nothing is computed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from optim.engine.inspect import check_file, computing_nodes, load_registry, node_work, read_skeleton, require_target
from optim.errors import ExitStatus, OptimError
from optim.jobs import Channel, WorkerFailed, from_wire, run_job, to_wire
from optim.model import SessionConfig
from optim.onnx import OnnxRuntimeBackend, open_session, operator_libraries
from optim.providers import CPU, RECORD_ASSIGNMENT, assigned_nodes
from optim.target import Target

_TIMEOUT_S = 900.0
"""Providers that compile a whole graph take minutes for a large one."""

_AS_WRITTEN = SessionConfig({"graph_optimization_level": "ORT_DISABLE_ALL"})
"""No node is fused before the runtime gives nodes out: they have the names of the model."""


@dataclass(frozen=True, slots=True)
class Request:
    """A model file, and the target whose provider is asked."""

    path: Path
    target: Target


@dataclass(frozen=True, slots=True)
class ProviderPart:
    """The nodes that one provider takes.

    Attributes:
        provider: its name.
        nodes: number of nodes.
        work: about which share of the model's multiplications with weights they do, 0..1; None if the model has none.
    """

    provider: str
    nodes: int
    work: float | None


@dataclass(frozen=True, slots=True)
class Answer:
    """The providers that would run the nodes of a model.

    Attributes:
        parts: by provider, the target's own first.
        left: name and operator of nodes left to the CPU that compute floats.
        shapes: nodes left to the CPU that compute shapes and integers alone.
        unknown_work: share of the multiplications of which nobody knows where, because their nodes have no name.
    """

    parts: tuple[ProviderPart, ...]
    left: tuple[tuple[str, str], ...]
    shapes: int
    unknown_work: float


def assignment_on(model: Path, target: str) -> tuple[Target, Answer]:
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
        answer, _ = run_job(__name__, to_wire(Request(model.absolute(), found.plain)), _TIMEOUT_S)
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
    return found, from_wire(Answer, answer)


def run(request: Request, channel: Channel) -> Answer:
    """Open the model with the CPU beside the provider, and read the runtime's record.

    Raises:
        OptimError: this runtime does not have the provider, its library does not load, or the model does not open.
    """
    model = read_skeleton(request.path)
    target = replace(request.target, fallback=True)
    libraries = operator_libraries(one.domain for one in model.opset_import)
    session = open_session(request.path, _AS_WRITTEN, target, extra_config=RECORD_ASSIGNMENT, libraries=libraries)
    taken: dict[str, list[tuple[str, str]]] = {target.provider: [], **assigned_nodes(session)}
    work = node_work(model)
    total, known = sum(work.values()), 0.0
    parts = []
    for provider, nodes in taken.items():
        own = sum(work.get(name, 0.0) for name, _ in nodes if name)
        known += own
        parts.append(ProviderPart(provider, len(nodes), own / total if total else None))
    on_cpu = taken[CPU] if target.provider != CPU and CPU in taken else []
    left = computing_nodes(on_cpu, model)
    unknown = 1.0 - known / total if total else 0.0
    return Answer(tuple(parts), tuple(left), len(on_cpu) - len(left), max(0.0, unknown))
