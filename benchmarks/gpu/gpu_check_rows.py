"""The checks of ``gpu_checks.py``: what each asks of ONNX Runtime's providers for NVIDIA, and what counts as held."""

from __future__ import annotations

import os
import statistics
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from gpu import MODELS, write_batch
from samples import drift

HERE = Path(__file__).resolve().parent
COMPUTES = not os.environ.get("AS_GPU")
"""Whether a GPU computes; where one is pretended (as_gpu.py) outputs are zeros, and nothing is held against the CPU."""

WARM, TIMED = 5, 30
"""Runs before a model is timed, and runs whose median is told."""

PLAIN = 3e-3
"""Drift of what is lossless: products in TF32 have 10 bits of mantissa."""

FUSE, HALF, BRAIN, BLOCKS = (
    "ort.fuse-transformer",
    "ort.convert-float16",
    "ort.convert-bfloat16",
    "ort.quantize-weights",
)
PREPARE, PAIRS, BUILT = "tensorrt.prepare", "tensorrt.quantize", "tensorrt.tune-provider"
Step = tuple[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table."""

    what: str
    holds: bool
    said: str


@dataclass(frozen=True, slots=True)
class Chain:
    """Passes one after another, and the drift from the CPU's float32 that their result may have.

    ``refused``: no engine is expected, as ONNX Runtime has no switch for its types.
    """

    steps: tuple[Step, ...]
    bound: float = PLAIN
    refused: bool = False

    @property
    def text(self) -> str:
        """As a command names them."""
        return " + ".join(
            name + "".join(f":{key}={value}" for key, value in options.items()) for name, options in self.steps
        )


CHAINS: Mapping[str, Sequence[Chain]] = {
    "cuda": (
        Chain(()),
        Chain(((FUSE, {}),)),
        Chain(((FUSE, {"leave_out": ("attention",)}),)),
        Chain(((FUSE, {"engine": "onnxruntime"}),)),
        Chain(((FUSE, {"leave_out": ("attention",)}), ("cuda.fuse", {}))),
        Chain(((HALF, {}),), 0.02),
        Chain(((BRAIN, {}),), 0.1),
        Chain((("ort.mixed-precision", {}),), 0.02),
        Chain(((FUSE, {}), (HALF, {})), 0.02),
        Chain(((FUSE, {}), (BRAIN, {})), 0.1),
        Chain(((FUSE, {"leave_out": ("attention",)}), ("cuda.fuse", {}), (HALF, {})), 0.02),
        Chain(((FUSE, {}), (HALF, {}), ("cuda.tune-provider", {"strict_skip_layer_norm": True})), 0.02),
        Chain(((BLOCKS, {"bits": 8}),), 0.2),
        Chain(((BLOCKS, {"bits": 4}),), 0.8),
        Chain(((BLOCKS, {"bits": 4}), (HALF, {})), 0.8),
        Chain(((FUSE, {}), (BLOCKS, {"bits": 8}), (HALF, {})), 0.2),
        Chain((("ort.share-past", {}), (HALF, {})), 0.02),
        Chain((("ort.share-past", {}), (HALF, {}), ("cuda.fuse", {"unpadded": True})), 0.02),
        Chain((("ort.fuse-convolution", {}), (HALF, {})), 0.02),
        Chain(((HALF, {}), ("cuda.tune-provider", {"prefer_nhwc": True})), 0.02),
        Chain((("cuda.tune-provider", {"conv_search": "heuristic", "fuse_conv_bias": True}),)),
        Chain((("cuda.tune-provider", {"tf32": False}),), 1e-4),
    ),
    "tensorrt": (
        Chain(((PREPARE, {}),)),
        Chain(((PREPARE, {}), (BUILT, {}))),
        Chain(((PREPARE, {}), (BUILT, {"precision": "float16"})), 0.02),
        Chain(((PREPARE, {}), (BUILT, {"precision": "bfloat16"})), 0.1),
        Chain(((PREPARE, {}), (HALF, {})), 0.02),
        Chain(((PREPARE, {}), (PAIRS, {}), (BUILT, {})), 0.4),
        Chain(((PREPARE, {}), (PAIRS, {})), 0.4),
        Chain(((PREPARE, {}), (PAIRS, {}), (BUILT, {"precision": "float16"})), 0.4),
        Chain(((PREPARE, {}), (BRAIN, {})), 0.1),
        Chain(((PREPARE, {}), (BUILT, {"profiles": False}))),
        Chain(((PREPARE, {}), (PAIRS, {"format": "float8"}), (BUILT, {})), 0.4, refused=True),
        Chain(((PREPARE, {}), (PAIRS, {"format": "int4-weights"}), (BUILT, {})), 0.8, refused=True),
        Chain(((PREPARE, {}), (BUILT, {"precision": "float16"}), ("tensorrt.engine", {})), 0.02),
    ),
}


def chain_rows(name: str, target_name: str, work: Path, *, tiny: bool) -> Iterator[Row]:
    """A model of the benchmark through every chain: opened, its nodes placed, held against the CPU, timed."""
    from optim import OptimError, SessionConfig
    from optim._engine.plugins.registry import load_registry
    from optim.onnx import open_session
    from optim_testing import Trial

    model = work / f"{name}-dynamo.onnx"
    data = work / f"{name}.checks.npz"
    write_batch(work / f"{name}.feeds.npz", data, 1 if tiny else MODELS[name])
    feeds = dict(np.load(data))
    registry = load_registry()
    target = registry.target(target_name)
    expected: Mapping[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        trial = Trial.of(model, Path(folder), target, registry.backend(target.backend)(), str(data))
        if COMPUTES:
            session = open_session(trial.model.path, SessionConfig())
            names = [one.name for one in session.get_outputs()]
            expected = dict(zip(names, session.run(names, feeds), strict=True))
        for chain in CHAINS[target_name]:
            try:
                yield from _chain_row(trial, registry, chain, feeds, expected)
            except OptimError as error:
                expected_to = ", as expected" if chain.refused else ""
                yield Row(chain.text, chain.refused, f"{error.reference}{expected_to}: {error.cause}"[:400])
            except Exception as error:  # whatever it is, the others are tried
                if not COMPUTES and "CUDNN" in str(error):
                    yield Row(chain.text or "as it is", True, "opened; runs up to cuDNN, which is not pretended")
                    continue
                yield Row(chain.text, False, f"{type(error).__name__}: {' '.join(str(error).split())[:400]}")


def _chain_row(
    trial: Any, registry: Any, chain: Chain, feeds: Mapping[str, Any], expected: Mapping[str, Any]
) -> Iterator[Row]:
    import time

    model = trial.model
    for name, options in chain.steps:
        if "prefer_nhwc" in options and not any(node.op_type == "Conv" for node in model.ir().graph):
            return  # a layout of convolutions
        transformation = _pass_class(registry, name, trial.target)()
        applicable = transformation.applicable(model, trial.target)
        if not applicable:
            return
        result = trial.apply(transformation, model, trial.options(type(transformation), options))
        if not result.changed and name not in (PREPARE, BUILT):
            return
        model = result.model
    begun = time.perf_counter()
    with trial.backend.open(model, trial.target) as session:
        opened_s = time.perf_counter() - begun
        given = {info.name: _given(info, feeds) for info in model.inputs}
        outputs = session.run(given)
        shares = ", ".join(
            f"{one.removesuffix('ExecutionProvider')} {share:.0%}" for one, share in session.executed_on.items()
        )
        said = f"{shares}; opened in {opened_s:.1f} s"
        if not COMPUTES:
            yield Row(chain.text or "as it is", True, said)
            return
        session.time_runs(given, WARM)
        ms = 1e3 * statistics.median(session.time_runs(given, TIMED))
    both = [name for name in expected if name in outputs]
    far = drift([tuple({name: np.asarray(side[name], np.float64) for name in both} for side in (expected, outputs))])
    yield Row(chain.text or "as it is", far <= chain.bound, f"{ms:.3f} ms, drift {far:.2g} of {chain.bound:g}; {said}")


def _pass_class(registry: Any, name: str, target: Any) -> Any:
    """The past in one buffer is offered where the step is timed with it, on a CPU: here it is only applied."""
    return registry.find_pass(name, registry.target("cpu") if name == "ort.share-past" else target).pass_class


def _given(info: Any, feeds: Mapping[str, Any]) -> Any:
    """What goes into an input: of a number of logits that a pass added 0, which is all."""
    if info.name not in feeds:
        return np.zeros((), np.int64)
    array = feeds[info.name]
    return array.astype(np.float16) if "float16" in str(info.dtype) and array.dtype == np.float32 else array
