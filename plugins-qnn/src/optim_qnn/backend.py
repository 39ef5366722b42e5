"""Models on HTP through onnxruntime-qnn, which onnxruntime loads as a provider from a package of its own.

The original is run in float32 on the CPU: HTP takes fixed shapes only, and computes float16 at best. What HTP made of
a session is read from the session itself, node by node.
"""

from __future__ import annotations

import importlib.metadata
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from optim import Model, Session, Target
from optim.onnxruntime_backend import OnnxRuntimeBackend, OnnxRuntimeSession
from optim_qnn.targets import PROVIDER

if TYPE_CHECKING:
    import onnxruntime

_CPU = "CPUExecutionProvider"
_RECORD = {"session.record_ep_graph_assignment_info": "1"}


class QnnSession(OnnxRuntimeSession):
    """A session on HTP that knows which node went where."""

    def __init__(self, session: onnxruntime.InferenceSession) -> None:
        super().__init__(session, PROVIDER)
        self._executed_on = shares(nodes_by_provider(session))

    @property
    def executed_on(self) -> Mapping[str, float]:
        """Share of nodes by provider, as onnxruntime assigned them."""
        return self._executed_on


class QnnBackend(OnnxRuntimeBackend):
    """HTP, real or simulated."""

    name = "qnn"

    def open(self, model: Model, target: Target) -> Session:
        """Open on HTP; a node that it does not take is an error that names it, unless a fallback was admitted."""
        from optim_qnn.open_session import open_on_qnn

        return QnnSession(open_on_qnn(model.path, model.session, target, extra_config=_RECORD))

    def open_reference(self, model: Model, target: Target) -> Session:
        """In float32 on the CPU, with onnxruntime's defaults."""
        return super().open(model, _on_cpu(target))

    def open_estimate(self, model: Model, target: Target) -> Session:
        """On the CPU, which computes quantized graphs about as HTP does, and much sooner than the simulator."""
        return super().open(model, _on_cpu(target))

    def versions(self) -> Mapping[str, str]:
        """onnxruntime, and the provider's package."""
        return {**super().versions(), "onnxruntime-qnn": importlib.metadata.version("onnxruntime-qnn")}


class OfflineBackend(OnnxRuntimeBackend):
    """The CPU, for preparing models where QNN is missing."""

    name = "qnn-offline"


def nodes_by_provider(session: onnxruntime.InferenceSession) -> Mapping[str, list[str]]:
    """Names of the nodes that each provider took, in a session opened with the assignment recorded."""
    found: dict[str, list[str]] = {}
    for part in session.get_provider_graph_assignment_info():
        found.setdefault(part.ep_name, []).extend(node.name for node in part.get_nodes())
    return found


def shares(nodes: Mapping[str, list[str]]) -> dict[str, float]:
    """Share of nodes by provider, 0..1."""
    counts = Counter({provider: len(names) for provider, names in nodes.items()})
    total = sum(counts.values())
    return {provider: count / total for provider, count in counts.items()} if total else {PROVIDER: 1.0}


def _on_cpu(target: Target) -> Target:
    return Target(target.name, target.backend, _CPU)
