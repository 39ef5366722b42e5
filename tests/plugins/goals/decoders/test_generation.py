"""The generation loop: choosing tokens, and knowing which output is fed to which input."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest

from optim.decoders.conventions import carried_by_name
from optim.errors import OptimError
from optim.model import Model, TensorInfo
from optim_plugins.goals.decoders.decoder import session_interface
from optim_plugins.goals.decoders.interface import interface_of
from optim_plugins.goals.decoders.known import generates_alone, require_decoder, require_generating, why_not_alone
from optim_plugins.goals.decoders.sampling import Sampling, choose
from optim_plugins.goals.decoders.steps import GrowingSteps
from optim_plugins.goals.decoders.timing import run_at

IDS = TensorInfo("input_ids", "int64", ("batch", "sequence"))


def test_greedy_takes_the_likeliest_of_each_row() -> None:
    logits = np.array([[0.0, 2.0, 1.0], [5.0, 2.0, 1.0]])
    assert choose(logits, Sampling(), np.random.default_rng(0)).tolist() == [1, 0]


def test_sampling_follows_the_probabilities() -> None:
    logits = np.log(np.array([[0.7, 0.2, 0.1]] * 4000))
    drawn = choose(logits, Sampling(greedy=False), np.random.default_rng(0))
    assert np.allclose(np.bincount(drawn) / 4000, [0.7, 0.2, 0.1], atol=0.03)
    cold = choose(logits, Sampling(greedy=False, temperature=0.1), np.random.default_rng(0))
    assert (cold == 0).mean() > 0.99


@pytest.mark.parametrize(
    ("settings", "allowed"), [({"top_k": 2}, {1, 2}), ({"top_p": 0.6}, {1, 2}), ({"top_p": 0.1}, {1})]
)
def test_unlikely_tokens_are_left_out(settings: dict[str, float], allowed: set[int]) -> None:
    logits = np.log(np.array([[0.1, 0.5, 0.3, 0.1]] * 500))
    drawn = choose(logits, Sampling(greedy=False, **settings), np.random.default_rng(0))  # type: ignore[arg-type]
    assert set(drawn.tolist()) == allowed


@pytest.mark.parametrize("settings", [{"temperature": 0.0}, {"top_p": 0.0}, {"top_k": -1}])
def test_what_is_no_distribution_is_refused(settings: dict[str, float]) -> None:
    with pytest.raises(ValueError, match=f"^{next(iter(settings))} is "):
        Sampling(greedy=False, **settings)  # type: ignore[arg-type]


def test_a_past_is_known_by_its_names() -> None:
    past = TensorInfo("past_key_values.0.key", "float32", ("batch", 4, "past", 8))
    found = interface_of([IDS, past], ["logits", "present.0.key"])
    assert found.state == {"present.0.key": "past_key_values.0.key"}
    assert found.is_decoder and found.logits == "logits"
    assert found.zeros(3, 0)["past_key_values.0.key"].shape == (3, 4, 0, 8)


def test_any_other_memory_is_told_by_the_export() -> None:
    mems = TensorInfo("mems.0", "float16", ("batch", "past", 8))
    assert not interface_of([IDS, mems], ["scores", "present.mems.0"]).is_decoder
    found = interface_of([IDS, mems], ["scores", "present.mems.0"], {"present.mems.0": "mems.0"})
    assert found.is_decoder and found.logits == "scores"
    assert found.zeros(2, 0)["mems.0"].dtype == np.float16


@pytest.mark.parametrize(
    ("past", "present"),
    [
        ("past.0.key", "present.0.key"),
        ("past_0", "present_0"),
        ("past_key_self_0", "present_key_self_0"),
        ("in_cache_k_0", "out_cache_k_0"),
        ("input.past_key_values.layers.0.keys", "output.past_key_values.layers.0.keys"),
        ("past", "present"),
    ],
)
def test_pasts_of_other_tools_are_known_by_their_names(past: str, present: str) -> None:
    assert carried_by_name([past], ["logits", "output", present]) == {present: past}


def test_names_that_could_mean_two_things_mean_nothing() -> None:
    assert carried_by_name(["past_k", "cache_k"], ["logits", "new_k"]) == {}
    assert carried_by_name(["past_k"], ["logits", "new_k", "present_k"]) == {}
    assert carried_by_name(["past"], ["output"]) == {}
    assert carried_by_name(["position_ids"], ["ids"]) == {}


def test_a_past_without_an_output_of_its_name_is_named() -> None:
    cache = TensorInfo("cache_a", "float32", ("batch", 4, "past", 8))
    lost = Model(Path("model.onnx"), "d", (IDS, cache), (TensorInfo("b", "float32", None),), {"": 17}, 8)
    found = replace(lost, outputs=(TensorInfo("logits", "float32", None), TensorInfo("new_a", "float32", None)))
    assert "'cache_a' looks like its past" in why_not_alone(lost)
    with pytest.raises(OptimError, match="no output has a name that continues 'cache_a'"):
        require_decoder(interface_of(lost.inputs, ["b"]))
    assert why_not_alone(found) == "" and generates_alone(found)
    require_generating(found)


@pytest.mark.parametrize(
    ("other", "lost"), [("cache_b", True), ("cache_b_encoder", False), ("past_key_cross_0", False)]
)
def test_a_past_beside_another_that_nothing_carries_on_is_named(other: str, lost: bool) -> None:
    caches = [TensorInfo(name, "float32", ("batch", 4, "past", 8)) for name in ("cache_a", other)]
    outputs = (TensorInfo("logits", "float32", None), TensorInfo("new_a", "float32", None))
    model = Model(Path("model.onnx"), "d", (IDS, *caches), outputs, {"": 17}, 8)
    with pytest.raises(OptimError, match=f"no output has a name that continues '{other}'") if lost else nullcontext():
        require_generating(model)


def _session(present: str) -> onnxruntime.InferenceSession:
    """A decoder of one past, whose logits are whether there is one."""
    text = f"""<ir_version: 8, opset_import: ["" : 17]>
    g (int64[batch, new] input_ids, float[batch, 2, past, 4] past, bool[1] use_cache_branch)
        => (float[batch, new, 8] logits, float[batch, 2, total, 4] present)
    <int64[2] axes = {{1, 3}}, int64[1] last = {{2}}, int64[4] heads = {{1, 2, 1, 4}}, int64[3] words = {{1, 1, 8}}>
    {{
        ids = Cast<to=1>(input_ids)
        wide = Unsqueeze(ids, axes)
        fresh = Expand(wide, heads)
        present = {present}
        zeros = Sub(ids, ids)
        rows = Unsqueeze(zeros, last)
        flag = Cast<to=1>(use_cache_branch)
        flags = Add(rows, flag)
        logits = Expand(flags, words)
    }}"""
    return onnxruntime.InferenceSession(
        onnx.parser.parse_model(text).SerializeToString(), providers=["CPUExecutionProvider"]
    )


def test_a_merged_decoder_is_told_whether_there_is_a_past() -> None:
    session = _session("Concat<axis=2>(past, fresh)")
    run_at(session, session_interface(session), 5)
    steps = GrowingSteps(session, session_interface(session), 1, {})
    ids = np.zeros((1, 3), np.int64)
    assert steps.advance(ids, np.ones((1, 3), np.int64)).max() == 0
    assert steps.advance(ids[:, :1], np.ones((1, 4), np.int64)).min() == 1


@pytest.mark.parametrize(("present", "shape"), [("Identity(fresh)", 1), ("Identity(past)", 5)])
def test_outputs_that_are_no_past_of_a_next_step_are_named(present: str, shape: int) -> None:
    session = _session(present)
    with pytest.raises(OptimError, match=rf"'present' is \[1, 2, {shape}, 4\], and 'past' needs \[1, 2, 6, 4\]"):
        run_at(session, session_interface(session), 5)
