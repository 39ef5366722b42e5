"""Target web: every preset in onnxruntime-web under Node, the page in Chromium, and what is refused or skipped."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import numpy as np
import onnx
import pytest
import task_models

from optim import OptimError
from optim._engine.gate.outputs import compare_output
from optim.backend import Delivery
from optim.onnx import deliver_model as deliver_model
from optim.onnx import operator_counts
from optim.options import parse_options
from optim_prepost.append import Append
from optim_prepost.compose.compose import METADATA
from optim_prepost.plugin import WEB
from optim_prepost.reference.compared_interface import raw
from optim_prepost.web import chromium
from optim_prepost.web.backend import OrtWebBackend
from optim_prepost.web.deliver import PAGE, deliver, plan_of
from optim_prepost.web.node_session import NodeSession
from optim_prepost.web.tables import tables
from optim_testing import Trial, models

pytestmark = pytest.mark.slow  # most start Node or a browser

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="there is no Node on this machine")
needs_chromium = pytest.mark.skipif(chromium.find_chromium() is None, reason="there is no Chromium on this machine")


@pytest.fixture
def compose_for_web(tmp_path, backend, cpu):
    """Compose a model for target web; its trial, options and result."""

    def make(path, **options):
        web = Trial.of(path, tmp_path / "trial", WEB, OrtWebBackend())
        return web, web.apply_watched(Append(), web.options(Append, options))

    return make


def with_words(make, **how):
    return lambda folder: (make(folder, **how), {"vocabulary": str(task_models.vocabulary(folder))})


PRESETS = {
    "image-classification": lambda folder: (
        task_models.digits(folder),
        {"labels": task_models.DIGIT_NAMES, "top_k": 3},
    ),
    "object-detection": lambda folder: (task_models.detector(folder), {"score_threshold": 0.1}),
    "segmentation": lambda folder: (task_models.segmenter(folder), {"mean": (0.4, 0.5, 0.6), "std": (0.2, 0.3, 0.4)}),
    "super-resolution": lambda folder: (task_models.enlarger(folder), {}),
    "text-embedding": with_words(task_models.encoder),
    "text-classification": with_words(task_models.encoder, columns=3, kind="classes"),
    "question-answering": with_words(task_models.encoder, columns=2, kind="answer"),
    "speech": lambda folder: (task_models.listener(folder), {"labels": tuple("-abcdefgh")}),
}


@needs_node
def test_where_no_pipe_can_be_handed_down_node_answers_on_stdout(tmp_path, monkeypatch):
    """As on Windows."""
    monkeypatch.setattr("optim_prepost.web.node_session._HAS_DEV_FD", False)
    feeds = {"x": np.ones((2, 32), np.float32)}
    with NodeSession(models.mlp(tmp_path), {}) as node:
        assert [array.shape for array in node.run(feeds).values()] == [(2, 10)]


WIDE = ("super-resolution", "text-classification")
"""Whose operators other presets bring too."""


@needs_node
@pytest.mark.parametrize(
    "preset", [pytest.param(name, marks=pytest.mark.wide) if name in WIDE else name for name in PRESETS]
)
def test_every_preset_runs_in_onnxruntime_web_as_natively(compose_for_web, tmp_path, preset):
    path, options = PRESETS[preset](tmp_path)
    trial, result = compose_for_web(path, preset=preset, **options)
    assert set(result.model.opset) == {""}
    brought = set(operator_counts(result.model.path)) - set(operator_counts(trial.model.path))
    assert brought <= set(tables()["wasm"])
    with NodeSession(result.model.path, {}) as node, trial.backend.open_reference(result.model, WEB) as native:
        for feeds in raw(**result.interface.parameters):
            got, expected = node.run(feeds), native.run(feeds)
            assert list(got) == list(expected)
            for name, array in expected.items():
                found = compare_output(name, array, got[name])
                assert not found.problem
                assert found.relative_error <= 1e-3, name


@needs_node
def test_whispers_features_are_made_in_onnxruntime_web(compose_for_web, tmp_path):
    trial, result = compose_for_web(task_models.whisper_like(tmp_path), preset="speech")
    assert trial.drift(result).relative_error <= 1e-3


@needs_node
def test_what_the_model_refuses_is_said_with_the_words_of_the_runtime(tmp_path):
    helper, floats = task_models.helper, task_models.TensorProto.FLOAT
    ends = [helper.make_tensor_value_info(name, floats, [1]) for name in "xy"]
    graph = helper.make_graph([helper.make_node("NoSuchOperator", ["x"], ["y"])], "g", ends[:1], ends[1:])
    onnx.save(helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 18)]), tmp_path / "m.onnx")
    with pytest.raises(OptimError, match="NoSuchOperator") as refused:
        NodeSession(tmp_path / "m.onnx", {})
    assert refused.value.reference == "ort-web-failed"
    with NodeSession(task_models.digits(tmp_path / "right"), {}) as session:
        with pytest.raises(OptimError, match="it could not run the model"):
            session.run({"pixel_values": np.zeros((1, 2, 8, 8), np.float32)})
        assert session.run({"pixel_values": np.zeros((1, 1, 8, 8), np.float32)})["logits"].shape == (1, 10)


REFUSED = [
    ({"preset": "image-classification", "input": "bytes"}, "ConvertImageToBGR", "DecodeImage", "raw pixels"),
    ({"preset": "text-embedding", "input": "text"}, "BertTokenizer", "BertTokenizer", "stays in JavaScript"),
    ({"preset": "speech", "input": "bytes"}, "AudioDecoder", "AudioDecoder", "samples"),
    ({"post": [{"DrawBoundingBoxes": {}}]}, "DrawBoundingBoxes", "DrawBoundingBoxes", "the page draws them"),
    ({"post": [{"ConvertBGRToImage": {}}]}, "ConvertBGRToImage", "EncodeImage", "canvas"),
]


@pytest.mark.parametrize(("options", "step", "operator", "instead"), REFUSED)
def test_a_custom_operator_is_refused_before_anything_is_built(options, step, operator, instead, cpu):
    asked = parse_options(Append, options)
    with pytest.raises(OptimError) as refused:
        Append().refuse(asked, WEB)
    assert refused.value.reference == "not-for-web"
    assert step in refused.value.what
    assert operator in refused.value.cause
    assert instead in refused.value.fix
    Append().refuse(asked, cpu)


def test_a_custom_operator_of_ones_own_step_is_refused_too(compose_for_web, tmp_path):
    pre = [{"own_steps:Foreign": {}}, {"ImageBytesToFloat": {}}, {"Unsqueeze": {"axes": [0]}}]
    args = [{"name": "pixels", "data_type": "uint8", "shape": [1, 8, 8]}]
    with pytest.raises(OptimError) as refused:
        compose_for_web(task_models.digits(tmp_path), pre=pre, tool_command_args=args)
    assert refused.value.reference == "not-for-web"
    assert "Foreign" in refused.value.what
    assert "ai.onnx.contrib:Inverse" in refused.value.cause


@pytest.fixture
def delivered(compose_for_web, tmp_path):
    """A run folder of the digits, with one digit as its sample; the checks of its delivery."""
    from PIL import Image

    pixels, digit = task_models.digit_image(3)
    sample = tmp_path / "digit.png"
    Image.fromarray(pixels).save(sample)
    _, result = compose_for_web(
        task_models.digits(tmp_path),
        preset="image-classification",
        labels=task_models.DIGIT_NAMES,
        top_k=2,
        samples=str(sample),
    )
    folder = tmp_path / "run"
    folder.mkdir()
    deliver_model(result.model, folder)

    def make():
        return folder, {check.name: check for check in deliver(Delivery(folder, result.model, WEB, ()))}, digit, sample

    return make


@needs_node
@needs_chromium
def test_the_page_shows_the_right_digit_in_chromium(delivered):
    folder, checks, digit, sample = delivered()
    assert checks["opens under Node"].status == "passed"
    assert checks["opens in Chromium"].status == "passed"
    assert (folder / "page.png").stat().st_size > 5000
    assert json.loads((folder / "plan.json").read_text(encoding="utf-8"))["external"] == ["model.onnx.data"]
    assert {check.status for name, check in checks.items() if name.startswith("Web")} == {"not-run"}
    shot = folder / "again.png"
    found = chromium.run_page(folder, {}, chromium.find_chromium(), shot, picture=sample)
    assert found["labels"][0, 0] == task_models.DIGIT_NAMES[digit]
    assert found["indices"][0, 0] == digit


@needs_node
@needs_chromium
def test_a_file_that_is_no_picture_is_said_by_the_page(delivered, tmp_path, monkeypatch):
    browser = chromium.find_chromium()
    monkeypatch.setattr(chromium, "find_chromium", lambda: None)  # the page is opened once, below
    folder, _, _, _ = delivered()
    (tmp_path / "broken.png").write_bytes(b"\x89PNG nothing more")
    with pytest.raises(OptimError) as failed:
        chromium.run_page(folder, {}, browser, picture=tmp_path / "broken.png")
    assert "broken.png is no picture" in failed.value.cause


@needs_node
def test_without_chromium_the_check_is_skipped_and_says_why(delivered, monkeypatch):
    monkeypatch.setattr(chromium, "find_chromium", lambda: None)
    _, checks, _, _ = delivered()
    assert checks["opens in Chromium"].status == "skipped"
    assert "there is no Chromium" in checks["opens in Chromium"].text


@needs_node
def test_a_page_that_computes_something_else_is_no_success(delivered, monkeypatch):
    from optim_prepost.web import deliver as module

    right = module.expected_of
    monkeypatch.setattr(module, "expected_of", lambda *a: {n: x[:, ::-1] for n, x in right(*a).items()})
    with pytest.raises(OptimError) as failed:
        delivered()
    assert failed.value.reference == "page-differs"


@needs_node
def test_the_tokenizer_of_the_page_is_that_of_hugging_face(tmp_path):
    from optim_prepost.reference.text import bert_tokenizer

    texts = [
        "The small cat sleeps, unbelievably!",
        "R\u00c9SUM\u00c9 na\u00efve caf\u00e9",
        "\u4e2dcat\u4e2d",
        "a\tb\nc  d",
        "",
        "don't stop-me: 3.14 $5 <b>~`^|",
        "zz\u0000\u200dq \U0001f600 end",
        "x" * 120,
        "CAT\u00a0cat",
    ]
    vocabulary = task_models.vocabulary(tmp_path)
    script = f"""
      import fs from 'node:fs';
      import {{ WordPiece }} from {json.dumps((PAGE / "tokenizer.mjs").as_uri())};
      const words = fs.readFileSync({json.dumps(str(vocabulary))}, 'utf-8').split('\\n');
      const texts = {json.dumps(texts)};
      const all = [[1, 1], [0, 0]].map(([do_lower_case, strip_accents]) => {{
        const made = new WordPiece(words, {{ do_lower_case, strip_accents }});
        return [...texts.map((text) => made.encode(text)), made.encode(texts[0], texts[1])];
      }});
      console.log(JSON.stringify(all));
    """
    done = subprocess.run(
        ["node", "--input-type=module", "-e", script], capture_output=True, text=True, check=True, timeout=600
    )
    for lower, rows in zip((1, 0), json.loads(done.stdout), strict=True):
        param = {"params": {"vocab_or_file": str(vocabulary), "do_lower_case": lower, "strip_accents": lower}}
        for given, found in zip([*([text] for text in texts), texts[:2]], rows, strict=True):
            ids, _, types = bert_tokenizer(np.array(given, dtype=object), param)
            assert found["ids"] == ids[0].tolist(), given
            assert found["types"] == types[0].tolist(), given


def test_a_composed_model_carries_its_vocabulary_and_no_path(compose_for_web, tmp_path):
    words = task_models.vocabulary(tmp_path)
    _, result = compose_for_web(task_models.encoder(tmp_path), preset="text-embedding", vocabulary=str(words))
    metadata = result.model.ir().metadata_props
    assert str(tmp_path) not in metadata[METADATA]
    known = plan_of(metadata).task["tokenizer"]["vocab_or_file"]
    assert sorted(known, key=known.get) == words.read_text(encoding="utf-8").split()


def test_a_page_whose_driver_ends_without_an_answer_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(chromium, "node", lambda: sys.executable)  # it cannot read the driver
    monkeypatch.setattr(chromium, "require", lambda package: tmp_path)
    for name in ("index.html", "plan.json"):
        (tmp_path / name).touch()
    with pytest.raises(OptimError) as caught:
        chromium.run_page(tmp_path, {"x": np.ones(2, np.float32)}, "no-browser")
    assert caught.value.reference == "page-failed"
    assert "SyntaxError" in caught.value.cause
