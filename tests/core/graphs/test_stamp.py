"""A file that was read before is read again only where it may have changed."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

import optim
from optim._engine.graphs import user_files
from optim._engine.graphs.user_files import stamps_of, still_there
from optim._engine.jobs import ingest
from optim._engine.search import restore
from optim._engine.store import Store
from optim_testing import models

LONG_AGO_S = time.time() - 1000


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(user_files, "_SETTLED_S", 0.0)


def written(path: Path, text: str) -> Path:
    path.write_text(text)
    os.utime(path, (LONG_AGO_S, LONG_AGO_S))
    return path


@pytest.mark.usefixtures("settled")
def test_a_file_that_is_written_anew_is_noticed_though_size_and_time_are_as_before(tmp_path: Path) -> None:
    file = written(tmp_path / "a", "one")
    known = stamps_of([file])
    assert known is not None and still_there(known)
    time.sleep(0.02)  # more than the step of the clock of file systems
    written(file, "two")
    assert file.stat().st_mtime == pytest.approx(LONG_AGO_S)
    assert not still_there(known)  # the time of its last change cannot be set
    file.unlink()
    assert stamps_of([file]) is None


def test_a_young_file_has_no_stamp(tmp_path: Path) -> None:
    assert stamps_of([written(tmp_path / "a", "one")]) is None  # its last change is young, whatever its time says
    assert not still_there(())


@pytest.mark.slow
@pytest.mark.usefixtures("settled", "jobs_here")
def test_a_model_is_read_again_after_its_weights_changed_and_not_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPTIM_CACHE_DIR", str(tmp_path / "cache"))
    read: list[Path] = []
    trimmed: list[Store] = []
    monkeypatch.setattr(Store, "trim", lambda store: trimmed.append(store))
    really = ingest.ingest
    monkeypatch.setattr(ingest, "ingest", lambda path, store: read.append(path) or really(path, store))
    model = models.mlp(tmp_path)
    quick = {"search_seconds": 0, "stages": ["post-process"]}
    first = optim.run(model, tmp_path / "out", **quick)
    again = optim.run(model, tmp_path / "out", **quick)
    assert len(read) == 1 and again.cached
    assert again.original.digest == first.original.digest
    hashed: list[Path] = []
    digest = restore.file_digest
    monkeypatch.setattr(restore, "file_digest", lambda path: hashed.append(path) or digest(path))
    assert optim.run(model, tmp_path / "out", **quick).cached
    assert hashed == []
    assert len(trimmed) == 1  # what is served from the cache adds nothing to it
    for file in (tmp_path / "cache").rglob(f"{first.original.digest[:8]}*"):
        file.unlink()
    for graph in (tmp_path / "cache" / "models").glob("*.onnx"):
        graph.write_bytes(b"damaged")
    optim.run(model, tmp_path / "out", **quick)
    assert len(read) == 2  # what the store has is not what it was
    assert hashed
    time.sleep(0.02)
    models.mlp(tmp_path)
    optim.run(model, tmp_path / "out", **quick)
    assert len(read) == 3
