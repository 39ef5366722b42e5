"""What a user may name beside an ONNX file, and what only looks like it."""

from __future__ import annotations

import math
from functools import partial
from itertools import product
from pathlib import Path

import pytest

import optim
from optim._engine.cli.main import main
from optim._engine.cli.request import source_request
from optim._engine.plugins import registry
from optim._engine.plugins.registry import load_registry
from optim._engine.runs import run
from optim._engine.sources.naming import needs_export
from optim.errors import ExitStatus, OptimError

USES = (partial(optim.run, output="never"), optim.bench, partial(optim.export, output="never"))


def test_a_factory_and_a_model_folder_are_exported_first(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    assert needs_export("package.module:factory")
    assert needs_export(str(tmp_path))
    assert not needs_export("model.onnx")
    assert not needs_export(str(tmp_path / "absent" / "model.onnx"))


def test_the_name_of_a_model_on_a_hub_says_how_to_make_a_folder_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for use in USES:
        with pytest.raises(OptimError) as caught:
            use("sentence-transformers/all-MiniLM-L6-v2")
        assert caught.value.reference == "source-is-hub-name"
        assert caught.value.fix.startswith("optim run hf://")
        assert "hf://sentence-transformers/all-MiniLM-L6-v2" in caught.value.fix
    assert not list(tmp_path.iterdir())
    with pytest.raises(OptimError, match="there is no folder"):
        needs_export("sentence-transformers/all-MiniLM-L6-v2")
    (tmp_path / "models").mkdir()
    assert not needs_export("models/typo")  # a folder of that name is there: a mistyped path


def test_weights_without_a_model_are_refused(tmp_path: Path) -> None:
    for name, use in product(("model.safetensors", "model.pt"), USES):
        (tmp_path / name).write_bytes(b"weights")
        with pytest.raises(OptimError) as caught:
            use(str(tmp_path / name))
        assert caught.value.reference == "source-is-weights"
        with pytest.raises(OptimError, match="is not a model that can be exported"):
            needs_export(str(tmp_path / name))
    for use in USES:
        with pytest.raises(OptimError) as caught:
            use(str(tmp_path))
        assert caught.value.reference == "source-without-config" and "model.pt" in caught.value.cause


def test_a_source_needs_the_plugin_that_exports_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    absent = load_registry(only=["ort"])
    for module in (registry, run):
        monkeypatch.setattr(module, "load_registry", lambda *names, **words: absent)
    (tmp_path / "config.json").write_text("{}")
    for use in (partial(optim.run, output=tmp_path / "out"), optim.bench):
        with pytest.raises(OptimError, match="cannot be exported to ONNX") as refused:
            use(tmp_path)
        assert refused.value.reference == "plugin-missing"
        assert refused.value.fix == "in a clone of optim: pip install ./plugins"
    assert not (tmp_path / "out").exists()


def test_what_is_not_there_and_what_is_no_model_folder_cannot_be_exported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(tmp_path / "absent"), "-o", str(tmp_path / "out")]) == ExitStatus.USAGE
    assert "error[source-missing]" in capsys.readouterr().err
    (tmp_path / "notes.txt").write_text("")
    assert main(["export", str(tmp_path), "-o", str(tmp_path / "out")]) == ExitStatus.BAD_INPUT
    assert "notes.txt, but no config.json" in capsys.readouterr().err


def test_options_of_a_source_are_read_as_a_shell_gives_them() -> None:
    words = {
        "source_arg": ("layers=2", "name=small", "rate=0.5", "flag=true"),
        "dynamic": ("input_ids=batch,sequence", "mems=batch,past,"),
        "state": ("mems",),
    }
    request = source_request("m:f", words)
    assert request.arguments == {"layers": 2, "name": "small", "rate": 0.5, "flag": True}
    assert request.dynamic == {"input_ids": ("batch", "sequence"), "mems": ("batch", "past", "")}
    assert (request.state, request.weights) == (("mems",), "copy")


@pytest.mark.parametrize("words", [{"source_arg": ("layers",)}, {"dynamic": ("x",)}, {"dynamic": ("x=1batch",)}])
def test_options_that_cannot_be_read_are_refused(words: dict[str, tuple[str, ...]]) -> None:
    with pytest.raises(OptimError) as caught:
        source_request("m:f", words)
    assert caught.value.reference == "bad-source-option"


def test_a_model_that_is_onnx_already_takes_no_source_options(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "model.onnx").write_bytes(b"x")
    arguments = ["run", str(tmp_path / "model.onnx"), "-o", str(tmp_path / "out"), "--state", "mems"]
    assert main(arguments) == ExitStatus.USAGE
    assert "conflicting-request" in capsys.readouterr().err
    assert main(["export", str(tmp_path / "model.onnx"), "-o", str(tmp_path / "out")]) == ExitStatus.USAGE
    assert "source-is-model" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_folder_that_optim_filled_is_no_source_though_it_keeps_the_config(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    for name in ("run.json", "session.json", "export.json"):
        (tmp_path / name).write_text("{}")
        assert not needs_export(str(tmp_path))
        (tmp_path / name).unlink()
    (tmp_path / "export.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"weights")  # of a source whose graphs point into it
    assert needs_export(str(tmp_path))


@pytest.mark.parametrize("drift", [math.nan, math.inf, 0.0, -1.0])
def test_a_largest_drift_that_bounds_nothing_is_refused(drift: float, tmp_path: Path) -> None:
    with pytest.raises(OptimError, match="--max-drift cannot be") as caught:
        optim.export("mine:factory", tmp_path / "out", max_drift=drift)
    assert caught.value.reference == "bad-budget"
    assert not (tmp_path / "out").exists()
