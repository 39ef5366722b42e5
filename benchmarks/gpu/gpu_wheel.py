"""A wheel of onnxruntime-gpu with the kernels of one GPU, in parts, for a machine that reaches no package index.

    pip download onnxruntime-gpu==1.31.1 --no-deps --python-version 3.12 --platform manylinux_2_28_x86_64 -d wheels
    python benchmarks/gpu/gpu_wheel.py wheels/onnxruntime_gpu-*.whl --capability 9.0 --out parts

There: ``sh benchmarks/gpu/gpu_setup.sh``, which puts the parts together and installs them.

The provider's library holds each kernel for six kinds of GPU, compressed; those of other kinds are overwritten with
zeros, which take no place in a wheel. Headers stay, so that the driver still finds the one that fits. Such a library
has been loaded, for a pretended GPU, and never run on one: where it fails, carry all of it (``--capability all``).
"""

from __future__ import annotations

import argparse
import hashlib
import struct
import sys
import zipfile
from collections import Counter
from pathlib import Path

LIBRARY = "libonnxruntime_providers_cuda.so"
CONTAINER = struct.Struct("<IHHQ")
"""Of kernels: magic number, version, bytes of this header, bytes of the entries after it."""

ENTRY = struct.Struct("<HHIQ")
"""A kernel: kind (2: machine code), version, bytes of this header, bytes of what follows it."""

MAGIC, VERSION, MACHINE_CODE, CAPABILITY_AT = 0xBA55ED50, 1, 2, 28


def main() -> int:
    """Write the parts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path)
    parser.add_argument(
        "--capability", default="9.0", help="compute capability that stays, such as 9.0; all: every one"
    )
    parser.add_argument("--part-mb", type=int, default=44, help="of a part, at most")
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    for old in asked.out.glob("*.part*"):
        old.unlink()
    made = asked.wheel if asked.capability == "all" else smaller(asked.wheel, asked.capability, asked.out)
    whole = made.read_bytes()
    size = asked.part_mb * 10**6
    for number, start in enumerate(range(0, len(whole), size)):
        (asked.out / f"wheel.part{number:02}").write_bytes(whole[start : start + size])
    (asked.out / "NAME.txt").write_text(asked.wheel.name + "\n", encoding="utf-8")
    digest = hashlib.sha256(whole).hexdigest()
    (asked.out / "SHA256.txt").write_text(f"{digest}  {asked.wheel.name}\n", encoding="utf-8")
    if made != asked.wheel:
        made.unlink()
    print(f"{asked.wheel.stat().st_size / 1e6:.0f} MB to {len(whole) / 1e6:.0f} MB, {-(-len(whole) // size)} parts")
    return 0


def smaller(wheel: Path, capability: str, folder: Path) -> Path:
    """The wheel with kernels of one compute capability alone."""
    made = folder / "smaller.whl"
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as new:
        for info in old.infolist():
            content = old.read(info)
            if info.filename.endswith(LIBRARY):
                content, kept = blanked(content, int(capability.replace(".", "")))
                print(f"{kept} kernels stay")
                if not kept:
                    raise SystemExit(f"no kernel is for compute capability {capability}")
            elif info.filename.endswith("/RECORD"):  # what was changed has no digest there
                lines = content.decode().splitlines()
                content = "\n".join(f"{line.split(',')[0]},," if LIBRARY in line else line for line in lines).encode()
            new.writestr(info, content, zipfile.ZIP_DEFLATED, 9)
    return made


def blanked(library: bytes, capability: int) -> tuple[bytes, int]:
    """The library with zeros for the kernels of other capabilities, and how many are left."""
    found, kept = bytearray(library), Counter[bool]()
    place = -1
    while (place := library.find(MAGIC.to_bytes(4, "little"), place + 1)) >= 0:
        if place + CONTAINER.size > len(library):
            break
        _, version, header, length = CONTAINER.unpack_from(library, place)
        end = place + header + length
        if version != VERSION or header != CONTAINER.size or end > len(library):
            continue  # these bytes stand for something else here
        entry = place + header
        while entry < end:
            kind, _, header, length = ENTRY.unpack_from(library, entry)
            fits = kind == MACHINE_CODE and library[entry + CAPABILITY_AT] == capability
            kept[fits] += 1
            if not fits:
                found[entry + header : entry + header + length] = bytes(length)
            entry += header + length
        place = end - 1
    return bytes(found), kept[True]


if __name__ == "__main__":
    sys.exit(main())
