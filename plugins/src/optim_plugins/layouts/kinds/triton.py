"""The layout ``triton``: a model repository with ``config.pbtxt``, for Triton's backend of ONNX Runtime.

    DIR/NAME/config.pbtxt       inputs, outputs, batching, instances, session parameters
    DIR/NAME/1/model.onnx       the result, with model.onnx.data where it has large weights

    tritonserver --model-repository=DIR

A graph whose first dimension is the batch everywhere is batched by the server. Its parameters are those that the
backend's README lists: threads, mode of execution, arena and pattern of memory, and three levels of optimization.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from optim import OptimError
from optim.layout import Laid, Layout, Result, place_graph, require_provider

if TYPE_CHECKING:
    from optim import SessionConfig, TensorInfo
    from optim_plugins.layouts.options import TritonOptions

PROVIDERS = ("CPUExecutionProvider", "CUDAExecutionProvider")
_TYPES = {
    "bool": "BOOL",
    "str": "STRING",
    "float16": "FP16",
    "float32": "FP32",
    "float64": "FP64",
    "bfloat16": "BF16",
    **{f"{sign}int{bits}": f"{sign.upper()}INT{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}
_LEVELS = {"ORT_ENABLE_BASIC": -1, "ORT_ENABLE_EXTENDED": 1, "ORT_DISABLE_ALL": 2}
_PARAMETERS = {
    "intra_op_num_threads": "intra_op_thread_count",
    "inter_op_num_threads": "inter_op_thread_count",
    "execution_mode": "execution_mode",
    "enable_cpu_mem_arena": "enable_mem_arena",
    "enable_mem_pattern": "enable_mem_pattern",
}
_MODES = {"ORT_SEQUENTIAL": 0, "ORT_PARALLEL": 1}
_ENTRIES = ("session.use_device_allocator_for_initializers",)
"""Config entries that the backend hands on."""


class Triton(Layout):
    """A model repository of NVIDIA's Triton inference server."""

    name = "triton"
    summary = "a model repository with config.pbtxt, for the Triton inference server"
    consumer = "pip install 'tritonclient[grpc]' onnxruntime"
    opener = Path(__file__).parents[1] / "openers" / "triton.py"
    options: ClassVar[str] = "optim_plugins.layouts.options:TritonOptions"

    def write(self, result: Result, folder: Path, options: TritonOptions) -> Laid:
        """The graph as version 1, and its configuration."""
        require_provider(result, layout=self.name, providers=PROVIDERS)
        batched = _is_batched(result)
        place_graph(result, folder / options.name / "1" / "model.onnx")
        lines = [f'name: "{options.name}"', 'backend: "onnxruntime"', 'default_model_filename: "model.onnx"']
        lines += [f"max_batch_size: {options.batch if batched else 0}"]
        for kind, values in (("input", result.model.inputs), ("output", result.model.outputs)):
            lines += [f"{kind} [ {', '.join(_tensor(one, batched=batched) for one in values)} ]"]
        if batched and options.batch > 1:
            lines += [f"dynamic_batching {{ max_queue_delay_microseconds: {options.delay_us} }}"]
        where = "KIND_CPU" if result.target.provider == "CPUExecutionProvider" else "KIND_GPU"
        lines += [f"instance_group [ {{ count: {options.instances} kind: {where} }} ]"]
        session, written = _session(result.model.session)
        lines += written
        (folder / options.name / "config.pbtxt").write_text("\n".join(lines) + "\n", encoding="utf-8")
        graph = f"{options.name}/1/model.onnx"
        return Laid(graph, session, {"model": options.name}, tuple(_notes(batched, options)))


def _notes(batched: bool, options: TritonOptions) -> Iterator[str]:
    yield "no Triton server has opened it; Triton's protobuf reads the configuration, and ONNX Runtime runs the model"
    if batched and options.batch > 1:
        yield "requests are batched: --batch-invariant of optim run says how far that moves an answer"
    if not batched:
        yield "the graph has no batch in front of every input and output: requests are run one by one"


def _is_batched(result: Result) -> bool:
    """Whether every input and output begins with one and the same free dimension."""
    firsts = {info.shape[0] if info.shape else 0 for info in (*result.model.inputs, *result.model.outputs)}
    return len(firsts) == 1 and isinstance(next(iter(firsts)), str)


def _tensor(info: TensorInfo, *, batched: bool) -> str:
    if info.dtype not in _TYPES:
        raise OptimError.usage(
            "layout-unknown-type",
            "Triton has no type for a value of the graph",
            f"'{info.name}' is {info.dtype}",
            "take another layout",
        )
    shape = info.shape or ()
    sizes = [size if isinstance(size, int) else -1 for size in (shape[1:] if batched else shape)]
    reshape = "" if sizes else " reshape { shape: [ ] }"  # Triton has no values without dimensions
    dims = ", ".join(map(str, sizes or [1]))
    return f"{{ name: {json.dumps(info.name)} data_type: TYPE_{_TYPES[info.dtype]} dims: [ {dims} ]{reshape} }}"


def _session(tuned: SessionConfig) -> tuple[SessionConfig, list[str]]:
    """What of a session's settings the backend takes, and the lines that say it."""
    carried: dict[str, Any] = {}
    parameters: dict[str, str] = {}
    for name, key in _PARAMETERS.items():
        if name in tuned.session_options:
            value = carried[name] = tuned.session_options[name]
            parameters[key] = str(int(_MODES[value] if isinstance(value, str) else value))
    level, lines = tuned.session_options.get("graph_optimization_level"), []
    if level in _LEVELS:
        carried["graph_optimization_level"] = level
        lines.append(f"optimization {{ graph {{ level: {_LEVELS[str(level)]} }} }}")
    elif level == "ORT_ENABLE_ALL":
        carried["graph_optimization_level"] = level  # its default
    entries: Mapping[str, str] = {key: tuned.session_config[key] for key in _ENTRIES if key in tuned.session_config}
    for key, text in (*parameters.items(), *entries.items()):
        lines.append(f'parameters {{ key: "{key}" value: {{ string_value: {json.dumps(text)} }} }}')
    return type(tuned)(carried, entries), lines
