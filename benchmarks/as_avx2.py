"""Runs a command as on a processor that has AVX2 and nothing newer.

    python benchmarks/as_avx2.py python benchmarks/curve.py bert-base
    python benchmarks/as_avx2.py optim run model.onnx -o out --max-drift 0.02
    python benchmarks/as_avx2.py --where-possible python -m pytest ...    elsewhere: says why not, and ends with 0

Linux on x86-64 with gcc and binutils. The preloaded library benchmarks/as_avx2.c answers for the instruction CPUID.
Where the kernel lets it catch that instruction ("cpuid_fault" in /proc/cpuinfo) nothing else is needed; elsewhere the
runtimes are copied to .cache/as-avx2, CPUID in them is overwritten by an instruction that faults, and PYTHONPATH has
the copies first. What the runtimes compute is what they compute on such a processor, to the bit; times are those of
its kernels on this one. torch and numpy, which runtimes do not compute with, are told by variables of their own.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib import metadata
from pathlib import Path

from commands import become

HERE = Path(__file__).resolve().parent
CACHE = HERE.parent / ".cache" / "as-avx2"
RUNTIMES = ("onnxruntime", "openvino")
NEWER = ("avx512", "avx_vnni", "amx_", "avx_ifma", "avx_ne_convert")
"""How flags of /proc/cpuinfo begin that a processor with AVX2 alone does not have; as_avx2.c hides the same."""
CPUID, FAULT = b"\x0f\xa2", b"\xcd\xa2"
"""The instruction, and ``int 0xa2``, which no program may call: as long, and as_avx2.c knows it."""


VARIABLES = {
    "ATEN_CPU_CAPABILITY": "avx2",  # torch's own kernels
    "ONEDNN_MAX_CPU_ISA": "AVX2",  # products in torch, and in builds of runtimes that use oneDNN
    "OPENBLAS_CORETYPE": "Haswell",  # products in numpy
}


def needless() -> str:
    """Why a command need not be run so; empty where it makes a difference."""
    if "avx2" not in flags():
        return "this processor has no AVX2"
    return "this processor has nothing newer, so every command runs so" if is_avx2_alone() else ""


def is_avx2_alone() -> bool:
    """Whether this processor has AVX2 and nothing newer, be it that a command around this one hides the rest."""
    return "avx2" in flags() and not any(flag.startswith(NEWER) for flag in flags())


def flags() -> list[str]:
    """Instruction sets of this processor; empty where the system is none that says so."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    return next((line.partition(":")[2].split() for line in lines if line.startswith("flags")), [])


def environment() -> dict[str, str]:
    """What a process has to have in its environment, besides what it has, to take its processor for one with AVX2."""
    if is_avx2_alone():
        return {}
    made = {**VARIABLES, "LD_PRELOAD": str(compiled())}
    if "cpuid_fault" not in flags():
        paths = [str(patched(name)) for name in RUNTIMES if importlib.util.find_spec(name)]
        made["PYTHONPATH"] = os.pathsep.join([*paths, *filter(None, [os.environ.get("PYTHONPATH")])])
    return made


def compiled() -> Path:
    """as_avx2.c as a library."""
    library = CACHE / "as_avx2.so"
    source = HERE / "as_avx2.c"
    if not library.exists() or library.stat().st_mtime < source.stat().st_mtime:
        CACHE.mkdir(parents=True, exist_ok=True)
        making = library.with_name(f"{library.name}.{os.getpid()}")
        subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", making, source], check=True)
        making.rename(library)  # a process that has the one before keeps it
    return library


def patched(name: str) -> Path:
    """A folder with a copy of an installed package in whose libraries every CPUID faults; other files are links."""
    spec = importlib.util.find_spec(name)
    assert spec and spec.origin
    package = Path(spec.origin).parent
    folder = CACHE / f"{name}-{metadata.version(name)}"
    if folder.exists():
        return folder
    making = folder.with_name(f"{folder.name}.{os.getpid()}")
    files = [path for path in sorted(package.rglob("*")) if path.is_file() and "__pycache__" not in path.parts]
    with ThreadPoolExecutor(os.cpu_count()) as pool:  # objdump takes seconds for a library
        places = pool.map(lambda path: _places(path) if ".so" in path.suffixes else [], files)
        for path, found in zip(files, places, strict=True):
            _copy(path, making / name / path.relative_to(package), found)
    try:
        making.rename(folder)
    except OSError:  # another process has made it meanwhile
        shutil.rmtree(making)
    return folder


def _copy(path: Path, copy: Path, places: list[int]) -> None:
    copy.parent.mkdir(parents=True, exist_ok=True)
    if not places:
        copy.symlink_to(path)
        return
    print(f"as AVX2: {len(places)} CPUIDs of {path.name}", file=sys.stderr)
    shutil.copyfile(path, copy)
    _overwrite(copy, places)


def _places(library: Path) -> list[int]:
    """Where in a library's file CPUID stands, in bytes."""
    sections = subprocess.run(["objdump", "-h", "-w", library], capture_output=True, text=True, check=True).stdout
    starts = [[int(word, 16) for word in line.split()[2:6]] for line in sections.splitlines() if " CODE" in line]
    listing = "set -o pipefail; objdump -d --no-show-raw-insn \"$1\" | { grep -P '\\tcpuid' || true; }"
    found = subprocess.run(["bash", "-c", listing, "bash", library], capture_output=True, text=True, check=True).stdout
    addresses = [int(line.partition(":")[0], 16) for line in found.splitlines()]
    return [
        address - virtual + offset
        for address in addresses
        for size, virtual, _, offset in starts
        if virtual <= address < virtual + size
    ]


def _overwrite(library: Path, places: list[int]) -> None:
    with library.open("r+b") as file:
        for place in places:
            file.seek(place)
            if file.read(2) != CPUID:
                raise SystemExit(f"{library}: no CPUID at {place:#x}; this objdump is read in a wrong way.")
            file.seek(place)
            file.write(FAULT)


if __name__ == "__main__":
    become(__doc__, environment, "objdump", needless)
