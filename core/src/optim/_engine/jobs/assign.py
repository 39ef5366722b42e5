"""Job: which nodes of a model a provider takes. The runtime says it when it opens the model; nothing is computed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from optim._engine.jobs.job import Job
from optim.jobs.channel import Channel
from optim.model import SessionConfig
from optim.onnx.libraries import operator_libraries
from optim.onnx.operators import node_work
from optim.onnx.sessions import open_session
from optim.onnx.skeleton import read_skeleton
from optim.providers.assignment import RECORD_ASSIGNMENT, assigned_nodes, computing_nodes
from optim.providers.names import CPU
from optim.target import Target

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


JOB = Job(__name__, Request, Answer)


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
