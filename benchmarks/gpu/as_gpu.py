"""Runs a command where a GPU is pretended: what does not need one for computing is seen without one.

    python benchmarks/gpu/as_gpu.py optim targets
    python benchmarks/gpu/as_gpu.py python benchmarks/gpu/gpu_checks.py

Linux on x86-64 with gcc and nm, and onnxruntime-gpu. ONNX Runtime's own providers are loaded, on libraries that stand
for NVIDIA's (as_gpu.c): so options are read by the parser that reads them on a GPU, nodes are given out by
the kernels that the provider has, memory is bound, graphs are captured, and what a kernel asks of its inputs is
checked. Nothing is computed: **outputs are zeros and times mean nothing**. TensorRT (as_tensorrt.c) takes
standard operators and refuses what NVIDIA's refuses before it builds; with AS_GPU_ENGINES=FILE each engine is a line of
JSON there.
"""

from __future__ import annotations

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from commands import become

HERE = Path(__file__).resolve().parent
CACHE = HERE.parents[1] / ".cache" / "as-gpu"
SOURCES = ("as_gpu.c", "as_tensorrt.c", "as_tensorrt_graph.h")
LIBRARIES = {
    "libcudart.so.13": ("cuda", "__cuda"),
    "libcublas.so.13": ("cublas",),
    "libcublasLt.so.13": ("cublasLt",),
    "libcurand.so.10": (),
    "libcuda.so.1": ("cuTensor",),
    "libcudnn.so.9": ("cudnn",),
    "libnvidia-ml.so.1": ("nvml",),
    "libnvinfer.so.10": ("getInfer", "getPlugin", "createInfer"),
    "libnvonnxparser.so.10": ("createNvOnnx",),
}
"""Names that are loaded, and how what they export begins."""

VERSIONED = ("libcudart.so.13", "libcublas.so.13", "libcublasLt.so.13", "libcudnn.so.9")
"""Libraries whose symbols have a version, the name of the file."""

MAKERS = re.compile(r"^(cudnnCreate\w*|cublasLt\w+Create)$")
"""Functions that write a handle to where their first argument says."""


def environment() -> dict[str, str]:
    """What a process has to have in its environment, besides what it has, to find the pretended GPU."""
    provider = provider_library()
    if provider is None:
        raise SystemExit("it takes onnxruntime-gpu, in place of onnxruntime: pip install onnxruntime-gpu")
    folder = compiled(provider)
    before = os.environ.get("LD_LIBRARY_PATH", "")
    return {"AS_GPU": "1", "LD_LIBRARY_PATH": os.pathsep.join(filter(None, [str(folder), before]))}


def provider_library() -> Path | None:
    """ONNX Runtime's CUDA provider, where its build is the one for GPUs."""
    found = importlib.util.find_spec("onnxruntime")
    places = list(found.submodule_search_locations or ()) if found else []
    path = Path(places[0]) / "capi" / "libonnxruntime_providers_cuda.so" if places else None
    return path if path and path.is_file() else None


def compiled(provider: Path) -> Path:
    """The folder of the libraries: one file under all their names."""
    newest = max((HERE / name).stat().st_mtime_ns for name in SOURCES)
    folder = CACHE / f"{provider.stat().st_size:x}-{newest:x}"
    library = folder / "pretended.so"
    if library.exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    rest, versions, made = folder / "rest.c", folder / "versions.map", folder / f"{os.getpid()}.so"
    rest.write_text(written(wanted(provider)), encoding="utf-8")
    patterns = {name: " ".join(f"{start}*;" for start in LIBRARIES[name]) for name in VERSIONED}
    patterns["libcublas.so.13"] = "cublas[A-KM-Z]*;"
    nodes = [f"{name} {{ global: {patterns[name]} }};" for name in VERSIONED]
    others = [f"{start}*;" for name, starts in LIBRARIES.items() if name not in VERSIONED for start in starts]
    versions.write_text("\n".join([*nodes, f"pretended {{ global: {' '.join(others)} local: *; }};"]), encoding="utf-8")
    words = ["gcc", "-shared", "-fPIC", "-O1", "-w", f"-Wl,--version-script={versions}", "-o", str(made)]
    sources = [str(HERE / name) for name in SOURCES if name.endswith(".c")]
    subprocess.run([*words, *sources, str(rest)], check=True)
    for name in LIBRARIES:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(library.name)
    made.replace(library)
    return folder


def wanted(provider: Path) -> list[str]:
    """Functions that the provider calls: those it is linked with, and cuDNN's, which it looks up by their names."""
    said = subprocess.run(["nm", "-D", "--undefined-only", str(provider)], capture_output=True, text=True, check=True)
    linked = re.findall(r"\b(\w+)@lib(?:cudart|cublas|cublasLt)\.so", said.stdout)
    looked_up = {one.decode() for one in re.findall(rb"\0(cudnn[A-Z]\w+)(?=\0)", provider.read_bytes())}
    return sorted({*linked, *looked_up})


def written(names: list[str]) -> str:
    """Those of them that as_gpu.c has not: they say that all went well."""
    own = set(re.findall(r"^EXPORT [^(]*?(\w+)\(", (HERE / "as_gpu.c").read_text(encoding="utf-8"), re.MULTILINE))
    lines = ["#include <stdlib.h>"]
    for name in names:
        if name not in own:
            made = MAKERS.match(name)
            body = "(void **out) { *out = calloc(1, 64); return 0; }" if made else "(void) { return 0; }"
            lines.append(f'__attribute__((visibility("default"))) int {name}{body}')
    return "\n".join([*lines, ""])


if __name__ == "__main__":
    become(__doc__, environment, "nm")
