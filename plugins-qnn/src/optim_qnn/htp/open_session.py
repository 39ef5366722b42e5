"""Open a model on HTP, or say which nodes HTP does not take."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from optim.errors import ExitStatus, OptimError
from optim.model import SessionConfig
from optim.target import Target

if TYPE_CHECKING:
    import onnxruntime

_REFUSED = "fallback to CPU EP has been explicitly disabled"
_SHOWN = 4
_NOTHING = "; it takes nothing at all, as where a library of onnxruntime-qnn does not load"


def open_on_qnn(
    path: Path, settings: SessionConfig, target: Target, *, extra_config: Mapping[str, str] | None = None
) -> onnxruntime.InferenceSession:
    """An ``onnxruntime.InferenceSession`` on HTP; on the CPU too where ``target`` admits that.

    Raises:
        OptimError[not-on-htp]: HTP does not take some nodes; they are named.
        OptimError: provider-missing, cpu-fallback, session-failed.
    """
    from optim.onnx.sessions import open_session

    try:
        return open_session(
            path,
            settings,
            target.provider,
            target.provider_options,
            library=target.library,
            extra_config=extra_config,
            fallback=target.fallback,
        )
    except OptimError as error:
        if _REFUSED not in f"{error.cause} {error.__cause__}":
            raise
        raise _not_taken(path, settings, target) from error


def _not_taken(path: Path, settings: SessionConfig, target: Target) -> OptimError:
    """Which nodes go to the CPU where that is admitted."""
    from optim.onnx.sessions import open_session

    session = open_session(
        path,
        settings,
        target.provider,
        target.provider_options,
        library=target.library,
        extra_config={"session.record_ep_graph_assignment_info": "1"},
        fallback=True,
    )
    parts = session.get_provider_graph_assignment_info()
    nodes_left = [node for part in parts if part.ep_name != target.provider for node in part.get_nodes()]
    nothing = "" if any(part.ep_name == target.provider for part in parts) else _NOTHING
    computing = [node for node in nodes_left if node.op_type not in ("QuantizeLinear", "DequantizeLinear")]
    left = [f"{node.op_type} '{node.name}'" for node in computing or nodes_left]
    more = f" and {len(left) - _SHOWN} more" if len(left) > _SHOWN else ""
    nodes = "1 node" if len(left) == 1 else f"{len(left)} nodes"
    return OptimError(
        "not-on-htp",
        f"HTP does not take {nodes} of the model",
        ", ".join(left[:_SHOWN]) + more + nothing,
        "optim qnn support MODEL says why, and what can be done; --target qnn:fallback=cpu runs them on the CPU",
        "optim-plugin-qnn",
        ExitStatus.NOT_HELD,
    )
