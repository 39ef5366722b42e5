"""Opens the layout ``triton``: Triton's protobuf reads its configuration, and ONNX Runtime runs the model as it says.

A server is no Python package, so this file repeats the server's checks: every field exists, names and sizes are those
of ONNX Runtime, and each sample fits. Then the graph runs with the parameters of the configuration.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from pathlib import Path
from typing import Any

_LEVELS = {-1: "ORT_ENABLE_BASIC", 1: "ORT_ENABLE_EXTENDED", 2: "ORT_DISABLE_ALL"}
_FLAGS = {"enable_mem_arena": "enable_cpu_mem_arena", "enable_mem_pattern": "enable_mem_pattern"}
_THREADS = {"intra_op_thread_count": "intra_op_num_threads", "inter_op_thread_count": "inter_op_num_threads"}


def missing() -> str:
    """What is not installed."""
    for module in ("tritonclient", "grpc", "google.protobuf", "onnxruntime"):
        if importlib.util.find_spec(module) is None:
            return f"{module} is not installed"
    return ""


def open_and_run(folder: Path, samples: list[dict[str, Any]], told: dict[str, Any]) -> tuple[str, list[dict[str, Any]]]:
    """Run every sample as the configuration says."""
    from google.protobuf import text_format
    from tritonclient.grpc import model_config_pb2

    text = (folder / told["model"] / "config.pbtxt").read_text(encoding="utf-8")
    config = text_format.Parse(text, model_config_pb2.ModelConfig())
    session = _session(folder / told["model"], config)
    _require_same("input", config.input, session.get_inputs(), config)
    _require_same("output", config.output, session.get_outputs(), config)
    names = [one.name for one in config.output]
    outputs = [dict(zip(names, session.run(names, _fitting(sample, config)), strict=True)) for sample in samples]
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("tritonclient", "onnxruntime"))
    return f"Triton's protobuf and ONNX Runtime ({versions})", outputs


def _session(model: Path, config: Any) -> Any:
    import onnxruntime as ort

    if config.backend != "onnxruntime" or config.name != model.name:
        raise ValueError(f"the configuration is of {config.name}, for backend {config.backend}")
    options = ort.SessionOptions()
    values = {key: parameter.string_value for key, parameter in config.parameters.items()}
    for key, text in values.items():
        if key in _THREADS:
            setattr(options, _THREADS[key], int(text))
        elif key in _FLAGS:
            setattr(options, _FLAGS[key], text == "1")
        elif key == "execution_mode":
            options.execution_mode = ort.ExecutionMode(int(text))
        else:
            options.add_session_config_entry(key, text)
    if config.optimization.graph.level in _LEVELS:
        options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, _LEVELS[config.optimization.graph.level])
    gpu = any(group.kind == group.KIND_GPU for group in config.instance_group)
    providers = ["CUDAExecutionProvider"] if gpu else ["CPUExecutionProvider"]
    path = model / "1" / config.default_model_filename
    return ort.InferenceSession(path, options, providers=providers, enable_fallback=False)


def _require_same(kind: str, told: Any, there: Any, config: Any) -> None:
    """The configuration has the sizes of ONNX Runtime, as the backend compares them.

    A size that is free in the runtime may be anything. The batch is free in both.
    """
    shapes = {one.name: [size if isinstance(size, int) else -1 for size in one.shape] for one in there}
    said = {}
    for one in told:
        sizes = list(one.reshape.shape) if one.HasField("reshape") else list(one.dims)
        said[one.name] = [-1, *sizes] if config.max_batch_size else sizes
    batched = config.max_batch_size > 0
    if said.keys() != shapes.keys() or not all(_fits(said[name], shapes[name], batched=batched) for name in said):
        raise ValueError(f"{kind}s of the configuration are {said}, of the graph {shapes}")


def _fits(told: list[int], there: list[int], *, batched: bool) -> bool:
    if len(told) != len(there) or (batched and there[0] != -1):
        return False
    return all(size in (-1, mine) for mine, size in zip(told, there, strict=True))


def _fitting(sample: dict[str, Any], config: Any) -> dict[str, Any]:
    if config.max_batch_size and any(len(array) > config.max_batch_size for array in sample.values()):
        raise ValueError(f"a sample is larger than the batch of {config.max_batch_size} that the server accepts")
    return sample
