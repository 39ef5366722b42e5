"""Further adapters of a run: in the form that the new graph takes, and what the model computes with each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx_ir as ir
from numpy.typing import NDArray

from optim import AdapterInput, OptimError
from optim_plugins.adapted import read_adapter, require_fit, write_adapter
from optim_plugins.adapters.convert.convert import convert
from optim_plugins.adapters.extract.rewrite import Extracted, Supply, adapters_as_inputs, with_constants
from optim_plugins.adapters.extract.sites import find_sites
from optim_plugins.adapters.form import GAIN, input_name
from optim_plugins.adapters.packing import SCALES, ZEROS, Packing, unpacked


@dataclass(frozen=True, slots=True)
class Further:
    """A further adapter.

    Attributes:
        file: in the form that the new graph takes.
        reference: the exported graph with this adapter in place of its own, in floats.
    """

    file: Path
    reference: ir.Model


def further_adapters(
    named: Sequence[str], exported: ir.Model, inputs: Sequence[AdapterInput], own: str, folder: Path
) -> list[Further]:
    """Convert further adapters.

    Args:
        named: folders of peft, or files of adapters.
        exported: the graph with its own adapter inside; changed in place.
        inputs: of the new graph.
        own: name of the adapter that the model was exported with.
        folder: to write into.

    Raises:
        OptimError[adapter-name-taken]: one is called as the adapter of the model.
        OptimError: one cannot be read or converted, or does not fit.
    """
    if not named:
        return []
    plain = adapters_as_inputs(exported, find_sites(exported), Supply())
    return [_further(Path(name), exported, plain, inputs, own, folder) for name in named]


def _further(
    path: Path, graph: ir.Model, plain: Extracted, inputs: Sequence[AdapterInput], own: str, folder: Path
) -> Further:
    if path.stem == own:
        raise OptimError.usage(
            "adapter-name-taken",
            f"{path} cannot be a further adapter",
            f"the adapter of the model is called '{own}' too, and both would be one file",
            "give its folder or file another name",
        )
    file = folder / f"{path.stem}.onnx_adapter"
    if path.is_dir():
        made, floats = convert(path, inputs).adapter, convert(path, plain.inputs).adapter.arrays
    else:
        made = read_adapter(path)
        require_fit(made, inputs, str(path))
        floats = in_floats(made.arrays, inputs)
    write_adapter(made, file)
    reference = graph.clone()
    with_constants(reference, floats)
    return Further(file, reference)


def in_floats(arrays: Mapping[str, NDArray[Any]], inputs: Sequence[AdapterInput]) -> dict[str, NDArray[Any]]:
    """Arrays of an adapter as floats, by the names that inputs of floats have.

    Args:
        arrays: that fit.
        inputs: of the graph that takes them, packed or not.
    """
    found: dict[str, NDArray[Any]] = {}
    for one in inputs:
        packing = Packing.of(one.details)
        if one.info.name not in arrays or (packing is not None and "." in one.role):
            continue
        parts = {part: input_name(one.module, one.role + part) for part in ("", SCALES, ZEROS)}
        if packing is None or one.role == GAIN:
            found[one.info.name] = arrays[one.info.name]
        else:
            packed = {part: arrays[name] for part, name in parts.items() if name in arrays}
            found[one.info.name] = unpacked(packed, packing, one.details["rows"])
    return found
