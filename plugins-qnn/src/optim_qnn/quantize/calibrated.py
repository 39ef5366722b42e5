"""onnxruntime's quantizer with its settings for QNN, fed with the samples of the run."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optim import Context, Model, OptimError

if TYPE_CHECKING:
    import onnx_ir as ir

    from optim_qnn.quantize.quantize_options import QuantizeOptions


def quantized(model: Model, options: QuantizeOptions, context: Context) -> Path:
    """Calibrate and quantize; the file, in the pass's scratch folder.

    Raises:
        OptimError[no-calibration-data]: there is no sample.
        OptimError[quantize-failed]: the quantizer gives up; its reason.
    """
    import onnx_ir
    from onnxruntime.quantization import CalibrationMethod, QuantType, quantize
    from onnxruntime.quantization.execution_providers.qnn import get_qnn_qdq_config

    from optim_qnn.quantize.overrides import parsed
    from optim_qnn.quantize.tensor_types import by_name, typed, types_for_htp, types_with_kept

    types = {name: getattr(QuantType, f"Q{name[0].upper()}{name[1:].replace('int', 'Int')}") for name in _TYPES}
    graph = typed(model)
    kept = types["int16" if options.activations == "int8" else "uint16"]
    overrides = {
        **types_with_kept(graph, options.keep, types[options.activations], kept),
        **types_for_htp(graph, types[options.weights], QuantType.QUInt8, options),
        **parsed(graph, options.overrides, types),
    }
    source, target = context.scratch / "float.onnx", context.scratch / "quantized.onnx"
    onnx_ir.save(graph, source, external_data="float.data")
    try:
        with _quiet():
            config = get_qnn_qdq_config(
                source,
                _reader(context),
                calibrate_method=CalibrationMethod[_METHODS[options.calibration]],
                activation_type=types[options.activations],
                weight_type=types[options.weights],
                per_channel=options.per_channel,
                init_overrides=by_name(overrides),
                add_qtype_converts=bool(options.overrides),
                activation_symmetric=options.symmetric_activations,
                weight_symmetric=options.symmetric_weights,
                keep_removable_activations=options.keep_removable,
                stride=options.stride,
                op_types_to_quantize=_operators(graph, options),
                nodes_to_exclude=list(options.float_nodes) or None,
            )
            quantize(source, target, config)
    except OptimError:
        raise
    except Exception as error:  # the quantizer raises anything, asserts too
        raise OptimError(
            "quantize-failed",
            "onnxruntime's quantizer failed",
            f"{type(error).__name__}: {error}"[:400],
            "optim passes show qnn.quantize; leave the pass out with --without qnn.quantize",
            "optim-plugin-qnn",
        ) from error
    return target


_TYPES = ("uint8", "uint16", "int8", "int16", "int4")
_METHODS = {"minmax": "MinMax", "entropy": "Entropy", "percentile": "Percentile"}


def _operators(graph: ir.Model, options: QuantizeOptions) -> list[str] | None:
    """Operators that are quantized; None for all that onnxruntime's settings for QNN quantize."""
    from onnxruntime.quantization.execution_providers.qnn.quant_config import OP_TYPES_TO_EXCLUDE

    if not options.float_operators:
        return None
    left_out = {*options.float_operators, *OP_TYPES_TO_EXCLUDE}
    return sorted({node.op_type for node in graph.graph} - left_out)


def _reader(context: Context) -> Any:
    """The samples of the run as onnxruntime reads them.

    Raises:
        OptimError[no-calibration-data]: there are none.
    """
    from onnxruntime.quantization import CalibrationDataReader

    class Samples(CalibrationDataReader):  # type: ignore[misc]
        """One after the other."""

        def __init__(self) -> None:
            self._first, self._end = 0, sum(1 for _ in context.samples())
            self.rewind()

        def __len__(self) -> int:
            return sum(1 for _ in context.samples())

        def set_range(self, start_index: int, end_index: int) -> None:
            """The samples that are given next."""
            self._first, self._end = start_index, end_index
            self.rewind()

        def get_next(self) -> Any:
            return next(self._samples, None)

        def rewind(self) -> None:
            self._samples = islice(context.samples(), self._first, self._end)

    if next(context.samples(), None) is None:
        raise OptimError(
            "no-calibration-data",
            "there is nothing to calibrate on",
            "the run has no samples",
            "give --data with at least one sample",
            "optim-plugin-qnn",
        )
    return Samples()


@contextmanager
def _quiet() -> Iterator[None]:
    """The quantizer advises on the root logger what is done already.

    What other threads log goes through loggers of their own, which a filter of the root's does not see.
    """
    root = logging.getLogger()

    def errors_only(record: logging.LogRecord) -> bool:
        return record.levelno >= logging.ERROR

    root.addFilter(errors_only)
    try:
        yield
    finally:
        root.removeFilter(errors_only)
