"""Explicit lists of steps, as Olive took them, and steps of the user's own."""

from __future__ import annotations

import io

import numpy as np
import onnx
import pytest
import task_models
from PIL import Image

import optim
from optim import OptimError
from optim.options import parse_options
from optim_prepost.append import Append
from optim_prepost.compose.compose import PREFIX
from optim_prepost.compose.compose import compose as compose_graph
from optim_prepost.web.web_refusal import refuse_options

BYTES = [{"name": "image", "data_type": "uint8", "shape": ["num_bytes"]}]
PIXELS = [{"name": "image", "data_type": "uint8", "shape": [32, 40, 3]}]
SIZE = [{"type": "__model_input__", "input_index": 0, "dim_index": axis} for axis in (-2, -1)]
NUMBERS = [{"ImageBytesToFloat": {}}, {"ChannelsLastToChannelsFirst": {}}, {"Unsqueeze": {"axes": [0]}}]

OLIVE_SUPER_RESOLUTION = {
    "pre": [
        {"ConvertImageToBGR": {}},
        {
            "Resize": {
                "resize_to": [
                    {"type": "__model_input__", "input_index": 0, "dim_index": -2},
                    {"type": "__model_input__", "input_index": 0, "dim_index": -1},
                ]
            }
        },
        {
            "CenterCrop": {
                "height": {"type": "__model_input__", "input_index": 0, "dim_index": -2},
                "width": {"type": "__model_input__", "input_index": 0, "dim_index": -1},
            }
        },
        {"PixelsToYCbCr": {"layout": "BGR"}},
        {"ImageBytesToFloat": {}},
        {"Unsqueeze": {"axes": [0, 1]}},
    ],
    "post": [
        {"Squeeze": {"axes": [0, 1]}},
        {"FloatToImageBytes": {"name": "Y1_uint8"}},
        {
            "Resize": {
                "params": {
                    "resize_to": [
                        {"type": "__model_output__", "output_index": 0, "dim_index": -2},
                        {"type": "__model_output__", "output_index": 0, "dim_index": -1},
                    ],
                    "layout": "HW",
                },
                "io_map": [["PixelsToYCbCr", 1, 0]],
            }
        },
        {"FloatToImageBytes": {"multiplier": 1.0, "name": "Cb1_uint8"}},
        {
            "Resize": {
                "params": {
                    "resize_to": [
                        {"type": "__model_output__", "output_index": 0, "dim_index": -2},
                        {"type": "__model_output__", "output_index": 0, "dim_index": -1},
                    ],
                    "layout": "HW",
                },
                "io_map": [["PixelsToYCbCr", 2, 0]],
            }
        },
        {"FloatToImageBytes": {"multiplier": 1.0, "name": "Cr1_uint8"}},
        {
            "YCbCrToPixels": {
                "params": {"layout": "BGR"},
                "io_map": [["Y1_uint8", 0, 0], ["Cb1_uint8", 0, 1], ["Cr1_uint8", 0, 2]],
            }
        },
        {"ConvertBGRToImage": {"image_format": "png"}},
    ],
    "tool_command_args": [{"name": "image", "data_type": "uint8", "shape": ["num_bytes"]}],
    "target_opset": 18,
}


def png(pixels):
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG")
    return np.frombuffer(stream.getvalue(), np.uint8)


def test_a_config_of_olive_is_taken_as_it_was(compose, tmp_path):
    _, drift, run = compose(task_models.enlarger(tmp_path), **OLIVE_SUPER_RESOLUTION)
    assert drift.relative_error <= 2e-2  # one grey level of a picture whose levels deviate by some fifty
    found = run(png(np.full((90, 90, 3), (200, 100, 50), np.uint8)))
    with Image.open(io.BytesIO(next(iter(found.values())).tobytes())) as opened:
        assert opened.size == (80, 64)
        assert np.abs(np.asarray(opened).astype(int).mean((0, 1)) - [190, 95, 47.5]).max() < 6


COMMANDS = {
    "superresolution": (task_models.enlarger, {"output_format": "png"}, 1e-2),
    "mobilenet": (lambda folder: task_models.classifier(folder, size=(224, 224)), {"model_source": "PYTORCH"}, 5e-3),
    "yolo_detection": (
        task_models.detector,
        {"output_as_image": False, "num_classes": 3, "input_shape": [64, 64]},
        5e-3,
    ),
    "whisper": (task_models.whisper_like, {}, 1e-3),
}


@pytest.mark.parametrize("command", COMMANDS)
def test_a_ready_list_of_olive_is_known_by_its_name(compose, tmp_path, command):
    make, arguments, most = COMMANDS[command]
    given = {}
    if command == "yolo_detection":  # in the samples that are made nothing scores as high as Olive wanted
        Image.new("RGB", (64, 64), "white").save(tmp_path / "white.png")
        given = {"samples": str(tmp_path / "white.png")}
    _, drift, _ = compose(make(tmp_path), tool_command=command, tool_command_args=arguments, **given)
    assert drift.relative_error <= most


def test_a_detector_that_finds_nothing_in_the_samples_proves_nothing_and_the_way_out_is_said(compose, tmp_path):
    with pytest.raises(OptimError) as refused:
        compose(task_models.detector(tmp_path), preset="object-detection", score_threshold=1.0)
    assert refused.value.reference == "nothing-compared"
    assert "samples of your own" in refused.value.fix


def test_olives_list_for_bert_is_known_by_its_name(compose, tmp_path):
    arguments = {
        "tokenizer_type": "BertTokenizer",
        "task_type": "SequenceClassification",
        "vocab_file": str(task_models.vocabulary(tmp_path)),
    }
    path = task_models.encoder(tmp_path, columns=3, kind="classes")
    _, drift, _ = compose(path, tool_command="transformers_and_bert", tool_command_args=arguments)
    assert drift.relative_error <= 1e-4


def test_a_step_of_ones_own_is_compared_with_its_counterpart(compose, tmp_path):
    path = task_models.classifier(tmp_path)
    pre = [{"own_steps:Invert": {"top": 200}}, *NUMBERS]
    result, drift, _ = compose(path, pre=pre, post=[{"Softmax": {}}], tool_command_args=PIXELS)
    assert drift.relative_error <= 1e-5
    assert not any("no counterpart" in note for note in result.notes)
    with_wrong = [{"own_steps:Wrong": {"top": 200}}, *NUMBERS]
    assert compose(path, pre=with_wrong, tool_command_args=PIXELS)[1].relative_error > 0.1


def test_a_step_without_counterpart_is_compared_with_itself_and_that_is_said(compose, tmp_path):
    path = task_models.classifier(tmp_path)
    pre = [{"own_steps:Alone": {}}, *NUMBERS]
    result, drift, _ = compose(path, pre=pre, tool_command_args=PIXELS)
    assert drift.relative_error <= 1e-5
    assert "step Alone has no counterpart: compared with itself" in result.notes


def test_steps_after_the_model_alone_need_no_inputs(compose, tmp_path):
    _, drift, _ = compose(task_models.digits(tmp_path), post=[{"Softmax": {}}, {"TopK": {"k": 2}}])
    assert drift.relative_error <= 1e-5


BAD = {
    "no such step": ([{"Resise": {}}], "unknown-step", "Resise"),
    "no module": ([{"nowhere_at_all:Step": {}}], "bad-step", "nowhere_at_all"),
    "no class": ([{"own_steps:Absent": {}}], "bad-step", "Absent"),
    "no Step": ([{"own_steps:NO_STEP": {}}], "bad-step", "not a subclass"),
    "constructor": ([{"Resize": {"resize_two": 3}}], "bad-step", "resize_two"),
    "graph": ([{"own_steps:Raises": {}}], "step-failed", "no graph today"),
    "two in one": ([{"Softmax": {}, "ArgMax": {}}], "bad-step-list", "not one step"),
    "no parameters": ([{"Softmax": 3}], "bad-step-list", "the parameters of Softmax are 3"),
    "io_map": ([{"Softmax": {"params": {}, "io_map": [["a", 1]]}}], "bad-step-list", "io_map of Softmax"),
    "input_index": (
        [{"CenterCrop": {"height": {"type": "__model_input__", "input_index": 7, "dim_index": 0}, "width": 3}}],
        "bad-step-list",
        "input_index 7 is out of range",
    ),
    "open size": (
        [{"CenterCrop": {"height": {"type": "__model_input__", "input_index": 0, "dim_index": 0}, "width": 3}}],
        "bad-step-list",
        "is open (batch)",
    ),
    "does not join": ([{"Identity": {}}], "step-failed", "float[batch, 3, 32, 40]"),
    "one name twice": ([{"Identity": {"name": "a"}}, {"Identity": {"name": "a"}}], "step-failed", "two steps"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_list_is_refused_with_what_is_wrong(compose, tmp_path, case):
    pre, reference, said = BAD[case]
    with pytest.raises(OptimError) as refused:
        compose(task_models.classifier(tmp_path), pre=pre, tool_command_args=PIXELS)
    assert refused.value.reference == reference
    assert said in f"{refused.value.what} {refused.value.cause}"


PIXELS_SAID = "image uint8[32, 40, 3]"
MISFITS = {
    "Misdeclared": "declares made as float[1, 3, 32, 40], and it is uint8[32, 40, 3]",
    "Missized": "declares made as uint8[32, 41, 3], and it is uint8[32, 40, 3]",
    "Flat": "it gives made float[32, 40, 3]; the model takes pixel_values float[batch, 3, 32, 40]",
    "TakesFloats": f"it takes float[32, 40, 3]; it is given {PIXELS_SAID}",
    "TakesTwo": f"its input 'b' is given nothing; before it there is {PIXELS_SAID}",
    "Misnamed": "it names the output 'made'; its graph gives other",
    "Mixed": "its graph cannot be computed",
}


@pytest.mark.parametrize("step", MISFITS)
def test_a_step_of_ones_own_that_does_not_fit_is_named_with_what_does_not(compose, tmp_path, step):
    with pytest.raises(OptimError) as refused:
        compose(task_models.classifier(tmp_path), pre=[{f"own_steps:{step}": {}}], tool_command_args=PIXELS)
    assert refused.value.what == f"step {step} does not fit"
    assert MISFITS[step] in refused.value.cause


def test_a_step_after_the_model_that_takes_something_else_is_named_with_what_the_model_gives(compose, tmp_path):
    with pytest.raises(OptimError, match="step TakesLabels does not fit") as refused:
        compose(task_models.classifier(tmp_path), post=[{"own_steps:TakesLabels": {}}])
    assert refused.value.cause == "it takes int64[batch, 7]; it is given logits float[batch, 7]"


@pytest.mark.parametrize(
    ("link", "said"),
    [
        (["nobody", 0, 0], "names the step 'nobody'; before it there are: Identity"),
        (["Identity", 4, 0], "names output of Identity number 4, and there are 1"),
        (["Identity", 0, 3], "names input of Flat number 3, and there are 1"),
    ],
)
def test_a_link_to_what_there_is_not_names_the_step_that_has_it(compose, tmp_path, link, said):
    pre = [{"Identity": {}}, {"own_steps:Flat": {"params": {}, "io_map": [link]}}]
    with pytest.raises(OptimError, match="step Flat does not fit") as refused:
        compose(task_models.classifier(tmp_path), pre=pre, tool_command_args=PIXELS)
    assert said in refused.value.cause


def test_more_inputs_than_the_first_step_takes_are_refused_by_their_names(compose, tmp_path):
    args = [*PIXELS, {"name": "more", "data_type": "float", "shape": [1]}]
    with pytest.raises(OptimError, match="step ImageBytesToFloat does not fit") as refused:
        compose(task_models.classifier(tmp_path), pre=NUMBERS, tool_command_args=args)
    assert "tool_command_args has image, more" in refused.value.cause


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "give one of preset, tool_command, or lists"),
        ({"preset": "speech", "post": [{"Softmax": {}}]}, "give one of preset"),
        ({"pre": [{"Softmax": {}}]}, "pre needs tool_command_args"),
        ({"pre": [{"Softmax": {}}], "tool_command_args": [{"name": "a", "data_type": "int3", "shape": [1]}]}, "int3"),
        ({"preset": "speech", "mean": [1.0]}, "mean and std belong together"),
        ({"preset": "speech", "mean": [1.0], "std": [0.0]}, "std must not be 0"),
        ({"preset": "speech", "settings": "no/such/folder"}, "there is no no/such/folder"),
        ({"preset": "reading"}, "preset"),
        (
            {
                "pre": [{"ConvertImageToBGR": {}}],
                "tool_command_args": [{"name": "image", "data_type": "uint8", "shape": [1000]}],
            },
            "give 'image' the shape [\"num_bytes\"] instead of [1000]",
        ),
    ],
)
def test_options_that_do_not_fit_together_are_refused(options, said):
    with pytest.raises(OptimError) as refused:
        parse_options(Append, options)
    assert said in str(refused.value.cause)


def test_what_olive_drew_or_generated_is_refused_with_the_way_out(compose, tmp_path):
    with pytest.raises(OptimError, match="cannot be taken over"):
        compose(task_models.detector(tmp_path), tool_command="yolo_detection", tool_command_args={})
    with pytest.raises(OptimError, match="there is no tool command 'yolo'"):
        refuse_options(parse_options(Append, {"tool_command": "yolo"}))


def test_a_composed_model_is_not_composed_again(compose, tmp_path, cpu):
    result, _, _ = compose(task_models.digits(tmp_path), preset="image-classification")
    assert "already" in Append().applicable(result.model, cpu).reason


def test_a_folder_that_says_nothing_is_refused_and_one_without_the_preprocessor_noted(compose, tmp_path):
    folder = tmp_path / "settings"
    folder.mkdir()
    with pytest.raises(OptimError, match="cannot be used") as refused:
        compose(task_models.digits(tmp_path), preset="image-classification", settings=str(folder))
    assert "none of preprocessor_config.json, config.json" in refused.value.cause
    (folder / "config.json").write_text('{"model_type": "vit"}', encoding="utf-8")
    result, _, _ = compose(task_models.digits(tmp_path), preset="image-classification", settings=str(folder), top_k=1)
    assert any("has no preprocessor_config.json: factor, mean and size are the preset's" in n for n in result.notes)
    (folder / "config.json").write_text("[]", encoding="utf-8")
    with pytest.raises(OptimError, match=r"config\.json cannot be used"):
        compose(task_models.digits(tmp_path), preset="image-classification", settings=str(folder))


def test_settings_that_are_no_json_are_refused_by_name(compose, tmp_path):
    (tmp_path / "preprocessor_config.json").write_text("{size:", encoding="utf-8")
    with pytest.raises(OptimError) as refused:
        compose(task_models.digits(tmp_path), preset="image-classification", settings=str(tmp_path))
    assert refused.value.reference == "bad-settings"
    assert "preprocessor_config.json" in refused.value.what


@pytest.mark.parametrize(
    ("reference", "options"),
    [
        ("no-samples", {"preset": "image-classification", "samples": "empty"}),
        ("unknown-tool-command", {"tool_command": "yolo"}),
    ],
)
def test_what_cannot_be_composed_is_refused(compose, tmp_path, monkeypatch, reference, options):
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(OptimError) as refused:
        compose(task_models.digits(tmp_path), **options)
    assert refused.value.reference == reference


def test_without_a_task_it_is_refused_before_anything_runs(tmp_path):
    with pytest.raises(OptimError) as refused:
        optim.run(task_models.digits(tmp_path), tmp_path / "out", passes=["prepost.append"])
    assert refused.value.reference == "no-task"


def test_without_a_task_nothing_is_proposed_and_steps_are_not_put_around_steps(tmp_path, cpu):
    with pytest.raises(OptimError) as refused:
        Append().candidates(None, cpu, None)
    assert refused.value.reference == "no-task"
    graph = onnx.load(task_models.digits(tmp_path))
    graph.graph.node[0].name = f"{PREFIX}resize"
    with pytest.raises(OptimError) as refused:
        compose_graph(None, graph)
    assert refused.value.reference == "already-appended"


def test_an_opset_that_cannot_be_raised_is_named_with_the_one_that_is_needed(compose, tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise ValueError("no rule for Det")

    graph = onnx.load(task_models.digits(tmp_path))
    graph.opset_import[0].version = 11
    onnx.save(graph, tmp_path / "old.onnx")
    monkeypatch.setattr("onnxscript.version_converter.convert_version", refuse)
    with pytest.raises(OptimError) as refused:
        compose(tmp_path / "old.onnx", preset="image-classification")
    assert (refused.value.reference, refused.value.cause) == ("opset-not-raised", "no rule for Det")
