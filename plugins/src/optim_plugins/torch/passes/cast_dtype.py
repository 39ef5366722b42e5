"""``torch.cast-dtype``: weights and activations in another floating type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from optim import (
    APPLICABLE,
    Applicable,
    Component,
    Role,
    Source,
    SourceContext,
    SourcePass,
    SourceResult,
    Target,
    TensorInfo,
)

if TYPE_CHECKING:
    from optim.arrays import Array
    from optim_plugins.torch.options import DtypeOptions

_FLOATS = ("float16", "bfloat16", "float32", "float64")


class CastDtype(SourcePass):
    """Casts every component. Half precision is what a GPU wants; on a processor it is slower, and it drifts."""

    name = "torch.cast-dtype"
    summary = "casts the module to another floating-point type"
    options = "optim_plugins.torch.options:DtypeOptions"
    role = Role.REQUESTED
    lossy = True
    after = ("torch.load-huggingface", "torch.load-factory", "torch.merge-lora", "torch.fold-batch-norm")

    def applicable(self, source: Source, target: Target) -> Applicable:
        """To every loaded module."""
        if not source.components:
            return Applicable.no("nothing is loaded")
        from torch.nn import Module

        others = [one.name for one in source.components if not isinstance(one.module, Module)]
        return Applicable.no(f"{others[0]} is not a module of torch") if others else APPLICABLE

    def apply(self, source: Source, options: DtypeOptions, context: SourceContext) -> SourceResult:
        """Cast modules in place; inputs, outputs and examples follow."""
        dtype = "float32" if options.dtype == "auto" else options.dtype
        components = tuple(_cast(component, dtype) for component in source.components)
        return SourceResult(replace(source, components=components), True, (f"everything is {dtype}",))


def _cast(component: Component, dtype: str) -> Component:
    import torch

    from optim_plugins.torch.arguments.flat_module import run_flat

    component.module.to(getattr(torch, dtype))
    example = {name: _as(array, dtype) for name, array in component.example.items()}
    made: Mapping[str, Array] = run_flat(component.module, example)
    outputs = tuple(replace(info, dtype=made[info.name].dtype.name) for info in component.outputs)
    return replace(
        component,
        inputs=tuple(_info(info, dtype) for info in component.inputs),
        outputs=outputs,
        example=example,
        run=lambda feeds: run_flat(component.module, feeds),
    )


def _info(info: TensorInfo, dtype: str) -> TensorInfo:
    return replace(info, dtype=dtype) if info.dtype in _FLOATS else info


def _as(array: Array, dtype: str) -> Array:
    from optim.arrays import dtype_of

    return array.astype(dtype_of(dtype)) if array.dtype.name in _FLOATS else array
