"""Whether an adapter fits a model: what a runtime would ignore without a word, or break over later, is refused here.

The arrays of one adapter for several models of a source go to the model that has inputs for them. An adapter that a
session is opened with is initializers without a value in the model.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from optim.adapters.adapter_file import Adapter, read_adapter
from optim.adapters.session import Adapters, LiveAdapter, listed
from optim.arrays import Array, dtype_of
from optim.errors import OptimError, some_of
from optim.model import AdapterInput

_SHOWN = 3


def require_fit(adapter: Adapter, inputs: Sequence[AdapterInput], name: str, model_version: int = 0) -> None:
    """Refuse an adapter that is not for a model.

    Args:
        adapter: to be fed.
        inputs: adapter inputs of the model.
        name: of the adapter, for messages.
        model_version: of the model; 0 says nothing.

    Raises:
        OptimError[adapter-not-taken]: the model has no adapter inputs.
        OptimError[adapter-does-not-fit]: names, shapes, types, ranks or versions do not go together.
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
    """The refusal of an adapter by a model that has no inputs for one."""
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


def share_out(given: Adapters, inputs: Mapping[str, Sequence[AdapterInput]]) -> dict[str, Adapters]:
    """What each model is given of adapters; a model that takes none is left out.

    Args:
        given: files, or what was read of them; an empty sequence: none.
        inputs: adapter inputs by model.

    Raises:
        OptimError[adapter-not-taken]: no model takes adapters.
        OptimError[adapter-does-not-fit]: an array is for none of them, or for several.
        OptimError: as of :func:`optim.adapters.adapter_file.read_adapter`.
    """
    takes = {name: {one.info.name for one in found} for name, found in inputs.items() if found}
    if not takes:
        raise not_taken("an adapter")
    several = listed(given)
    if len(takes) == 1 or not several:
        return dict.fromkeys(takes, several)
    parts: dict[str, list[Adapter]] = {name: [] for name in takes}
    for one in several:
        name = str(one) if isinstance(one, str | Path) else "the adapter"
        found = one if isinstance(one, Adapter | LiveAdapter) else read_adapter(Path(one))
        for array in found.arrays:
            owners = [model for model, names in takes.items() if array in names]
            if len(owners) != 1:
                raise does_not_fit(name, f"'{array}' is an input of {' and '.join(owners) or 'no model'}")
        for model, names in takes.items():
            if mine := {key: array for key, array in found.arrays.items() if key in names}:
                parts[model].append(Adapter(mine))
    return {name: tuple(found) for name, found in parts.items()}


def supplied_arrays(inputs: Sequence[AdapterInput], named: Path, adapter: Adapters | None) -> dict[str, Array]:
    """Arrays for all initializers that a model does not have itself; zeros where nothing else is said.

    Args:
        inputs: adapter inputs of the model that sessions supply.
        named: file of the adapter, beside the model.
        adapter: None: that file; an empty sequence: none, which the base computes.

    Raises:
        OptimError[one-adapter-only]: several are given.
        OptimError: as of :func:`optim.adapters.adapter_file.read_adapter` and :func:`optim.adapters.fit.require_fit`.
    """
    several = (None,) if adapter is None else listed(adapter)
    if len(several) > 1:
        raise OptimError.usage(
            "one-adapter-only",
            f"{named.parent} cannot be opened with {len(several)} adapters",
            "the model is opened with one adapter, which stays",
            "give one of them; for several on one session: optim run SOURCE --with adapters.extract",
        )
    arrays = dict[str, Array]()
    for one in several:
        if isinstance(one, LiveAdapter):
            found, name = Adapter(one.arrays), one.name
        elif isinstance(one, Adapter):
            found, name = one, "the adapter"
        else:
            path = named if one is None else Path(one)
            found, name = read_adapter(path), str(path)
        require_fit(found, inputs, name)
        arrays |= found.arrays
    return {one.info.name: arrays.get(one.info.name, _zeros(one)) for one in inputs}


def _zeros(one: AdapterInput) -> Array:
    shape = [size if isinstance(size, int) else 0 for size in one.info.shape or ()]
    return np.zeros(shape, dtype_of(one.info.dtype))
