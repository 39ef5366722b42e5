"""What ``bench.py`` runs: models with what optim may spend on each, and where everything lies."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
WORK = ROOT / ".cache" / "bench"
PYTHON = ROOT / ".cache" / "bench-env" / "bin" / "python"
OLIVE = ROOT / ".cache" / "bench-olive" / "bin" / "python"


@dataclass(frozen=True, slots=True)
class BenchModel:
    """One model.

    Attributes:
        name: of the file.
        maker: the script that makes it, with its arguments.
        feeds: the file of what is timed and compared, without ``.feeds.npz``.
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
        """What is timed and compared."""
        return WORK / "models" / f"{self.feeds}.feeds.npz"

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
