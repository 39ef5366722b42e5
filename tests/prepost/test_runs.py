"""Whole runs with steps around the model: for cpu with quantization, from the lock, and refused for the web."""

from __future__ import annotations

import contextlib
import io
import json
import shutil

import numpy as np
import onnx
import pytest
import task_models
from jobs_here import done_here
from PIL import Image

import optim
from optim import OptimError
from optim._engine.cli.main import main
from optim.options import parse_options
from optim_prepost.append import Append
from optim_prepost.compose.compose import PREFIX

pytestmark = pytest.mark.slow  # some of what is tested here ends a process


def run(*arguments):
    """Exit status, and all that was said."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        status = main([str(argument) for argument in arguments])
    return status, " ".join(said.getvalue().split())


@pytest.fixture(scope="module")
def run_for_cpu(tmp_path_factory):
    """Digits with steps around them and quantized products, by a recipe."""
    folder = tmp_path_factory.mktemp("run")
    model = task_models.digits(folder, wide=True)
    (folder / "names.txt").write_text("\n".join(task_models.DIGIT_NAMES), encoding="utf-8")
    (folder / "recipe.toml").write_text(
        f"""
        stages = ["quantize", "post-process"]
        goal = "size"
        search_seconds = 1
        [budget]
        max_drift = 0.2
        [[passes]]
        name = "ort.quantize-dynamic"
        [[passes]]
        name = "prepost.append"
        options = {{ preset = "image-classification", top_k = 2, labels = '{folder / "names.txt"}' }}
        """,
        encoding="utf-8",
    )
    out = folder / "out"
    with done_here():  # what ends a process here are images, and there are none yet
        return model, out, run("run", model, "-o", out, "--recipe", folder / "recipe.toml")


def png(pixels):
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG")
    return np.frombuffer(stream.getvalue(), np.uint8)


def test_quantization_and_steps_go_together_and_digits_are_read(run_for_cpu):
    _, out, (status, said) = run_for_cpu
    assert status == 0, said
    report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    kept = [step["pass"] for step in report["steps"] if step["status"] == "kept"]
    assert kept == ["ort.quantize-dynamic", "prepost.append"]
    session = optim.load(out)
    right = 0
    for number in range(20):
        pixels, digit = task_models.digit_image(number)
        _, indices, labels = session.run(None, {"image": png(pixels)})
        assert labels[0, 0] == task_models.DIGIT_NAMES[indices[0, 0]]
        right += indices[0, 0] == digit
    assert right >= 17


def test_quantization_leaves_the_steps_alone(run_for_cpu):
    _, out, _ = run_for_cpu
    nodes = onnx.load(out / "model.onnx", load_external_data=False).graph.node
    steps = [node for node in nodes if node.name.startswith(PREFIX)]
    assert any("Integer" in node.op_type or "Quantize" in node.op_type for node in nodes)
    assert {"DecodeImage", "Resize", "Softmax", "TopK"} <= {node.op_type for node in steps}
    assert not any("Integer" in node.op_type or "Quantize" in node.op_type for node in steps)


def test_a_corrupt_image_fails_at_run_time_and_the_session_goes_on(run_for_cpu):
    _, out, _ = run_for_cpu
    session = optim.load(out)
    good = png(task_models.digit_image(0)[0])
    for bad in (good[:40], np.frombuffer(b"no image at all", np.uint8), np.empty(0, np.uint8)):
        with pytest.raises(Exception, match=r"(?i)decod|image|imdecode|empty|invalid"):
            session.run(None, {"image": bad})
    assert len(session.run(None, {"image": good})) == 3


def test_a_jpeg_that_is_cut_off_anywhere_is_an_error_and_not_the_end_of_the_process(run_for_cpu):
    _, out, _ = run_for_cpu
    session = optim.load(out)
    written = io.BytesIO()
    pixels = np.random.default_rng(0).integers(0, 255, (48, 40, 3), np.uint8)
    Image.fromarray(pixels).save(written, "JPEG", quality=90)
    whole = np.frombuffer(written.getvalue(), np.uint8)
    for length in (1, 2, 3, 4, 50, 300, 700, len(whole) // 2, len(whole) - 2, len(whole) - 1):
        with pytest.raises(Exception, match=r"(?i)decod|image|imdecode|empty|invalid"):
            session.run(None, {"image": whole[:length]})
    with_trailer = np.concatenate([whole, np.zeros(100, np.uint8)])
    assert len(session.run(None, {"image": whole})) == len(session.run(None, {"image": with_trailer})) == 3


def test_a_composed_model_that_gives_texts_is_itself_verified(run_for_cpu, tmp_path):
    _, out, _ = run_for_cpu
    np.savez(tmp_path / "feeds.npz", image=png(task_models.digit_image(0)[0]))
    status, said = run("verify", out / "model.onnx", out / "model.onnx", "--data", tmp_path / "feeds.npz")
    assert status == 0, said
    assert "labels 1x2 0 " in said


def damaged_jpeg():
    """Whole but for the number of its quantization table: libjpeg in onnxruntime-extensions ends the process."""
    written = io.BytesIO()
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (48, 40, 3), np.uint8)).save(written, "JPEG")
    content = bytearray(written.getvalue())
    content[content.index(b"\xff\xdb") + 4] = 0xEE
    return np.frombuffer(bytes(content), np.uint8)


@pytest.mark.parametrize("command", ["verify", "bench", "run"])
def test_an_image_that_ends_the_runtime_is_one_error_that_names_the_sample(run_for_cpu, tmp_path, command):
    _, out, _ = run_for_cpu
    feeds = tmp_path / "feeds"
    feeds.mkdir()
    np.savez(feeds / "a.npz", image=png(task_models.digit_image(0)[0]))
    np.savez(feeds / "b.npz", image=damaged_jpeg())
    more = ("-o", tmp_path / "out") if command == "run" else (out / "model.onnx",)
    status, said = run(command, out / "model.onnx", *more, "--data", feeds)
    assert status == 3, said
    assert "on sample 1 of feeds while backend ort" in said
    assert ": Bogus DQT index" in said
    assert "give other samples with --data" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["feeds"]


def test_a_raw_sample_that_no_decoder_reads_is_named(compose, tmp_path):
    samples = tmp_path / "samples"
    samples.mkdir()
    (samples / "a.png").write_bytes(png(task_models.digit_image(0)[0]).tobytes())
    (samples / "b.jpg").write_bytes(damaged_jpeg().tobytes())
    with pytest.raises(OptimError, match=r"the raw sample .*b\.jpg cannot be read") as refused:
        compose(task_models.digits(tmp_path), preset="image-classification", samples=str(samples))
    assert refused.value.reference == "bad-sample"


def test_the_lock_makes_the_same_model_again(run_for_cpu, tmp_path):
    model, out, _ = run_for_cpu
    with done_here():
        status, said = run("run", model, "-o", tmp_path / "again", "--recipe", out / "recipe.lock.toml")
    assert status == 0, said
    assert (tmp_path / "again" / "model.onnx").read_bytes() == (out / "model.onnx").read_bytes()


def test_a_file_that_is_not_the_one_of_the_lock_is_noticed(tmp_path):
    names = tmp_path / "names.txt"
    names.write_text("a\nb\n", encoding="utf-8")
    given = {"preset": "image-classification", "labels": str(names)}
    locked = {**given, "files": parse_options(Append, given).files}
    assert parse_options(Append, locked).files == locked["files"]
    names.write_text("a\nc\n", encoding="utf-8")
    with pytest.raises(OptimError, match="are not those that the lock was made with"):
        parse_options(Append, locked)


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no Node on this machine")
@pytest.mark.parametrize("kind", ["bytes", "text"])
def test_for_the_web_decoding_and_tokenizing_are_refused_before_anything_is_made(tmp_path, kind):
    model = task_models.digits(tmp_path) if kind == "bytes" else task_models.encoder(tmp_path)
    preset = "image-classification" if kind == "bytes" else "text-embedding"
    named = f"prepost.append:preset='{preset}',input='{kind}'"
    status, said = run("run", model, "-o", tmp_path / "out", "--target", "web", "--with", named)
    assert status == 4
    assert "not-for-web" in said
    assert not (tmp_path / "out").exists()


def test_named_without_a_task_it_says_how_to_give_one(tmp_path):
    model = task_models.digits(tmp_path)
    status, said = run("run", model, "-o", tmp_path / "out", "--with", "prepost.append")
    assert status != 0
    assert "preset" in said
