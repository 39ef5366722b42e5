"""Values of a pipeline: copied before a call, and taken apart into arrays that the gate can compare."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from optim.arrays import Array

_PLAIN = (bool, int, float, complex, str, np.generic)
_DEEPEST = 8
"""Levels of a result: a deeper one refers to itself, or to half of the program."""


def as_array(value: Any) -> Array:
    """An array of a tensor of torch, a value of onnxruntime, or what numpy takes; never a view of it."""
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        value = value.float() if str(value.dtype) in ("torch.bfloat16",) else value
    return np.array(value.numpy() if hasattr(value, "numpy") else value)


def take_apart(value: Any) -> tuple[dict[str, Array], list[str]]:
    """The arrays, numbers and texts in what a pipeline returned.

    Returns:
        Arrays by their place, such as ``[0].boxes``; and what else there is, each as ``place: type``.
    """
    found: dict[str, Array] = {}
    strange: list[str] = []
    _walk(value, "", found, strange, 0)
    return found, strange


def _walk(value: Any, place: str, found: dict[str, Array], strange: list[str], depth: int) -> None:
    if value is None:
        return
    parts = _parts(value)
    if parts is None or depth > _DEEPEST:
        array = _leaf(value)
        if array is None:
            strange.append(f"{place or 'it'}: {type(value).__name__}")
        else:
            found[place or "output"] = array
        return
    for key, part in parts.items():
        _walk(part, f"{place}{key}" if key.startswith("[") else f"{place}.{key}".lstrip("."), found, strange, depth + 1)


def _parts(value: Any) -> Mapping[str, Any] | None:
    """What a value is made of; None: it is one array, or it is not known what."""
    if isinstance(value, Mapping):
        return {str(key): part for key, part in value.items()}
    if isinstance(value, list | tuple):
        kinds = {str if isinstance(one, str) else float for one in value if isinstance(one, _PLAIN)}
        if value and len(kinds) == 1 and all(isinstance(one, _PLAIN) for one in value):
            return None
        return {f"[{index}]": part for index, part in enumerate(value)}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {one.name: getattr(value, one.name) for one in dataclasses.fields(value)}
    return None


def _leaf(value: Any) -> Array | None:
    if isinstance(value, bytes | bytearray):
        return np.frombuffer(bytes(value), np.uint8)
    is_array = hasattr(value, "detach") or hasattr(value, "__array__") or hasattr(value, "__array_interface__")
    if not is_array and not isinstance(value, (*_PLAIN, list, tuple)):
        return None
    try:
        array = as_array(value)
    except (TypeError, ValueError, RuntimeError):
        return None
    return None if array.dtype.hasobject else array
