"""The layout ``genai``: onnxruntime-genai generates from it, and each token is the result's own choice."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import optim
import optim_plugins
from optim import OptimError
from optim.layout import Result
from optim.onnx import describe_model
from optim.onnx.sessions import PLAIN_CPU
from optim_plugins.layouts.decoders import choices, past_of, prompts
from optim_plugins.layouts.kinds.genai import Genai
from optim_plugins.layouts.options import GenaiOptions
from optim_testing import models

WORDS, WIDTH = 64, 4
CONFIG = {
    "hidden_size": WIDTH,
    "num_attention_heads": 1,
    "max_position_embeddings": 64,
    "vocab_size": WORDS,
    "bos_token_id": 1,
    "eos_token_id": WORDS - 1,
}
UNREADABLE = {"tokenizer.json": {}, "tokenizer_config.json": {"tokenizer_class": "BertTokenizer"}}
"""A tokenizer of WordPiece, which onnxruntime-genai does not have."""


def write_decoder(path):
    """Scores by a word and the mean of all words before it, which keys and values carry on."""
    rng = np.random.default_rng(0)
    arrays = {"table": (WORDS, WIDTH), "head": (WIDTH, WORDS)}
    constants = [
        onnx.numpy_helper.from_array(rng.standard_normal(shape).astype(np.float32), name)
        for name, shape in arrays.items()
    ]
    constants.append(onnx.numpy_helper.from_array(np.array([1]), "heads"))
    parts = ("key", "value")
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["words"]),
        helper.make_node("Unsqueeze", ["words", "heads"], ["new"]),
        *(
            helper.make_node("Concat", [f"past_key_values.0.{part}", "new"], [f"present.0.{part}"], axis=2)
            for part in parts
        ),
        *(helper.make_node("ReduceMean", [f"present.0.{part}"], [part], axes=[2], keepdims=0) for part in parts),
        helper.make_node("Add", ["key", "value"], ["mean"]),
        helper.make_node("Add", ["words", "mean"], ["both"]),
        helper.make_node("MatMul", ["both", "head"], ["logits"]),
    ]

    def state(name, length):
        shape = ["batch", 1, length, WIDTH]
        return [helper.make_tensor_value_info(f"{name}.0.{part}", TensorProto.FLOAT, shape) for part in parts]

    ids = helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "sequence"])
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", "sequence", WORDS])
    ends = [ids, *state("past_key_values", "past")], [logits, *state("present", "total")]
    graph = helper.make_graph(nodes, "g", *ends, constants)
    onnx.save(helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)]), path)


@pytest.fixture(scope="module")
def decoder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("decoder")
    write_decoder(folder / "model.onnx")
    (folder / "config.json").write_text(json.dumps(CONFIG))
    return folder


@pytest.fixture
def result(decoder):
    return Result(decoder, describe_model(decoder / "model.onnx"), PLAIN_CPU, decoder)


@pytest.mark.usefixtures("cache", "jobs_here")
def test_a_run_folder_is_a_model_folder_of_onnxruntime_genai(decoder, consumers, tmp_path):
    report = optim.run(
        decoder / "model.onnx",
        tmp_path / "out",
        stages=["post-process"],
        search_seconds=0,
        deliver=["genai:without_tokenizer=true,tokens=6"],
        opened_by=consumers,
    )
    (laid,) = report.layouts
    assert (laid.status, laid.folder, laid.graph) == ("opened", ".", "model.onnx"), laid.text
    assert "onnxruntime-genai 0.18.0" in laid.text
    assert laid.drift <= laid.tolerance
    assert {"genai_config.json", "model.onnx", "report.json"} <= {file.name for file in (tmp_path / "out").iterdir()}
    for name, content in UNREADABLE.items():
        (tmp_path / "out" / name).write_text(json.dumps(content))
    there = {"files": tmp_path / "out", "opened_by": consumers}
    laid = optim.deliver(tmp_path / "out", "genai:without_tokenizer=true,tokens=6", tmp_path / "ids", **there)
    assert laid.status == "opened", laid.text
    with pytest.raises(OptimError, match="layout-not-opened") as caught:
        optim.deliver(tmp_path / "out", "genai:tokens=6", tmp_path / "text", **there)
    assert "cannot read the tokenizer: Unsupported tokenizer class: BertTokenizer" in caught.value.cause
    assert "genai:without_tokenizer=true" in caught.value.cause


def test_sizes_names_and_settings_are_the_decoders(result, tmp_path):
    tuned = optim.SessionConfig({"intra_op_num_threads": 3}, {"session.intra_op.allow_spinning": "0"}, ("Cast",))
    given = Result(result.folder, describe_model(result.model.path, session=tuned), PLAIN_CPU, result.files)
    laid = Genai().write(given, tmp_path, GenaiOptions())
    found = json.loads((tmp_path / "genai_config.json").read_text())
    assert found["model"]["decoder"] == {
        "session_options": {
            "intra_op_num_threads": 3,
            "session.intra_op.allow_spinning": "0",
            "optimization.disable_specified_optimizers": "Cast",
            "provider_options": [],
        },
        "filename": "model.onnx",
        "head_size": WIDTH,
        "hidden_size": WIDTH,
        "num_attention_heads": 1,
        "num_hidden_layers": 1,
        "num_key_value_heads": 1,
        "inputs": {
            "input_ids": "input_ids",
            "past_key_names": "past_key_values.%d.key",
            "past_value_names": "past_key_values.%d.value",
        },
        "outputs": {
            "logits": "logits",
            "present_key_names": "present.%d.key",
            "present_value_names": "present.%d.value",
        },
    }
    assert found["search"]["past_present_share_buffer"] is False
    assert laid.session.session_options == {"intra_op_num_threads": 3}


def test_another_text_than_the_results_is_noticed(result):
    (sample,) = prompts(result, [{"input_ids": np.array([[5, 6, 7]])}])
    assert sample["input_ids"].tolist() == [[5, 6, 7, 5]]
    likeliest = onnxruntime_says(result, sample)["logits"][0, -1].argmax()
    own = choices(result, sample, {"tokens": np.array([likeliest]), "logits": np.zeros((1, WORDS))})
    assert own["logits"].shape == (1, WORDS)
    with pytest.raises(OptimError, match="layout-differs"):
        choices(result, sample, {"tokens": np.array([(likeliest + 1) % WORDS]), "logits": np.zeros((1, WORDS))})


def test_a_token_that_ends_the_text_is_none_that_the_consumer_could_have_chosen(result):
    (sample,) = prompts(result, [{"input_ids": np.array([[5, 6, 7, 8]])}])
    order = onnxruntime_says(result, sample)["logits"][0, -1].argsort()
    made = {"tokens": order[-2:-1], "logits": np.zeros((1, WORDS))}
    with pytest.raises(OptimError, match="layout-differs"):
        choices(result, sample, made)
    ended = replace(result, facts={"eos": [int(order[-1])]})
    assert choices(ended, sample, made)["tokens"] is made["tokens"]
    with pytest.raises(OptimError, match="layout-differs"):
        choices(ended, sample, {**made, "tokens": order[-1:]})


def onnxruntime_says(result, sample):
    session = onnxruntime.InferenceSession(result.model.path)
    past = {name: np.zeros((1, 1, 0, WIDTH), np.float32) for name in past_of(result).inputs}
    return {"logits": session.run(["logits"], {**sample, **past})[0]}


def test_padding_is_no_part_of_a_prompt(result):
    ids, mask = np.array([[0, 0, 5, 6, 7, 8]]), np.array([[0, 0, 1, 1, 1, 1]])
    (sample,) = prompts(result, [{"input_ids": ids, "attention_mask": mask}])
    assert sample["input_ids"].tolist() == [[5, 6, 7, 8]]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda names: names[:1], "the graph has no past"),
        (lambda names: [*names, "mems"], "input 'mems' is not one that it feeds"),
    ],
)
def test_what_onnxruntime_genai_would_not_feed_is_refused(result, tmp_path, change, said):
    infos = {info.name: info for info in result.model.inputs}
    spare = replace(result.model.inputs[0], name="mems")
    inputs = tuple(infos.get(name, spare) for name in change(list(infos)))
    with pytest.raises(OptimError, match=said):
        Genai().write(replace(result, model=replace(result.model, inputs=inputs)), tmp_path, GenaiOptions())
    assert list(tmp_path.iterdir()) == []


def test_a_source_without_config_or_tokenizer_is_refused_before_a_run(decoder, tmp_path):
    assert "config.json" in Genai().refuse(None, GenaiOptions())
    assert "tokenizer" in Genai().refuse(decoder, GenaiOptions())
    assert Genai().refuse(decoder, GenaiOptions(without_tokenizer=True)) == ""
    assert past_of(Result(decoder, describe_model(decoder / "model.onnx"), PLAIN_CPU)).shared is False


ANSWERED = """
import sys
from optim_plugins.goals.decoders.genai import GenaiClock
found = GenaiClock(sys.argv[1], prompt=5, new=4).start(None).round().generation
print(found.depths, found.past_bytes, min(found.first_s, *found.token_s) > 0)
"""


@pytest.mark.slow
def test_a_bench_has_it_answer_token_by_token(result, consumers, tmp_path):
    Genai().write(result, tmp_path, GenaiOptions())
    parts = (str(Path(one.__file__).parents[1]) for one in (optim, optim_plugins))  # what answers is a lane of ours
    here = {**os.environ, "PYTHONPATH": os.pathsep.join(parts)}
    done = subprocess.run([consumers, "-c", ANSWERED, tmp_path], env=here, capture_output=True, text=True, check=True)
    bytes_of = [2 * WIDTH * 4 * (2 * depth + 1) for depth in (5, 6, 8)]  # keys and values, before and after a step
    assert done.stdout.strip() == f"(5, 6, 8) {tuple(bytes_of)} True"


def test_a_graph_without_a_past_does_not_fit(result, tmp_path):
    plain = Result(tmp_path, describe_model(models.mlp(tmp_path)), PLAIN_CPU, result.files)
    with pytest.raises(OptimError, match="onnxruntime-genai would not run the result") as caught:
        past_of(plain)
    assert caught.value.reference == "layout-does-not-fit"
