"""The layout ``triton``: a model repository with ``config.pbtxt``, for Triton's backend of ONNX Runtime.

    DIR/NAME/config.pbtxt       inputs, outputs, batching, instances, session parameters
    DIR/NAME/1/model.onnx       the result, with model.onnx.data where it has large weights

    tritonserver --model-repository=DIR

The server batches a graph whose inputs and outputs all begin with the batch. The parameters are those that the
backend's README lists: threads, mode of execution, arena and pattern of memory, and three levels of optimization.

A server 2.51 with this backend, on the CPU, accepted and answered what is written here. It compares the sizes of the
configuration with those of ONNX Runtime, and takes no value without dimensions unless it batches.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
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
        for kind, values in (("input", result.model.inputs), ("output", _inferred_outputs(result))):
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
    yield "optim starts no Triton server"
    if batched and options.batch > 1:
        yield "the server batches requests; --max-batch-drift of optim run limits how far that moves an answer"
    if not batched:
        yield "the server runs requests one by one: not every input and output begins with the batch"


def _is_batched(result: Result) -> bool:
    """Whether every input and output begins with one and the same free dimension."""
    firsts = {info.shape[0] if info.shape else 0 for info in (*result.model.inputs, *result.model.outputs)}
    return len(firsts) == 1 and isinstance(next(iter(firsts)), str)


def _inferred_outputs(result: Result) -> tuple[TensorInfo, ...]:
    """The outputs with the sizes that ONNX Runtime infers: the server refuses a free size where the runtime has one."""
    if all(isinstance(size, int) for info in result.model.outputs for size in (info.shape or ())[1:]):
        return result.model.outputs
    from optim.onnx import open_session

    opened = open_session(result.model.path, result.model.session, result.target).get_outputs()
    shapes = {one.name: tuple(one.shape) for one in opened}
    return tuple(replace(info, shape=shapes[info.name]) for info in result.model.outputs)


def _tensor(info: TensorInfo, *, batched: bool) -> str:
    """An input or output of the configuration.

    Raises:
        OptimError[layout-unknown-type]: the server has no such type, or takes no such value.
    """
    odd = f"is {info.dtype}" if info.dtype not in _TYPES else "" if info.shape or batched else "has no dimensions"
    if odd:
        raise OptimError.usage(
            "layout-unknown-type",
            "Triton does not serve a value of the graph",
            f"'{info.name}' {odd}",
            "take another layout; optim layouts lists them",
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
