"""Why strict mode is no proposal: CUDA's SkipLayerNormalization in half, emulated, is as good as one in float32.

The kernel (onnxruntime, ``contrib_ops/cuda/bert/skip_layer_norm_impl.cu``) adds x / n and x * x / n in the type of the
input: each of 256 threads over its share of a row, then all threads as a tree. Strict mode adds them in float32.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun
from ort_models import apply, context, export, feeds_for, run

from optim import Model
from optim_plugins.nvidia.cuda.tune_provider import TuneProvider
from optim_plugins.nvidia.gpu.targets import cuda_targets
from optim_plugins.ort.fuse.fuse_transformer import FuseTransformer
from optim_plugins.ort.precision.convert_float16 import ConvertFloat16

Array = NDArray[Any]
Normalize = Callable[[Array, Array, Array, float], Array]

THREADS = 256
KEPT = ("multi_head_attention", "attention", "gelu", "bias_gelu", "erf_gelu", "reshapes")
"""Fusions that ONNX's reference could not run."""


def in_half(x: Array, gamma: Array, beta: Array, epsilon: float) -> Array:
    """The normalization of the kernel, every step in the type of x."""
    means, squares = (np.zeros((*x.shape[:-1], THREADS), x.dtype) for _ in range(2))
    share = x.dtype.type(1 / x.shape[-1])
    for start in range(0, x.shape[-1], THREADS):
        part = x[..., start : start + THREADS]
        means[..., : part.shape[-1]] += share * part
        squares[..., : part.shape[-1]] += share * part * part
    while means.shape[-1] > 1:
        means, squares = (one[..., ::2] + one[..., 1::2] for one in (means, squares))
    deviation = np.sqrt(squares - means * means + x.dtype.type(epsilon))
    found: Array = gamma * (x - means) * (x.dtype.type(1) / deviation) + beta
    return found


def strict(x: Array, gamma: Array, beta: Array, epsilon: float) -> Array:
    """The same in float32, rounded at the end."""
    wide = x.astype(np.float32)
    scaled = (wide - wide.mean(-1, keepdims=True)) / np.sqrt(wide.var(-1, keepdims=True) + np.float32(epsilon))
    found: Array = (scaled * gamma + beta).astype(x.dtype)
    return found


def off(found: Array, exact: Array) -> float:
    gap = found.astype(np.float64) - exact
    return float(np.linalg.norm(gap) / np.linalg.norm(exact.astype(np.float64)))


@pytest.fixture
def half(tmp_path: Path) -> tuple[Model, Model]:
    """A decoder, and the same in float16 with SkipLayerNormalization."""
    model = export("gpt2.dynamo", tmp_path)
    fused = apply(FuseTransformer, model, tmp_path, leave_out=KEPT).model
    return model, apply(ConvertFloat16, fused, tmp_path, [feeds_for("gpt2.dynamo")], io="keep").model


def test_the_drift_of_a_decoder_is_that_of_float16_and_not_of_these_sums(half: tuple[Model, Model]) -> None:
    def logits(normalize: Normalize) -> Array:
        class SkipLayerNormalization(OpRun):
            op_domain = "com.microsoft"

            def _run(self, x: Any, skip: Any, gamma: Any, beta: Any, bias: Any = None, **given: Any) -> Any:
                total = x + skip if bias is None else x + bias + skip
                return normalize(total, gamma, beta, given["epsilon"]), x[:1], x[:1], total

        session = ReferenceEvaluator(onnx.load(model.path), new_ops=[SkipLayerNormalization])
        found: Array = session.run(["logits"], feeds_for("gpt2.dynamo"))[0]  # type: ignore[assignment]
        return found

    original, model = half
    exact = run(original, feeds_for("gpt2.dynamo"))["logits"]
    plain, better = (off(logits(one), exact) for one in (in_half, strict))
    assert plain == pytest.approx(0.0015, abs=0.0005)
    assert better == pytest.approx(0.0012, abs=0.0005)


def test_a_row_whose_mean_square_exceeds_the_largest_half_is_lost() -> None:
    x = np.random.default_rng(0).standard_normal((8, 768)).astype(np.float16)
    ones, zeros = np.ones(768, np.float16), np.zeros(768, np.float16)
    for large, lost in ((6000, False), (8000, True)):
        x[:, 5] = large
        wide = x.astype(np.float64)
        exact = (wide - wide.mean(-1, keepdims=True)) / wide.std(-1, keepdims=True)
        with np.errstate(all="ignore"):
            assert (off(in_half(x, ones, zeros, 1e-5), exact) > 0.5) is lost
        assert off(strict(x, ones, zeros, 1e-5), exact) < 1e-3


def test_strict_mode_is_an_option_and_no_proposal(tmp_path: Path) -> None:
    model = export("gpt2.dynamo", tmp_path)
    proposed = TuneProvider().candidates(model, cuda_targets()[0], context(tmp_path))
    assert not any(one.strict_skip_layer_norm for one in proposed)
    found = apply(TuneProvider, model, tmp_path, strict_skip_layer_norm=True)
    assert found.model.session.provider_options == {
        "CUDAExecutionProvider": {"enable_skip_layer_norm_strict_mode": "1"}
    }
