"""Rows of a table that no sample reads: a changed row among them changes no output that is compared.

    ids -> (Cast, Reshape, ...) -> Gather(table[30522, 384], .)

A table is named if the result has another one at the same input. A table that is multiplied too, such as one shared
with the last product of a decoder, is compared in whole.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path

import numpy as np
import onnx

from optim._engine.feeds.traces import Table, trace_inputs
from optim.arrays import Feeds
from optim.onnx.linked import linked_path

_PIECE = 1 << 24
"""Bytes of a table that are held at once."""


def unread_rows(original: Path, result: Path, samples: Iterable[Feeds]) -> tuple[str, ...]:
    """Returns a sentence for each table that differs and has rows that no sample reads."""
    tables = [table for table in trace_inputs(original).tables.values() if table.is_known]
    others = trace_inputs(result).tables.values() if tables else ()
    tables = [one for one in tables if not any(_is_same(one, original, other, result) for other in others)]
    if not tables:
        return ()
    read = [np.zeros(table.rows, bool) for table in tables]
    for feeds in samples:
        for table, rows in zip(tables, read, strict=True):
            for name, added in table.indices:
                index = np.asarray(feeds[name]).astype(np.int64).ravel() + added
                rows[index[(-table.rows <= index) & (index < table.rows)]] = True
    return tuple(
        f"no sample reads {table.rows - rows.sum():,} of the {table.rows:,} rows of '{table.name}': "
        "optim did not compare these rows"
        for table, rows in zip(tables, read, strict=True)
        if not rows.all()
    )


def _is_same(one: Table, path: Path, other: Table, other_path: Path) -> bool:
    """Whether inputs choose the same rows from both tables."""
    if one.indices != other.indices or len(one.tensors) != len(other.tensors) or not one.tensors:
        return False
    return all(
        (a.data_type, a.dims) == (b.data_type, b.dims) and _is_equal(_place(a, path), _place(b, other_path))
        for a, b in zip(one.tensors, other.tensors, strict=True)
    )


_Place = tuple[Path, int, int] | bytes
"""A file, an offset and a length, or what a small tensor holds."""


def _place(tensor: onnx.TensorProto, path: Path) -> _Place:
    """The place of a tensor's numbers, given the file of its graph."""
    if tensor.data_location != onnx.TensorProto.EXTERNAL:
        return onnx.numpy_helper.to_array(tensor).tobytes()
    entry = {item.key: item.value for item in tensor.external_data}
    file = linked_path(entry["location"]) or path.parent / entry["location"]
    offset = int(entry.get("offset", 0))
    return file, offset, int(entry.get("length") or file.stat().st_size - offset)


def _is_equal(one: _Place, other: _Place) -> bool:
    """Models of one run share the files of weights that no pass changed: these are not read."""
    return one == other or all(a == b for a, b in zip_longest(_pieces(one), _pieces(other)))


def _pieces(place: _Place) -> Iterator[bytes]:
    if isinstance(place, bytes):
        yield place
        return
    file, offset, left = place
    with file.open("rb") as stream:
        stream.seek(offset)
        while left > 0 and (piece := stream.read(min(left, _PIECE))):
            left -= len(piece)
            yield piece
