"""The form of weights that a user asks for, held against the one that a model takes: a graph has one form alone."""

from __future__ import annotations

from collections.abc import Sequence

from optim import AdapterInput, OptimError
from optim_plugins.adapters.form import DOWN
from optim_plugins.adapters.packing import Packing


def require_form(inputs: Sequence[AdapterInput], dtype: str | None, block_size: int | None, mode: str | None) -> None:
    """Refuse another form than that of a model's inputs.

    Args:
        inputs: adapter inputs of the model.
        dtype: float32, int4 and so on; None, as the others: as the model takes it.
        block_size: of packed weights.
        mode: symmetric or asymmetric, of packed weights.

    Raises:
        OptimError[adapter-form]: the model takes another.
    """
    first = next(one for one in inputs if one.role == DOWN)
    packing = Packing.of(first.details)
    takes = (packing.dtype, packing.block_size, packing.mode) if packing else (first.info.dtype, None, None)
    asked = (dtype, block_size, mode)
    if any(want is not None and want != has for want, has in zip(asked, takes, strict=True)):
        said = " ".join(str(one) for one in asked if one is not None)
        has = f"{packing.dtype} in {packing.mode} blocks of {packing.block_size}" if packing else first.info.dtype
        raise OptimError.usage(
            "adapter-form",
            f"the model does not take an adapter in {said}",
            f"its inputs take {has}",
            f"leave it out, or make another model: optim run SOURCE --with {_pass_for(dtype, block_size, mode)}",
        )


def _pass_for(dtype: str | None, block_size: int | None, mode: str | None) -> str:
    if dtype not in ("int4", "int8") and block_size is None and mode is None:
        return "adapters.extract"
    options = [f"bits={dtype[3:]}"] if dtype in ("int4", "int8") else []
    options += [f"block_size={block_size}"] if block_size is not None else []
    options += [f"mode='{mode}'"] if mode is not None else []
    return f"adapters.extract-packed:{','.join(options)}"
