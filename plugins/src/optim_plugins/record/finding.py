"""The modules in a pipeline, found through its attributes, containers, closures and the globals that it names."""

from __future__ import annotations

import functools
import logging
import sys
import types
from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

from optim_plugins.record.kept import Room
from optim_plugins.record.modules import PipelineModule

_MOST_OBJECTS = 50_000
"""A pipeline that holds a data set has more, and no module behind so many."""
_LEAVES = (str, bytes, int, float, complex, bool, type(None), type, types.ModuleType, logging.Logger)


def module_of(value: Any, name: str, room: Room) -> PipelineModule | None:
    """What records an object; None where it is no module."""
    torch, ort = sys.modules.get("torch"), sys.modules.get("onnxruntime")
    if torch is not None and isinstance(value, torch.nn.Module):
        from optim_plugins.record.torch_modules import PipelineTorchModule

        return PipelineTorchModule(name, value, room)
    if ort is not None and isinstance(value, ort.InferenceSession):
        from optim_plugins.record.sessions import PipelineSession

        return PipelineSession(name, value, room)
    return None


def find_modules(pipe: Any, room: Room) -> list[PipelineModule]:
    """The outermost modules, the nearest first."""
    found, seen = [], {id(pipe)}
    waiting: deque[tuple[str, Any]] = deque([("", pipe)])
    while waiting and len(seen) < _MOST_OBJECTS:
        name, value = waiting.popleft()
        module = module_of(value, name or type(value).__name__, room)
        if module is not None:
            found.append(module)
            continue
        for key, part in _parts(value):
            if id(part) not in seen and not isinstance(part, _LEAVES):
                seen.add(id(part))
                waiting.append((f"{name}.{key}".lstrip("."), part))
    return found


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        yield from ((str(key), part) for key, part in list(value.items()))
    elif isinstance(value, list | tuple | set | frozenset):
        yield from ((str(index), part) for index, part in enumerate(list(value)))
    elif isinstance(value, functools.partial):
        yield from (("func", value.func), ("args", value.args), ("keywords", value.keywords))
    elif isinstance(value, types.MethodType):
        yield "", value.__self__
    elif isinstance(value, types.FunctionType):
        names = value.__code__.co_freevars
        for name, cell in zip(names, value.__closure__ or (), strict=True):
            try:
                yield name, cell.cell_contents
            except ValueError:  # a name that is not bound yet
                continue
        yield from ((name, value.__globals__[name]) for name in value.__code__.co_names if name in value.__globals__)
    else:
        yield from list(getattr(value, "__dict__", {}).items())
        for slots in (getattr(kind, "__slots__", ()) for kind in type(value).__mro__):
            for slot in (slots,) if isinstance(slots, str) else slots:
                if not slot.startswith("__") and hasattr(value, slot):
                    yield slot, getattr(value, slot)
