"""Made-up feeds of decoders and encoders: steps, masks, caches and what links their lengths."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from feed_models import BOOL, FLOAT, INT32, INT64, build, constant, decoder, helper, value
from made_feeds import about, made

from optim import TensorInfo
from optim._engine.feeds.dimensions import InputRole, Measure, PlannedInput, Setting, symbol_sizes


@pytest.mark.parametrize(
    "names",
    [
        {},
        {"past": None, "total": None, "seq": None},
        {"past": "past_sequence_length", "total": "past_sequence_length + seq"},
        {"past": "past_key_values.0.key_dynamic_axes_2", "total": "attention_mask_dynamic_axes_2"},
        {"past": 31, "total": 32, "seq": 1},
        {"past": "past", "total": 32, "seq": 1},
    ],
)
def test_a_decoder_gets_steps_whose_lengths_fit_together(tmp_path, names):
    _, samples = made(tmp_path, decoder(**names))
    for sample in samples:
        new, total = sample["input_ids"].shape[1], sample["attention_mask"].shape[1]
        past = sample["past_key_values.0.key"].shape[2]
        assert past + new == total
        assert sample["past_key_values.0.value"].shape == sample["past_key_values.0.key"].shape
        shown = np.maximum(np.cumsum(sample["attention_mask"], axis=1) - 1, 0)[:, -new:]
        np.testing.assert_array_equal(sample["position_ids"], shown)
    assert samples[0]["input_ids"].shape == (1, 1)
    assert samples[0]["attention_mask"].all()
    assert any(not sample["attention_mask"].all() for sample in samples)
    assert all(sample["attention_mask"][:, -1].all() for sample in samples), "the new token is never masked"


def test_a_decoder_gets_one_prefill_if_it_accepts_it(tmp_path):
    _, samples = made(tmp_path, decoder())
    assert samples[0]["past_key_values.0.key"].shape[2] == 127
    prefills = [sample for sample in samples if sample["past_key_values.0.key"].shape[2] == 0]
    assert len(prefills) == 1
    assert prefills[0]["input_ids"].shape[1] > 1


def test_a_decoder_that_refuses_an_empty_past_gets_none_and_this_is_said(tmp_path):
    feeds, samples = made(tmp_path, decoder(prefill=False))
    assert len(samples) == 8
    assert all(sample["past_key_values.0.key"].shape[2] > 0 for sample in samples)
    assert "not used, because the model refuses it" in about(feeds, "")


def test_a_decoders_past_is_what_it_keeps_of_tokens(tmp_path):
    model = decoder()
    feeds, samples = made(tmp_path, model)
    words, places = (onnx.numpy_helper.to_array(one) for one in model.graph.initializer[:2])
    for sample in samples:
        depth = sample["past_key_values.0.key"].shape[2]
        at = np.maximum(np.cumsum(sample["attention_mask"][:, :depth], axis=1) - 1, 0)
        read = sample["past_key_values.0.key"][:, 0] - places[at + 2]
        nearest = np.abs(read[:, :, None] - words).max(axis=-1).min(axis=-1)
        np.testing.assert_array_less(nearest, 1e-5)
    assert about(feeds, "past_key_values.0.value") == "what the model keeps of random tokens"


@pytest.mark.parametrize(
    ("options", "checked"), [({"prefill": False}, True), ({"past": 31, "total": 32}, True), ({}, False)]
)
def test_a_decoder_that_makes_no_past_of_a_prompt_gets_noise(tmp_path, options, checked):
    feeds, _ = made(tmp_path, decoder(**options), checked=checked)
    assert about(feeds, "past_key_values.0.key").startswith("normal noise")


def test_two_texts_of_different_fixed_lengths_have_masks_of_their_own(tmp_path):
    nodes, inputs, tables = [], [], [constant("words", np.ones((50, 4), np.float32)), constant("last", np.array([2]))]
    for name, length in (("query", 6), ("doc", 12)):
        inputs += [value(f"{name}_ids", INT32, ["batch", length]), value(f"{name}_mask", BOOL, ["batch", length])]
        nodes += [
            helper.make_node("Gather", ["words", f"{name}_ids"], [f"{name}_word"]),
            helper.make_node("Cast", [f"{name}_mask"], [f"{name}_float"], to=FLOAT),
            helper.make_node("Unsqueeze", [f"{name}_float", "last"], [f"{name}_wide"]),
            helper.make_node("Mul", [f"{name}_word", f"{name}_wide"], [f"{name}_out"]),
        ]
    outputs = [value("query_out", FLOAT, None), value("doc_out", FLOAT, None)]
    _, samples = made(tmp_path, build(nodes, inputs, outputs, tables))
    assert samples[0]["query_ids"].shape == (1, 6)
    assert samples[0]["doc_mask"].shape == (1, 12)
    assert samples[0]["doc_mask"].dtype == np.bool_
    assert any(not sample["doc_mask"].all() for sample in samples)


def test_an_encoders_states_and_their_mask_have_one_length(tmp_path):
    nodes = [
        helper.make_node("Gather", ["words", "input_ids"], ["word"]),
        helper.make_node("Transpose", ["encoder_hidden_states"], ["keys"], perm=[0, 2, 1]),
        helper.make_node("MatMul", ["word", "keys"], ["scores"]),
        helper.make_node("Cast", ["encoder_attention_mask"], ["mask"], to=FLOAT),
        helper.make_node("Unsqueeze", ["mask", "one"], ["wide"]),
        helper.make_node("Mul", ["scores", "wide"], ["y"]),
    ]
    inputs = [
        value("input_ids", INT64, ["batch", None]),
        value("encoder_attention_mask", INT64, ["batch", None]),
        value("encoder_hidden_states", FLOAT, ["batch", None, 4]),
    ]
    tables = [constant("words", np.ones((50, 4), np.float32)), constant("one", np.array([1]))]
    _, samples = made(tmp_path, build(nodes, inputs, [value("y", FLOAT, None)], tables))
    for sample in samples:
        assert sample["encoder_hidden_states"].shape[:2] == sample["encoder_attention_mask"].shape


def test_the_decoder_of_an_encoder_decoder_with_both_caches(tmp_path):
    names = {
        "input_ids": (INT64, ["batch", "decoder_sequence_length"]),
        "encoder_attention_mask": (INT64, ["batch", "encoder_sequence_length"]),
        "past_key_values.0.decoder.key": (FLOAT, ["batch", 4, "past_decoder_sequence_length", 8]),
        "past_key_values.0.encoder.key": (FLOAT, ["batch", 4, "encoder_sequence_length_out", 8]),
    }
    model = build(
        [helper.make_node("Identity", [name], [f"{name}_out"]) for name in names],
        [value(name, *kind) for name, kind in names.items()],
        [value(f"{name}_out", kind[0], None) for name, kind in names.items()],
    )
    _, samples = made(tmp_path, model)
    assert samples[0]["input_ids"].shape == (1, 1)
    assert samples[0]["past_key_values.0.decoder.key"].shape == (1, 4, 127, 8)
    for sample in samples:
        mask = sample["encoder_attention_mask"]
        assert mask.shape[1] == sample["past_key_values.0.encoder.key"].shape[2] > 0
        assert (np.diff(mask, axis=1) <= 0).all(), "padding is at the end"
    assert any(not sample["encoder_attention_mask"].all() for sample in samples)


def test_scalars_flags_and_states(tmp_path):
    names = {
        "sr": (INT64, []),
        "num_logits_to_keep": (INT64, []),
        "scale": (FLOAT, [1]),
        "flag": (BOOL, [3]),
        "timestep": (INT64, ["batch"]),
        "h0": (FLOAT, [2, "batch", 4]),
        "lengths": (INT64, ["batch"]),
        "head_mask": (FLOAT, [2, 4]),
    }
    nodes = [helper.make_node("Identity", [name], [f"{name}_out"]) for name in names]
    model = build(
        nodes,
        [value(name, *kind) for name, kind in names.items()],
        [value(f"{name}_out", kind[0], None) for name, kind in names.items()],
    )
    feeds, samples = made(tmp_path, model)
    first = samples[0]
    assert (int(first["sr"]), int(first["num_logits_to_keep"]), float(first["scale"][0])) == (16000, 1, 1.0)
    assert first["h0"].shape == (2, 1, 4)
    assert 1 <= int(first["timestep"][0]) <= 999
    assert int(first["lengths"][0]) == 128
    assert first["head_mask"].all()
    assert all(about(feeds, name) for name in names)


def test_a_mask_over_rows_and_columns_is_causal_and_added(tmp_path):
    names = {
        "input_ids": (INT64, ["b", 1]),
        "attention_mask": (FLOAT, ["b", 1, 1, "total"]),
        "past_key_values.0.key": (FLOAT, ["b", 1, "past", 4]),
    }
    model = build(
        [helper.make_node("Identity", [name], [f"{name}_out"]) for name in names],
        [value(name, *kind) for name, kind in names.items()],
        [value(f"{name}_out", kind[0], None) for name, kind in names.items()],
    )
    _, samples = made(tmp_path, model)
    assert samples[0]["attention_mask"].shape == (1, 1, 1, 128)
    assert not samples[0]["attention_mask"].any()
    assert min(float(sample["attention_mask"].min()) for sample in samples) == -10000


def test_a_cache_of_fixed_size_is_masked_behind_the_present(tmp_path):
    model = decoder(past=200, total=200, seq=1)
    model.graph.node[5].CopyFrom(helper.make_node("Identity", ["past_key_values.0.key"], ["present.0.key"]))
    model.graph.node[6].CopyFrom(helper.make_node("Identity", ["past_key_values.0.value"], ["present.0.value"]))
    _, samples = made(tmp_path, model)
    mask, position = samples[0]["attention_mask"][0], int(samples[0]["position_ids"][0, 0])
    assert position == 127
    assert mask[: position + 1].all()
    assert not mask[position + 1 :].any()


def test_a_dimension_that_divides_by_an_empty_past_is_no_error():
    symbols = ("total // past", "total", "past")
    plan = PlannedInput(
        TensorInfo("x", "float32", symbols),
        InputRole.FLOAT,
        symbols,
        (Measure.OTHER, Measure.TOTAL, Measure.PAST),
        {},
        None,
    )
    assert symbol_sizes([plan], Setting(past=0))["past"] == 0
    assert symbol_sizes([plan], Setting(past=32, length=32))["total // past"] == 2
