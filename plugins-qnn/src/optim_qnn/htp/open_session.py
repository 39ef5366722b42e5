"""Open a model on HTP, or say which nodes HTP does not take."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from optim import ExitStatus, OptimError, SessionConfig, Target
from optim.errors import some_of

if TYPE_CHECKING:
    import onnxruntime

NO_FALLBACK = "fallback to CPU EP has been explicitly disabled"
"""What onnxruntime says where HTP does not take all nodes."""

_SHOWN = 4
_ERRORS = 3
"""Severity from which onnxruntime logs; its QNN provider tells of a library that does not load in the log alone."""


def open_on_qnn(
    path: Path, settings: SessionConfig, target: Target, *, extra_config: Mapping[str, str] | None = None
) -> onnxruntime.InferenceSession:
    """An ``onnxruntime.InferenceSession`` on HTP; on the CPU too where ``target`` admits that.

    Raises:
        OptimError[not-on-htp]: HTP does not take some nodes; they are named.
        OptimError[provider-missing]: HTP cannot be started, e.g. a library does not load.
        OptimError: provider-missing, cpu-fallback, session-failed.
    """
    from optim.onnx import open_session

    try:
        return open_session(path, settings, target, extra_config=extra_config)
    except OptimError as error:
        if NO_FALLBACK not in f"{error.cause} {error.__cause__}":
            raise
        raise _not_taken(path, settings, target) from error


def _not_taken(path: Path, settings: SessionConfig, target: Target) -> OptimError:
    """Which nodes go to the CPU where that is admitted, or why all of them do."""
    from optim.onnx import open_session
    from optim.providers import RECORD_ASSIGNMENT, assigned_nodes
    from optim_qnn.htp.ask_htp import native_stderr, not_set_up

    with native_stderr() as log:
        session = open_session(
            path,
            settings.updated(SessionConfig({"log_severity_level": _ERRORS})),
            replace(target, fallback=True),
            extra_config=RECORD_ASSIGNMENT,
        )
        failure = not_set_up(log.read_text(encoding="utf-8", errors="replace"))
    if failure:
        return OptimError(
            "provider-missing",
            "HTP cannot be started",
            failure,
            "pip install --force-reinstall onnxruntime-qnn, or name the right backend_path; optim targets",
            "optim-plugin-qnn",
            ExitStatus.TARGET_UNAVAILABLE,
        )
    assigned = assigned_nodes(session).items()
    nodes_left = [node for provider, nodes in assigned if provider != target.provider for node in nodes]
    computing = [node for node in nodes_left if node[1] not in ("QuantizeLinear", "DequantizeLinear")]
    left = [f"{operator} '{name}'" for name, operator in computing or nodes_left]
    nodes = "1 node" if len(left) == 1 else f"{len(left)} nodes"
    return OptimError(
        "not-on-htp",
        f"HTP does not run {nodes} of the model",
        some_of(left, _SHOWN),
        "optim qnn support MODEL shows why; --target qnn:fallback=cpu runs them on the CPU",
        "optim-plugin-qnn",
        ExitStatus.NOT_HELD,
    )
