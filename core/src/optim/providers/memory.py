"""Memory of a session: whether it may hold weights a second time.

A session maps external data into memory, and copies what its kernels want in another order: of a decoder in floats
nearly all of it. Mapped pages go back to their file when memory is short, copies do not. So of models that are large
beside the memory, weights are read where they are mapped. Products take longer then, because each run lays weights out:
1.7 times as long with 16 rows, 1.24 with 128 (AVX-512, an encoder of 0.4 GB, in turns on a busy machine).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from optim.jobs.resources import usable_memory_bytes
from optim.providers.names import CPU
from optim.target import Target

MAPPED: Mapping[str, str] = {"session.disable_prepacking": "1"}
"""Config entries of a session that reads weights where they are mapped."""

SHARE_OF_MEMORY = 1 / 4
"""A race has two models open at least, each with its copy, and their files want to stay in memory too: with a third, no
memory is left to anything else."""

MOST_COPIED = 7e9
"""However much memory there is: with it no process of a run on a decoder of 8 GB holds more than that."""

_LARGEST_GRAPH = 256 << 20
"""A file that is larger has its weights inside, which are never mapped; reading it would hold them all."""


def weights_stay_mapped(path: Path, memory_bytes: int | None = None) -> bool:
    """Whether the weights of a graph take so much of the memory, by default of this machine, that none are copied."""
    found = path.stat()
    most = usable_memory_bytes() if memory_bytes is None else memory_bytes
    return _mapped_bytes(path, found.st_mtime_ns, found.st_size) > min(MOST_COPIED, SHARE_OF_MEMORY * most)


def mapped_config(path: Path, target: Target) -> Mapping[str, str]:
    """Config entries for a session of a graph: ``MAPPED`` for a large one on the CPU, else none."""
    return MAPPED if target.provider == CPU and weights_stay_mapped(path) else {}


@lru_cache(maxsize=8)
def _mapped_bytes(path: Path, modified_ns: int, size: int) -> int:
    """What a graph has in files beside it; what lies in the graph itself is copied in any case."""
    if size > _LARGEST_GRAPH:
        return 0
    import onnx

    graph = onnx.load(path, load_external_data=False).graph
    return sum(
        int(entry.value) for tensor in graph.initializer for entry in tensor.external_data if entry.key == "length"
    )
