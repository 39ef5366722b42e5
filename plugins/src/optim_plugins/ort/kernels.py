"""Which kernels the installed onnxruntime has: by provider, operator and type, as it lists them itself.

Those of CUDA are kept in a file (made by ``benchmarks/gpu/cuda_kernels.py``): a build for GPUs lists all providers at
once, and ends with SIGSEGV where the library of one of them is missing, as TensorRT's is on most machines; and on a
machine without a GPU they are what a model is prepared for.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from optim.providers import CUDA

CPU_PROVIDER = "CPUExecutionProvider"
WASM = "wasm"
"""onnxruntime-web's: the kernels of the CPU provider, compiled for browsers."""

_ANY_VERSION = 1 << 30
_KEPT_LAST = 999
"""Last version of a kernel of which the file says no end."""


@dataclass(frozen=True, slots=True)
class _Kernel:
    first: int
    last: int
    types: dict[str, frozenset[str]]


def is_listed(provider: str) -> bool:
    """Whether kernels of a provider are known; those that compile whole graphs have none, but for copies."""
    return ("", "MatMul") in _kernels().get(_listed_as(provider), {})


def runs_as_cpu(provider: str) -> bool:
    """Whether kernels are those of the CPU provider, and casts are put around what has none in 16 bits."""
    return _listed_as(provider) == CPU_PROVIDER


def _listed_as(provider: str) -> str:
    return CPU_PROVIDER if provider == WASM else provider


def has_kernel(provider: str, domain: str, operator: str, since: int, types: dict[str, str]) -> bool:
    """Whether a provider has a kernel of its own.

    Args:
        provider: execution provider.
        domain: of the operator, empty for the standard one.
        operator: its type.
        since: version of the operator's definition.
        types: what each type variable is, as in ``{"T": "tensor(float16)"}``; a variable the kernel does not name
            may be anything.
    """
    return any(
        kernel.first <= since <= kernel.last and all(kind in kernel.types.get(v, {kind}) for v, kind in types.items())
        for kernel in _kernels().get(_listed_as(provider), {}).get((domain, operator), ())
    )


@cache
def _kernels() -> dict[str, dict[tuple[str, str], list[_Kernel]]]:
    found: dict[str, dict[tuple[str, str], list[_Kernel]]] = defaultdict(lambda: defaultdict(list))
    for provider, domain, operator, kernel in (*_listed(), *_kept()):
        found[provider][domain, operator].append(kernel)
    return {provider: dict(operators) for provider, operators in found.items()}


def _listed() -> Iterator[tuple[str, str, str, _Kernel]]:
    """What onnxruntime says of itself; of a build for GPUs the CPU's alone."""
    import onnxruntime
    from onnxruntime.capi import onnxruntime_pybind11_state as runtime

    if CUDA in onnxruntime.get_available_providers() and hasattr(runtime, "get_registered_ep_kernel_defs"):
        definitions = runtime.get_registered_ep_kernel_defs(CPU_PROVIDER)
    else:
        definitions = runtime.get_all_opkernel_def()
    for one in definitions:
        if one.provider != CUDA:
            first, last = one.version_range
            types = {variable: frozenset(kinds) for variable, kinds in one.type_constraints.items()}
            yield one.provider, one.domain, one.op_name, _Kernel(first, min(last, _ANY_VERSION), types)


def _kept() -> Iterator[tuple[str, str, str, _Kernel]]:
    """Those of CUDA that compute floats."""
    said = json.loads(Path(__file__).with_name("cuda_kernels.json").read_text(encoding="utf-8"))
    for domain, operator, first, last, floats in said["kernels"]:
        types = {variable: frozenset(f"tensor({kind})" for kind in kinds) for variable, kinds in floats.items()}
        yield CUDA, domain, operator, _Kernel(first, _ANY_VERSION if last == _KEPT_LAST else last, types)
