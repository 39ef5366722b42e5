"""Digests: what a model is called in the store, and how two models are known to be the same."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict
from pathlib import Path

from optim.model import SessionConfig

_STORED = re.compile(r"[0-9a-f]{64}")


def file_digest(path: Path) -> str:
    """Sha256 of a file's bytes, hex; reads in pieces, so a mapped file costs no memory."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def graph_digest(path: Path) -> str:
    """Sha256 of a graph and the data files it refers to, hex.

    A graph in the store is called by its digest, and refers to data files called by theirs, so nothing is read.
    """
    if _STORED.fullmatch(path.stem):
        return path.stem
    from optim.onnx.external_data import external_files

    digest = hashlib.sha256(file_digest(path).encode())
    for location in external_files(path):
        digest.update(file_digest(path.parent / location).encode())
    return digest.hexdigest()


def model_digest(path: Path, session: SessionConfig) -> str:
    """Digest of a graph together with its session settings; the graph's own where there are no settings."""
    digest = graph_digest(path)
    if session == SessionConfig():
        return digest
    return hashlib.sha256(f"{digest}{json.dumps(asdict(session), sort_keys=True)}".encode()).hexdigest()
