"""An outcome as a run leaves it, made of the real types; figures as MiniLM has them."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from optim._engine.gate.drift import Drift, OutputComparison
from optim._engine.jobs import ingest, prepare
from optim._engine.jobs.lane import Ready
from optim._engine.runs.outcome import Outcome, RunStatus
from optim._engine.search.measure.race import LaneResult
from optim._engine.search.measure.statistics import Ratio
from optim._engine.search.select.archive import Point
from optim._engine.search.settings import RunSettings
from optim._engine.search.state import Attempt, Candidate, Measured, Step, StepStatus
from optim.model import Model, SessionConfig, TensorInfo
from optim.passes import Role, Stage
from optim.target import Target

CPU = Target("cpu", "onnxruntime", "CPUExecutionProvider", device="CPU")
SESSION = SessionConfig({"graph_optimization_level": "ORT_ENABLE_BASIC"}, {}, ("SkipLayerNormFusion",))
NO_DRIFT = Drift(0.0, 0.0, 1.0)

FOLD = Step(Stage.FUSE, "ort.gemm-to-matmul", "ort", {}, Role.ENABLE, lossy=False)
FUSE = Step(Stage.FUSE, "ort.fuse-transformer", "ort", {"with": "onnxscript"}, Role.IMPROVE, lossy=False)
QUANTIZE = Step(
    Stage.QUANTIZE, "ort.quantize-dynamic", "ort", {"per_channel": True, "keep": ["head"]}, Role.IMPROVE, lossy=True
)
TUNE = Step(Stage.TUNE, "ort.tune-session", "ort", {"level": "basic"}, Role.IMPROVE, lossy=False, session_only=True)
BROKEN = Step(Stage.FUSE, "acme.fuse-all", "acme", {}, Role.IMPROVE, lossy=False)


def model(digest: str = "a" * 64, session: SessionConfig | None = None) -> Model:
    return Model(
        Path(f"/cache/{digest}.onnx"),
        digest,
        (TensorInfo("input_ids", "int64", ("batch", "sequence")),),
        (TensorInfo("embeddings", "float32", ("batch", 384)),),
        {"": 17},
        8,
        session or SessionConfig(),
    )


def compared(relative_l2: float = 0.15, problem: str = "") -> OutputComparison:
    sqnr = math.inf if relative_l2 == 0 else 16.5
    return OutputComparison("embeddings", "float32", (1, 384), 3072, relative_l2, 0.06, 0.989, sqnr, 2e6, None, problem)


def lane(ratio: float, milliseconds: tuple[float, ...], peak_memory_bytes: int) -> LaneResult:
    ratios = tuple(Ratio(ratio, ratio - 0.01, ratio + 0.01, 30) for _ in milliseconds)
    ready = Ready((), peak_memory_bytes, {"CPUExecutionProvider": 1.0}, (0.01,))
    return LaneResult("", ready, Ratio(ratio, ratio - 0.01, ratio + 0.01, 30), milliseconds[0], milliseconds, ratios)


def prepared() -> prepare.Answer:
    return prepare.Answer(
        "f" * 64,
        "synthesized",
        8,
        tuple(range(8)),
        (0, 1),
        (0, 1),
        ("input_ids 1x128", "input_ids 1x32"),
        (("input_ids", "token ids below 30522, the rows of the table they index"),),
        1e-4,
        ("drift is measured on 8 of 32 samples, spread evenly",),
        {"CPUExecutionProvider": 1.0},
        {"onnxruntime": "1.31.1"},
        0.1,
        0.01,
    )


def attempts() -> list[Attempt]:
    quantized = Drift(0.15, 0.06, 0.989)
    broke = "<b>IndexError</b>: list index out of range (while it was applied)"
    slower = "latency ratio 0.81; the model kept has 0.43"
    counts = {"Attention": 6, "BiasGelu": 6}
    return [
        Attempt(BROKEN, (), StepStatus.FAILED, broke, seconds=1.5),
        Attempt(FUSE, (), StepStatus.DROPPED, slower, 0.81, 1.0, Drift(3e-7, 1e-6, 1.0), 3.2, counts, ("all found",)),
        Attempt(FOLD, (), StepStatus.NOT_APPLICABLE, "the graph has no Gemm"),
        Attempt(QUANTIZE, (), StepStatus.KEPT, "latency ratio 0.45, from 1.00 without it", 0.45, 1.0, quantized, 8.1),
        Attempt(
            QUANTIZE,
            (FUSE.pass_name,),
            StepStatus.DROPPED,
            "output 'embeddings': 3 elements became NaN",
            None,
            0.81,
            Drift(math.inf, math.inf, -1.0),
            7.9,
        ),
        Attempt(
            TUNE,
            (QUANTIZE.pass_name,),
            StepStatus.KEPT,
            "latency ratio 0.43, from 0.45 without it",
            0.43,
            0.45,
            quantized,
            0.2,
        ),
        Attempt(TUNE, (FUSE.pass_name,), StepStatus.SKIPPED, "no search time was left"),
    ]


def points(delivered: Candidate) -> list[Point]:
    """The result and a lossless one, both proven, and a quick look at another."""
    lossless = Candidate(model("c" * 64), 90_000_000, (FUSE,), (), Drift(3e-7, 1e-6, 1.0))
    quick = Candidate(model("d" * 64), 60_000_000, (QUANTIZE,), (), Drift(0.16, 0.06, 0.989))
    return [
        Point(Measured(delivered, 0.43, 0.42, 0.44, 4.7, 70_000_000, (compared(),)), proven=True, number=1),
        Point(Measured(lossless, 0.81, 0.80, 0.83, 8.9, 110_000_000, (compared(3e-7),)), proven=True, number=2),
        Point(Measured(quick, 0.51, 0.47, 0.55, 5.2, 70_000_000)),
    ]


def improved(**changed: Any) -> Outcome:
    """Quantized and tuned: 2.3 times faster."""
    candidate = Candidate(model("b" * 64, SESSION), 60_000_000, (QUANTIZE, TUNE), (), Drift(0.15, 0.06, 0.989))
    values: dict[str, Any] = {
        "settings": RunSettings(Path("models/minilm.onnx"), max_drift=0.17),
        "target": CPU,
        "status": RunStatus.IMPROVED,
        "reason": "",
        "source": ingest.Answer(model(), 90_000_000, {"MatMul": 36, "Add": 100, "Gelu": 6}),
        "prepared": prepared(),
        "original": lane(1.0, (11.0, 4.0), 120_000_000),
        "result": Measured(candidate, 0.43, 0.42, 0.44, 4.7, 70_000_000, (compared(),)),
        "timing": lane(0.43, (4.7, 1.8), 70_000_000),
        "operators": {"DynamicQuantizeLinear": 30, "MatMulInteger": 36, "Add": 100, "Gelu": 6},
        "attempts": attempts(),
        "points": points(candidate),
        "key": "e" * 64,
        "versions": {"optim-core": "0.1.0", "onnxruntime": "1.31.1"},
        "seconds": 71.5,
        "search_s": 58.0,
        "computed": 40,
        "from_cache": 3,
    }
    return Outcome(**{**values, **changed})


def unchanged() -> Outcome:
    """The original is its own result."""
    candidate = Candidate(model(), 90_000_000)
    return improved(
        status=RunStatus.UNCHANGED,
        reason="nothing that was tried made it better",
        timing=None,
        result=Measured(candidate, 1.0, 1.0, 1.0, 11.0, 120_000_000, ()),
        operators={"MatMul": 36, "Add": 100, "Gelu": 6},
        attempts=[a for a in attempts() if a.status is not StepStatus.KEPT],
    )


def budget_missed() -> Outcome:
    """A pass asked for by name was beyond the budget."""
    why = "drift inf at output 'embeddings' is beyond the budget (0.05)"
    tried = [Attempt(QUANTIZE, (), StepStatus.DROPPED, why, None, None, Drift(math.inf, math.inf, -1.0), 8.1)]
    return improved(
        status=RunStatus.BUDGET_MISSED,
        reason=f"ort.quantize-dynamic was asked for and did not hold: {why}",
        result=None,
        timing=None,
        original=None,
        operators={},
        attempts=tried,
        points=[],
    )
