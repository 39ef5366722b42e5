"""One adapter for several models of a source: the arrays of each go to the model that has inputs for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from optim.adapters.adapter_file import Adapter, read_adapter
from optim.adapters.fit import does_not_fit, not_taken
from optim.adapters.session import Adapters, LiveAdapter, listed
from optim.model import AdapterInput


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
