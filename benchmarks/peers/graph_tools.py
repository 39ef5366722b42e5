"""Peers that rewrite a graph without changing what it computes, and settings of onnxruntime alone."""

from __future__ import annotations

import json
import shutil
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tool import Job, Tool

LARGE_BYTES = 1 << 30


def no_optimization(job: Job) -> None:
    """Onnxruntime with its graph optimizations switched off."""
    shutil.copy(job.model, job.result)
    session = {
        "provider": "CPUExecutionProvider",
        "provider_options": {},
        "session_config": {},
        "disabled_optimizers": [],
        "session_options": {"graph_optimization_level": "ORT_DISABLE_ALL"},
    }
    (job.out / "session.json").write_text(json.dumps(session))


def transformers_optimizer(job: Job) -> None:
    """onnxruntime.transformers' optimizer, told the architecture."""
    from onnxruntime.transformers.optimizer import optimize_model

    kind = job.kind if job.kind in ("bert", "gpt2") else "bert"
    made = optimize_model(str(job.model), model_type=kind, num_heads=job.heads, hidden_size=job.hidden)
    made.save_model_to_file(str(job.result), use_external_data_format=job.model.stat().st_size > LARGE_BYTES)


def onnxscript_for_ort(job: Job) -> None:
    """Onnxscript's optimizer, then its fusions for onnxruntime."""
    import onnx_ir as ir
    import onnxscript.optimizer
    from onnxscript.rewriter.ort_fusions import optimize_for_ort

    model = ir.load(job.model)
    onnxscript.optimizer.optimize(model)
    made, _ = optimize_for_ort(model)
    ir.save(made, job.result)


def slim(job: Job) -> None:
    """Onnxslim with its defaults."""
    import onnxslim

    onnxslim.slim(str(job.model), str(job.result))


def simplify(job: Job) -> None:
    """Onnxsim with its defaults."""
    import onnx
    import onnxsim

    made, _ = onnxsim.simplify(onnx.load(job.model))
    _save(made, job)


def float16(job: Job, **options: Any) -> None:
    """onnxruntime.transformers' conversion to float16, inputs and outputs kept."""
    import onnx
    from onnxruntime.transformers.float16 import convert_float_to_float16

    _save(convert_float_to_float16(onnx.load(job.model), keep_io_types=True, **options), job)


def _save(model: Any, job: Job) -> None:
    import onnx

    onnx.save(model, job.result, save_as_external_data=model.ByteSize() > LARGE_BYTES)


TOOLS: dict[str, Tool] = {
    "ort-no-optimization": ("onnxruntime, no graph optimization", no_optimization),
    "ort-transformers": ("onnxruntime.transformers optimizer", transformers_optimizer),
    "onnxscript": ("onnxscript optimize_for_ort", onnxscript_for_ort),
    "onnxslim": ("onnxslim", slim),
    "onnxsim": ("onnxsim", simplify),
    "ort-float16": ("onnxruntime float16", partial(float16)),
}
