"""Reads JSON of unknown origin: bounded before it is read, and with one kind of error for all that can be wrong."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

_MAX_BYTES = 64 << 20
"""A report of ten thousand attempts has 20 MB, an index of a sharded model 10 MB; parsed, each takes ten times that."""


def read_json(path: Path) -> Any:
    """The value that a JSON file holds; a pipe or a device, which might never end, is refused.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no regular file, too large, not UTF-8, not JSON, or nested more deeply than Python goes.
    """
    if path.exists() and not path.is_file():
        raise ValueError("it is not a file")
    with path.open("rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        content = stream.read(min(size, _MAX_BYTES) + 1)  # reading sets memory aside for as much as it is asked for
    if len(content) > _MAX_BYTES:
        raise ValueError(f"it is larger than {_MAX_BYTES >> 20} MiB, the limit for such files")
    try:
        return json.loads(content.decode("utf-8"))
    except RecursionError as error:
        raise ValueError("its values are nested too deeply") from error
