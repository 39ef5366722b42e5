"""Whether an adapter fits a model: what a runtime would ignore without a word, or break over later, is refused here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from optim.arrays import Array
from optim.errors import OptimError, some_of
from optim.model import AdapterInput
from optim_plugins.adapted.adapter_file import Adapter

_SHOWN = 3


def require_fit(adapter: Adapter, inputs: Sequence[AdapterInput], name: str, model_version: int = 0) -> None:
    """Refuses an adapter that does not fit a model.

    Args:
        adapter: the adapter.
        inputs: adapter inputs of the model.
        name: name of the adapter, for messages.
        model_version: version of the model; 0: unknown.

    Raises:
        OptimError[adapter-not-taken]: the model has no adapter inputs.
        OptimError[adapter-does-not-fit]: names, shapes, types, ranks or versions do not fit.
    """
    if not inputs:
        raise not_taken(name)
    for problem in (
        _names(adapter.arrays, inputs),
        _shapes(adapter.arrays, inputs),
        _ranks(adapter.arrays, inputs),
        _halves(adapter.arrays, inputs),
        _version(adapter, model_version),
    ):
        if problem:
            raise does_not_fit(name, problem)


def does_not_fit(name: str, cause: str) -> OptimError:
    """The refusal of an adapter that is for another model."""
    return OptimError.usage(
        "adapter-does-not-fit",
        f"{name} does not fit the model",
        cause,
        "convert it for this model: optim adapters convert PEFT_FOLDER --for MODEL -o FILE",
    )


def not_taken(name: str) -> OptimError:
    """Makes the error for a model without adapter inputs."""
    return OptimError.usage(
        "adapter-not-taken",
        f"the model does not take {name}",
        "it has no inputs for adapters: they were merged into its weights, or never were in it",
        "optim run SOURCE --with adapters.extract -o DIR",
    )


def _names(arrays: Mapping[str, Array], inputs: Sequence[AdapterInput]) -> str:
    taken = {one.info.name for one in inputs}
    if unknown := sorted(set(arrays) - taken):
        return f"the model has no input {_some(unknown)}, so a part of the adapter would have no effect"
    if missing := sorted(one.info.name for one in inputs if one.required and one.info.name not in arrays):
        return f"it lacks {_some(missing)}, which every run must bring"
    return ""


def _shapes(arrays: Mapping[str, Array], inputs: Sequence[AdapterInput]) -> str:
    for one in inputs:
        array = arrays.get(one.info.name)
        if array is None:
            continue
        if array.dtype.name != one.info.dtype:
            return f"'{one.info.name}' is {array.dtype.name}, and the model takes {one.info.dtype}"
        wanted = one.info.shape or ()
        fits = len(wanted) == array.ndim and all(
            not isinstance(size, int) or size == found for size, found in zip(wanted, array.shape, strict=True)
        )
        if not fits:
            sizes = "x".join(str(size) if isinstance(size, int) else "rank" for size in wanted)
            return f"'{one.info.name}' is {'x'.join(map(str, array.shape))}, and the model takes {sizes}"
    return ""


def _ranks(arrays: Mapping[str, Array], inputs: Sequence[AdapterInput]) -> str:
    """Inputs of one module share the name of their rank."""
    sizes: dict[str, tuple[int, str]] = {}
    for one in inputs:
        name, array = one.info.name, arrays.get(one.info.name)
        for axis, symbol in enumerate(one.info.shape or ()):
            if not isinstance(symbol, str) or array is None:
                continue
            size, first = sizes.setdefault(symbol, (array.shape[axis], name))
            if size != array.shape[axis]:
                return f"'{first}' has rank {size}, and '{name}' has rank {array.shape[axis]}"
    return ""


def _halves(arrays: Mapping[str, Array], inputs: Sequence[AdapterInput]) -> str:
    """Inputs of one module all come, or none: beside the default of one factor the other does nothing."""
    given = {one.module: one.info.name for one in inputs if one.info.name in arrays}
    missing = {one.module: one.info.name for one in inputs if one.info.name not in arrays}
    half = next((module for module in given if module in missing), "")
    return f"it has '{given[half]}' and not '{missing[half]}'" if half else ""


def _version(adapter: Adapter, model_version: int) -> str:
    if model_version and adapter.model_version and adapter.model_version != model_version:
        return f"it is for version {adapter.model_version} of the model, which is version {model_version}"
    return ""


def _some(names: Sequence[str]) -> str:
    return some_of([f"'{name}'" for name in names], _SHOWN)
