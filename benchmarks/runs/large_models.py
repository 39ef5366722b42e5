"""What a whole run takes on a model of any size: seconds, and the peak memory of its largest process.

    python benchmarks/runs/large_models.py --each 1 2 4
    python benchmarks/runs/large_models.py --each 0.25 -- --search-seconds 120

Makes an encoder with random weights for each size in GB (four products of attention and two of a feed-forward layer in
every layer, 16 tokens). Scores have the scale that they have in trained models, so that integers hold. Runs ``optim
run`` on it from an empty cache with the options that are given after ``--`` (none: it announces its seconds), and looks
at the processes of the run twenty times a second. Memory of a process is its resident set without what it maps
from files: the system takes mapped files back whenever it wants to.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
import psutil
from onnx import TensorProto, helper

TOKENS = 16
GB = 1e9


def make_model(path: Path, size_bytes: float) -> None:
    """An encoder whose weights are about so large, in one file beside it, written piece by piece."""
    width = 1024 if size_bytes < 3 * GB else 2048
    layers = max(1, round(size_bytes / (12 * width * width * 4)))
    rng = np.random.default_rng(0)
    nodes, weights, offset = [], [], 0
    with path.with_suffix(".data").open("wb") as data:

        def weight(name: str, *shape: int, scale: float) -> str:
            nonlocal offset
            values = rng.standard_normal(shape, dtype=np.float32) * np.float32(scale)
            data.write(values.tobytes())
            tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape, data_location=TensorProto.EXTERNAL)
            for key, value in (
                ("location", path.with_suffix(".data").name),
                ("offset", offset),
                ("length", values.nbytes),
            ):
                tensor.external_data.add(key=key, value=str(value))
            weights.append(tensor)
            offset += values.nbytes
            return name

        def node(operator: str, output: str, *inputs: str, **attributes: object) -> str:
            nodes.append(helper.make_node(operator, inputs, [output], f"node_{output}", **attributes))
            return output

        def norm(name: str, value: str) -> str:
            return node("LayerNormalization", name, value, weight(f"{name}_scale", width, scale=1.0), axis=-1)

        value = "x"
        for layer in range(layers):
            at = f"layer{layer}"
            near = norm(f"{at}_norm", value)
            query, key, content = (
                node("MatMul", f"{at}_{part}", near, weight(f"{at}_{part}_weight", width, width, scale=scale))
                for part, scale in (("query", 1 / width), ("key", width**-0.5), ("content", width**-0.5))
            )
            turned = node("Transpose", f"{at}_turned", key, perm=[0, 2, 1])
            scores = node("Softmax", f"{at}_scores", node("MatMul", f"{at}_products", query, turned), axis=-1)
            mixed = node("MatMul", f"{at}_mixed", scores, content)
            out = node("MatMul", f"{at}_out", mixed, weight(f"{at}_out_weight", width, width, scale=width**-0.5))
            value = node("Add", f"{at}_attended", value, out)
            wide = weight(f"{at}_wide_weight", width, 4 * width, scale=width**-0.5)
            hidden = node("Relu", f"{at}_hidden", node("MatMul", f"{at}_wide", norm(f"{at}_norm2", value), wide))
            narrow = weight(f"{at}_narrow_weight", 4 * width, width, scale=(4 * width) ** -0.5)
            value = node("Add", f"{at}_value", value, node("MatMul", f"{at}_narrow", hidden, narrow))
        norm("y", value)
    shape = ["batch", TOKENS, width]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "encoder", ends[:1], ends[1:], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


class Watch:
    """The memory of a process and of all that it starts."""

    def __init__(self, process: psutil.Process) -> None:
        self._root = process
        self.largest = self.together = 0
        self.whose = ""

    def look(self) -> None:
        """Note what they hold now."""
        together = 0
        for process in [self._root, *self._root.children(recursive=True)]:
            try:
                memory = process.memory_info()
                own = memory.rss - getattr(memory, "shared", 0)
                together += own
                if own > self.largest:
                    self.largest, self.whose = own, " ".join(process.cmdline()[:4])[-80:]
            except psutil.Error:
                continue
        self.together = max(self.together, together)


def measure(size_gb: float, words: list[str]) -> dict[str, object]:
    """One run from an empty cache."""
    with tempfile.TemporaryDirectory(prefix="large-models-") as folder:
        model = Path(folder, "model.onnx")
        make_model(model, size_gb * GB)
        size = model.stat().st_size + model.with_suffix(".data").stat().st_size
        environment = {**os.environ, "OPTIM_CACHE_DIR": f"{folder}/cache"}
        command = [sys.executable, "-m", "optim", "run", str(model), "-o", f"{folder}/out", *words, "--json"]
        with Path(folder, "said").open("w+") as said, Path(folder, "report.json").open("w+") as told:
            started = time.monotonic()
            running = subprocess.Popen(command, stdout=told, stderr=said, text=True, env=environment)
            watch = Watch(psutil.Process(running.pid))
            while running.poll() is None:
                watch.look()
                time.sleep(0.05)
            seconds = time.monotonic() - started
            said.seek(0)
            told.seek(0)
            log, out = said.read(), told.read()
        print(log, file=sys.stderr)
        report = json.loads(out) if out.startswith("{") else {}
        shutil.rmtree(f"{folder}/cache", ignore_errors=True)
    return {
        "size_bytes": size,
        "seconds": seconds,
        "largest_bytes": watch.largest,
        "together_bytes": watch.together,
        "whose": watch.whose,
        "said": report.get("reason", f"exit {running.returncode}"),
        "status": report.get("status", ""),
        "latency_ms": (report.get("original") or {}).get("latency_ms"),
    }


def main() -> int:
    """Measure each size, and print a row for it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--each", nargs="+", type=float, default=[0.25, 1.0, 2.0], metavar="GB")
    parser.add_argument(
        "--keep", type=Path, metavar="FILE", help="write the rows there for large_models_plot.py, as JSON"
    )
    parser.add_argument("words", nargs="*", help="options of optim run, after --")
    chosen = parser.parse_args()
    print("| model | run | largest process | all processes | of the model, less 1 GB | verdict |")
    print("|---|---|---|---|---|---|")
    rows = []
    for size_gb in chosen.each:
        row = measure(size_gb, chosen.words)
        rows.append({key: row[key] for key in ("size_bytes", "seconds", "largest_bytes")})
        size, largest, together = (float(row[key]) / GB for key in ("size_bytes", "largest_bytes", "together_bytes"))
        of_it = (largest - 1) / size
        figures = f"{size:.2f} GB | {row['seconds']:.0f} s | {largest:.2f} GB | {together:.2f} GB | {of_it:.2f}"
        print(f"| {figures} | {row['said']} |", flush=True)
        print(row["whose"], file=sys.stderr)
        if chosen.keep is not None:
            chosen.keep.write_text(json.dumps(rows, indent=2), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
