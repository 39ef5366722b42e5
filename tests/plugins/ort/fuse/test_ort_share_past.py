"""Past and present in one buffer: the same numbers as before, with a past that grows and with one that is added to."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper
from ort_models import (
    CPU,
    DATA,
    apply,
    export,
    feeds_for,
    in_float16,
    names_and_shapes,
    operators,
    proto,
    relative_l2,
    stored,
)

import optim
from optim import Model, OptimError, SessionConfig
from optim._engine.backends.held import held_backend
from optim._engine.load_script import LOAD_TEXT
from optim._engine.plugins.registry import load_registry
from optim._engine.runs import publish
from optim._engine.runs.session_file import SessionFile, write_session_files
from optim._engine.search.plan import make_plan
from optim._engine.search.settings import Named, RunSettings
from optim.cli_kit import write_model
from optim.decoders.conventions import file_shares_past
from optim.goal import GoalRequest
from optim.onnx import deliver_model
from optim_plugins.goals.decoders.decoder import SessionDecoder, session_interface
from optim_plugins.goals.decoders.timing import WorkloadTimer
from optim_plugins.ort.fuse.fuse_transformer import FuseTransformer
from optim_plugins.ort.fuse.past.share_past import SharePast
from optim_plugins.ort.precision.convert_float16 import ConvertFloat16

DECODERS = ("gpt2.dynamo", "gpt2.ts", "llama.dynamo", "llama.ts")
FACTS = {"eos": [], "pad": 0}


@pytest.mark.parametrize("name", DECODERS)
def test_every_attention_over_a_past_shares_it(name: str, tmp_path: Path) -> None:
    model = export(name, tmp_path)
    result = apply(SharePast, model, tmp_path)
    assert result.counts["GroupQueryAttention"] == 2 and "Softmax" not in operators(result.model)
    assert "Concat" not in _readers_of_pasts(result.model)
    assert names_and_shapes(result.model) == names_and_shapes(model)
    assert file_shares_past(result.model.path) and not file_shares_past(model.path)
    for sizes in ({"sequence": 1, "batch": 2}, {"sequence": 3, "batch": 1}):
        assert relative_l2(model, result.model, feeds_for(name, **sizes)) < 1e-5
    whole = feeds_for(name, sequence=4, past=0)
    assert relative_l2(model, result.model, whole | {"attention_mask": np.ones((2, 4), np.int64)}) < 1e-5
    assert not SharePast().applicable(result.model, CPU)


@pytest.mark.slow
@pytest.mark.parametrize("name", DECODERS)
def test_it_generates_in_a_buffer_what_it_generates_with_a_past_that_grows(name: str, tmp_path: Path) -> None:
    model = export(name, tmp_path)
    shared = apply(SharePast, model, tmp_path).model
    shared = apply(FuseTransformer, shared, tmp_path, leave_out=("attention",)).model
    assert file_shares_past(shared.path)
    prompts = [[5, 6, 7, 8, 9], [10, 11], [12, 13, 14]]
    growing, adding = (SessionDecoder(_session(one), FACTS) for one in (model, shared))
    expected = growing.generate(prompts, max_new_tokens=8)
    assert len(set(expected.ravel().tolist())) > 1
    assert np.array_equal(adding.generate(prompts, max_new_tokens=8), expected)


def test_a_past_of_float16_lies_in_a_buffer_too(tmp_path: Path) -> None:
    shared = apply(SharePast, export("llama.dynamo", tmp_path), tmp_path).model
    half = apply(ConvertFloat16, shared, tmp_path, [feeds_for("llama", sequence=1)], io="convert").model
    assert {info.dtype for info in half.inputs if info.name.startswith("past_")} == {"float16"}
    assert "Cast" not in _readers_of_pasts(half) and file_shares_past(half.path)
    expected = SessionDecoder(_session(shared), FACTS).generate([[5, 6, 7]], max_new_tokens=6)
    assert np.array_equal(SessionDecoder(_session(half), FACTS).generate([[5, 6, 7]], max_new_tokens=6), expected)


def test_a_graph_in_float16_generates_the_same_in_a_buffer(tmp_path: Path) -> None:
    graph = onnx.load(DATA / "llama.dynamo.onnx")
    in_float16(graph)
    onnx.save(graph, tmp_path / "half.onnx")
    model = stored(tmp_path / "half.onnx", tmp_path)
    done = apply(SharePast, model, tmp_path)
    assert done.counts["GroupQueryAttention"] == 2 and {info.dtype for info in done.model.outputs} == {"float16"}
    feeds = {
        name: array.astype(np.float16) if array.dtype == np.float32 else array
        for name, array in feeds_for("llama", sequence=1, past=5).items()
    }
    found, expected = (_session(one).run(None, feeds) for one in (done.model, model))
    for output, original in zip(found, expected, strict=True):
        assert output.dtype == np.float16
        np.testing.assert_allclose(output.astype(float), original.astype(float), atol=5e-3)
    growing, adding = (SessionDecoder(_session(one), FACTS) for one in (model, done.model))
    tokens = growing.generate([[5, 6, 7], [10, 11]], max_new_tokens=6)
    assert np.array_equal(adding.generate([[5, 6, 7], [10, 11]], max_new_tokens=6), tokens)


LOADED = """
import importlib.util, json
from pathlib import Path
spec = importlib.util.spec_from_file_location("anything", "load.py")
load = importlib.util.module_from_spec(spec)
spec.loader.exec_module(load)
several = [[5, 6, 7, 8, 9], [10, 11], [12, 13, 14]]
drawn = load.Sampling(greedy=False, temperature=2.0, top_k=20, top_p=0.9)
found = [list(load.generate([5, 6, 7], 6)), list(load.generate(several, 6))]
found.append(list(load.generate(several, 6, sampling=drawn, seed=3)))
found.append(list(load.generate([5, 6, 7], 6, stop=[found[0][2]])))
found.append(list(load.generate(several, 6, stop=found[1][0][:1], pad=1)))
Path("export.json").write_text('{"facts": {"context": 16}}')
refused = [([[5], []], {}), ([5, 80], {}), (["a"], {}), ([1.5], {})]
for prompt, more in (*refused, ([5], {"max_new_tokens": 16}), ([5], {"max_new_tokens": -1})):
    try:
        next(load.generate(prompt, **more))
    except ValueError as error:
        found.append(str(error))
load.free_bytes = lambda: 1000
try:
    next(load.generate([5], 8))
except MemoryError as error:
    found.append(str(error))
print(json.dumps(found))
"""


def test_load_py_generates_in_buffers_as_optim_does_without_optim(tmp_path: Path) -> None:
    model = apply(SharePast, export("llama.dynamo", tmp_path), tmp_path).model
    folder = tmp_path / "out"
    write_model(model, folder, CPU)
    done = subprocess.run([sys.executable, "-c", LOADED], cwd=folder, capture_output=True, text=True, check=True)
    one, several, drawn, stopped, ended, *refused = json.loads(done.stdout)
    decoder, prompts = SessionDecoder(_session(model), FACTS), [[5, 6, 7, 8, 9], [10, 11], [12, 13, 14]]
    assert one == decoder.generate([[5, 6, 7]], max_new_tokens=6)[0].tolist()
    assert several == decoder.generate(prompts, max_new_tokens=6).T.tolist()
    sampled = decoder.generate(
        prompts, max_new_tokens=6, sample=True, temperature=2.0, top_k=20, top_p=0.9, seed=3
    ).T.tolist()
    assert drawn == sampled != several
    assert stopped == one[: one.index(one[2]) + 1]
    assert ended[0] == several[0] and ended[1][0] == 1
    assert refused == [
        "a prompt holds no tokens",
        "80 is no token of the model, which has 80",
        "a prompt is a list of ids, and no text: tokenizer.json makes them",
        "ids of tokens are whole numbers",
        "1 tokens and 16 new ones are more than the model's context of 16",
        "max_new_tokens and seed are 0 or more, not -1 and 0",
        "the past takes 0.0 GB, and 0.0 GB are free: ask for less",
    ]


def test_beyond_a_window_a_buffer_gives_what_a_past_that_grows_does(tmp_path: Path) -> None:
    """The last four tokens alone are seen, as in Mistral: the mask says so, and goes on to say it."""
    graph = onnx.load(DATA / "llama.dynamo.onnx")
    causal = next(node for node in graph.graph.node if node.op_type == "LessOrEqual")
    key, query = causal.input
    before, causal.output[0] = causal.output[0], "causal"
    place = list(graph.graph.node).index(causal) + 1
    for more in (
        helper.make_node("Sub", [query, "window"], ["first"]),
        helper.make_node("Greater", [key, "first"], ["near"]),
        helper.make_node("And", ["causal", "near"], [before]),
    ):
        graph.graph.node.insert(place, more)
        place += 1
    graph.graph.initializer.append(onnx.numpy_helper.from_array(np.array(4), "window"))
    onnx.save(graph, tmp_path / "window.onnx")
    model = stored(tmp_path / "window.onnx", tmp_path)
    shared = apply(SharePast, model, tmp_path).model
    prompts = [[5, 6, 7, 8, 9, 10, 11], [12, 13]]
    seen = [
        SessionDecoder(_session(one), FACTS).generate(prompts, max_new_tokens=10)
        for one in (model, shared, export("llama.dynamo", tmp_path))
    ]
    assert np.array_equal(seen[0], seen[1])
    assert not np.array_equal(seen[0], seen[2])


def test_a_stop_token_ends_a_row_and_a_stream_gives_tokens_one_by_one(tmp_path: Path) -> None:
    decoder = SessionDecoder(_session(apply(SharePast, export("llama.dynamo", tmp_path), tmp_path).model), FACTS)
    whole = decoder.generate([[5, 6, 7]], max_new_tokens=6)[0].tolist()
    stop = whole[2]
    assert decoder.generate([[5, 6, 7]], max_new_tokens=6, stop=[stop])[0].tolist() == whole[: whole.index(stop) + 1]
    tokens = decoder.stream([[5, 6, 7]], max_new_tokens=6)
    assert [int(next(tokens)[0]) for _ in range(3)] == whole[:3]


@pytest.mark.parametrize("prompt", [[], [[]], [list(range(3, 9))]])
def test_a_prompt_without_tokens_or_without_room_is_refused(prompt: list[list[int]], tmp_path: Path) -> None:
    decoder = SessionDecoder(_session(export("llama.dynamo", tmp_path)), {**FACTS, "context": 8})
    assert decoder.generate([[5, 6]], max_new_tokens=6).shape == (1, 6)
    with pytest.raises(OptimError, match="bad-prompt"):
        decoder.generate(prompt, max_new_tokens=3)


@pytest.mark.parametrize(
    ("prompt", "more", "said"),
    [
        ([[5, 80]], {}, "80 is not an id: ids are 0 to 79"),
        ([[-1, 5]], {}, "-1 is not an id"),
        ("a text", {}, "it is text"),
        (["a text"], {}, "it is text"),
        ([[1.5]], {}, "ids are not integers"),
        (None, {}, "not a list of lists"),
        ({"input_ids": np.zeros((1, 0), np.int64)}, {}, "holds no tokens"),
        (
            {"input_ids": np.ones((1, 2), np.int64), "attention_mask": np.ones((1, 1), np.int64)},
            {},
            "and input_ids [1, 2]",
        ),
        ([[5]], {"max_new_tokens": -1}, "max_new_tokens cannot be -1"),
        ([[5]], {"seed": -1, "sample": True}, "seed cannot be -1"),
        ([[5]], {"top_p": 0.0, "sample": True}, "top_p is 0.0, and must be above 0"),
        ([[5]], {"temperature": 0.0, "sample": True}, "temperature is 0.0, and must be positive"),
    ],
)
def test_what_cannot_be_generated_is_one_clear_error(
    prompt: Any, more: dict[str, float], said: str, tmp_path: Path
) -> None:
    decoder = SessionDecoder(_session(export("llama.dynamo", tmp_path)), FACTS)
    with pytest.raises(OptimError) as refused:
        decoder.generate(prompt, **more)  # type: ignore[arg-type]
    assert refused.value.reference in ("bad-prompt", "bad-generation")
    assert said in f"{refused.value.what}: {refused.value.cause}"


def test_what_a_run_writes_generates_too(tmp_path: Path) -> None:
    model, registry = apply(SharePast, export("llama.dynamo", tmp_path), tmp_path).model, load_registry()
    backend = held_backend(registry, CPU.backend)
    assert "def generate(" in publish.with_generate(registry, LOAD_TEXT, model, tmp_path, backend)
    plain = export("llama.dynamo", tmp_path)
    assert publish.with_generate(registry, LOAD_TEXT, plain, tmp_path, backend) == LOAD_TEXT


def test_a_run_folder_without_a_source_generates_too(tmp_path: Path) -> None:
    model = apply(SharePast, export("llama.dynamo", tmp_path), tmp_path).model
    folder = tmp_path / "out"
    deliver_model(model, folder)
    write_session_files(folder, SessionFile.of(SessionConfig(), CPU))
    opened = optim.load(folder)
    assert isinstance(opened, SessionDecoder)
    expected = SessionDecoder(_session(model)).generate([[5, 6, 7]], max_new_tokens=6)
    assert np.array_equal(opened.generate([[5, 6, 7]], max_new_tokens=6), expected)
    assert opened.run(["logits"], feeds_for("llama", sequence=1))[0].shape == (2, 1, 80)


def test_a_step_writes_behind_what_the_buffer_holds(tmp_path: Path) -> None:
    name, room = "llama.dynamo", 12
    model = export(name, tmp_path)
    session = _session(apply(SharePast, model, tmp_path).model)
    feeds = feeds_for(name, sequence=1, past=5)
    expected = dict(zip((one.name for one in session.get_outputs()), _session(model).run(None, feeds), strict=True))
    binding, buffers = session.io_binding(), {}
    for taken, array in feeds.items():
        value = array
        if taken.startswith("past_"):
            value = np.full((*array.shape[:2], room, array.shape[3]), 7, np.float32)
            value[:, :, :5] = array
        buffers[taken] = ort.OrtValue.ortvalue_from_numpy(value)
        binding.bind_ortvalue_input(taken, buffers[taken])
    binding.bind_output("logits")
    for given in list(expected)[1:]:
        binding.bind_ortvalue_output(given, buffers[given.replace("present", "past_key_values")])
    session.run_with_iobinding(binding)
    np.testing.assert_allclose(binding.get_outputs()[0].numpy(), expected["logits"], atol=1e-5)
    for given in list(expected)[1:]:
        held = buffers[given.replace("present", "past_key_values")].numpy()
        np.testing.assert_allclose(held[:, :, :6], expected[given], atol=1e-5)
        assert (held[:, :, 6:] == 7).all()


def test_a_graph_without_a_past_is_told(tmp_path: Path) -> None:
    refused = SharePast().applicable(export("bert.dynamo", tmp_path), CPU)
    assert not refused and "no past" in refused.reason


@pytest.mark.parametrize("in_place", [False, True])
def test_an_answer_is_timed_in_whole_steps(in_place: bool, tmp_path: Path) -> None:
    model = export("llama.dynamo", tmp_path)
    model = apply(SharePast, model, tmp_path).model if in_place else model
    session = _session(model)
    found = WorkloadTimer(session, session_interface(session), GoalRequest(6, 5)).round()
    assert found.depths == (6, 8, 10) and min(found.first_s, *found.token_s) > 0
    token = 2 * 2 * 2 * 16 * 4  # layers, keys and values, heads, their size, bytes
    assert found.past_bytes == tuple(token * ((n + 1) if in_place else (2 * n + 1)) for n in found.depths)


def test_it_is_tried_where_answers_are_the_goal(tmp_path: Path) -> None:
    settings, registry = RunSettings(tmp_path / "model.onnx"), load_registry(only={"goals", "ort"})
    plan = make_plan(settings, registry, CPU)
    reasons = {one.offered.name: one.reason for one in plan.left_out}
    assert "--goal generate" in reasons["ort.share-past"]
    assert "ort.share-past" in make_plan(replace(settings, goal="generate"), registry, CPU).names
    assert "ort.share-past" in make_plan(replace(settings, named=(Named("ort.share-past"),)), registry, CPU).names


def test_a_past_without_room_in_memory_is_refused_before_the_first_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import psutil

    decoder = SessionDecoder(_session(apply(SharePast, export("gpt2.dynamo", tmp_path), tmp_path).model), FACTS)
    memory = type("Memory", (), {"available": 1000})()
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)
    with pytest.raises(OptimError, match="past-too-large"):
        decoder.generate([[5, 6]], max_new_tokens=4)
    growing = _session(export("gpt2.dynamo", tmp_path))
    with pytest.raises(OptimError, match="past-too-large"):
        next(SessionDecoder(growing, FACTS).stream([[5, 6]], max_new_tokens=4))
    with pytest.raises(OptimError, match="past-too-large"):
        WorkloadTimer(growing, session_interface(growing), GoalRequest(6, 5))


def _session(model: Model) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    return ort.InferenceSession(str(model.path), options, providers=["CPUExecutionProvider"])


def _readers_of_pasts(model: Model) -> set[str]:
    nodes = proto(model).graph.node
    return {node.op_type for node in nodes if any(name.startswith("past_") for name in node.input)}
