"""What ``bench.py`` runs: models with what optim may spend on each, and where everything lies."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
WORK = ROOT / ".cache" / "bench"
PYTHON = ROOT / ".cache" / "bench-env" / "bin" / "python"
OLIVE = ROOT / ".cache" / "bench-olive" / "bin" / "python"

UNSEEN = ("minilm", "bert-base", "vit-base")
"""What is compared on samples of models/unseen.py."""

_SETS = {
    "avx2": "AVX2",
    "avx_vnni": "AVX-VNNI",
    "avx512f": "AVX512",
    "avx512_vnni": "AVX512-VNNI",
    "avx512_bf16": "AVX512-BF16",
    "avx512_fp16": "AVX512-FP16",
    "amx_int8": "AMX",
    "asimddp": "dot product",
    "i8mm": "i8mm",
    "bf16": "bfloat16",
    "sve2": "SVE2",
}
"""What kinds of processors are called by: sets that kernels of products differ by, with their names in Linux."""


@functools.cache
def processor_kind() -> str:
    """The newest sets of this processor: figures of one kind say nothing about another."""
    from optim._engine.machine import this_machine

    found = this_machine()
    names = [name for key, name in _SETS.items() if key in found.instruction_sets]
    return ", ".join(names[1:] if len(names) > 1 else names) or found.cpu


def results_folder(model: str) -> Path:
    """Where what was made of a model for this kind of processor lies."""
    return WORK / "results" / processor_kind().replace(", ", "+").replace(" ", "-") / model


@dataclass(frozen=True, slots=True)
class BenchModel:
    """One model.

    Attributes:
        name: of the file.
        maker: the script that makes it, with its arguments.
        feeds: the file of what is timed, without ``.feeds.npz``.
        budgets: what optim runs with, each as arguments of ``optim run``.
        kind: of onnxruntime.transformers' optimizer.
        heads: attention heads.
        hidden: width.
        metric: task metric that every result is measured with.
    """

    name: str
    maker: tuple[str, ...]
    feeds: str
    budgets: tuple[tuple[str, ...], ...]
    kind: str = "bert"
    heads: int = 0
    hidden: int = 0
    metric: str = ""

    @property
    def path(self) -> Path:
        """The original."""
        return WORK / "models" / f"{self.name}.onnx"

    @property
    def feeds_path(self) -> Path:
        """What is timed."""
        return WORK / "models" / f"{self.feeds}.feeds.npz"

    @property
    def unseen_path(self) -> Path:
        """What is compared: eight samples that nobody calibrated on, or what is timed."""
        return WORK / "models" / f"{self.feeds}.unseen.npz" if self.feeds in UNSEEN else self.feeds_path

    @property
    def calib_path(self) -> Path:
        """What tools may look at."""
        return WORK / "models" / f"{self.feeds}.calib.npz"


def _drift(*limits: str) -> tuple[tuple[str, ...], ...]:
    return tuple(("--lossless",) if limit == "lossless" else ("--max-drift", limit) for limit in limits)


def _exported(name: str, exporter: str, limits: tuple[str, ...], **known: object) -> BenchModel:
    maker = ("models/exports.py", name, "--exporter", exporter)
    return BenchModel(f"{name}-{exporter}", maker, name, _drift(*limits), **known)  # type: ignore[arg-type]


def _digits(name: str) -> BenchModel:
    maker = ("models/digits.py", name)
    budgets = (("--metric", "top-1", "--max-loss", "0.005"), ("--lossless",))
    return BenchModel(f"digits-{name}", maker, f"digits-{name}", budgets, heads=4, hidden=64, metric="top-1")


MODELS = {
    model.name: model
    for exporter in ("dynamo", "ts")
    for model in (
        _exported("minilm", exporter, ("0.17", "0.08", "lossless"), heads=12, hidden=384),
        _exported("bert-base", exporter, ("0.026", "0.01", "lossless"), heads=12, hidden=768),
        _exported("vit-base", exporter, ("0.036", "0.01", "lossless"), kind="vit", heads=12, hidden=768),
        _exported("gpt2", exporter, ("0.05", "0.03", "lossless"), kind="gpt2", heads=12, hidden=768),
        _exported("llama", exporter, ("0.10", "0.05", "lossless"), kind="gpt2", heads=8, hidden=512),
        _exported("resnet50", exporter, ("0.035", "lossless")),
    )
} | {model.name: model for model in (_digits("cnn"), _digits("resnet"), _digits("vit"))}
