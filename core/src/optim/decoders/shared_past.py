"""Decoders whose past may lie in one buffer with their present, as the metadata of their graph says.

    metadata_props["optim.past"] = "buffer"

Of such a graph a caller may bind an input ``past_key_values.X`` and its output ``present.X`` to the same memory: a
buffer with room for all tokens, [batch, heads, capacity, size], of which the length of ``attention_mask`` says how much
is filled. A run adds its tokens there and copies nothing. A caller who does not gets a longer present, as always.

The kernel that does so takes several new tokens behind a past for one row only; a first step and single tokens go in
any batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import onnx_ir

    from optim.arrays import Feeds

KEY = "optim.past"
"""Of the metadata."""
BUFFER = "buffer"
"""Past and present may be one buffer."""


def name_shared_past(graph: onnx_ir.Model) -> None:
    """Writes into the metadata of a graph that its past and present may be one buffer."""
    graph.metadata_props[KEY] = BUFFER


def keep_shared_past(graph: onnx_ir.Model, predecessor: Path) -> None:
    """Say of a graph that a library wrote what its predecessor said: a library may have dropped the metadata."""
    if file_shares_past(predecessor):
        name_shared_past(graph)
    else:
        graph.metadata_props.pop(KEY, None)


def shares_past(metadata: Mapping[str, str]) -> bool:
    """Whether metadata say that past and present may be one buffer."""
    return metadata.get(KEY) == BUFFER


def file_shares_past(path: Path) -> bool:
    """Whether the graph of a file says that past and present may be one buffer."""
    import onnx

    entries = onnx.load(path, load_external_data=False).metadata_props
    return shares_past({entry.key: entry.value for entry in entries})


def why_not_taken(feeds: Feeds) -> str:
    """Why a graph whose past and present may be one buffer does not take feeds; empty where it does."""
    ids, mask = feeds.get("input_ids"), feeds.get("attention_mask")
    if ids is None or mask is None or ids.ndim != 2 or mask.ndim != 2:
        return ""
    rows, new = ids.shape
    if rows > 1 and 1 < new < mask.shape[1]:
        return f"{new} new tokens behind a past in {rows} rows; its kernel takes several behind a past for one row"
    return ""
