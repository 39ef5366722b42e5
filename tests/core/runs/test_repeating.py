"""A lock repeats one model: what comes out otherwise, and what it was not made of, is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

import optim
from optim._engine.sources.export_file import ComponentFile, export_file, write_export_file
from optim.errors import ExitStatus, OptimError
from optim_testing import models

pytestmark = pytest.mark.usefixtures("jobs_here")

QUICK = {"search_seconds": 0, "stages": ["post-process"]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("repeated")


@pytest.fixture
def lock(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The lock of a run of ``model.onnx``, made once."""
    monkeypatch.setenv("OPTIM_CACHE_DIR", str(folder / "cache"))
    if not (folder / "out").exists():
        models.mlp(folder).rename(folder / "model.onnx")
        optim.run(folder / "model.onnx", folder / "out", **QUICK)
    return folder / "out" / "recipe.lock.toml"


def test_a_model_that_comes_out_otherwise_is_not_delivered(lock, folder, tmp_path):
    text = lock.read_text()
    digest = text.rpartition('model_digest = "')[2][:64]
    assert len(digest) == 64
    (tmp_path / "other.toml").write_text(text.replace(f'model_digest = "{digest}', f'model_digest = "{"0" * 64}'))
    with pytest.raises(OptimError, match="lock-mismatch") as refused:
        optim.run(folder / "model.onnx", tmp_path / "again", recipe=tmp_path / "other.toml")
    assert f"expected {'0' * 12}, got {digest[:12]}; no version differs" in refused.value.cause
    assert refused.value.status is ExitStatus.NOT_HELD
    assert not (tmp_path / "again" / "model.onnx").exists()


def test_a_lock_is_not_repeated_on_another_model(lock, tmp_path):
    with pytest.raises(OptimError, match="the lock was made from another model") as refused:
        optim.run(models.convnet(tmp_path), tmp_path / "again", recipe=lock)
    assert refused.value.reference == "other-source"
    assert not (tmp_path / "again" / "model.onnx").exists()


@pytest.fixture
def several(tmp_path: Path, lock: Path, folder: Path) -> Path:
    """What an export leaves of a source with two components."""
    exported = tmp_path / "exported"
    for name in ("encoder", "decoder"):
        (exported / name).mkdir(parents=True)
        (exported / name / "model.onnx").write_bytes((folder / "model.onnx").read_bytes())
    components = {name: ComponentFile(f"{name}/model.onnx", {}, 0.0) for name in ("encoder", "decoder")}
    write_export_file(exported, export_file("path/to/model", {}, components))
    return exported


def test_a_lock_is_not_repeated_on_a_source_with_several_models(several, lock, tmp_path):
    with pytest.raises(OptimError, match="a lock repeats one model, and the source has several") as refused:
        optim.run(several, tmp_path / "again", recipe=lock)
    assert (refused.value.reference, refused.value.cause) == ("other-source", "its components are encoder, decoder")


def test_of_several_models_one_must_be_named_to_be_opened(several):
    with pytest.raises(OptimError, match="several-models") as refused:
        optim.load(several)
    assert "encoder, decoder" in refused.value.cause


def test_every_model_of_a_source_is_run_into_a_folder_of_its_own(several, tmp_path):
    report = optim.run(several, tmp_path / "out", **QUICK)
    assert report.status == "unchanged"
    assert sorted(path.parent.name for path in (tmp_path / "out").rglob("model.onnx")) == ["decoder", "encoder"]
    assert (tmp_path / "out" / "export.json").is_file()
