"""Whether a sample fits the inputs of a model, and what had to be converted."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from optim._engine.feeds.feedset import LABEL_PREFIX, InputAssumption
from optim.arrays import Array, Feeds, dtype_of, is_float
from optim.errors import OptimError, some_of
from optim.model import TensorInfo

_OF_ML_DTYPES = 2
"""``numpy.dtype.isbuiltin`` of a type that another library registered, such as bfloat16."""


@dataclass(frozen=True, slots=True)
class FittedSample:
    """A sample that fits: what to feed, its labels, and what was converted."""

    feeds: Feeds
    labels: Feeds
    notes: tuple[InputAssumption, ...]


def fit_sample(
    arrays: Mapping[str, Any],
    inputs: Sequence[TensorInfo],
    where: str,
    *,
    rows: Mapping[str, int] | None = None,
    defaults: Sequence[TensorInfo] = (),
) -> FittedSample:
    """Check one sample against the inputs of a model.

    Args:
        arrays: by name; lists are turned into arrays of the input's type.
        inputs: of the model.
        where: what to call the sample in a message.
        rows: for inputs that index a table, how many rows it has.
        defaults: inputs that have a default: a sample may leave them out.

    Raises:
        OptimError: feeds-unknown-input, feeds-missing-input, feeds-dtype, feeds-shape, feeds-inconsistent,
            feeds-not-finite, feeds-out-of-range.
    """
    needed = {info.name: info for info in inputs}
    known = needed | {info.name: info for info in defaults if info.name in arrays}
    labels = {name: np.asarray(a) for name, a in arrays.items() if name not in known and name.startswith(LABEL_PREFIX)}
    _check_names([name for name in arrays if name not in labels], needed, known, where)
    feeds: dict[str, Array] = {}
    notes: list[InputAssumption] = []
    sizes: dict[str, tuple[int, str]] = {}
    for name, info in known.items():
        array, note = _fit_dtype(arrays[name], info, where)
        notes += [InputAssumption(name, note)] if note else []
        _check_shape(array, info, sizes, where)
        _check_values(array, info, (rows or {}).get(name), where)
        feeds[name] = array
    return FittedSample(feeds, labels, tuple(notes))


def _check_names(
    given: Sequence[str], needed: Mapping[str, TensorInfo], known: Mapping[str, TensorInfo], where: str
) -> None:
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
            hint = f"did you mean {' or '.join(near)}?" if near else f"its inputs are {_listed(known)}"
            raise OptimError(
                "feeds-unknown-input",
                f"{where} has '{name}', which is not an input of the model",
                hint,
                f"rename or leave out '{name}'; labels for a task metric must begin with '{LABEL_PREFIX}'",
            )
    missing = [name for name in needed if name not in given]
    if missing:
        raise OptimError(
            "feeds-missing-input",
            f"{where} lacks {len(missing)} of {len(needed)} inputs",
            f"missing: {_listed(missing)}; given: {_listed(given)}",
            f"add '{missing[0]}' to every sample",
        )


def fed_dtype(info: TensorInfo) -> np.dtype[Any]:
    """The type of what an input is fed; refuses an input that takes no plain tensor."""
    try:
        return dtype_of(info.dtype)
    except TypeError as error:
        raise OptimError(
            "feeds-dtype",
            f"input '{info.name}' cannot be fed",
            f"numpy has no {info.dtype}"
            if info.is_tensor
            else "it takes a sequence, an optional or a map, no plain tensor",
            "export the model with plain tensors, of a type that numpy has, as inputs",
        ) from error


def _fit_dtype(value: Any, info: TensorInfo, where: str) -> tuple[Array, str]:
    wanted = fed_dtype(info)
    try:
        array = value if isinstance(value, np.ndarray) else _from_list(value, wanted)
    except (ValueError, TypeError, OverflowError) as error:
        raise OptimError(
            "feeds-dtype",
            f"{where}: '{info.name}' is no array",
            str(error),
            f"give numpy.asarray(values, dtype='{info.dtype}'), whose rows are of one length",
        ) from error
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    given = array.dtype
    unnamed = given.kind == "V" and given.fields is None and given.isbuiltin != _OF_ML_DTYPES
    if unnamed and wanted.isbuiltin == _OF_ML_DTYPES and given.itemsize == wanted.itemsize:
        return np.asarray(array, order="C").view(wanted), ""  # numpy's files do not say which of these it was
    if given == wanted or (wanted.kind in "OUT" and given.kind in "USOT"):
        return np.asarray(array, order="C"), ""
    if _may_convert(given, wanted) or _is_exactly(array, wanted):
        with np.errstate(over="ignore"):  # what becomes infinite is refused as such
            array = array.astype(wanted, order="C")
        return array, f"given as {given.name}, fed as {wanted.name}"
    raise OptimError(
        "feeds-dtype",
        f"{where}: '{info.name}' has the wrong type",
        f"it is {'of a type that numpy cannot name, such as bfloat16' if unnamed else given.name}; "
        f"the model takes {info.dtype}",
        f"convert it where you know that no value is lost: array.astype('{info.dtype}')",
    )


def _may_convert(given: np.dtype[Any], wanted: np.dtype[Any]) -> bool:
    """Wider integers and floats hold every value; float64 is what numpy makes unasked, so it may become float32."""
    if given.kind in "iu" and wanted.kind in "iu":
        return np.can_cast(given, wanted, "safe")
    if given.kind == "f" and wanted.kind == "f":
        return np.can_cast(given, wanted, "safe") or (given == np.float64 and wanted == np.float32)
    return False


def _is_exactly(array: Array, wanted: np.dtype[Any]) -> bool:
    """Whether floats all have a value in a type that numpy lacks, such as bfloat16: so torch's tensors of it come."""
    if array.dtype.kind != "f" or wanted.isbuiltin != _OF_ML_DTYPES or not is_float(wanted):
        return False
    with np.errstate(all="ignore"):
        return np.array_equal(array.astype(wanted).astype(array.dtype), array, equal_nan=True)


def _from_list(value: Any, wanted: np.dtype[Any]) -> Array:
    array = np.asarray(value)
    same_kind = array.dtype.kind == wanted.kind or (array.dtype.kind in "iu" and wanted.kind in "iuf")
    return array.astype(wanted) if same_kind else array


def _check_shape(array: Array, info: TensorInfo, sizes: dict[str, tuple[int, str]], where: str) -> None:
    if info.shape is None:
        return
    wanted = "[" + ", ".join("?" if size is None else str(size) for size in info.shape) + "]"
    what = f"{where}: '{info.name}' has the wrong shape"
    fix = f"give '{info.name}' the shape {wanted}"
    if array.ndim != len(info.shape):
        fix += "; array[None] adds a batch dimension" if array.ndim == len(info.shape) - 1 else ""
        raise OptimError("feeds-shape", what, f"it is {list(array.shape)}; the model takes {wanted}", fix)
    for axis, (size, declared) in enumerate(zip(array.shape, info.shape, strict=True)):
        if isinstance(declared, int) and declared >= 0 and size != declared:
            cause = f"it is {list(array.shape)}; the model takes {wanted} (dimension {axis})"
            raise OptimError("feeds-shape", what, cause, fix)
        if isinstance(declared, str):
            first, of = sizes.setdefault(declared, (size, info.name))
            if first != size:
                raise OptimError(
                    "feeds-inconsistent",
                    f"{where}: dimension '{declared}' has two sizes in one sample",
                    f"{first} in '{of}', {size} in '{info.name}' (dimension {axis})",
                    f"make dimension '{declared}' the same in all inputs of a sample",
                )


def _check_values(array: Array, info: TensorInfo, rows: int | None, where: str) -> None:
    numbers = array.astype(np.float64) if array.dtype.isbuiltin == _OF_ML_DTYPES else array
    if numbers.dtype.kind in "fc" and (bad := int((~np.isfinite(numbers)).sum())):
        raise OptimError(
            "feeds-not-finite",
            f"{where}: '{info.name}' has {bad} NaN or infinite values",
            "optim cannot compare outputs on such a sample",
            "leave the sample out, or repair it: numpy.nan_to_num(array)",
        )
    if rows is not None and array.size and array.dtype.kind in "iu":
        lowest, highest = int(array.min()), int(array.max())
        if lowest < -rows or highest >= rows:
            raise OptimError(
                "feeds-out-of-range",
                f"{where}: '{info.name}' indexes past its table",
                f"values {lowest} to {highest}; the table it indexes has {rows} rows",
                "use the tokenizer that belongs to this model",
            )


def _listed(names: Iterable[str]) -> str:
    return some_of(list(names), 8) or "nothing"
