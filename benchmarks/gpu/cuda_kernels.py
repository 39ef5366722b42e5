"""Writes which operators ONNX Runtime's CUDA provider computes in which floats: cuda_kernels.json of plugin ort.

    python benchmarks/gpu/as_gpu.py python benchmarks/gpu/cuda_kernels.py     # with the onnxruntime-gpu to be described

ONNX Runtime lists kernels of all its providers at once, and the process ends with SIGSEGV where the library of one of
them does not load: TensorRT's is missing on most machines. So the list is kept.
"""

from __future__ import annotations

import json
from pathlib import Path

PROVIDER = "CUDAExecutionProvider"
FLOATS = {"tensor(float)", "tensor(float16)", "tensor(bfloat16)"}
PATH = Path(__file__).parents[2] / "plugins" / "src" / "optim_plugins" / "ort" / "cuda_kernels.json"


def main() -> None:
    """One row for each kernel that names a float: domain, operator, first and last version, floats by variable."""
    import onnxruntime
    from onnxruntime.capi import onnxruntime_pybind11_state as runtime

    rows = set()
    for kernel in runtime.get_all_opkernel_def():
        types = {name: sorted(FLOATS & set(kinds)) for name, kinds in kernel.type_constraints.items()}
        floats = tuple((name, tuple(kinds)) for name, kinds in sorted(types.items()))
        if kernel.provider == PROVIDER and any(types.values()) and not kernel.domain.startswith("com.ms.internal"):
            first, last = kernel.version_range
            rows.add((kernel.domain, kernel.op_name, first, min(last, 999), floats))
    lines = [
        json.dumps([*row[:4], {name: [kind[7:-1] for kind in kinds] for name, kinds in row[4]}]) for row in sorted(rows)
    ]
    body = ",\n".join(lines)
    PATH.write_text(f'{{"onnxruntime": "{onnxruntime.__version__}", "kernels": [\n{body}\n]}}\n', encoding="utf-8")
    print(f"{len(lines)} rows: {PATH}")


if __name__ == "__main__":
    main()
