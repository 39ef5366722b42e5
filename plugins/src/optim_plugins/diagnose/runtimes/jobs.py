"""What runs beside another version of onnxruntime: no optim here, and nothing but files and JSON values pass."""

import json
import statistics
import tempfile
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort

_SESSIONS: dict[str, ort.InferenceSession] = {}
_ENUMS = {"graph_optimization_level": ort.GraphOptimizationLevel, "execution_mode": ort.ExecutionMode}
_FED: dict[str, tuple[int, dict[str, Any]]] = {}
_WARM_UP = 3
_MOST_RUNS = 200
"""With the profiler on: it writes a line for each node of each run."""
_LONG_S = 0.01
"""A run that takes longer is not repeated to warm up: what a job leaves in the caches costs microseconds."""


def open_model(request: dict[str, Any], host: Any) -> dict[str, Any]:
    """Open a model under a key, with its session settings."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    for name, value in request["options"].items():
        setattr(options, name, getattr(_ENUMS[name], value) if name in _ENUMS and isinstance(value, str) else value)
    for name, text in request["config"].items():
        options.add_session_config_entry(name, text)
    _SESSIONS[request["key"]] = ort.InferenceSession(
        request["model"], options, providers=["CPUExecutionProvider"], disabled_optimizers=request["disabled"] or None
    )
    return _spent({})


def run_model(request: dict[str, Any], host: Any) -> dict[str, Any]:
    """One run: feeds from a file, outputs into another."""
    session = _SESSIONS[request["key"]]
    names = [output.name for output in session.get_outputs()]
    found = dict(zip(names, session.run(names, _feeds(session, request)), strict=True))
    np.savez(request["outputs"], **{name: _plain(array) for name, array in found.items()})
    return _spent({})


def time_model(request: dict[str, Any], host: Any) -> dict[str, Any]:
    """Seconds of each of some runs."""
    session = _SESSIONS[request["key"]]
    feeds = _feeds(session, request)
    if request["last_s"] < _LONG_S:
        session.run(None, feeds)
    return _spent({"times": [_seconds(session, feeds) for _ in range(request["count"])]})


def close_model(request: dict[str, Any], host: Any) -> dict[str, Any]:
    """Let a session go."""
    _SESSIONS.pop(request["key"], None)
    _FED.pop(request["key"], None)
    return _spent({})


def profile_model(request: dict[str, Any], host: Any) -> dict[str, Any]:
    """Milliseconds and nodes of each operator in a run, as the runtime's own profiler has them."""
    with tempfile.TemporaryDirectory() as folder:
        options = {**request["options"], "enable_profiling": True, "profile_file_prefix": f"{folder}/profile"}
        open_model({**request, "options": options}, host)
        session = _SESSIONS.pop(request["key"])
        feeds, began, runs = _feeds(session, request), time.perf_counter(), 0
        while runs < _WARM_UP + 5 or (runs < _MOST_RUNS and time.perf_counter() - began < request["seconds"]):
            session.run(None, feeds)
            runs += 1
        events = json.loads(Path(session.end_profiling()).read_text())
    times: dict[tuple[str, str], list[float]] = defaultdict(list)
    for event in events:
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            times[event["args"]["op_name"], event["name"]].append(event["dur"] / 1e3)
    operators: dict[str, list[float]] = defaultdict(list)
    for (operator, _), spent in times.items():
        calls = len(spent) / runs
        operators[operator].append(calls * statistics.median(spent[_WARM_UP:]))
    return {name: {"ms": sum(spent), "nodes": len(spent)} for name, spent in operators.items()}


def _seconds(session: ort.InferenceSession, feeds: dict[str, Any]) -> float:
    started = time.perf_counter()
    session.run(None, feeds)
    return time.perf_counter() - started


def _feeds(session: ort.InferenceSession, request: dict[str, Any]) -> dict[str, Any]:
    """What the file has that the model takes; read once for each number that the host counts its feeds by."""
    number, found = _FED.get(request["key"], (-1, {}))
    if number != request["number"]:
        known = {value.name for value in (*session.get_inputs(), *session.get_overridable_initializers())}
        with np.load(request["feeds"], allow_pickle=False) as arrays:
            found = {name: arrays[name] for name in arrays.files if name in known}
        _FED[request["key"]] = request["number"], found
    return found


def _plain(array: Any) -> Any:
    return array.astype(np.str_) if array.dtype.kind == "O" else array


def _spent(answer: dict[str, Any]) -> dict[str, Any]:
    """An answer, with the processor seconds that the worker has used so far."""
    return {**answer, "processor_s": time.process_time()}
