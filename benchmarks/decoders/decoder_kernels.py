"""What the kernels cost that a decoder's token consists of: attention over a past, and products with blocks of weights.

    python benchmarks/decoders/decoder_kernels.py [--threads 1]

Cases of a table run in turns, and each is told by its tenth percentile, so that other programs disturb all alike.
Shapes are those of a Llama of 200 million weights: 16 heads, 4 of keys, of size 64; products of 1024 and 2816. There
are 32 products one after the other, so that their weights come from memory as they do in a model.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

HEADS, KEY_HEADS, SIZE = 16, 4, 64
WIDTH, WIDE, LAYERS = 1024, 2816, 16
PASTS = {"float32": (TensorProto.FLOAT, np.float32, SIZE), "8 bits": (TensorProto.INT8, np.int8, SIZE)}
PASTS["4 bits"] = (TensorProto.UINT8, np.uint8, SIZE // 2)
SCALE = 0.03
"""Of integers up to 100: numbers up to 3, as in models. Larger ones end in denormal weights, which are slow."""

BLOCKS = {"4 bits in 32": (4, 32), "in 64": (4, 64), "in 128": (4, 128), "8 bits in 32": (8, 32), "in 128 ": (8, 128)}
MASK, ATTRIBUTE, WINDOW = "a mask", "local_window_size", 256
_ROUNDS = 40


def opened(
    nodes: Sequence[Any],
    inputs: Mapping[str, Any],
    outputs: Mapping[str, Any],
    weights: Mapping[str, Any],
    threads: int,
) -> ort.InferenceSession:
    """A session of these nodes."""
    infos = [[helper.make_tensor_value_info(n, *info) for n, info in given.items()] for given in (inputs, outputs)]
    tensors = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(list(nodes), "kernels", *infos, tensors)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, ir_version=8, opset_imports=opsets)
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def attention(past: str, depth: int, threads: int, window: str = "") -> Callable[[], object]:
    """One step of an attention over a past of this depth, which it adds to in place.

    Args:
        past: its type.
        depth: its tokens.
        threads: of the session.
        window: where the last 256 tokens alone are seen, what says so: the operator's attribute or a mask.
    """
    kind, dtype, size = PASTS[past]
    narrow = KEY_HEADS * SIZE
    inputs = {"q": (TensorProto.FLOAT, [1, 1, HEADS * SIZE])}
    inputs |= {name: (TensorProto.FLOAT, [1, 1, narrow]) for name in "kv"}
    inputs |= {name: (kind, [1, KEY_HEADS, "past", size]) for name in ("pk", "pv")}
    inputs |= {"last": (TensorProto.INT32, [1]), "total": (TensorProto.INT32, [])}
    outputs = {"y": (TensorProto.FLOAT, [1, 1, HEADS * SIZE])}
    outputs |= {name: (kind, [1, KEY_HEADS, "total", size]) for name in ("nk", "nv")}
    taken, attributes, weights = ["q", "k", "v", "pk", "pv", "last", "total"], {}, {}
    if past != "float32":
        weights = {"scale": np.full((1, KEY_HEADS, 1, SIZE), SCALE, np.float32)}
        taken += [""] * 5 + ["scale", "scale"]
        attributes = {f"{letter}_quant_type": "PER_CHANNEL" for letter in "kv"}
        attributes["kv_cache_bit_width"] = int(past[0])
    if window == MASK:
        inputs["bias"] = (TensorProto.FLOAT, [1, 1, 1, "total"])
        taken += [""] * 3 + ["bias"]
    if window == ATTRIBUTE:
        attributes["local_window_size"] = WINDOW
    node = helper.make_node("GroupQueryAttention", taken, list(outputs), domain="com.microsoft", **attributes)
    node.attribute.extend(helper.make_attribute(n, v) for n, v in (("num_heads", HEADS), ("kv_num_heads", KEY_HEADS)))
    session = opened([node], inputs, outputs, weights, threads)
    binding, rng = session.io_binding(), np.random.default_rng(0)
    held = {
        name: rng.standard_normal((1, 1, shape[1][2])).astype(np.float32)
        for name, shape in inputs.items()
        if name in "qkv"
    }
    held |= {"last": np.array([depth], np.int32), "total": np.array(depth + 1, np.int32)}
    lying = rng.integers(-100, 100, (1, KEY_HEADS, depth + 1, size))
    held |= {name: (lying * (SCALE if past == "float32" else 1)).astype(dtype) for name in ("pk", "pv")}
    if window == MASK:
        held["bias"] = np.zeros((1, 1, 1, depth + 1), np.float32)
        held["bias"][..., :-WINDOW] = np.finfo(np.float32).min
    values = {name: ort.OrtValue.ortvalue_from_numpy(array) for name, array in held.items()}
    for name, value in values.items():
        binding.bind_ortvalue_input(name, value)
    binding.bind_output("y")
    binding.bind_ortvalue_output("nk", values["pk"])
    binding.bind_ortvalue_output("nv", values["pv"])

    def step(kept: object = values) -> object:
        return session.run_with_iobinding(binding)

    return step


def products(blocks: str, rows: int, threads: int) -> Callable[[], object]:
    """Products of so many rows with weights in blocks."""
    bits, block = BLOCKS[blocks]
    rng, nodes, weights, value = np.random.default_rng(0), [], {}, "x"
    for place in range(2 * LAYERS):
        taken, given = (WIDTH, WIDE) if place % 2 == 0 else (WIDE, WIDTH)
        shape = (given, -(-taken // block), block * bits // 8)
        weights[f"w{place}"] = rng.integers(0, 256, shape, dtype=np.uint8)
        weights[f"s{place}"] = np.full(shape[0] * shape[1], 1e-3, np.float32)
        sizes = {"K": taken, "N": given, "bits": bits, "block_size": block, "accuracy_level": 4}
        names = [value, f"w{place}", f"s{place}"]
        value = f"y{place}"
        nodes.append(helper.make_node("MatMulNBits", names, [value], domain="com.microsoft", **sizes))
    floats = (TensorProto.FLOAT, [rows, WIDTH])
    session = opened(nodes, {"x": floats}, {value: floats}, weights, threads)
    x = np.ones((rows, WIDTH), np.float32)
    return lambda: session.run(None, {"x": x})


def timed(cases: Mapping[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Milliseconds of each case, run in turns."""
    found: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(rounds):
        for name, run in cases.items():
            started = time.perf_counter()
            run()
            found[name].append(1e3 * (time.perf_counter() - started))
    return {name: float(np.percentile(took[1:], 10)) for name, took in found.items()}


def table(title: str, rows: Mapping[str, Mapping[str, float]]) -> None:
    """Print milliseconds, and what part of the first column's they are."""
    names = list(next(iter(rows.values())))
    print(f"| {title} | " + " | ".join(name.strip() for name in names) + " |\n|" + "---|" * (len(names) + 1))
    for name, row in rows.items():
        print(f"| {name} | " + " | ".join(f"{ms:.3f} ms ({ms / row[names[0]]:.2f})" for ms in row.values()) + " |")
    print(flush=True)


def main() -> int:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    threads = parser.parse_args().threads
    depths = {f"{n}": timed({past: attention(past, n, threads) for past in PASTS}, _ROUNDS) for n in (64, 1024, 4096)}
    table("attention, tokens of the past", depths)
    seen = {
        f"{n}": timed({how: attention("float32", n, threads, how) for how in (MASK, ATTRIBUTE)}, _ROUNDS)
        for n in (1024, 4096)
    }
    table("a window of 256, tokens of the past", seen)
    few = {
        f"{n}": timed({name: products(name, n, threads) for name in BLOCKS}, _ROUNDS // (1 if n == 1 else 5))
        for n in (1, 64)
    }
    table("32 products, rows", few)
    return 0


if __name__ == "__main__":
    sys.exit(main())
