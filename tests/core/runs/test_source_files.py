"""Files of a source that a run folder keeps, so that it can be laid out by itself later."""

from __future__ import annotations

from pathlib import Path

import pytest

import optim
from optim._engine.sources.export_file import files_of
from optim.layout import carry_files, placing
from optim.source import SourceRequest
from optim_testing import models

QUICK = {"search_seconds": 0, "stages": ["post-process"]}
KEPT = ("1_Pooling/config.json", "config.json", "modules.json", "tokenizer.json")


@pytest.fixture
def files(tmp_path: Path) -> Path:
    """A repository of the hub: its graph lies in ``onnx``."""
    folder = tmp_path / "hub"
    for name in (*KEPT, "README.md", "1_Pooling/deep/notes.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("{}")
    (folder / "onnx").mkdir()
    models.mlp(folder).rename(folder / "onnx" / "model.onnx")
    return folder


def names_in(folder: Path) -> set[str]:
    return {str(file.relative_to(folder)).replace("\\", "/") for file in folder.rglob("*") if file.is_file()}


def test_what_is_small_goes_along_and_what_is_large_is_told(files, tmp_path, monkeypatch):
    monkeypatch.setattr(placing, "LARGEST_BYTES", 8)
    (files / "tokenizer.json").write_text("x" * 9)
    out = tmp_path / "out"
    out.mkdir()
    carried = carry_files(files, out)
    assert names_in(out) == set(carried.names) == {*KEPT} - {"tokenizer.json"}
    assert carried.note.startswith("tokenizer.json of the source is not kept here, as it has more than")
    assert carry_files(files, out).names == ()
    assert carry_files(out, out).note == ""


@pytest.mark.usefixtures("jobs_here")
def test_a_run_folder_keeps_them_and_is_laid_out_by_itself(files, tmp_path, monkeypatch):
    monkeypatch.setenv("OPTIM_CACHE_DIR", str(tmp_path / "cache"))
    optim.run(files / "onnx" / "model.onnx", tmp_path / "out", **QUICK)
    assert names_in(tmp_path / "out") >= set(KEPT)
    for name in (*KEPT, "onnx/model.onnx"):
        (files / name).unlink()
    laid = optim.deliver(tmp_path / "out", "optimum", tmp_path / "laid")
    assert laid.status in ("opened", "not-opened")  # as optimum is installed here or not
    assert names_in(tmp_path / "laid") >= {"config.json", "tokenizer.json", "onnx/model_optim.onnx"}


def test_where_they_lie_is_known_of_a_graph_of_a_repository_too(files, tmp_path):
    for source in (files / "onnx" / "model.onnx", files / "model.onnx", files):
        assert files_of(source, None) == files
    assert files_of(tmp_path / "model.onnx", None) is None
    assert files_of(tmp_path, SourceRequest(str(files))) == files
