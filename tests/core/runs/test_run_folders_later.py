"""A run folder that is looked at after its run: on which samples, by which runtime, which point is picked."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from installed_plugin import installed
from timed_models import write_network

from optim._engine.cli.main import main
from optim._engine.plugins.registry import load_registry
from optim.errors import ExitStatus
from optim_plugins.diagnose.profile import profile_job
from optim_testing import models

pytestmark = pytest.mark.usefixtures("jobs_here")

SHORT = ["--search-seconds", "1", "--stage", "post-process"]


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """A folder with a model, samples, and the folder of a run on them."""
    folder = tmp_path_factory.mktemp("ran")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPTIM_CACHE_DIR", str(folder / "cache"))
        patch.chdir(folder)
        models.mlp(folder)
        np.savez("mine.npz", x=np.full((2, 32), 0.25, np.float32))
        assert main(["run", "mlp.onnx", "-o", "out", "--data", "mine.npz", *SHORT]) == ExitStatus.DELIVERED
    return folder


@pytest.fixture
def made(ran, tmp_path, monkeypatch):
    """The name of the model; the working folder is a copy of that folder."""
    shutil.copytree(ran, tmp_path, dirs_exist_ok=True)
    monkeypatch.setenv("OPTIM_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return "mlp.onnx"


def told(capsys, *words):
    assert main([*words, "--json"]) == ExitStatus.DELIVERED
    return json.loads(capsys.readouterr().out)


@pytest.mark.slow
def test_a_result_is_verified_and_timed_on_the_samples_of_its_run(made, capsys):
    assert told(capsys, "verify", made, "out")["feeds"] == {
        "origin": "mine.npz",
        "samples": 1,
        "compared": 1,
        "note": "",
    }
    assert told(capsys, "bench", made, "out", "--seconds", "0.01")["feeds"] == "mine.npz"


@pytest.mark.slow
def test_a_verdict_on_made_up_inputs_says_which_samples_the_run_had(made, capsys, tmp_path):
    (tmp_path / "mine.npz").unlink()
    said = "compared on synthesized inputs; the run of out had mine.npz: give it with --data"
    assert told(capsys, "verify", made, "out")["feeds"]["note"] == said
    assert main(["verify", made, "out"]) == ExitStatus.DELIVERED
    assert capsys.readouterr().out.splitlines()[-1].endswith(f"; {said}")
    assert told(capsys, "bench", made, "out", "--seconds", "0.01")["feeds"].endswith(said)
    assert told(capsys, "verify", made, made)["feeds"]["note"] == ""


@pytest.mark.slow
def test_samples_that_another_model_does_not_take_are_left_alone(made, capsys, tmp_path):
    (tmp_path / "other").mkdir()
    other = str(write_network(tmp_path / "other" / "other.onnx", useful=1))
    lock = tmp_path / "out" / "recipe.lock.toml"
    (tmp_path / "other" / "recipe.lock.toml").write_bytes(lock.read_bytes())
    (tmp_path / "other" / "session.json").write_bytes((tmp_path / "out" / "session.json").read_bytes())
    (tmp_path / "other" / "other.onnx").rename(tmp_path / "other" / "model.onnx")
    other = str(tmp_path / "other")
    assert "had mine.npz: give it with --data" in told(capsys, "verify", other, other)["feeds"]["note"]


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["profile", "blame"])
def test_a_result_for_another_runtime_says_that_it_was_not_run_there(tmp_path, capsys, monkeypatch, verb):
    monkeypatch.setattr(profile_job, "_MEASURED_S", 0.02)
    with installed(tmp_path, "offset_plugin"):
        model = write_network(tmp_path / "model.onnx", useful=1)
        out = tmp_path / "out"
        out.mkdir()
        (out / "model.onnx").write_bytes(model.read_bytes())
        (out / "session.json").write_text(json.dumps({"provider": "CPUExecutionProvider", "target": "offset"}))
        seconds = ["--seconds", "0.01"] if verb == "profile" else []
        notes = told(capsys, verb, str(model), str(out), *seconds)["notes"]
        assert [note for note in notes if "was made for target offset, and cpu ran it" in note]
        assert main([verb, str(model), str(out), *seconds]) == ExitStatus.DELIVERED
        assert "note: " in capsys.readouterr().out
        assert told(capsys, verb, str(model), str(model), *seconds)["notes"] == []


@pytest.mark.slow
def test_a_plugin_that_breaks_is_named_by_the_run(tmp_path, monkeypatch, capsys):
    with installed(tmp_path, "offset_plugin"):
        (tmp_path / "site" / "broken_plugin.py").write_text("raise RuntimeError('no licence for acme')\n")
        hook = "from optim import hookimpl\nOPTIM_HOOK_API = 1\n@hookimpl\ndef optim_fuse(target):\n    return 'acme'\n"
        (tmp_path / "site" / "half_plugin.py").write_text(hook)
        info = tmp_path / "site" / "optim_test_broken-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: optim-test-broken\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("[optim.plugins]\nbroken = broken_plugin\nhalf = half_plugin\n")
        model = str(models.mlp(tmp_path))
        said = "plugin broken (optim-test-broken 1.0) is failed; its passes were not tried: "
        for cached in (False, True):
            found = told(capsys, "run", model, "-o", str(tmp_path / "out"), *SHORT)
            assert found["cached"] is cached
            (note,) = [note for note in found["notes"] if note.startswith(said)]
            assert "no licence for acme" in note and note.endswith("optim plugins show broken")
            assert any("optim_fuse: returned something of type str" in note for note in found["notes"])
        assert main(["run", model, "-o", str(tmp_path / "out"), *SHORT]) == ExitStatus.DELIVERED
        assert "no licence for acme" in " ".join(capsys.readouterr().out.split())


@pytest.mark.slow
def test_a_point_is_picked_of_the_run_that_filled_the_folder(tmp_path, monkeypatch, capsys):
    """A second run of the same request keeps points of its own; both folders stay what they are."""
    with installed(tmp_path, "timed_plugin"):
        model = str(write_network(tmp_path / "model.onnx", {"a": 40}))
        registry = load_registry()
        others = {one.name for one in registry.offers(registry.target("cpu"))} - {"timed.drop-a"}
        words = ["run", model, "--search-seconds", "100", "--with", "timed.drop-a", "--stage", "fuse"]
        words += [*(f"--without={name}" for name in sorted(others)), "--no-cache"]
        first = told(capsys, *words, "-o", str(tmp_path / "out"))
        second = told(capsys, *words, "-o", str(tmp_path / "other"))
        for folder, report in (("out", first), ("other", second)):
            picked = told(capsys, "pick", str(tmp_path / folder), "1", "-o", str(tmp_path / f"of_{folder}"))
            (point,) = [one for one in report["points"] if one["number"] == 1]
            assert picked["result"]["latency_ratio"] == point["latency_ratio"]
        assert first["result"]["latency_ratio"] != second["result"]["latency_ratio"]
        again = told(capsys, *words[:-1], "-o", str(tmp_path / "again"))
        assert (again["cached"], again["key"]) == (True, second["key"])
