"""``optim outputs``, and a comparison with what it stored."""

from __future__ import annotations

import json
import pickle
import zipfile
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
import pytest
from click.testing import CliRunner

import optim
from optim.arrays import Feeds
from optim.errors import ExitStatus, OptimError
from optim_plugins.diagnose.outputs.command import outputs
from optim_plugins.diagnose.outputs.file import OutputsWriter, StoredOutputs
from optim_testing import models

pytestmark = pytest.mark.usefixtures("jobs_here")


@pytest.fixture(scope="module")
def samples() -> list[Feeds]:
    rng = np.random.default_rng(0)
    return [{"x": rng.standard_normal((2, 32), np.float32)} for _ in range(3)]


@pytest.fixture
def folder(tmp_path: Path, samples: list[Feeds], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A model, a folder of samples, and the model's outputs on them."""
    monkeypatch.chdir(tmp_path)
    models.mlp(tmp_path)
    Path("samples").mkdir()
    for number, one in enumerate(samples):
        np.savez(Path("samples", f"{number}.npz"), **one)
    said = stored("mlp.onnx", "--data", "samples", "-o", "ref.npz", "--json")
    assert json.loads(said)["count"] == 3
    return tmp_path


def stored(*words: str) -> str:
    return CliRunner().invoke(outputs, words, catch_exceptions=False, standalone_mode=False).stdout


def changed(path: Path, value: float) -> Path:
    """The model with one weight changed."""
    model = onnx.load(path)
    tensor = next(one for one in model.graph.initializer if len(one.dims) == 2)
    array = onnx.numpy_helper.to_array(tensor).copy()
    array[0, 0] += value
    tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
    onnx.save(model, path.with_name("changed.onnx"))
    return path.with_name("changed.onnx")


def refused(**given: object) -> OptimError:
    with pytest.raises(OptimError) as caught:
        optim.verify("ref.npz", "mlp.onnx", **{"data": "samples", **given})
    return caught.value


def test_stored_outputs_judge_as_the_model_itself_does(folder: Path) -> None:
    other = changed(folder / "mlp.onnx", 0.5)
    direct = optim.verify("mlp.onnx", other, data="samples", max_drift=1e-3)
    found = optim.verify("ref.npz", other, data="samples", max_drift=1e-3)
    assert not found.within
    assert found.drift.relative_error > 1e-3
    assert (found.drift, found.outputs, found.tolerance) == (direct.drift, direct.outputs, direct.tolerance)
    assert any("stored outputs of mlp.onnx (sha256 " in note and "onnxruntime" in note for note in found.notes)
    assert optim.verify("ref.npz", "mlp.onnx", data="samples").lossless


def test_masked_samples_are_judged_as_by_the_model_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model = models.encoder(tmp_path)
    with optim.lab(model) as lab:
        for number in range(2):
            feeds = dict(lab.sample(number))
            mask = next(name for name in feeds if "mask" in name)
            feeds[mask] = np.array(feeds[mask])
            feeds[mask][..., -1] = 0
            np.savez(f"s{number}.npz", **feeds)
    Path("data").mkdir()
    for number in range(2):
        Path(f"s{number}.npz").rename(f"data/{number}.npz")
    stored(str(model), "--data", "data", "-o", "a,b.npz")  # no setting of a target could hold that name
    found, direct = (optim.verify(one, model, data="data", target="cpu:threads=1") for one in ("a,b.npz", model))
    assert (found.within, found.tolerance) == (direct.within, direct.tolerance)
    assert found.drift.relative_error <= found.tolerance


def test_other_samples_and_no_samples_are_one_error(folder: Path, samples: list[Feeds]) -> None:
    error = refused(data=[{"x": one["x"] + 1} for one in samples])
    assert error.reference == "other-samples"
    assert "'x'" in error.cause
    assert "samples (3)" in str(refused(data=None)) or "3 samples" in str(refused(data=None))


def test_outputs_of_another_model_are_one_error(folder: Path) -> None:
    model = onnx.load("mlp.onnx")
    old = model.graph.output[0].name
    for node in model.graph.node:
        node.output[:] = ["renamed" if name == old else name for name in node.output]
    model.graph.output[0].name = "renamed"
    onnx.save(model, "renamed.onnx")
    with pytest.raises(OptimError) as caught:
        optim.verify("ref.npz", "renamed.onnx", data="samples")
    assert caught.value.reference == "other-outputs"
    assert "renamed (float32)" in caught.value.cause


def test_a_run_folder_of_another_original_is_one_error(folder: Path) -> None:
    Path("out").mkdir()
    Path("mlp.onnx").rename("out/model.onnx")
    Path("out/session.json").write_text('{"provider": "CPUExecutionProvider"}')
    for digest, reference in (("0" * 64, "other-outputs"), (StoredOutputs.open(Path("ref.npz")).about.sha256, "")):
        Path("out/report.json").write_text(json.dumps({"original": {"digest": digest}}))
        error = None
        try:
            found = optim.verify("ref.npz", "out", data="samples")
        except OptimError as raised:
            error = raised
        assert (error.reference if error else "") == reference, error
    assert found.lossless


def test_a_foreign_file_executes_nothing(folder: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple[object, ...]:
            return (Path.touch, (Path("ran"),))

    about = np.empty(1, object)
    about[0] = Bomb()
    np.savez("ref.npz", about=about)
    assert refused().reference == "bad-outputs-file"
    Path("ref.npz").write_bytes(pickle.dumps(Bomb()))
    assert refused().reference == "bad-outputs-file"
    assert not Path("ran").exists()


def test_a_damaged_or_strange_file_is_one_error(folder: Path) -> None:
    whole = Path("ref.npz").read_bytes()
    kept = StoredOutputs.open(Path("ref.npz"))
    place = next(iter(kept.about.runs[0].outputs.values())).place
    with np.load("ref.npz") as arrays:
        swapped = {name: arrays[name] + (1 if name == place else 0) for name in arrays.files if name != "about"}
        np.savez("ref.npz", about=arrays["about"], **swapped)
    error = refused()
    assert (error.reference, f"{place} is not what was written" in error.cause) == ("bad-outputs-file", True)
    for content in (b"", whole[: len(whole) // 2], b"not a zip"):
        Path("ref.npz").write_bytes(content)
        assert refused().reference == "bad-outputs-file"
    np.savez("ref.npz", y=np.zeros(3))
    assert "no entry 'about'" in refused().cause
    np.savez("ref.npz", about=np.frombuffer(b"{}", np.uint8))
    assert refused().reference == "bad-outputs-file"
    Path("ref.npz").unlink()
    assert "no such file" in refused().cause
    with pytest.raises(OptimError) as caught:
        stored("mlp.onnx", "-o", "ref.onnx")
    assert caught.value.reference == "bad-outputs-file"


def test_a_run_cannot_be_for_stored_outputs(folder: Path) -> None:
    with pytest.raises(OptimError) as caught:
        optim.run("mlp.onnx", "out", target="stored:file=ref.npz")
    assert (caught.value.reference, caught.value.status) == ("target-takes-no-onnx", ExitStatus.USAGE)
    assert caught.value.fix.startswith("optim verify MODEL --target stored:file=ref.npz")


def test_a_candidate_is_never_compared_with_itself(folder: Path) -> None:
    with pytest.raises(OptimError) as caught:
        optim.verify("mlp.onnx", "mlp.onnx", data="samples", target="stored:file=ref.npz")
    assert "stored-outputs-only" in str(caught.value) or "cannot run a model" in str(caught.value)


def test_types_that_numpy_does_not_know_and_texts_come_back(tmp_path: Path) -> None:
    path = tmp_path / "ref.npz"
    computed = {"half": np.ones((2, 3), ml_dtypes.bfloat16), "text": np.array(["a", "bcd"], object)}
    feeds = {"word": np.array(["x"], object)}
    with OutputsWriter(path) as writer:
        writer.add(feeds, computed)
        assert writer.has(feeds)
        assert not writer.has({"word": np.array(["y"], object)})
        writer.finish(model="m", sha256="0", target="cpu", runtime={}, samples="s", count=1)
    found = StoredOutputs.open(path).find(feeds)
    assert found["half"].dtype == ml_dtypes.bfloat16
    assert list(found["text"]) == ["a", "bcd"]
    with zipfile.ZipFile(path) as archive:
        assert set(archive.namelist()) == {"a0.npy", "a1.npy", "about.npy"}
    assert [one.name for one in tmp_path.iterdir()] == ["ref.npz"]
