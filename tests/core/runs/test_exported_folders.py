"""Runs of what an export left: what it knows goes on into the run folder, so that a decoder still generates."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from small_decoder import FACTS, WORDS, write_decoder

import optim
from optim._engine.sources.export_file import ComponentFile, export_file, read_export_file, write_export_file
from optim.errors import OptimError
from optim.layout import carry_files
from optim_testing import models

pytestmark = pytest.mark.usefixtures("jobs_here")

QUICK = {"search_seconds": 0, "stages": ["post-process"]}


@pytest.fixture
def exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPTIM_CACHE_DIR", str(tmp_path / "cache"))
    folder = tmp_path / "exported"
    folder.mkdir()
    write_decoder(folder)
    component = ComponentFile("model.onnx", {"new": "old"}, 1e-6)
    write_export_file(folder, export_file("path/to/model", FACTS, {"model": component}))
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("named", ["exported", "exported/model.onnx"])
def test_a_decoder_still_generates_the_same_after_a_run(exported, tmp_path, named):
    expected = optim.load(exported).generate([[3, 4, 5]], max_new_tokens=4)
    report = optim.run(tmp_path / named, tmp_path / "out", **QUICK)
    assert report.status == "unchanged"
    np.testing.assert_array_equal(optim.load(tmp_path / "out").generate([[3, 4, 5]], max_new_tokens=4), expected)
    after = read_export_file(tmp_path / "out")
    assert (after.source, after.facts) == ("path/to/model", FACTS)
    assert after.components["model"].drift == 1e-6  # nothing was added
    again = optim.run(tmp_path / "out" / "model.onnx", tmp_path / "further", **QUICK)  # and on from there
    assert again.status == "unchanged"
    assert optim.load(tmp_path / "further").generate([[3]], max_new_tokens=1).shape == (1, 1)


def test_an_exported_graph_is_opened_with_the_operators_that_it_needs(tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime_extensions")
    node = helper.make_node("Inverse", ["x"], ["y"], domain="ai.onnx.contrib")
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [2, 2]) for name in "xy")
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.contrib", 1)]
    graph = helper.make_graph([node], "inverse", [x], [y])
    onnx.save(helper.make_model(graph, ir_version=9, opset_imports=opsets), tmp_path / "model.onnx")
    write_export_file(tmp_path, export_file("a source", {}, {"model": ComponentFile("model.onnx", {}, 0.0)}))
    (inverse,) = optim.load(tmp_path).run(None, {"x": np.diag([2.0, 4.0]).astype(np.float32)})
    np.testing.assert_allclose(inverse, np.diag([0.5, 0.25]))


@pytest.mark.parametrize("content", [b"no graph", None])
def test_an_exported_graph_that_is_broken_or_gone_is_one_error(content: bytes | None, tmp_path: Path) -> None:
    write_export_file(tmp_path, export_file("a source", {}, {"model": ComponentFile("model.onnx", {}, 0.0)}))
    if content is not None:
        (tmp_path / "model.onnx").write_bytes(content)
    with pytest.raises(OptimError) as caught:
        optim.load(tmp_path)
    assert caught.value.reference == "session-failed"


def write_tokenizer(path: Path) -> None:
    """A tokenizer of byte pairs, trained on a sentence: as many tokens as the small decoder has words."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE(unk_token="<unk>"))
    tokenizer.pre_tokenizer, tokenizer.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    trainer = trainers.BpeTrainer(vocab_size=WORDS, special_tokens=["<unk>"], show_progress=False)
    tokenizer.train_from_iterator(["a bad cab bade a cad"], trainer)
    assert tokenizer.get_vocab_size() == WORDS
    tokenizer.save(str(path))


def written_on(folder: Path, text: str) -> str:
    """What the decoder of a folder writes after a text, with the tokenizer that lies beside it."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    ids = optim.load(folder).generate([tokenizer.encode(text).ids], max_new_tokens=6)
    return tokenizer.decode(ids[0].tolist())


def test_text_becomes_text_with_the_tokenizer_of_any_folder_on_the_way(exported, tmp_path):
    write_tokenizer(exported / "tokenizer.json")
    expected = written_on(exported, "a bad cab")
    assert expected
    assert expected != written_on(exported, "cad")
    optim.run(exported, tmp_path / "out", **QUICK)
    assert written_on(tmp_path / "out", "a bad cab") == expected
    optim.run(tmp_path / "out" / "model.onnx", tmp_path / "further", **QUICK)
    assert written_on(tmp_path / "further", "a bad cab") == expected


def test_the_tokenizer_goes_from_folder_to_folder_and_nothing_else_does(exported, tmp_path):
    (exported / "tokenizer.json").write_text("{}")
    (exported / "notes.txt").write_text("mine")
    (tmp_path / "secret").write_text("not this folder's")
    (exported / "vocab.txt").symlink_to(tmp_path / "secret")  # an exported folder may come from a stranger
    optim.run(exported, tmp_path / "out", **QUICK)
    assert (tmp_path / "out" / "tokenizer.json").read_text() == "{}"
    assert not (tmp_path / "out" / "vocab.txt").exists()
    assert not (tmp_path / "out" / "notes.txt").exists()
    optim.run(tmp_path / "out" / "model.onnx", tmp_path / "further", **QUICK)
    assert (tmp_path / "further" / "tokenizer.json").is_file()


def test_a_folder_that_the_user_named_as_the_source_may_have_links_and_nothing_is_overwritten(tmp_path):
    source, blob, out = tmp_path / "source", tmp_path / "blob", tmp_path / "out"
    source.mkdir()
    out.mkdir()
    blob.write_text("blob")
    (source / "tokenizer.json").symlink_to(blob)  # as the cache of Hugging Face keeps files
    (source / "vocab.txt").write_text("theirs")
    (out / "vocab.txt").write_text("mine")
    assert carry_files(source, out).names == ("tokenizer.json",)
    assert {file.name: file.read_text() for file in out.iterdir()} == {"tokenizer.json": "blob", "vocab.txt": "mine"}


@pytest.mark.slow
def test_every_component_has_a_run_folder_and_they_still_know_each_other(exported, tmp_path):
    models.mlp(exported).rename(exported / "encoder.onnx")
    (exported / "model.onnx").rename(exported / "decoder.onnx")
    parts = {
        "encoder": ComponentFile("encoder.onnx", {}, 0.0),
        "decoder": ComponentFile("decoder.onnx", {"new": "old"}, 0.0),
    }
    write_export_file(exported, export_file("it", {**FACTS, "kind": "encoder-decoder"}, parts))
    (exported / "vocab.txt").write_text("a")
    optim.run(exported, tmp_path / "out", **QUICK)
    assert (tmp_path / "out" / "vocab.txt").read_text() == "a"
    after = read_export_file(tmp_path / "out")
    assert {name: part.file for name, part in after.components.items()} == {
        "encoder": "encoder/model.onnx",
        "decoder": "decoder/model.onnx",
    }
    assert after.components["decoder"].state == {"new": "old"}
    assert after.generates


def test_a_lossy_result_says_at_most_how_far_it_is_from_the_source(exported, tmp_path):
    from optim._engine.runs.publish import _write_component_file
    from optim._engine.sources.export_file import known_export

    known = known_export(exported / "model.onnx")
    candidate = SimpleNamespace(drift=SimpleNamespace(relative_error=0.02))
    for source, drift in (
        (None, 0.020001),
        (SimpleNamespace(samples=0, drift=None), 0.020001),
        (SimpleNamespace(samples=2, drift=SimpleNamespace(relative_error=0.003)), 0.003),
    ):
        result = SimpleNamespace(candidate=candidate, source=source)
        _write_component_file(SimpleNamespace(known=known, result=result), tmp_path)
        found = read_export_file(tmp_path).components["model"]
        assert found.drift == pytest.approx(drift)
        assert found.state == {"new": "old"}
    models.mlp(exported)
    assert known_export(exported / "mlp.onnx") is None


def test_a_folder_with_linked_weights_is_opened_though_no_run_wrote_it(tmp_path):
    models.mlp(tmp_path).rename(tmp_path / "model.onnx")
    write_export_file(tmp_path, export_file("it", {}, {"model": ComponentFile("model.onnx")}))
    assert [value.name for value in optim.load(tmp_path).get_inputs()] == ["x"]


@pytest.mark.parametrize(
    ("name", "file"), [("../victim", "model.onnx"), ("model", "../model.onnx"), ("model", "/etc/passwd")]
)
def test_an_export_file_from_a_stranger_names_nothing_elsewhere(exported, tmp_path, name, file):
    content = json.loads((exported / "export.json").read_text())
    content["components"] = {name: {"file": file, "state": {}, "drift": 0.0}}
    (exported / "export.json").write_text(json.dumps(content))
    for use in (lambda: optim.load(exported), lambda: optim.run(exported, tmp_path / "out", **QUICK)):
        with pytest.raises(OptimError, match="bad-export-file"):
            use()
    assert not (tmp_path / "out").exists()


def test_a_run_folder_is_no_exported_folder(exported, tmp_path):
    optim.run(exported, tmp_path / "out", **QUICK)
    with pytest.raises(OptimError, match="model-is-a-folder"):
        optim.run(tmp_path / "out", tmp_path / "again", **QUICK)


def test_a_component_that_is_gone_is_named(exported, tmp_path):
    (exported / "model.onnx").unlink()
    with pytest.raises(OptimError, match=r"model-missing.*model\.onnx"):
        optim.run(exported, tmp_path / "out", **QUICK)
