"""``openvino.tune``: how OpenVINO runs the model. The clock decides, as of every setting."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from optim import APPLICABLE, Applicable, Context, Model, Pass, PassResult, Target
from optim_openvino.runtime import properties
from optim_openvino.runtime.properties import as_session, settings_of

if TYPE_CHECKING:
    from optim_openvino.tune.tune_options import TuneOptions

_CORES = {"any": "ANY_CORE", "performance": "PCORE_ONLY", "efficient": "ECORE_ONLY"}
_GROUP_SIZES = (128, 0)
"""OpenVINO's own is 32: larger groups are quicker and coarser, 0 is exact. 64 lies between and was never the best."""


class Tune(Pass):
    """Threads, streams, cores, denormals, dynamic quantization, model cache."""

    name = "openvino.tune"
    summary = "tries settings of OpenVINO: threads, streams, cores, denormals, dynamic quantization, model cache"
    options = "optim_openvino.tune.tune_options:TuneOptions"
    session_only = True
    hardware = "threads, cores and pinning are of processors"

    def applicable(self, model: Model, target: Target) -> Applicable:
        """Always."""
        return APPLICABLE

    def candidates(self, model: Model, target: Target, context: Context) -> Iterator[TuneOptions]:
        """One setting at a time; on a processor alone, since the others have one way to run a model."""
        from optim.jobs import usable_processors
        from optim_openvino.tune.tune_options import TuneOptions

        device, _ = settings_of(model, target)
        if device != "CPU":
            return
        yield TuneOptions(flush_denormals=True)
        processors = target.threads or usable_processors()
        if processors > 1:
            yield TuneOptions(pinning=False)
        if processors > 2:
            yield TuneOptions(hyper_threading=False)
            yield TuneOptions(threads=processors // 2)
        if _has_compressed_weights(model):
            for size in _GROUP_SIZES:
                yield TuneOptions(group_size=size)

    def apply(self, model: Model, options: TuneOptions, context: Context) -> PassResult:
        """Lay the settings over the model's."""
        chosen = _properties(options)
        tuned = model.with_session(as_session(chosen))
        if tuned.digest == model.digest:
            return PassResult(model, changed=False, notes=("the model has these settings already",))
        return PassResult(tuned, changed=True, counts={"settings": len(chosen)})


def _properties(options: TuneOptions) -> dict[str, str]:
    """Properties by OpenVINO's names, as it reads them from texts."""
    asked = {
        properties.THREADS: options.threads,
        properties.STREAMS: options.streams,
        properties.HYPER_THREADING: options.hyper_threading,
        properties.PINNING: options.pinning,
        properties.CORE_TYPE: _CORES[options.core_type] if options.core_type else None,
        properties.DENORMALS: options.flush_denormals,
        properties.GROUP_SIZE: options.group_size,
        properties.KV_PRECISION: options.kv_precision,
        properties.MODEL_CACHE: options.model_cache,
    }
    return {name: _text(value) for name, value in asked.items() if value is not None}


def _text(value: bool | int | str) -> str:
    return ("YES" if value else "NO") if isinstance(value, bool) else str(value)


def _has_compressed_weights(model: Model) -> bool:
    """Whether a product reads a weight in integers of 8 bits or fewer that becomes float as it is read."""
    import onnx_ir as ir

    small = (ir.DataType.INT8, ir.DataType.UINT8, ir.DataType.INT4, ir.DataType.UINT4)
    return any(
        node.op_type == "DequantizeLinear"
        and node.inputs[0] is not None
        and node.inputs[0].const_value is not None
        and node.inputs[0].const_value.dtype in small
        and any(user.op_type in ("MatMul", "Gemm", "Reshape", "Transpose") for user, _ in node.outputs[0].uses())
        for node in model.ir().graph
    )
