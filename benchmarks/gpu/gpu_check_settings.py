"""Checks of ``gpu_checks.py`` that need no model of the benchmark: options, memory, CUDA graphs; and a whole run."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from gpu import ENCODER
from gpu_check_rows import COMPUTES, Row
from onnx import TensorProto, helper, numpy_helper

PROVIDERS = {"cuda": "CUDAExecutionProvider", "tensorrt": "TensorrtExecutionProvider"}
NOT_TOLD = ("enable_skip_layer_norm_strict_mode",)
"""Options that onnxruntime 1.31 reads and does not tell."""

CHOICES: Mapping[str, tuple[str, ...]] = {
    "conv_search": ("exhaustive", "heuristic", "default"),
    "arena": ("next-power-of-two", "same-as-requested"),
    "precision": ("float16", "bfloat16"),
}
NUMBERS = {"builder_level": 4, "workspace_mb": 64, "auxiliary_streams": 0}
FIXED = (4, 16)


def option_rows(target_name: str) -> Iterator[Row]:
    """Every option that a pass can set, alone: read by the provider, and told back."""
    for words in (*_choices(target_name), _caches(target_name)):
        if not words:
            continue
        text = ", ".join(f"{key}={value}" for key, value in words.items() if not key.endswith("_path"))
        try:
            told = _opened(_product(), target_name, words).get_provider_options()[PROVIDERS[target_name]]
        except Exception as error:
            said = f"{error.__class__.__name__}: {getattr(error, 'cause', '') or error}"
            # a graph of one node that TensorRT does not take cannot be captured: the option was read
            yield Row(text, "graph capture" in said and not COMPUTES, " ".join(said.split())[:300])
            continue
        other = {
            key: told.get(key) for key, value in words.items() if key not in NOT_TOLD and not _same(told, key, value)
        }
        yield Row(text, not other, f"told otherwise: {other}" if other else "read")


def memory_rows(target_name: str) -> Iterator[Row]:
    """A run that takes more than any GPU has: one clear error, and the session goes on."""
    from optim import OptimError

    nodes = [helper.make_node("Expand", ["x", "sizes"], ["wide"]), helper.make_node("Relu", ["wide"], ["y"])]
    inputs = [_info("x", TensorProto.FLOAT, [1]), _info("sizes", TensorProto.INT64, [2])]
    session = _bound(helper.make_graph(nodes, "g", inputs, [_info("y", TensorProto.FLOAT, ["a", "b"])]), target_name)
    one = np.ones(1, np.float32)
    try:
        session.run({"x": one, "sizes": np.array([1 << 20, 1 << 18])})  # 1 TiB
        yield Row("a TiB", False, "it ran")
    except OptimError as error:
        yield Row("a TiB", error.reference == "device-memory", f"{error.reference}: {error.cause}"[:300])
    outputs = session.run({"x": one, "sizes": np.array([2, 3])})
    yield Row("a run after it", outputs["y"].shape == (2, 3), f"executed on {dict(session.executed_on)}")


def graph_rows(target_name: str) -> Iterator[Row]:
    """A CUDA graph: captured, and right for a second input, in buffers that stay."""
    key = {"cuda": ("enable_cuda_graph", "1"), "tensorrt": ("trt_cuda_graph_enable", "True")}[target_name]
    weight = np.random.default_rng(0).standard_normal((FIXED[1], 8)).astype(np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Tanh", ["h"], ["y"])]
    graph = helper.make_graph(
        nodes,
        "g",
        [_info("x", TensorProto.FLOAT, FIXED)],
        [_info("y", TensorProto.FLOAT, (FIXED[0], 8))],
        [numpy_helper.from_array(weight, "w")],
    )
    session = _bound(graph, target_name, dict([key]))
    for number in range(4):  # some runs before it is captured
        x = np.random.default_rng(number).standard_normal(FIXED).astype(np.float32)
        got = session.run({"x": x})["y"]
        distance = float(np.abs(got - np.tanh(x @ weight)).max())
        yield Row(f"run {number}", distance < 0.01 or not COMPUTES, f"furthest from numpy {distance:.2g}")
    ms = 1e3 * min(session.time_runs({"x": x}, 20))
    yield Row("replayed", True, f"{ms:.4f} ms" if COMPUTES else "in a loop")


def run_rows(target_name: str, work: Path) -> Iterator[Row]:
    """``optim run`` on MiniLM, its load.py, ``optim bench`` and ``optim profile``."""
    model, data = work / f"{ENCODER}-dynamo.onnx", work / f"{ENCODER}.feeds.npz"
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch) / "out"
        words = ["run", str(model), "--target", target_name, "--data", str(data), "--max-drift", "0.02"]
        words += ["--search-seconds", "20", "-o", str(out)]
        yield _command("optim run", words)
        if not (out / "report.json").is_file():
            return
        report = json.loads((out / "report.json").read_text(encoding="utf-8"))
        kept = [one["pass"] for one in report["steps"] if one["status"] == "kept"]
        failed = {one["pass"]: one["reason"][:200] for one in report["steps"] if one["status"] == "failed"}
        yield Row("its verdict", bool(report["status"]), f"{report['status']}; kept {kept}")
        yield Row("no pass failed", not failed, json.dumps(failed))
        session = runpy.run_path(str(out / "load.py"))["load"]()
        yield Row("load.py", session.get_providers()[0] == PROVIDERS[target_name], ", ".join(session.get_providers()))
        del session
        yield _command("optim bench", ["bench", str(model), str(out), "--target", target_name, "--seconds", "5"])
        yield _command("optim profile", ["profile", str(model), "--target", target_name, "--data", str(data)])


def _command(what: str, words: list[str]) -> Row:
    done = subprocess.run([sys.executable, "-m", "optim", *words], capture_output=True, text=True, check=False)
    said = f"{done.stdout}\n{done.stderr}" if done.returncode else done.stdout
    return Row(what, done.returncode == 0, " / ".join(said.split("\n"))[-400:].replace("|", ";"))


def _choices(target_name: str) -> Iterator[Mapping[str, str]]:
    if target_name == "cuda":
        from optim_plugins.nvidia.cuda.tune_provider import provider_options
        from optim_plugins.nvidia.cuda.tune_provider_options import TuneProviderOptions

        for name in TuneProviderOptions.model_fields:
            for value in CHOICES.get(name, (True, False)):
                yield provider_options(TuneProviderOptions.model_validate({name: value}))
        return
    from optim_plugins.nvidia.tensorrt import tune_provider as made
    from optim_plugins.nvidia.tensorrt.tune_provider_options import TuneProviderOptions as Options

    for name in Options.model_fields:
        for value in CHOICES.get(name, (NUMBERS.get(name, True),)):
            yield made.provider_options(Options.model_validate({name: value}), quantized=False)
    from optim_plugins.nvidia.tensorrt.engine import written_to

    with tempfile.TemporaryDirectory() as folder:
        for embed in (False, True):
            yield written_to(str(Path(folder) / "engine.onnx"), embed=embed)
    yield {f"trt_profile_{one}_shapes": f"x:{size}x8" for one, size in (("min", 1), ("opt", 2), ("max", 4))}


def _caches(target_name: str) -> Mapping[str, str]:
    from optim_plugins.nvidia.gpu.engine_cache import cache_options

    return cache_options("a check of options", "0" * 16) if target_name == "tensorrt" else {}


def _same(told: Mapping[str, str], key: str, value: str) -> bool:
    return told.get(key) == {"True": "1", "False": "0"}.get(value, value)


def _product() -> Any:
    weight = numpy_helper.from_array(np.ones((8, 4), np.float32), "w")
    ends = [_info("x", TensorProto.FLOAT, ["n", 8])], [_info("y", TensorProto.FLOAT, ["n", 4])]
    return helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", *ends, [weight])


def _info(name: str, kind: int, shape: Any) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def _opened(graph: Any, target_name: str, options: Mapping[str, str]) -> Any:
    """A session of onnxruntime, as optim opens it."""
    from optim import SessionConfig
    from optim.onnx import open_session

    with tempfile.TemporaryDirectory() as folder:
        path = _saved(graph, Path(folder))
        return open_session(
            path, SessionConfig(provider_options={PROVIDERS[target_name]: options}), _target(target_name)
        )


def _bound(graph: Any, target_name: str, options: Mapping[str, str] | None = None) -> Any:
    """A session of the backend."""
    from optim import SessionConfig
    from optim._engine.graphs.ingest import ingest
    from optim._engine.plugins.registry import load_registry

    target = _target(target_name)
    with tempfile.TemporaryDirectory() as folder:
        model = ingest(_saved(graph, Path(folder)), Path(folder) / "store")
        if options:
            model = model.with_session(SessionConfig(provider_options={PROVIDERS[target_name]: options}))
        return load_registry().backend(target.backend)().open(model, target)


def _target(name: str) -> Any:
    from optim._engine.plugins.registry import load_registry

    return replace(load_registry().target(name), probe=None)


def _saved(graph: Any, folder: Path) -> Path:
    path = folder / "model.onnx"
    onnx.save(helper.make_model(graph, ir_version=10, opset_imports=[helper.make_opsetid("", 20)]), path)
    return path
