"""Whether a run keeps to the seconds that it was given, on models of any size and latency, also on a busy machine.

    python benchmarks/kept_time.py                     # one node, 10,000 nodes, some seconds a run: about five minutes
    python benchmarks/kept_time.py --beside 16 --only one-node many-nodes

Makes each model, runs ``optim run`` on it from an empty cache with the seconds beside its name, and prints what the
whole command took, end included. ``--beside`` has so many programs compute beside it: 16 on two processors are a load
of 8 each. The exit status is 1 where a run took more than 20 % longer than it was given.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from commands import busy, fresh_run
from onnx import TensorProto, helper, numpy_helper

_WIDTH, _LAYERS = 4096, 2500
_MOST = 1.2


@dataclass(frozen=True)
class Case:
    """A model and the seconds that a run on it is given."""

    make: Callable[[Path], None]
    seconds: int


def main() -> int:
    """Run each, and print a row for it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=sorted(CASES), default=list(CASES))
    parser.add_argument("--beside", type=int, default=0, metavar="PROGRAMS")
    chosen = parser.parse_args()
    late = False
    print("| model | given s | took s | ratio | one run ms | verdict |\n|---|---|---|---|---|---|")
    with busy(chosen.beside):
        for name in chosen.only:
            late |= measure(name, CASES[name]) > _MOST
    return int(late)


def measure(name: str, case: Case) -> float:
    """One run from an empty cache; how many times the seconds it was given."""
    with tempfile.TemporaryDirectory(prefix="kept-time-") as folder:
        model = Path(folder, "model.onnx")
        case.make(model)
        report, took = fresh_run(str(model), "-o", f"{folder}/out", "--search-seconds", str(case.seconds))
    error = report.get("error")
    verdict = error["what"] if error else report["status"]
    latency = (report.get("original") or {}).get("latency_ms") or float("nan")
    print(
        f"| {name} | {case.seconds} | {took:.0f} | {took / case.seconds:.2f} | {latency:.3g} | {verdict} |", flush=True
    )
    return took / case.seconds


def one_node(path: Path) -> None:
    """A product of 256 by 256."""
    _save(path, [helper.make_node("MatMul", ["x", "w"], ["y"])], [8, 256], {"w": _weight(256)})


def many_nodes(path: Path) -> None:
    """10,000 nodes."""
    nodes, weights, value = [], {"scale": np.ones(32, np.float32)}, "x"
    for layer in range(_LAYERS):
        weights[f"w{layer}"] = _weight(32)
        nodes.append(helper.make_node("MatMul", [value, f"w{layer}"], [f"a{layer}"]))
        nodes.append(helper.make_node("Relu", [f"a{layer}"], [f"b{layer}"]))
        nodes.append(helper.make_node("Add", [f"b{layer}", value], [f"c{layer}"]))
        value = "y" if layer == _LAYERS - 1 else f"d{layer}"
        nodes.append(helper.make_node("LayerNormalization", [f"c{layer}", "scale"], [value], axis=-1))
    _save(path, nodes, [4, 32], weights)


def slow(products: int) -> Callable[[Path], None]:
    """Makes a model of so many products of 137 billion operations: 0.5 to 2 s each, by the processor."""

    def make(path: Path) -> None:
        nodes, value = [], "x"
        for layer in range(products):
            nodes.append(helper.make_node("MatMul", [value, "w"], [f"a{layer}"]))
            result = "y" if layer == products - 1 else f"b{layer}"
            nodes.append(helper.make_node("Tanh", [f"a{layer}"], [result]))
            value = result
        _save(path, nodes, [_WIDTH, _WIDTH], {"w": _weight(_WIDTH)})

    return make


def _weight(width: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((width, width), dtype=np.float32) / np.float32(width**0.5)


def _save(path: Path, nodes: list[onnx.NodeProto], shape: list[int], weights: dict[str, np.ndarray]) -> None:
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in "xy")
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "graph", [x], [y], tensors)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


CASES = {
    "one-node": Case(one_node, 15),
    "many-nodes": Case(many_nodes, 60),
    "slow": Case(slow(3), 60),
    "very-slow": Case(slow(30), 120),
}

if __name__ == "__main__":
    sys.exit(main())
