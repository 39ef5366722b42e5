"""One pass on one model: what it did, and whether that is right.

A pass that loses nothing is held to rounding, as the gate of a run does. A lossy one is held to what its numbers can
be at all: the model itself, fed with numbers of that precision, tells how far its outputs move. What the pass makes may
move ten times as far, or a floor that no correct conversion of these models came near (see ``_FLOORS``). NaN and
infinity that the model does not give are wrong in any case, so is a graph that is invalid or that the runtime refuses.
"""

from __future__ import annotations

import logging
import shutil
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime as ort

from optim import Context, Model, Pass, PassOptions, PassResult
from optim._engine.compare.distrust import Untouched, checked_model
from optim._engine.gate.drift import CAP, FACTOR, FLOOR
from optim._engine.graphs.ingest import ingest
from optim.drift import compare_outputs
from optim.errors import OptimError
from optim.onnx.sessions import runtime_limits
from optim.options import options_class, parse_options
from optim.passes import Stage
from optim_plugins.ort import plugin
from suite.backend_models import Case

CPU = plugin.CPU
INGEST = "ingest"
_FLOORS = {"float16": 0.01, "bfloat16": 0.06, "int8": 0.3, "int4": 0.6}
"""Drift per precision of numbers, about ten units in their last place."""
_OPSETS = (7, 9, 13, 17, 21)
_LEAST = ort.GraphOptimizationLevel.ORT_DISABLE_ALL


class Outcome(StrEnum):
    """What came of a trial."""

    RIGHT = "changed, right"
    DECLINED = "declined"
    NOTHING = "no-op"
    WRONG = "WRONG"
    RAISED = "RAISED"
    NOT_RUN = "not run"


@dataclass(frozen=True)
class Result:
    """A trial: of which pass with which options on which model, and what came of it, with the reason."""

    case: str
    name: str
    options: str
    outcome: Outcome
    reason: str = ""


class NotRunError(Exception):
    """The runtime itself does not run the model, or not twice the same; nothing can be said of passes."""


def model_passes() -> list[type[Pass]]:
    """Passes that change graphs, in the order of their stages."""
    stages = (Stage.FUSE, Stage.QUANTIZE, Stage.CONVERT_PRECISION)
    hooks = (plugin.optim_fuse, plugin.optim_quantize, plugin.optim_convert_precision)
    assert [hook.__name__ for hook in hooks] == [stage.hook for stage in stages]
    return [found for hook in hooks for found in hook(CPU)]


class Subject:
    """A case in a store of its own, with the outputs that the runtime gives for the untouched file."""

    def __init__(self, case: Case, folder: Path) -> None:
        """Write the file and run it.

        Raises:
            NotRunError: there is nothing to compare with.
        """
        self.case = case
        self.folder = folder
        self.path = folder / "model.onnx"
        onnx.save(case.model, self.path)
        self.samples = [dict(sample) for sample in case.samples]
        try:
            self.expected = run(self.path, self.samples)
            again = run(self.path, self.samples, _LEAST)
        except Exception as error:
            raise NotRunError(f"onnxruntime: {_line(error)}") from error
        if not self.samples or not any(outputs for outputs in self.expected):
            raise NotRunError("it has no sample, or no output")
        self.own_rounding = drift(self.expected, again)
        if not self.own_rounding <= CAP:
            raise NotRunError(f"its outputs are {self.own_rounding:.2g} apart between two runs of its own")

    @cached_property
    def model(self) -> Model:
        """As passes are given it."""
        return ingest(self.path, self.store)

    @property
    def store(self) -> Path:
        """Where models go."""
        return self.folder / "store"

    @contextmanager
    def context(self) -> Iterator[Context]:
        """What a pass may use."""
        scratch = self.folder / "scratch"
        scratch.mkdir()
        log = logging.getLogger("suite")
        try:
            yield Context(CPU, scratch, self.store, 0, lambda: iter(self.samples), log, lambda share, text: None)
        finally:
            shutil.rmtree(scratch)

    def allowed(self, precision: str) -> float:
        """How far outputs may be from the model's own, for numbers of this precision; empty for a lossless pass."""
        if not precision:
            return min(max(FLOOR, FACTOR * self.own_rounding), CAP)
        rounded = [{name: _rounded(value, precision) for name, value in sample.items()} for sample in self.samples]
        try:
            moved = drift(self.expected, run(self.path, rounded))
        except Exception:  # rounded, they may be no input of this model any more
            moved = 0.0
        return max(_FLOORS[precision], FACTOR * moved)


def try_ingest(subject: Subject) -> Result:
    """Whether the model comes into the store as it is."""
    name = subject.case.name
    try:
        model = subject.model
    except OptimError as error:
        return Result(name, INGEST, "", Outcome.DECLINED, f"{error.what}: {error.cause}")
    except Exception as error:
        return Result(name, INGEST, "", Outcome.RAISED, _where(error))
    problem = _problem(subject, model.path, "")
    return Result(name, INGEST, "", Outcome.WRONG if problem else Outcome.RIGHT, problem)


def try_pass(subject: Subject, pass_class: type[Pass], *, thorough: bool = True) -> Iterator[Result]:
    """Ask a pass, and try what it proposes; thoroughly: its defaults too."""
    name, case = pass_class.name, subject.case.name
    transformation = pass_class()
    try:
        applicable = transformation.applicable(subject.model, CPU)
        if not applicable:
            outcome = Outcome.DECLINED if applicable.reason else Outcome.WRONG
            yield Result(case, name, "", outcome, applicable.reason or "it declines without a reason")
            return
        chosen = _chosen(subject, transformation, thorough=thorough)
    except Exception as error:
        yield Result(case, name, "", Outcome.RAISED, _where(error))
        return
    for options in chosen:
        outcome, reason = _apply(subject, transformation, options)
        yield Result(case, name, _text(options), outcome, reason)


def _chosen(subject: Subject, transformation: Pass, *, thorough: bool) -> list[PassOptions]:
    kind = type(transformation)
    if transformation.name == "ort.convert-opset":
        versions = (*_OPSETS, runtime_limits().opset[""]) if thorough else (_OPSETS[1], _OPSETS[-1])
        return [parse_options(kind, {"to": version}) for version in versions if version != subject.model.opset.get("")]
    with subject.context() as context:
        proposed = list(transformation.candidates(subject.model, CPU, context))
    wanted = [*proposed, options_class(kind)()] if thorough or not proposed else proposed[:1]
    if thorough and transformation.name == "ort.mixed-precision":
        wanted.append(parse_options(kind, {"dtype": "bfloat16"}))
    if thorough and "weights_only" in options_class(kind).model_fields:
        wanted += [parse_options(kind, {"weights_only": True}), parse_options(kind, {"weights_only": False})]
    return [options for number, options in enumerate(wanted) if options not in wanted[:number]]


def _apply(subject: Subject, transformation: Pass, options: PassOptions) -> tuple[Outcome, str]:
    before = Untouched.now(subject.model)
    try:
        with subject.context() as context:
            result = transformation.apply(subject.model, options, context)
        before.require(transformation.name)
        if result.changed:
            made = checked_model(result, subject.model, subject.store, transformation.name)
    except OptimError as error:
        if error.reference in ("invalid-graph", "mutated-input", "not-in-store", "store-changed"):
            return Outcome.WRONG, f"{error.what}: {error.cause}"
        return Outcome.DECLINED, f"[{error.reference}] {error.what}: {error.cause}"
    except Exception as error:
        return Outcome.RAISED, _where(error)
    if not result.changed:
        return Outcome.NOTHING, result.notes[0]
    problem = _said(result, subject.model) or _problem(subject, made.path, _precision(transformation, options))
    return (Outcome.WRONG, problem) if problem else (Outcome.RIGHT, "")


def _said(result: PassResult, before: Model) -> str:
    """What the result leaves out."""
    if not result.counts and not result.notes:
        return "a change without counts or notes"
    if [(value.name, value.dtype) for value in result.model.outputs] != [
        (value.name, value.dtype) for value in before.outputs
    ]:
        return "outputs have other names or types"
    return ""


def _problem(subject: Subject, path: Path, precision: str) -> str:
    """Why the model at a path is not the original; empty where it is."""
    try:
        got = run(path, subject.samples)
    except Exception as error:
        return f"it does not run: {_line(error)}"
    far = drift(subject.expected, got)
    allowed = subject.allowed(precision)
    return "" if far <= allowed else f"drift {far:.3g}, {allowed:.2g} allowed"


def _precision(transformation: Pass, options: PassOptions) -> str:
    if not transformation.lossy:
        return ""
    if transformation.name == "ort.quantize-weights":
        return "int8" if getattr(options, "bits", 4) == 8 else "int4"
    return getattr(options, "dtype", "") or {"ort.convert-float16": "float16", "ort.convert-bfloat16": "bfloat16"}.get(
        transformation.name, "int8"
    )


def run(path: Path, samples: Sequence[Mapping[str, Any]], level: Any = None) -> list[dict[str, Any]]:
    """Outputs of every sample, those of a sequence one by one; in one thread, which is the fastest for so little."""
    options = ort.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    if level is not None:
        options.graph_optimization_level = level
    session = ort.InferenceSession(path, options, providers=[CPU.provider])
    names = [output.name for output in session.get_outputs()]
    inputs = {value.name for value in session.get_inputs()}
    found = []
    for sample in samples:
        outputs = session.run(None, {name: value for name, value in sample.items() if name in inputs})
        found.append(dict(_flat(zip(names, outputs, strict=True))))
    return found


def _flat(outputs: Any) -> Iterator[tuple[str, Any]]:
    for name, value in outputs:
        if isinstance(value, list | tuple):
            yield f"{name}.length", np.asarray(len(value))
            yield from _flat((f"{name}[{place}]", one) for place, one in enumerate(value))
        elif isinstance(value, dict):
            yield from _flat((f"{name}[{key}]", one) for key, one in value.items())
        else:
            yield name, np.asarray(0 if value is None else value)


def drift(expected: Sequence[Mapping[str, Any]], got: Sequence[Mapping[str, Any]]) -> float:
    """The worst drift of an output over all samples; infinite where one is missing or cannot be compared."""
    pairs = list(zip(expected, got, strict=True))
    if any(set(reference) != set(other) for reference, other in pairs):
        return float("inf")
    return max((one.relative_error for one in compare_outputs(pairs)), default=0.0)


def _rounded(value: Any, precision: str) -> Any:
    """The floats of an input in fewer bits."""
    if isinstance(value, list):
        return [_rounded(one, precision) for one in value]
    if not isinstance(value, np.ndarray) or value.dtype not in (np.float32, np.float64) or not value.size:
        return value
    if precision == "float16":
        with np.errstate(over="ignore"):
            return value.astype(np.float16).astype(value.dtype)
    if precision == "bfloat16":
        return value.astype(ml_dtypes.bfloat16).astype(value.dtype)
    steps = 127 if precision == "int8" else 7
    scale = float(np.abs(value[np.isfinite(value)]).max(initial=0.0)) / steps or 1.0
    return (np.round(value / scale) * scale).astype(value.dtype)


def _text(options: PassOptions) -> str:
    plain = options.model_dump(exclude_defaults=True)
    return ", ".join(f"{key}={value}" for key, value in plain.items()) or "defaults"


def _where(error: BaseException) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} at {Path(frame.filename).name}:{frame.lineno}: {_line(error)}"


def _line(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text[:300] or type(error).__name__
