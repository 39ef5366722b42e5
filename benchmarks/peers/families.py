"""Each peer with the settings that its own documentation recommends for a CPU, tried one after the other.

    python benchmarks/peers/families.py TOOL MODEL OUT --calib CALIB.npz [--type bert --heads 12 --hidden 384]

OUT/tries.json has a line for each setting: its name, where the model lies or how the original is opened, the seconds
that it took, or why there is none. After ``--limit`` seconds (60) no further setting is tried; those are listed too.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
import graph_tools
from olive_peer import TOOLS as OLIVE_TOOLS
from quantizers import Reader, preprocessed
from tool import Job

BENCH = Path(__file__).resolve().parents[2] / ".cache"
OLIVE, INC = (BENCH / name / "bin" / "python" for name in ("bench-olive", "bench-inc"))

Try = Callable[[Job], None]


@dataclass(frozen=True)
class Family:
    """A tool with its settings.

    Attributes:
        label: in tables.
        tries: by setting, the most promising first.
        settings: how the original is opened, by setting, for tools that write no model.
        runtimes: what opens its models.
        slow: it has an environment of its own, or compiles for minutes.
        quantizes: its models hold integers, unless it did nothing.
    """

    label: str
    tries: dict[str, Try]
    settings: dict[str, dict[str, Any]] | None = None
    runtimes: tuple[str, ...] = ("ort",)
    slow: bool = False
    quantizes: bool = False


@cache
def has_vnni() -> bool:
    """Whether products of 8 bits do not saturate on this processor, also as as_avx2.py has it."""
    from optim._engine.machine import this_machine

    return bool({"avx512_vnni", "avx_vnni", "asimddp"} & set(this_machine().instruction_sets))


def dynamic(job: Job, *, optimized: bool = False, products: bool = False, **options: Any) -> None:
    """quantize_dynamic, after the transformer optimizer where that is asked for."""
    from onnxruntime.quantization import quantize_dynamic

    model = job.model
    if optimized:
        first = replace(job, out=job.out / "optimized")
        first.out.mkdir()
        graph_tools.transformers_optimizer(first)
        model = first.result
    words = {"op_types_to_quantize": ["MatMul", "Gemm", "Gather"]} if products else {}
    extra = {"extra_options": {"MatMulConstBOnly": True}}
    ready = preprocessed(replace(job, model=model)) if optimized else prepared(job)
    quantize_dynamic(ready, job.result, **words, **extra, **options)


def static(job: Job, *, form: str = "QDQ", method: str = "MinMax", products: bool = False, **options: Any) -> None:
    """quantize_static, activations in unsigned and weights in signed 8 bits unless options say else."""
    from onnxruntime.quantization import CalibrationMethod, QuantFormat, QuantType, quantize_static

    asked = {"activation_type": QuantType.QUInt8, "weight_type": QuantType.QInt8}
    asked |= {name: getattr(QuantType, value) if name.endswith("_type") else value for name, value in options.items()}
    if products:
        asked |= {"op_types_to_quantize": ["MatMul", "Gemm", "Conv"], "extra_options": {"MatMulConstBOnly": True}}
    quantize_static(
        prepared(job),
        job.result,
        Reader(job.calib),
        quant_format=getattr(QuantFormat, form),
        calibrate_method=getattr(CalibrationMethod, method),
        **asked,
    )


def weights(job: Job, **options: Any) -> None:
    """MatMulNBits, after preprocessing: products with weights behind a Transpose are left alone otherwise."""
    import onnx
    from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

    quantizer = MatMulNBitsQuantizer(onnx.load(prepared(job)), **options)
    quantizer.process()
    quantizer.model.save_model_to_file(str(job.result), use_external_data_format=False)


def prepared(job: Job) -> Path:
    """The model after onnxruntime's preprocessing, made once for all settings; each counts its seconds."""
    folder = job.out.parents[1] / "preprocessed"
    made, took = folder / "model.onnx", folder / "seconds.json"
    if not took.is_file():
        began = time.monotonic()
        folder.mkdir(exist_ok=True)
        shutil.copy(preprocessed(job), made)
        took.write_text(json.dumps(time.monotonic() - began))
        return made
    _KEPT_S.append(float(json.loads(took.read_text())))
    return made


_KEPT_S: list[float] = []
"""What the setting at hand would have waited for, had it not been made before."""


class TooLongError(BaseException):
    """A setting is ended: no tool shall take that for an error of its own and go on without a step."""


def nncf_quantized(job: Job, preset: str, **options: Any) -> None:
    """NNCF's post-training quantization of the ONNX graph."""
    import nncf
    import nncf.onnx
    import onnx
    from samples import samples_of

    model, samples = onnx.load(job.model), samples_of(str(job.calib))
    kind = nncf.ModelType.TRANSFORMER if job.kind else None
    asked = {"model_type": kind, "subset_size": len(samples), "preset": getattr(nncf.QuantizationPreset, preset)}
    onnx.save(nncf.quantize(model, nncf.Dataset(samples), **asked, **options), job.result)


def nncf_weights(job: Job, mode: str) -> None:
    """NNCF's compression of weights."""
    import nncf
    import nncf.onnx
    import onnx

    onnx.save(nncf.compress_weights(onnx.load(job.model), mode=getattr(nncf.CompressWeightsMode, mode)), job.result)


def elsewhere(job: Job, python: Path, script: str, setting: str) -> None:
    """A setting of a tool in an environment of its own."""
    if not python.is_file():
        raise FileNotFoundError(f"{python.parents[1].name} is not installed: make bench installs it")
    words = [str(python), str(Path(__file__).with_name(script)), setting, str(job.model), str(job.out)]
    command = [*words, "--calib", str(job.calib)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1])


CHANNELS, TENSOR = {"per_channel": True}, {"per_channel": False}
NARROW = {"per channel, 7 bits": {**CHANNELS, "reduce_range": True}}
"""What onnxruntime recommends where products of 8 bits saturate: AVX2 and AVX512 without VNNI."""

_DYNAMIC: dict[str, dict[str, Any]] = {
    "per channel, products": {**CHANNELS, "products": True},
    **({} if has_vnni() else {name: {**options, "products": True} for name, options in NARROW.items()}),
    "defaults": {},
    "optimizer first, per channel": {**CHANNELS, "optimized": True},
    "optimizer first": {"optimized": True},
    "per channel, all operators": {**CHANNELS},
    "per tensor, products": {**TENSOR, "products": True},
}
_STATIC: dict[str, dict[str, Any]] = {
    "QDQ, minmax, per channel": {**CHANNELS},
    **({} if has_vnni() else {f"QDQ, minmax, {name}": options for name, options in NARROW.items()}),
    "QDQ, minmax, per channel, products": {**CHANNELS, "products": True},
    "QOperator, minmax, per channel": {**CHANNELS, "form": "QOperator"},
    "QDQ, percentile, per channel, products": {**CHANNELS, "method": "Percentile", "products": True},
    "QDQ, percentile, per channel": {**CHANNELS, "method": "Percentile"},
    "QDQ, minmax, per tensor": {**TENSOR},
    "QDQ, minmax, per channel, signed": {**CHANNELS, "activation_type": "QInt8"},
    "QOperator, percentile, per channel": {**CHANNELS, "form": "QOperator", "method": "Percentile"},
    "QOperator, minmax, per tensor": {**TENSOR, "form": "QOperator"},
    "QDQ, percentile, per tensor": {**TENSOR, "method": "Percentile"},
}
_WEIGHTS: dict[str, dict[str, Any]] = {
    f"blocks of {block}, {'symmetric' if symmetric else 'asymmetric'}, {'int8' if level else 'float'} products": {
        "block_size": block,
        "is_symmetric": symmetric,
        "accuracy_level": level,
    }
    for block, symmetric, level in ((32, True, 4), (32, False, 4), (128, True, 4), (32, True, 0))
}

FAMILIES = {
    "ort-transformers": Family("onnxruntime.transformers optimizer", {"defaults": graph_tools.transformers_optimizer}),
    "onnxscript": Family("onnxscript optimize_for_ort", {"defaults": graph_tools.onnxscript_for_ort}),
    "onnxslim": Family("onnxslim", {"defaults": graph_tools.slim}),
    "onnxsim": Family("onnxsim", {"defaults": graph_tools.simplify}),
    "ort-dynamic": Family(
        "onnxruntime dynamic int8",
        {name: partial(dynamic, **options) for name, options in _DYNAMIC.items()},
        quantizes=True,
    ),
    "ort-static": Family(
        "onnxruntime static int8",
        {name: partial(static, **options) for name, options in _STATIC.items()},
        quantizes=True,
    ),
    "ort-8-bits": Family(
        "onnxruntime weights in 8 bits",
        {name: partial(weights, bits=8, **options) for name, options in _WEIGHTS.items() if options["is_symmetric"]},
        quantizes=True,
    ),
    "ort-4-bits": Family(
        "onnxruntime weights in 4 bits",
        {name: partial(weights, bits=4, **options) for name, options in _WEIGHTS.items()},
        quantizes=True,
    ),
    "openvino": Family(
        "OpenVINO float",
        {},
        {name: {"kind": "openvino", "properties": {"INFERENCE_PRECISION_HINT": name}} for name in ("f32", "bf16")},
    ),
    "nncf": Family(
        "NNCF int8",
        {
            "mixed": partial(nncf_quantized, preset="MIXED"),
            "performance": partial(nncf_quantized, preset="PERFORMANCE"),
            "weights in 8 bits": partial(nncf_weights, mode="INT8_ASYM"),
            "mixed, slow bias correction": partial(nncf_quantized, preset="MIXED", fast_bias_correction=False),
        },
        runtimes=("openvino", "ort"),
        quantizes=True,
    ),
    "inc": Family(
        "neural-compressor",
        {name: partial(elsewhere, python=INC, script="inc_peer.py", setting=name) for name in ("dynamic", "static")},
        slow=True,
        quantizes=True,
    ),
    "olive": Family(
        "Olive",
        {name: partial(elsewhere, python=OLIVE, script="olive_peer.py", setting=name) for name in OLIVE_TOOLS},
        slow=True,
    ),
    "torch-compile": Family(
        "PyTorch compile",
        {},
        {
            "inductor": {"kind": "torch", "compile": {}},
            "inductor, dynamic shapes": {"kind": "torch", "compile": {"dynamic": True}},
        },
        slow=True,
    ),
}


def main() -> int:
    """Try the settings of one tool."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tool", choices=sorted(FAMILIES))
    parser.add_argument("model", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--calib", type=Path, required=True)
    parser.add_argument("--type", default="")
    parser.add_argument("--heads", type=int, default=0)
    parser.add_argument("--hidden", type=int, default=0)
    parser.add_argument("--limit", type=float, default=60.0)
    chosen = parser.parse_args()
    out = chosen.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    job = Job(chosen.model.resolve(), out, chosen.calib.resolve(), chosen.type, chosen.heads, chosen.hidden)
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    tries = list(tried(FAMILIES[chosen.tool], job, chosen.limit))
    (out / "tries.json").write_text(json.dumps(tries, indent=1))
    return 0


def tried(family: Family, job: Job, limit_s: float) -> list[dict[str, Any]]:
    """A line for each setting."""
    found: list[dict[str, Any]] = []
    if family.settings is not None:
        found += [{"setting": name, "opened": how, "seconds": 0.0} for name, how in family.settings.items()]
    deadline = time.monotonic() + limit_s
    for number, (name, attempt) in enumerate(family.tries.items()):
        left = deadline - time.monotonic()
        if number and left <= 0:
            found.append({"setting": name, "error": f"not tried: {limit_s:.0f} s were over"})
            continue
        own = replace(job, out=job.out / str(number))
        shutil.rmtree(own.out, ignore_errors=True)
        own.out.mkdir()
        found.append({"setting": name, **attempted(attempt, own, max(left, limit_s))})
        (job.out / "tries.json").write_text(json.dumps(found, indent=1))
    return found


def attempted(attempt: Try, job: Job, most_s: float) -> dict[str, Any]:
    """What one setting came to; it ends after so many seconds."""

    def stop(*_: Any) -> None:
        raise TooLongError(f"it took longer than {most_s:.0f} s")

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(max(1, int(most_s)))
    began = time.monotonic()
    _KEPT_S.clear()
    try:
        attempt(job)
    except (Exception, SystemExit, TooLongError) as error:
        return {"error": reason(error), "seconds": time.monotonic() - began}
    finally:
        signal.alarm(0)
        for left in ("work", "optimized"):
            shutil.rmtree(job.out / left, ignore_errors=True)
    made = {"path": str(job.result)} if job.result.is_file() else {"error": "it ended without an error and a model"}
    return {**made, "seconds": time.monotonic() - began + sum(_KEPT_S)}


def reason(error: BaseException) -> str:
    """The first line of the error that began it."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"[:200]


if __name__ == "__main__":
    sys.exit(main())
