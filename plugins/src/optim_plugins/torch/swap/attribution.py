"""The table of a swap: how far each combination of kernels is from each pure runtime, and from float64."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx

from optim import OptimError, SessionConfig, Target
from optim.arrays import Array, Feeds, dtype_of, is_float
from optim.onnx import open_session
from optim_plugins.torch.swap.node_evaluator import FLOAT64, NodeEvaluator, RanNode
from optim_plugins.torch.swap.ort_kernels import between_casts, run_between_casts
from optim_plugins.torch.swap.types import as_dtype, computes_in, operators

COUNTED = (0.0, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0)
"""Absolute differences that elements are counted above."""

KERNELS = ("torch", "ort")


@dataclass(frozen=True, slots=True)
class Combination:
    """Kernels by operator, and the one of all others; the name is what the user wrote."""

    name: str
    kernels: Mapping[str, str]
    rest: str


@dataclass(frozen=True, slots=True)
class Difference:
    """An output against another.

    Attributes:
        n: elements.
        max_abs: largest absolute difference, in the output's unit.
        relative: largest difference over the magnitude of the other.
        total: sum of absolute differences.
        nan: elements that are NaN on one side only.
        above: elements that differ by more than each of :data:`COUNTED`.
        ulp: largest distance in units in the last place of the output's type.
    """

    n: int
    max_abs: float
    relative: float
    total: float
    nan: int
    above: tuple[int, ...]
    ulp: float


@dataclass(frozen=True, slots=True)
class Row:
    """One output of one combination.

    Attributes:
        target: where it ran.
        device: of torch's kernels.
        dtype: of the output.
        combination: its name; ``torch``, ``ort`` and ``float64`` are pure.
        output: by name.
        smallest: of it.
        largest: of it.
        mean: of it.
        to: differences to ``torch``, ``ort`` and ``float64``.
        on_ort: operators that torch was asked for and has no kernel of here.
        rounded: operators that onnxruntime has no kernel of in bfloat16 here; float32's ran between two roundings.
        whole: whether onnxruntime ran the model as a whole; False: node by node, since it cannot open it.
    """

    target: str
    device: str
    dtype: str
    combination: str
    output: str
    smallest: float
    largest: float
    mean: float
    to: Mapping[str, Difference]
    on_ort: tuple[str, ...]
    rounded: tuple[str, ...]
    whole: bool


def parse_kernels(text: str) -> Combination:
    """``LayerNormalization=torch,MatMul=ort``; ``*=ort`` is for the rest, else that is torch.

    Raises:
        OptimError[bad-kernels]: it is written in another way.
    """
    chosen = dict(part.partition("=")[::2] for part in text.split(","))
    if not all(name and kernel in KERNELS for name, kernel in chosen.items()):
        raise OptimError.usage(
            "bad-kernels",
            f"--kernels '{text}' cannot be read",
            f"an operator, an equals sign and one of {', '.join(KERNELS)} are expected, separated by commas",
            "--kernels LayerNormalization=torch,MatMul=ort",
        )
    rest = chosen.pop("*", "torch")
    return Combination(text, chosen, rest)


def attribute(
    model: onnx.ModelProto, feeds: Feeds, combinations: Sequence[Combination], target: Target, dtype: str, folder: Path
) -> list[Row]:
    """Rows of one target in one type, the pure runtimes first.

    Args:
        model: with its weights.
        feeds: of the model; floats are converted.
        combinations: to run beside the pure ones.
        target: of onnxruntime.
        dtype: ``float32``, ``float16`` or ``bfloat16``; empty: as the model is.
        folder: empty, for what onnxruntime opens.

    Raises:
        OptimError[unknown-operator-name]: a combination names one that the model does not have.
        OptimError[swap-failed]: a node cannot be run alone.
    """
    known = set(operators(model))
    for name in (name for one in combinations for name in one.kernels if name not in known):
        raise OptimError.usage(
            "unknown-operator-name",
            f"the model has no operator '{name}'",
            f"it has {', '.join(sorted(known))}",
            f"--kernels {sorted(known)[0]}=ort",
        )
    if dtype:
        model = as_dtype(model, dtype_of(dtype))
        feeds = {n: a.astype(dtype_of(dtype)) if computes_in(a.dtype) else a for n, a in feeds.items()}
    evaluator = NodeEvaluator(model, target)
    opened = _whole(model, feeds, target, folder)
    found = {"ort": opened or evaluator.run(feeds, {}, "ort")}
    pure = (Combination("torch", {}, "torch"), Combination(FLOAT64, {}, FLOAT64))
    for one in (*pure, *combinations):
        found[one.name] = evaluator.run(feeds, one.kernels, one.rest)
    against = {name: found[name].outputs for name in ("torch", "ort", FLOAT64)}
    return [
        Row(
            target=target.name,
            device=evaluator.device,
            dtype=str(array.dtype),
            combination=combination,
            output=name,
            smallest=float(np.nanmin(array)),
            largest=float(np.nanmax(array)),
            mean=float(np.nanmean(array.astype(np.float64))),
            to={
                other: difference(outputs[name], array, against["ort"][name].dtype)
                for other, outputs in against.items()
            },
            on_ort=tuple(sorted(ran.on_ort)),
            rounded=tuple(sorted(ran.rounded)),
            whole=combination == "ort" and opened is not None,
        )
        for combination, ran in found.items()
        for name, array in ran.outputs.items()
    ]


def _whole(model: onnx.ModelProto, feeds: Feeds, target: Target, folder: Path) -> RanNode | None:
    """The model as onnxruntime runs it; None where that opens no such model in bfloat16.

    Raises:
        OptimError[session-failed]: it cannot open a model of another type.
    """
    kinds = {tensor.data_type for tensor in model.graph.initializer}
    kinds |= {value.type.tensor_type.elem_type for value in (*model.graph.input, *model.graph.output)}
    narrow = onnx.TensorProto.BFLOAT16 in kinds
    copied = onnx.ModelProto()
    cast, kinds_made = between_casts(model) if narrow else (model, (None,) * len(model.graph.output))
    copied.CopyFrom(cast)  # saving makes it refer to the data's file
    path = folder / "model.onnx"
    onnx.save(copied, path, save_as_external_data=True, location="weights.bin")
    try:
        session = open_session(path, SessionConfig(), target)
    except OptimError as error:
        if narrow and error.reference == "session-failed":
            return None
        raise
    names = [value.name for value in model.graph.output]
    weights = {tensor.name for tensor in model.graph.initializer}
    given = [feeds[value.name] for value in model.graph.input if value.name not in weights]
    made = run_between_casts(session, given, kinds_made)
    return RanNode(dict(zip(names, made, strict=True)))


def difference(reference: Array, other: Array, dtype: np.dtype[np.generic]) -> Difference:
    """How far one output is from another, in units in the last place of ``dtype``."""
    a, b = np.asarray(reference).astype(np.float64).ravel(), np.asarray(other).astype(np.float64).ravel()
    nan = int((np.isnan(a) != np.isnan(b)).sum())
    both = np.isfinite(a) & np.isfinite(b)
    a, b = a[both], b[both]
    gap = np.abs(a - b)
    larger = np.maximum(np.abs(a), np.abs(b))
    ulp = 0.0
    if is_float(dtype) and gap.size:
        spacing = np.spacing(larger.astype(dtype)).astype(np.float64)
        ulp = float((gap / np.maximum(spacing, np.finfo(np.float64).tiny)).max())  # 0 where a process flushes denormals
    return Difference(
        n=int(both.size),
        max_abs=float(gap.max(initial=0.0)),
        relative=float((gap / np.maximum(np.abs(a), 1e-12)).max(initial=0.0)),
        total=float(gap.sum()),
        nan=nan,
        above=tuple(int((gap > limit).sum()) for limit in COUNTED),
        ulp=ulp,
    )
