"""Layer-norm kernels of two runtimes cannot be exchanged without the outputs moving: the study, as a table and plots.

    python benchmarks/layer_norm/swap_kernels.py [FOLDER] [--width 1152]

LayerNormalization, then MatMul, then Add, on X = (rand - 0.5) * 120 of 2x1024xWIDTH on a CPU, of 32x1024xWIDTH on CUDA
where this machine has it; float32 and float16. Two combinations are run beside the pure runtimes: LayerNormalization of
onnxruntime with the rest of torch, and MatMul of onnxruntime with the rest of torch. FOLDER gets `table.md`,
`pure.svg` and `swapped.svg`.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from optim import OptimError
from optim.cli_kit import require_target
from optim_plugins.torch.swap.attribution import Row, attribute, parse_kernels

SWAPS = {"LayerNormalization=ort": "ORT-TORCH", "MatMul=ort": "TORCH-ORT"}
COLUMNS = ("n", "abs", "rel", "sum", "ULP", ">0", ">1e-4", ">0.1", ">1")


def layer_norm_model(width: int) -> onnx.ModelProto:
    """The model, with random weights in float32."""
    draw = np.random.default_rng(0)
    info, node = helper.make_tensor_value_info, helper.make_node
    shape = ["a", "b", width]
    nodes = [
        node("LayerNormalization", ["X", "scale", "bias"], ["norm"], axis=-1, name="layer_norm"),
        node("MatMul", ["norm", "weights"], ["mm"], name="product"),
        node("Add", ["mm", "bias2"], ["Z"], name="sum"),
    ]
    sizes = {"scale": (width,), "bias": (width,), "weights": (width, width), "bias2": (width,)}
    weights = [numpy_helper.from_array(draw.random(size, np.float32), name) for name, size in sizes.items()]
    ends = [info(name, TensorProto.FLOAT, shape) for name in ("X", "Z")]
    graph = helper.make_graph(nodes, "layer_norm_matmul_add", ends[:1], ends[1:], weights)
    return helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 18)])


def measure(width: int, length: int = 1024) -> list[Row]:
    """Rows of every target of onnxruntime that is here, CPU and CUDA, in both types."""
    draw, rows = np.random.default_rng(1), []
    for name, batch in (("cpu", 2), ("cuda", 32)):
        try:
            target = require_target(name)
        except OptimError:
            continue
        x = (draw.random((batch, length, width), np.float32) - np.float32(0.5)) * 120
        for dtype in ("float32", "float16"):
            with TemporaryDirectory() as folder:
                chosen = [parse_kernels(text) for text in SWAPS]
                rows += attribute(layer_norm_model(width), {"X": x}, chosen, target, dtype, Path(folder))
    return rows


def table(rows: list[Row]) -> str:
    """Every difference, in Markdown."""
    lines = ["| target | dtype | kernels | to | " + " | ".join(COLUMNS) + " |", "|" + "---|" * (len(COLUMNS) + 4)]
    for row in rows:
        for other, gap in row.to.items():
            if other == row.combination or row.combination == "float64":
                continue
            counts = [gap.above[place] for place in (0, 1, 4, 5)]
            figures = [gap.n, *(f"{one:.4g}" for one in (gap.max_abs, gap.relative, gap.total, gap.ulp)), *counts]
            where = [row.target, row.dtype, SWAPS.get(row.combination, row.combination), other]
            lines.append("| " + " | ".join(map(str, [*where, *figures])) + " |")
    return "\n".join(lines) + "\n"


def bars(title: str, figures: dict[str, float]) -> str:
    """A bar for each figure, as SVG, on a scale of decades: float32 and float16 are three apart."""
    high, wide, left = 22, 320, 300
    decades = {name: max(0.0, np.log10(value / 1e-6)) if value else 0.0 for name, value in figures.items()}
    most = max(decades.values()) or 1.0
    text = '<text x="{x}" y="{y}" font-family="sans-serif" font-size="12" {more}>{say}</text>'
    parts = [text.format(x=8, y=18, more='font-weight="bold"', say=title)]
    for place, (name, value) in enumerate(figures.items()):
        y = 32 + place * high
        length = wide * decades[name] / most
        parts.append(text.format(x=8, y=y + 13, more="", say=name))
        parts.append(f'<rect x="{left}" y="{y}" width="{length:.1f}" height="{high - 6}" fill="#3b6ea5"/>')
        parts.append(text.format(x=f"{left + length + 6:.1f}", y=y + 13, more="", say=f"{value:.3g}"))
    size = f'width="{left + wide + 90}" height="{40 + high * len(figures)}"'
    parts.insert(0, '<rect width="100%" height="100%" fill="white"/>')
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}>{"".join(parts)}</svg>\n'


def main() -> None:
    """Measure, and write the table and the plots."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=Path(__file__).parent)
    parser.add_argument("--width", type=int, default=1152)
    asked = parser.parse_args()
    rows = measure(asked.width)
    (asked.folder / "table.md").write_text(table(rows))
    pure = {f"{row.target} {row.dtype}": row.to["ort"].max_abs for row in rows if row.combination == "torch"}
    mixed = {
        f"{SWAPS[row.combination]} {row.target} {row.dtype}, to {other}": row.to[other].max_abs
        for row in rows
        if row.combination in SWAPS
        for other in ("ort", "torch")
    }
    title = "largest difference of LayerNormalization(X) @ W + B"
    (asked.folder / "pure.svg").write_text(bars(f"{title}, torch to onnxruntime", pure))
    (asked.folder / "swapped.svg").write_text(bars(f"{title}, one kernel swapped", mixed))
    print(table(rows))
    for row in rows:
        print(row.target, row.device, row.dtype, row.combination, row.output, row.smallest, row.largest, row.mean)


if __name__ == "__main__":
    main()
