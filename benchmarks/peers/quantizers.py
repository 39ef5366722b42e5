"""onnxruntime's quantizers, each with its defaults and with the best options that we know for it on a CPU."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from tool import Job, Tool


def dynamic(job: Job) -> None:
    """quantize_dynamic with its defaults."""
    from onnxruntime.quantization import quantize_dynamic

    quantize_dynamic(_own_copy(job), job.result)


def dynamic_best(job: Job) -> None:
    """Per channel, products with constant weights only, after preprocessing."""
    from onnxruntime.quantization import quantize_dynamic

    quantize_dynamic(
        preprocessed(job),
        job.result,
        per_channel=True,
        op_types_to_quantize=["MatMul", "Gemm", "Gather"],
        extra_options={"MatMulConstBOnly": True},
    )


def static(job: Job) -> None:
    """quantize_static with its defaults: QDQ, int8 activations."""
    from onnxruntime.quantization import quantize_static

    quantize_static(_own_copy(job), job.result, Reader(job.calib))


def static_best(job: Job) -> None:
    """QDQ with uint8 activations and int8 weights per channel, after preprocessing."""
    from onnxruntime.quantization import QuantType, quantize_static

    quantize_static(
        preprocessed(job),
        job.result,
        Reader(job.calib),
        per_channel=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
    )


def static_products(job: Job) -> None:
    """As the best, products and convolutions alone."""
    from onnxruntime.quantization import QuantType, quantize_static

    quantize_static(
        preprocessed(job),
        job.result,
        Reader(job.calib),
        per_channel=True,
        activation_type=QuantType.QUInt8,
        weight_type=QuantType.QInt8,
        op_types_to_quantize=["MatMul", "Gemm", "Conv"],
        extra_options={"MatMulConstBOnly": True},
    )


def weights_4(job: Job) -> None:
    """MatMulNBits with its defaults: 4 bits, blocks of 128."""
    _weights(job)


def weights_8(job: Job) -> None:
    """MatMulNBits in 8 bits, blocks of 32, computed in int8."""
    _weights(job, bits=8, block_size=32, is_symmetric=True, accuracy_level=4)


def weights_4_best(job: Job) -> None:
    """MatMulNBits in 4 bits, blocks of 32, computed in int8."""
    _weights(job, bits=4, block_size=32, is_symmetric=False, accuracy_level=4)


def _weights(job: Job, **options: Any) -> None:
    import onnx
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    quantizer = MatMulNBitsQuantizer(onnx.load(job.model), **options)
    quantizer.process()
    quantizer.model.save_model_to_file(str(job.result), use_external_data_format=False)


def _own_copy(job: Job) -> Path:
    """quantize_dynamic writes beside its input: two at once on one file would spoil each other's."""
    folder = job.out / "work"
    folder.mkdir(exist_ok=True)
    return Path(shutil.copy(job.model, folder / "input.onnx"))


def preprocessed(job: Job) -> Path:
    """As onnxruntime recommends; without symbolic shapes, or not at all, where that fails."""
    from onnxruntime.quantization.shape_inference import quant_pre_process

    copied = _own_copy(job)
    made = copied.with_name("preprocessed.onnx")
    for skip_symbolic in (False, True):
        try:
            quant_pre_process(str(copied), str(made), skip_symbolic_shape=skip_symbolic)
        except Exception as error:
            print(f"quant_pre_process(skip_symbolic_shape={skip_symbolic}) failed: {error}")
            continue
        return made
    return copied


class Reader:
    """Calibration samples one after the other, as ``CalibrationDataReader`` has it."""

    def __init__(self, calib: Path) -> None:
        self._samples = self._read(calib)

    def get_next(self) -> dict[str, Any] | None:
        """Returns the next sample; None after the last."""
        return next(self._samples, None)

    def _read(self, calib: Path) -> Iterator[dict[str, Any]]:
        with np.load(calib) as arrays:
            samples: dict[str, dict[str, Any]] = {}
            for name in arrays.files:
                index, _, feed = name.partition("/")
                if not feed.startswith("label"):
                    samples.setdefault(index, {})[feed] = arrays[name]
        yield from samples.values()


TOOLS: dict[str, Tool] = {
    "ort-dynamic": ("dynamic int8, defaults", dynamic),
    "ort-dynamic-best": ("dynamic int8, best known", dynamic_best),
    "ort-static": ("static int8, defaults", static),
    "ort-static-best": ("static int8, best known", static_best),
    "ort-static-products": ("static int8, products and convolutions", static_products),
    "ort-4-bits": ("weights in 4 bits, defaults", weights_4),
    "ort-4-bits-best": ("weights in 4 bits, best known", weights_4_best),
    "ort-8-bits": ("weights in 8 bits, best known", weights_8),
}
