"""Whole runs with steps around the model: for cpu with quantization, repeated from the lock, and refused for the web."""

from __future__ import annotations

import io
import json

import numpy as np
import onnx
import pytest
import task_models
from click.testing import CliRunner
from PIL import Image

import optim
from optim.cli.main import main
from optim_prepost.compose import PREFIX


@pytest.fixture(scope="module")
def run_for_cpu(tmp_path_factory):
    """Digits with steps around them and quantized products, by a recipe."""
    folder = tmp_path_factory.mktemp("run")
    model = task_models.digits(folder)
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
    done = CliRunner().invoke(main, ["run", str(model), "-o", str(out), "--recipe", str(folder / "recipe.toml")])
    return model, out, done


def png(pixels):
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG")
    return np.frombuffer(stream.getvalue(), np.uint8)


def test_quantization_and_steps_go_together_and_digits_are_read(run_for_cpu):
    _, out, done = run_for_cpu
    assert done.exit_code == 0, done.output
    report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    kept = [step["pass_name"] for step in report["steps"] if step["status"] == "kept"]
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
    assert any("Integer" in node.op_type for node in nodes)
    assert {"DecodeImage", "Resize", "Softmax", "TopK"} <= {node.op_type for node in steps}
    assert not any("Integer" in node.op_type or "Quantize" in node.op_type for node in steps)


def test_a_corrupt_image_fails_at_run_time_and_the_session_goes_on(run_for_cpu):
    _, out, _ = run_for_cpu
    session = optim.load(out)
    good = png(task_models.digit_image(0)[0])
    for bad in (good[:40], np.frombuffer(b"no image at all", np.uint8), np.empty(0, np.uint8)):
        with pytest.raises(Exception, match="(?i)decod|image|imdecode|empty|invalid"):
            session.run(None, {"image": bad})
    assert len(session.run(None, {"image": good})) == 3


def test_the_lock_makes_the_same_model_again_and_notices_a_changed_file(run_for_cpu, tmp_path):
    model, out, _ = run_for_cpu
    again = ["run", str(model), "-o", str(tmp_path / "again"), "--recipe", str(out / "recipe.lock.toml")]
    done = CliRunner().invoke(main, again)
    assert done.exit_code == 0, done.output
    assert (tmp_path / "again" / "model.onnx").read_bytes() == (out / "model.onnx").read_bytes()
    names = model.parent / "names.txt"
    text = names.read_text(encoding="utf-8")
    try:
        names.write_text(text.replace("zero", "null"), encoding="utf-8")
        changed = CliRunner().invoke(main, [*again[:3], str(tmp_path / "other"), *again[4:]])
    finally:
        names.write_text(text, encoding="utf-8")
    assert changed.exit_code == 2
    assert "are not those that the lock was made with" in " ".join(changed.output.split())


@pytest.mark.parametrize("kind", ["bytes", "text"])
def test_for_the_web_decoding_and_tokenizing_are_refused_before_anything_is_made(tmp_path, kind):
    model = task_models.digits(tmp_path) if kind == "bytes" else task_models.encoder(tmp_path)
    preset = "image-classification" if kind == "bytes" else "text-embedding"
    named = f"prepost.append:preset='{preset}',input='{kind}'"
    done = CliRunner().invoke(
        main, ["run", str(model), "-o", str(tmp_path / "out"), "--target", "web", "--with", named]
    )
    if "is not available" in done.output:
        pytest.skip("there is no Node on this machine")
    assert done.exit_code == 4
    assert "not-for-web" in done.output
    assert not (tmp_path / "out").exists()


def test_named_without_a_task_it_says_how_to_give_one(tmp_path):
    model = task_models.digits(tmp_path)
    done = CliRunner().invoke(main, ["run", str(model), "-o", str(tmp_path / "out"), "--with", "prepost.append"])
    assert done.exit_code != 0
    assert "preset" in done.output
