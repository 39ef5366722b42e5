"""What runs in the environment of neural-compressor: no optim here, and nothing but files and JSON values pass.

``quantization.fit`` returns None for an exception of its own, for one of its ``exit(0)`` and for a missed goal alike:
its strategies are watched while they run, so that each comes out as what it was.
"""

import functools
import logging
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from neural_compressor import quantization
from neural_compressor.config import AccuracyCriterion, PostTrainingQuantConfig, TuningCriterion
from neural_compressor.strategy import STRATEGIES
from onnx.external_data_helper import load_external_data_for_model

_FLOAT = {"activation": {"dtype": ["fp32"]}, "weight": {"dtype": ["fp32"]}}
_MOST_IN_ONE_FILE_BYTES = 1_900_000_000
_INTEGERS = ("Integer", "QLinear", "QuantizeLinear", "QAttention", "MatMulNBits", "MatMulFpQ4")


class _OutOfTimeError(Exception):
    """The time for trials is over."""


class NeuralCompressorError(Exception):
    """The library failed; the text has the true cause."""


def quantize(request: dict[str, Any], host: Any) -> dict[str, Any]:
    """Post-training quantization of any approach.

    Args:
        request: ``model``, ``output``: paths; ``config``: of PostTrainingQuantConfig; ``keep``: node names left in
            float; ``samples``: paths of ``.npz``, empty where none are needed; ``tuning``: where models are to be
            tried until one is accurate enough, ``strategy``, ``confidence_batches``, ``max_trials``,
            ``tolerable_loss``, ``relative_loss``, ``objective``, ``seconds``.
        host: has to answer ``accuracy`` of the path of a model with a number, higher is better, where ``tuning`` is
            given.

    Returns:
        ``quantized``: operators that hold integers, by type; None where no model was accurate enough. ``trials``:
        accuracies of the models tried, the float model's first.
    """
    host.report_progress(0.1, "quantizing with neural-compressor")
    trials: list[float] = []
    config = _configured(request)
    calibration = _Calibration(request["samples"]) if request["samples"] else None
    measure = functools.partial(_accuracy, request=request, host=host, trials=trials, started=time.monotonic())
    with _watched() as seen:
        quantized = quantization.fit(
            _whole(request), config, calib_dataloader=calibration, eval_func=measure if request.get("tuning") else None
        )
    if quantized is None and _goal_missed(seen, trials):
        return {"quantized": None, "trials": trials}
    if quantized is None:
        raise _failure(seen)
    host.report_progress(0.9, "writing")
    output = Path(request["output"])
    quantized.save(str(output))
    counts: dict[str, int] = {}
    for node in onnx.load(str(output), load_external_data=False).graph.node:
        if any(word in node.op_type for word in _INTEGERS):
            counts[node.op_type] = counts.get(node.op_type, 0) + 1
    return {"quantized": counts, "trials": trials}


def _configured(request: dict[str, Any]) -> PostTrainingQuantConfig:
    # Names are taken for regular expressions that match all of a name; by then products may have been fused and split.
    keep = {rf"{re.escape(name)}(/MatMulAddFusion\w*)?(_MatMul)?": _FLOAT for name in request["keep"]}
    tuning: dict[str, Any] = {}
    if asked := request.get("tuning"):
        first = asked["objective"] == "first"
        tuning["tuning_criterion"] = TuningCriterion(
            strategy=asked["strategy"],
            strategy_kwargs={"confidence_batches": asked["confidence_batches"]},
            max_trials=asked["max_trials"],
            timeout=0 if first else asked["seconds"],  # 0 ends at the first that is good
            objective="performance" if first else asked["objective"],
        )
        tuning["accuracy_criterion"] = AccuracyCriterion(
            criterion="relative" if asked["relative_loss"] else "absolute",
            higher_is_better=True,
            tolerable_loss=asked["tolerable_loss"],
        )
    return PostTrainingQuantConfig(**request["config"], **tuning, op_name_dict=keep or None)


def _whole(request: dict[str, Any]) -> str:
    """The model in one file where protobuf takes it: while it tunes, the library loses weights that lie beside."""
    model, output = Path(request["model"]), Path(request["output"])
    proto = onnx.load(str(model))
    if proto.ByteSize() > _MOST_IN_ONE_FILE_BYTES:
        return str(model)
    path = output.with_name("whole.onnx")
    onnx.save(proto, str(path))
    return str(path)


def _accuracy(model: Any, *, request: dict[str, Any], host: Any, trials: list[float], started: float) -> float:
    """What the host says of a model that is being tried; written beside the output."""
    asked = request["tuning"]
    if (
        asked["objective"] == "first" and time.monotonic() - started > asked["seconds"]
    ):  # others have found some by then
        raise _OutOfTimeError
    path = Path(request["output"]).with_name(f"trial-{len(trials)}.onnx")
    proto = onnx.ModelProto()
    proto.CopyFrom(model if isinstance(model, onnx.ModelProto) else model.model)
    load_external_data_for_model(proto, str(Path(request["model"]).parent))  # of a model too large for one file
    onnx.save(proto, str(path), save_as_external_data=True, location=f"{path.name}.data", size_threshold=1024)
    accuracy = float(host.call("accuracy", str(path)))
    for file in path.parent.glob(f"{path.name}*"):
        file.unlink()
    trials.append(accuracy)
    host.report_progress(0.5, f"trial {len(trials)}: accuracy {accuracy:.6g}")
    return accuracy


class _Calibration:
    """Samples as neural-compressor takes them: (feeds, label), one ``.npz`` each."""

    batch_size = 1

    def __init__(self, files: list[str]) -> None:
        self._files = files

    def __iter__(self) -> Iterator[tuple[dict[str, np.ndarray], int]]:
        for path in self._files:
            with np.load(path) as arrays:
                yield dict(arrays), 0


class _Seen(logging.Handler):
    """What the library would have kept to itself: exceptions of its strategies, and what it logged before them."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []
        self.raised: BaseException | None = None

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@contextmanager
def _watched() -> Iterator[_Seen]:
    seen = _Seen()
    logger = logging.getLogger("neural_compressor")
    logger.addHandler(seen)
    originals = {cls: cls.traverse for cls in STRATEGIES.values()}
    for cls, traverse in originals.items():
        cls.traverse = _watching(traverse, seen)
    try:
        yield seen
    except SystemExit as error:
        raise NeuralCompressorError(_said(seen, "it gave up")) from error
    finally:
        for cls, traverse in originals.items():
            cls.traverse = traverse
        logger.removeHandler(seen)


def _watching(traverse: Callable[[Any], None], seen: _Seen) -> Callable[[Any], None]:
    @functools.wraps(traverse)
    def watched(self: Any) -> None:
        try:
            traverse(self)
        except BaseException as error:
            seen.raised = seen.raised or error  # the innermost strategy's comes first
            raise

    return watched


def _goal_missed(seen: _Seen, trials: list[float]) -> bool:
    """Whether the library worked, and no model that it tried is accurate enough."""
    return isinstance(seen.raised, _OutOfTimeError) or (seen.raised is None and len(trials) > 1)


def _failure(seen: _Seen) -> Exception:
    if isinstance(seen.raised, OSError):
        return seen.raised
    if isinstance(seen.raised, SystemExit):
        return NeuralCompressorError(_said(seen, "it gave up"))
    if seen.raised is not None:
        return NeuralCompressorError(f"{type(seen.raised).__name__}: {seen.raised}")
    return NeuralCompressorError(_said(seen, "it returned nothing"))


def _said(seen: _Seen, otherwise: str) -> str:
    said = [line for line in seen.lines if "Not found any quantized model" not in line]
    return said[-1].strip() if said else f"{otherwise} and logged no reason"
