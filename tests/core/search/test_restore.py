"""After a pass broke the store is looked at, and large files that look as they did are not read again."""

from __future__ import annotations

import hashlib

import pytest

from optim._engine.graphs import user_files
from optim._engine.search import restore as restoring
from optim._engine.search.restore import damaged_files, restore
from optim._engine.store import Store


@pytest.fixture
def graph(tmp_path, monkeypatch):
    """A file of a store, called by its digest, that counts as settled."""
    monkeypatch.setattr(user_files, "_SETTLED_S", -10.0)
    monkeypatch.setattr(restoring, "external_files", lambda path: ())
    path = tmp_path / hashlib.sha256(b"graph").hexdigest()
    path.write_bytes(b"graph")
    return path


def test_what_was_read_and_looks_as_it_did_is_not_read_again(graph, tmp_path, monkeypatch):
    store = Store(tmp_path / "cache")
    assert damaged_files(graph, store) == []
    monkeypatch.setattr(restoring, "file_digest", lambda path: pytest.fail("it was read again"))
    assert not restore(graph, lambda: pytest.fail("it was made again"), store)


def test_what_was_written_into_is_made_again(graph, tmp_path):
    store = Store(tmp_path / "cache")
    assert damaged_files(graph, store) == []
    with graph.open("r+b") as stream:
        stream.write(b"GRAPH")  # as many bytes

    def make():
        graph.write_bytes(b"graph")
        return graph

    assert damaged_files(graph, store) == [graph]
    assert restore(graph, make, store)
    assert graph.read_bytes() == b"graph"
