"""Adapters that a session is opened with: initializers without a value in the model, one session for each adapter."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from optim.adapters.adapter_file import Adapter, read_adapter
from optim.adapters.fit import require_fit
from optim.adapters.session import Adapters, LiveAdapter, listed
from optim.arrays import Array, dtype_of
from optim.errors import OptimError
from optim.model import AdapterInput


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
