"""Settings of a session under the names that onnxruntime-web has for them."""

from __future__ import annotations

from typing import Any

from optim import OptimError, SessionConfig

_LEVELS = {
    "ORT_DISABLE_ALL": "disabled",
    "ORT_ENABLE_BASIC": "basic",
    "ORT_ENABLE_EXTENDED": "extended",
    "ORT_ENABLE_LAYOUT": "layout",
    "ORT_ENABLE_ALL": "all",
}
_PLAIN = {"enable_cpu_mem_arena": "enableCpuMemArena", "enable_mem_pattern": "enableMemPattern"}
_NATIVE_ONLY = ("intra_op_num_threads", "inter_op_num_threads")
"""The page sets threads itself: a browser gives them to isolated pages only."""


def web_options(session: SessionConfig) -> dict[str, Any]:
    """Session settings under the names that onnxruntime-web has for them.

    Raises:
        OptimError[bad-session-setting]: it has none.
    """
    options: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    for name, value in session.session_options.items():
        if name == "graph_optimization_level" and value in _LEVELS:
            options["graphOptimizationLevel"] = _LEVELS[str(value)]
        elif name in _PLAIN:
            options[_PLAIN[name]] = value
        elif name not in _NATIVE_ONLY:
            raise OptimError.usage(
                "bad-session-setting",
                "onnxruntime-web does not have a session setting",
                f"{name} = {value!r}",
                "names are those of onnxruntime.SessionOptions",
            )
    for key, text in session.session_config.items():
        _put(extra, key, text)
    if session.disabled_optimizers:
        _put(extra, "optimization.disable_specified_optimizers", ";".join(session.disabled_optimizers))
    return {**options, "extra": extra} if extra else options


def _put(extra: dict[str, Any], key: str, text: str) -> None:
    """``a.b.c`` as objects inside each other, as onnxruntime-web reads config entries."""
    *path, last = key.split(".")
    for part in path:
        extra = extra.setdefault(part, {})
    extra[last] = text
