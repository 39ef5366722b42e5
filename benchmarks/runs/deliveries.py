"""One run of MiniLM in every layout, each opened by its consumer; and a run for the web against its original.

    python benchmarks/runs/deliveries.py [--seconds 60] [--web-seconds 180] [--opened-by PYTHON] [--npm FOLDER]

Five to six minutes on a machine that does nothing else. The Python that has the consumers, and the npm package, are
those that the tests keep in ``.cache`` (``pytest tests/plugins/layouts`` makes both). It ends with 1 where nothing
was made better, where a layout was not opened, differs, or leaves the budget, and where the web is not faster.
"""

from __future__ import annotations

import argparse
import os
import runpy
import shutil
import sys
import tempfile
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from tokenizers import Tokenizer

import optim
from optim.layout import carry_files

ROOT = Path(__file__).parents[2]
MINILM = ROOT / "examples" / "minilm"
LAYOUTS = ("optimum", "transformers.js", "mlflow", "triton", "onnxruntime")
BUDGET, WEB_BUDGET = 0.17, 0.2
"""The demo's, and that of the figure in docs/prepost.md."""


def main() -> int:
    """Both runs, and what came of them."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--seconds", type=float, default=60.0)
    words.add_argument("--web-seconds", type=float, default=180.0)
    words.add_argument("--opened-by", type=Path, default=next(ROOT.glob(".cache/layouts/*/bin/python"), None))
    words.add_argument("--npm", type=Path, default=ROOT / ".cache" / "npm")
    asked = words.parse_args()
    if asked.opened_by is None:
        words.error("no Python has the consumers: pytest tests/plugins/layouts makes one, or name it by --opened-by")
    os.environ["OPTIM_NPM_DIR"] = str(asked.npm)
    console = Console(highlight=False)
    with tempfile.TemporaryDirectory(prefix="optim-deliveries-") as scratch:
        folder = Path(scratch)
        model, feeds = place_model(folder)
        held = delivered(model, feeds, folder / "out", asked, console)
        faster = on_the_web(model, feeds, folder / "web", asked.web_seconds, console)
    return 0 if held and faster else 1


def place_model(folder: Path) -> tuple[Path, Path]:
    """The graph with its weights, config, tokenizer and pooling beside it; and the demo's sentences."""
    demo = runpy.run_path(str(MINILM / "demo.py"))
    package = demo["find_package"]()
    carry_files(package, folder)
    shutil.copyfile(package / "model.safetensors", folder / "model.safetensors")
    model = Path(shutil.copyfile(MINILM / "minilm.onnx", folder / "minilm.onnx"))
    tokenizer = Tokenizer.from_file(str(package / "tokenizer.json"))
    sentences, _ = demo["split"](demo["read_sentences"]())
    demo["write_feeds"](
        folder / "feeds.npz", [demo["encode"](tokenizer, batch) for batch in demo["batches"](sentences)]
    )
    return model, folder / "feeds.npz"


def delivered(model: Path, feeds: Path, output: Path, asked: argparse.Namespace, console: Console) -> bool:
    """Whether every layout was opened, and is within the budget of the original."""
    report = optim.run(
        model,
        output,
        data=feeds,
        max_drift=BUDGET,
        search_seconds=asked.seconds,
        deliver=LAYOUTS,
        opened_by=asked.opened_by,
        say=console.print,
    )
    own = (report.result.drift.relative_error or 0.0) if report.result else 0.0
    console.print(f"{report.status}: {report.reason}; drift {own:.2g}")
    table = Table(
        "layout", "status", "by", "from the result", "from the original, at most", "not carried", box=box.SIMPLE
    )
    changed = report.result is not None and report.result.digest != report.original.digest
    if not changed:
        console.print("this shows little: the result is the original itself; the reason stands above")
    held = changed and len(report.layouts) == len(LAYOUTS)
    for one in report.layouts:
        drift = one.drift if one.drift is not None else float("inf")
        held &= one.status == "opened" and own + drift <= BUDGET
        lost = ", ".join(one.not_carried) + (f"; {one.cost.ratio:.2f} times as long" if one.cost else "")
        table.add_row(one.layout, one.status, one.text, f"{drift:.2g}", f"{own + drift:.2g}", lost)
    console.print(table)
    return held


def on_the_web(model: Path, feeds: Path, output: Path, seconds: float, console: Console) -> bool:
    """Whether the result is faster in onnxruntime-web under Node than the original there."""
    report = optim.run(
        model, output, data=feeds, target="web", max_drift=WEB_BUDGET, search_seconds=seconds, say=console.print
    )
    ratio = report.result.latency_ratio if report.result else None
    low, high = (report.result.latency_ratio_ci if report.result else None) or (0.0, 1.0)
    console.print(f"web, in Node: {report.status}: {report.reason}")
    if ratio is None:
        return False
    console.print(f"ratio to the original there {ratio:.2f}, interval {low:.2f} to {high:.2f}")
    return high < 1.0


if __name__ == "__main__":
    sys.exit(main())
