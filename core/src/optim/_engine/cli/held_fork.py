"""A run as a fork: what ``python -m optim._engine.cli.held`` is as a program, and ends as that does.

It is forked of a server that has imported what it needs, and takes a second one for its workers: four short runs took
4.8 s of processor time in place of 7.5. A line of JSON on its stdin says
``{"arguments": [...], "environment": {...}, "folder": "..."}``.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from typing import NoReturn

from optim._engine.cli import held
from optim.jobs.fork_server import become
from optim.jobs.forked import adopt_server
from optim.jobs.process import environment_of_workers

IMPORTED_AHEAD = (
    "jinja2",
    "rich.console",
    "optim._engine.cli.request",
    "optim._engine.cli.verbs.run",
    "optim._engine.recipes.lock",
    "optim._engine.reports.html",
    "optim._engine.runs.publish",
    "optim._engine.runs.run",
    "optim._engine.runs.source_run",
)
"""What each run imports; no plugin, as in its workers."""

_PIECE_BYTES = 65536


def run(connection: socket.socket) -> NoReturn:
    """Be the run, and end this process with its exit status.

    Args:
        connection: to the server of its workers.
    """
    line = b""
    while not line.endswith(b"\n"):
        piece = os.read(0, _PIECE_BYTES)
        if not piece:  # who began it is gone
            os._exit(1)
        line += piece
    told = json.loads(line)
    become(told)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - for good
    sys.stderr = open(2, "w", 1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    adopt_server(environment_of_workers(), connection)
    sys.exit(held.run(told["arguments"]))
