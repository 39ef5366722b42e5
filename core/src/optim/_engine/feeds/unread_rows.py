"""Rows of a table that no sample reads: a changed row among them changes no output that is compared.

    ids -> (Cast, Reshape, ...) -> Gather(table[30522, 384], .)

A table is named if the result has another one at the same input. A table that is multiplied too, such as one shared
with the last product of a decoder, is compared in whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import zip_longest
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir

from optim._engine.feeds.traces import Table, trace_inputs
from optim.arrays import Feeds
from optim.onnx.data_files import pieces, place_key
from optim.onnx.external_data import resolved


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
        (a.data_type, a.dims) == (b.data_type, b.dims) and _is_equal(a, path, b, other_path)
        for a, b in zip(one.tensors, other.tensors, strict=True)
    )


def _is_equal(one: onnx.TensorProto, path: Path, other: onnx.TensorProto, other_path: Path) -> bool:
    """Compares constants of two graphs. Does not read weights that lie in one place, as those that no pass changed."""
    if one.data_type == onnx.TensorProto.STRING:
        return list(one.string_data) == list(other.string_data)
    a, b = (resolved(ir.serde.deserialize_tensor(*pair)) for pair in ((one, path.parent), (other, other_path.parent)))
    return place_key(a) == place_key(b) or all(x == y for x, y in zip_longest(pieces(a), pieces(b)))
