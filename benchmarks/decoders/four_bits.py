"""What rounding to 4 bits costs: drift on text that no method was calibrated on, by ways to round, ours and others'.

    python benchmarks/decoders/four_bits.py model.onnx --tokenizer tokenizer.json [--tokens 8192] [--only rtn gptq nncf]
    python benchmarks/decoders/four_bits.py decoder.onnx --perplexity    # bytes for tokens, and perplexity beside drift

Text are the pages of docs/: methods are calibrated on every other page, and judged on the rest. All run on
onnxruntime with blocks of 32, so size and kernels are the same but for zero points, and for tables, which others leave
in float. Latency is to plain rounding's, interleaved, the least of some rounds.
"""

from __future__ import annotations

import argparse
import logging
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from samples import drifts as drifts_of

from optim import Context, Metric, Model, Target
from optim._engine.graphs.ingest import ingest
from optim.onnx import model_size_bytes
from optim.options import parse_options

BLOCK = 32
LENGTH = 64
BATCH = 8
JUDGED_TOKENS = 2048
ROUNDS = 15
CPU = Target("cpu", "ort", "CPUExecutionProvider")
OURS = {
    "rtn": {"method": "rtn"},
    "k-quant": {"method": "k-quant"},
    "scale-estimation": {"method": "scale-estimation"},
    "gptq": {"method": "gptq"},
    "gptq, zero points": {"method": "gptq", "symmetric": False},
    "scale-estimation, awq": {"method": "scale-estimation", "awq": True},
    "gptq, awq": {"method": "gptq", "awq": True},
}
NNCF = {
    "nncf": {},
    "nncf, scale estimation": {"scale_estimation": True},
    "nncf, awq and scale estimation": {"awq": True, "scale_estimation": True},
}
RUNTIMES_OWN = {"onnxruntime, rtn": "", "onnxruntime, k-quant": "KQuantWeightOnlyQuantConfig"}

Feeds = dict[str, np.ndarray]
Outputs = dict[str, np.ndarray]


def texts() -> tuple[str, str]:
    """To calibrate on, and to judge on."""
    pages = [path for path in sorted(Path(__file__).parents[2].glob("docs/*.md")) if path.stat().st_size < 30_000]
    plain = [re.sub(r"[`|*#>\-]+", " ", page.read_text(encoding="utf-8")) for page in pages]
    return " ".join(plain[::2]), " ".join(plain[1::2])


def feeds_of(model: Model, ids: list[int], tokens: int) -> list[Feeds]:
    """Batches of text, the first step of a decoder: no past."""
    count = min(len(ids), tokens) // (BATCH * LENGTH)
    batches = np.array(ids[: count * BATCH * LENGTH], np.int64).reshape(count, BATCH, LENGTH)
    return [{info.name: _input(info.name, info.shape, batch) for info in model.inputs} for batch in batches]


def _input(name: str, shape: Any, ids: np.ndarray) -> np.ndarray:
    if name == "input_ids":
        return ids
    if "mask" in name:
        return np.ones_like(ids)
    if "position" in name:
        return np.broadcast_to(np.arange(ids.shape[1], dtype=np.int64), ids.shape).copy()
    if "past" in name:
        return np.zeros((len(ids), shape[1], 0, shape[3]), np.float32)
    return np.zeros_like(ids)


@dataclass
class Bench:
    """A model, what methods are calibrated on, and what they are judged on."""

    model: Model
    folder: Path
    calibration: list[Feeds]
    judged: list[Feeds]
    metric: Metric | None

    def __post_init__(self) -> None:
        """Run the original."""
        self.original = _session(self.model.path)
        self.expected = [self._run(self.original, feeds) for feeds in self.judged]
        self.plain: ort.InferenceSession | None = None
        self.folded = ingest(_folded(self.model.path, self.folder), self.folder / "store")

    def ours(self, options: Mapping[str, Any]) -> Path:
        """A model made by ``ort.quantize-weights``."""
        from optim_plugins.ort.quantize.weights.quantize_weights import QuantizeWeights

        asked = {"bits": 4, "block_size": BLOCK, **options}
        return QuantizeWeights().apply(self.model, parse_options(QuantizeWeights, asked), self._context()).model.path

    def nncf(self, options: Mapping[str, Any]) -> Path:
        """A model made by NNCF."""
        from optim_openvino.quantize.compress_weights import CompressWeights

        asked = {"mode": "int4-sym", "group_size": BLOCK, "samples": 128, **options}
        asked["keep"] = tuple(node.name for node in self.folded.ir().graph if node.op_type == "Gather")
        return CompressWeights().apply(self.folded, parse_options(CompressWeights, asked), self._context()).model.path

    def runtimes_own(self, algorithm: str) -> Path:
        """A model made by onnxruntime's tool, which onnxruntime-genai's builder uses."""
        from onnxruntime.quantization import matmul_nbits_quantizer as tool

        more = {"algo_config": getattr(tool, algorithm)()} if algorithm else {}
        symmetric = {"is_symmetric": True, "accuracy_level": 4, "block_size": BLOCK, "bits": 4}
        quantizer = tool.MatMulNBitsQuantizer(onnx.load(self.folded.path), **symmetric, **more)
        quantizer.process()
        path = self.folder / f"own-{algorithm or 'rtn'}.onnx"
        onnx.save(quantizer.model.model, path)
        return path

    def row(self, label: str, make: Callable[[], Path]) -> str:
        """One line of the table."""
        started = time.process_time()
        path = make()
        seconds = time.process_time() - started
        session = _session(path)
        self.plain = self.plain or session
        found = [self._run(session, feeds) for feeds in self.judged]
        drifts = drifts_of(zip(self.expected, found, strict=True))
        size = _size(path)
        cells = [label, f"{np.mean(drifts):.4f}", f"{size / 1e6:.1f} MB"]
        if self.metric:
            cells.append(f"{self._measured(found):.3f}")
        cells += [f"{_ratio(self.plain, session, self.judged[0]):.2f}", f"{seconds:.0f} s"]
        return f"| {' | '.join(cells)} |"

    def original_perplexity(self) -> float:
        """Of the model in floats."""
        return self._measured(self.expected)

    def _measured(self, outputs: list[Outputs]) -> float:
        assert self.metric is not None
        assert self.metric.finish is not None
        pairs = zip(outputs, self.judged, strict=True)
        return self.metric.finish(np.sum([self.metric.call(made, feeds, {}) for made, feeds in pairs], axis=0))

    def _run(self, session: ort.InferenceSession, feeds: Feeds) -> Outputs:
        names = [self.model.outputs[0].name]
        return dict(zip(names, session.run(names, feeds), strict=True))

    def _context(self) -> Context:
        scratch = Path(tempfile.mkdtemp(dir=self.folder))
        samples = lambda: iter([dict(feeds) for feeds in self.calibration])  # noqa: E731 - what a Context takes
        return Context(CPU, scratch, self.folder / "store", 0, samples, logging.getLogger("bench"), lambda *_: None)


def _folded(path: Path, folder: Path) -> Path:
    """The model without Transposes of weights, behind which others' tools find none."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.add_session_config_entry("session.optimized_model_external_initializers_file_name", "folded.data")
    options.add_session_config_entry("session.optimized_model_external_initializers_min_size_in_bytes", "1024")
    written = options.optimized_model_filepath = str(folder / "folded.onnx")
    ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return Path(written)


def _session(path: Path) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.log_severity_level = 3
    return ort.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])


def _size(path: Path) -> int:
    from optim.onnx import describe_model

    return model_size_bytes(describe_model(path, digest=path.name))


def _ratio(plain: ort.InferenceSession, other: ort.InferenceSession, feeds: Feeds) -> float:
    one = {name: array[:1] for name, array in feeds.items()}
    least = {id(plain): np.inf, id(other): np.inf}
    for _ in range(ROUNDS):
        for session in (plain, other):
            started = time.perf_counter()
            session.run(None, one)
            least[id(session)] = min(least[id(session)], time.perf_counter() - started)
    return float(least[id(other)] / least[id(plain)])


def rows(bench: Bench, only: list[str]) -> Iterator[str]:
    """The table's lines, plain rounding first."""
    ways: dict[str, Callable[[], Path]] = {name: lambda o=options: bench.ours(o) for name, options in OURS.items()}
    ways |= {name: lambda o=options: bench.nncf(o) for name, options in NNCF.items()}
    ways |= {name: lambda o=algorithm: bench.runtimes_own(o) for name, algorithm in RUNTIMES_OWN.items()}
    for label, make in ways.items():
        if not only or label in only:
            try:
                yield bench.row(label, make)
            except Exception as error:  # a peer may raise anything, and its row says so
                yield f"| {label} | failed: {type(error).__name__}: {str(error)[:90]} |"


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--tokenizer", type=Path, help="a tokenizer.json; without one bytes are tokens")
    parser.add_argument("--tokens", type=int, default=8192, help="to calibrate on")
    parser.add_argument("--perplexity", action="store_true", help="measure it too: for a trained decoder of text")
    parser.add_argument("--only", nargs="+", default=[])
    chosen = parser.parse_args()
    logging.disable(logging.INFO)
    metric = None
    if chosen.perplexity:
        from optim_plugins.metrics.decoders import PerplexityOptions, perplexity

        metric = perplexity(PerplexityOptions())
    if chosen.tokenizer:
        from tokenizers import Tokenizer

        tokenizer = Tokenizer.from_file(str(chosen.tokenizer))
        tokenizer.no_truncation()
        calibration, judged = (tokenizer.encode(text, add_special_tokens=False).ids for text in texts())
    else:
        calibration, judged = (list(text.encode()) for text in texts())
    with tempfile.TemporaryDirectory(prefix="four-bits-") as folder:
        model = ingest(chosen.model, Path(folder, "store"))
        few = feeds_of(model, judged, JUDGED_TOKENS)
        bench = Bench(model, Path(folder), feeds_of(model, calibration, chosen.tokens), few, metric)
        print(f"| way | drift | size |{' perplexity |' if metric else ''} latency to plain | processor time |")
        print(f"|---|---|---|{'---|' if metric else ''}---|---|")
        if metric:
            print(f"| floats | 0 | {model_size_bytes(model) / 1e6:.1f} MB | {bench.original_perplexity():.3f} | | |")
        for row in rows(bench, chosen.only):
            print(row, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
