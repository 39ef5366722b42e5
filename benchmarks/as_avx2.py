"""Runs a command as on a processor that has AVX2 and nothing newer.

    python benchmarks/as_avx2.py python benchmarks/curve.py bert-base
    python benchmarks/as_avx2.py optim run model.onnx -o out --max-drift 0.02

Linux on x86-64 with gcc and binutils. The preloaded library benchmarks/as_avx2.c answers for the instruction CPUID.
Where the kernel lets it catch that instruction ("cpuid_fault" in /proc/cpuinfo) nothing else is needed; elsewhere the
runtimes are copied to .cache/as-avx2, CPUID in them is overwritten by an instruction that faults, and PYTHONPATH has
the copies first. What the runtimes compute is what they compute on such a processor, to the bit; times are those of
its kernels on this one. torch and numpy are left as they are.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from commands import become

HERE = Path(__file__).resolve().parent
CACHE = HERE.parent / ".cache" / "as-avx2"
RUNTIMES = ("onnxruntime", "openvino")
CPUID, FAULT = b"\x0f\xa2", b"\xcd\xa2"
"""The instruction, and ``int 0xa2``, which no program may call: as long, and as_avx2.c knows it."""


def environment() -> dict[str, str]:
    """What a process has to have in its environment, besides what it has, to take its processor for one with AVX2."""
    made = {"LD_PRELOAD": str(compiled())}
    if "cpuid_fault" not in Path("/proc/cpuinfo").read_text(encoding="utf-8"):
        paths = [str(patched(name)) for name in RUNTIMES if importlib.util.find_spec(name)]
        made["PYTHONPATH"] = os.pathsep.join([*paths, *filter(None, [os.environ.get("PYTHONPATH")])])
    return made


def compiled() -> Path:
    """as_avx2.c as a library."""
    library = CACHE / "as_avx2.so"
    source = HERE / "as_avx2.c"
    if not library.exists() or library.stat().st_mtime < source.stat().st_mtime:
        CACHE.mkdir(parents=True, exist_ok=True)
        subprocess.run(["gcc", "-O2", "-shared", "-fPIC", "-o", library, source], check=True)
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
    for path in sorted(package.rglob("*")):
        copy = making / name / path.relative_to(package)
        if path.is_dir() or "__pycache__" in path.parts:
            continue
        copy.parent.mkdir(parents=True, exist_ok=True)
        places = _places(path) if ".so" in path.suffixes else []
        if places:
            print(f"as AVX2: {len(places)} CPUIDs of {path.name}", file=sys.stderr)
            shutil.copyfile(path, copy)
            _overwrite(copy, places)
        else:
            copy.symlink_to(path)
    try:
        making.rename(folder)
    except OSError:  # another process has made it meanwhile
        shutil.rmtree(making)
    return folder


def _places(library: Path) -> list[int]:
    """Where in a library's file CPUID stands, in bytes."""
    sections = subprocess.run(["objdump", "-h", "-w", library], capture_output=True, text=True, check=True).stdout
    starts = [[int(word, 16) for word in line.split()[2:6]] for line in sections.splitlines() if " CODE" in line]
    disassembly = ["objdump", "-d", "--no-show-raw-insn", library]
    code = subprocess.run(disassembly, capture_output=True, text=True, check=True).stdout
    addresses = [int(found, 16) for found in re.findall(r"^\s*([0-9a-f]+):\tcpuid", code, re.MULTILINE)]
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
    become(__doc__, environment, "objdump")
