"""What is done with an adapter when a folder is opened: which arrays a session is given, and which each model takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from optim.arrays import Array, dtype_of
from optim.errors import OptimError
from optim.model import AdapterInput
from optim_plugins.adapted.adapter_file import Adapter, read_adapter
from optim_plugins.adapted.fit import does_not_fit, not_taken, require_fit
from optim_plugins.adapted.session import Adapters, LiveAdapter, listed


def supplied_arrays(inputs: Sequence[AdapterInput], named: Path, adapter: Adapters | None) -> dict[str, Array]:
    """Arrays for all initializers that a model does not have itself; zeros where nothing else is said.

    Args:
        inputs: adapter inputs of the model that sessions supply.
        named: file of the adapter, beside the model.
        adapter: None: that file; an empty sequence: none, which the base computes.

    Raises:
        OptimError[one-adapter-only]: several are given.
        OptimError: as of ``read_adapter`` and ``require_fit``.
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


def share_out(given: Adapters, inputs: Mapping[str, Sequence[AdapterInput]]) -> dict[str, Adapters]:
    """What each model is given of adapters; a model that takes none is left out.

    Args:
        given: files, or what was read of them; an empty sequence: none.
        inputs: adapter inputs by model.

    Raises:
        OptimError[adapter-not-taken]: no model takes adapters.
        OptimError[adapter-does-not-fit]: an array is for none of them, or for several.
        OptimError: as of ``read_adapter``.
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
