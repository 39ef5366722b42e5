"""Traces of ``optim run --trace``, read and refused: what a replay decides by. Reading one executes nothing."""

from __future__ import annotations

import gzip
import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from optim._engine.trace import VERSION
from optim.errors import OptimError

_MOST_BYTES = 1 << 28
"""The most bytes of a trace that is read, uncompressed; a run of three minutes has some megabytes."""


@dataclass(frozen=True)
class Trace:
    """A trace that was read.

    Attributes:
        actions: in the order in which they ended.
        end: what came of the run.
    """

    header: dict[str, Any]
    actions: list[dict[str, Any]]
    end: dict[str, Any]

    def require_model(self, digest: str) -> None:
        """Refuse a trace of another model.

        Raises:
            OptimError[trace-of-other-model]: it is one.
        """
        found = self.end["model"]
        if found != digest:
            raise OptimError(
                "trace-of-other-model",
                "the trace is of another model",
                f"it is of {found[:12]}, and was asked about {digest[:12]}",
                "record one of this model: optim run MODEL --trace FILE",
            )


def read_trace(path: Path) -> Trace:
    """A trace, whole.

    Raises:
        OptimError[damaged-trace]: it is none, or it was cut off.
        OptimError[trace-version]: another version of optim wrote it.
    """
    try:
        with gzip.open(path, "rb") as file:
            content = file.read(_MOST_BYTES)  # what is longer counts as cut off
    except (OSError, EOFError, zlib.error) as error:
        raise _bad(path, (error.strerror if isinstance(error, OSError) else "") or str(error)) from error
    try:
        header, *actions, last = [json.loads(line) for line in content.decode().splitlines()]
        version = header["optim_trace"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise _bad(path, "its lines do not have the form of a trace") from error
    if version != VERSION:
        raise OptimError(
            "trace-version",
            f"{path.name} cannot be read",
            f"it is a trace of version {version}, and this optim reads version {VERSION}",
            "record it again: optim run MODEL --trace FILE",
        )
    if not isinstance(last, dict) or last.get("actions") != len(actions) or "end" not in last:
        raise _bad(path, "its last line is missing: the run was ended, or the file was cut off")
    return Trace(header, actions, last["end"])


def _bad(path: Path, cause: str) -> OptimError:
    return OptimError(
        "damaged-trace", f"{path.name} is not a complete trace", cause, "record it again: optim run MODEL --trace FILE"
    )
