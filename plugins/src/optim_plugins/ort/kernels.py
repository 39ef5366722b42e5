"""Which kernels the installed onnxruntime has: by provider, operator and type, as it lists them itself."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cache

CPU_PROVIDER = "CPUExecutionProvider"
WASM = "wasm"
"""onnxruntime-web's: the kernels of the CPU provider, compiled for browsers."""

_ANY_VERSION = 1 << 30


@dataclass(frozen=True, slots=True)
class _Kernel:
    first: int
    last: int
    types: dict[str, frozenset[str]]


def is_listed(provider: str) -> bool:
    """Whether onnxruntime lists the kernels of a provider; those that compile whole graphs have none to list."""
    return _listed_as(provider) in _kernels()


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
    from onnxruntime.capi import onnxruntime_pybind11_state as runtime

    found: dict[str, dict[tuple[str, str], list[_Kernel]]] = defaultdict(lambda: defaultdict(list))
    for kernel in runtime.get_all_opkernel_def():
        first, last = kernel.version_range
        types = {variable: frozenset(kinds) for variable, kinds in kernel.type_constraints.items()}
        found[kernel.provider][kernel.domain, kernel.op_name].append(_Kernel(first, min(last, _ANY_VERSION), types))
    return {provider: dict(operators) for provider, operators in found.items()}
