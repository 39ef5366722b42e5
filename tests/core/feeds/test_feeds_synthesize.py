from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import onnxruntime
import pytest
from feed_models import BOOL, FLOAT, INT32, INT64, build, constant, decoder, encoder, helper, image, value, write
from onnx import TensorProto

from optim._engine.feeds.synthesize import synthesize_feeds
from optim.errors import OptimError

onnxruntime.set_default_logger_severity(4)


def runner(model):
    session = onnxruntime.InferenceSession(model.path, providers=["CPUExecutionProvider"])
    return lambda feeds: session.run(None, dict(feeds))


def made(tmp_path, proto, *, checked=True, seed=0, **options):
    model = write(proto, tmp_path / "model.onnx")
    run = runner(model)
    feeds = synthesize_feeds(model, tmp_path / f"feeds{seed}", seed, check=run if checked else None, **options)
    samples = list(feeds.iterate())
    for sample in samples:
        run(sample)
    return feeds, samples


def about(feeds, name) -> str:
    return " ".join(assumption.text for assumption in feeds.assumptions if assumption.input == name)


def test_token_ids_stay_in_the_table_that_they_index(tmp_path):
    feeds, samples = made(tmp_path, encoder(rows=37, types=2), samples=24)
    ids = np.concatenate([sample["input_ids"].ravel() for sample in samples])
    types = np.concatenate([sample["token_type_ids"].ravel() for sample in samples])
    assert ids.min() >= 0
    assert 30 < ids.max() < 37
    assert set(types) == {0, 1}
    assert "37 rows" in about(feeds, "input_ids")


def test_a_table_of_one_type_gets_only_zeros(tmp_path):
    _, samples = made(tmp_path, encoder(types=1))
    assert all(sample["token_type_ids"].max() == 0 for sample in samples)


def test_the_first_sample_has_batch_one_and_no_padding_and_others_have(tmp_path):
    _, samples = made(tmp_path, encoder())
    assert samples[0]["input_ids"].shape == (1, 128)
    assert samples[0]["attention_mask"].all()
    hidden = [int((sample["attention_mask"] == 0).sum()) for sample in samples]
    assert sum(count > 0 for count in hidden) >= 3
    for sample in samples:
        mask = sample["attention_mask"]
        assert (np.diff(mask, axis=1) <= 0).all(), "padding is at the end"
        assert (mask.sum(axis=1) >= 1).all()
        assert (sample["input_ids"][mask == 0] == 0).all()


def test_dynamic_dimensions_get_several_lengths_and_one_batch_of_two(tmp_path):
    feeds, samples = made(tmp_path, encoder())
    assert {sample["input_ids"].shape[1] for sample in samples} >= {128, 32, 17}
    assert sum(sample["input_ids"].shape[0] == 2 for sample in samples) == 1
    assert "dimension seq is 128, 32, 17" in about(feeds, "")


def test_the_same_seed_gives_the_same_feeds_and_another_gives_others(tmp_path):
    first, _ = made(tmp_path, encoder(), seed=0)
    again, _ = made(tmp_path, encoder(), seed=0)
    other, _ = made(tmp_path, encoder(), seed=1)
    assert first.digest == again.digest != other.digest
    assert first.origin == "synthesized"


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
    assert "left out, because the model refuses it" in about(feeds, "")


def test_positions_stay_in_their_table_without_being_run(tmp_path):
    _, samples = made(tmp_path, decoder(positions=20), checked=False)
    assert max(int(sample["position_ids"].max()) for sample in samples) == 19
    assert max(sample["attention_mask"].shape[1] for sample in samples) == 20


def length_limited(most: int):
    """A table of positions that the graph indexes by itself: longer sequences fail."""
    nodes = [
        helper.make_node("Shape", ["ids"], ["shape"]),
        helper.make_node("Gather", ["shape", "one"], ["length"]),
        helper.make_node("Range", ["zero", "length", "one"], ["places"]),
        helper.make_node("Gather", ["table", "places"], ["place"]),
        helper.make_node("Gather", ["words", "ids"], ["word"]),
        helper.make_node("Add", ["word", "place"], ["y"]),
    ]
    tables = [
        constant("table", np.zeros((most, 4), np.float32)),
        constant("words", np.zeros((9, 4), np.float32)),
        constant("one", np.array(1)),
        constant("zero", np.array(0)),
    ]
    return build(nodes, [value("ids", INT64, ["b", "s"])], [value("y", FLOAT, None)], tables)


@pytest.mark.parametrize("most", [100, 20, 3])
def test_a_hidden_limit_of_the_length_is_found_by_running(tmp_path, most):
    _, samples = made(tmp_path, length_limited(most))
    longest = max(sample["ids"].shape[1] for sample in samples)
    assert most // 2 <= longest <= most


def test_hidden_equal_dimensions_are_found_by_running(tmp_path):
    nodes = [helper.make_node("MatMul", ["a", "b"], ["product"]), helper.make_node("Det", ["product"], ["y"])]
    model = build(nodes, [value("a", FLOAT, ["p", "q"]), value("b", FLOAT, ["r", "s"])], [value("y", FLOAT, None)])
    _, samples = made(tmp_path, model)
    assert samples[0]["a"].shape[1] == samples[0]["b"].shape[0]


def test_a_width_is_read_off_the_weight_that_an_unnamed_dimension_meets(tmp_path):
    nodes = [helper.make_node("Transpose", ["w"], ["wt"], perm=[1, 0]), helper.make_node("MatMul", ["x", "wt"], ["y"])]
    weight = constant("w", np.ones((3, 11), np.float32))
    _, samples = made(
        tmp_path, build(nodes, [value("x", FLOAT, [None, None])], [value("y", FLOAT, None)], [weight]), checked=False
    )
    assert samples[0]["x"].shape == (1, 11)


@pytest.mark.parametrize(("dtype", "numpy_type"), [(FLOAT, np.float32), (TensorProto.FLOAT16, np.float16)])
def test_images_of_dynamic_size(tmp_path, dtype, numpy_type):
    _, samples = made(tmp_path, image(dtype))
    assert samples[0]["pixels"].shape == (1, 3, 224, 224)
    assert samples[0]["pixels"].dtype == numpy_type
    assert len({sample["pixels"].shape[2:] for sample in samples}) > 1
    assert 0.9 < float(samples[0]["pixels"].astype(np.float32).std()) < 1.1


def test_audio_features_and_a_fixed_batch(tmp_path):
    node = helper.make_node("ReduceMean", ["input_features"], ["y"])
    model = build([node], [value("input_features", FLOAT, [1, 80, "frames"])], [value("y", FLOAT, None)])
    _, samples = made(tmp_path, model)
    assert {sample["input_features"].shape for sample in samples} == {(1, 80, 3000)}


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


def test_ids_are_followed_through_offsets_branches_and_functions(tmp_path):
    branch = helper.make_graph(
        [helper.make_node("Gather", ["words", "shifted"], ["word"])], "then", [], [value("word", FLOAT, None)]
    )
    other = helper.make_graph(
        [helper.make_node("Gather", ["words", "zeros"], ["none"])], "else", [], [value("none", FLOAT, None)]
    )
    lookup = helper.make_function(
        "local",
        "Shift",
        ["x"],
        ["z"],
        [helper.make_node("Constant", [], ["c"], value_int=5), helper.make_node("Add", ["x", "c"], ["z"])],
        [helper.make_opsetid("", 17)],
    )
    nodes = [
        helper.make_node("Shift", ["tokens"], ["shifted"], domain="local"),
        helper.make_node("Mul", ["tokens", "zero"], ["zeros"]),
        helper.make_node("If", ["use_cache_branch"], ["y"], then_branch=branch, else_branch=other),
    ]
    inputs = [value("tokens", INT64, [1, 4]), value("use_cache_branch", BOOL, [1])]
    tables = [constant("words", np.ones((20, 3), np.float32)), constant("zero", np.array(0))]
    model = build(nodes, inputs, [value("y", FLOAT, None)], tables, domains=("local",), functions=[lookup])
    feeds, samples = made(tmp_path, model, samples=20)
    assert max(int(sample["tokens"].max()) for sample in samples) < 15
    assert "15 rows" in about(feeds, "tokens")


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


def test_bfloat16_is_made_and_kept(tmp_path):
    node = helper.make_node("Identity", ["x"], ["y"])
    model = write(
        build([node], [value("x", TensorProto.BFLOAT16, ["batch", 4])], [value("y", TensorProto.BFLOAT16, None)]),
        tmp_path / "m.onnx",
    )
    feeds = synthesize_feeds(model, tmp_path / "feeds", 0)
    assert feeds.sample(0)["x"].dtype == ml_dtypes.bfloat16
    assert float(feeds.sample(0)["x"].astype(np.float32).std()) > 0.1


def test_strings_are_refused_with_a_way_out(tmp_path):
    node = helper.make_node("Identity", ["text"], ["y"])
    info = value("text", TensorProto.STRING, [1])
    model = write(build([node], [info], [value("y", TensorProto.STRING, [1])]), tmp_path / "m.onnx")
    with pytest.raises(OptimError) as caught:
        synthesize_feeds(model, tmp_path / "feeds", 0)
    assert caught.value.reference == "feeds-not-found"
    assert "'text'" in caught.value.what
    assert "--data" in caught.value.fix


def test_a_model_that_refuses_everything_asks_for_data(tmp_path):
    model = write(encoder(), tmp_path / "m.onnx")
    tried = itertools.count()

    def refuse(feeds):
        next(tried)
        raise RuntimeError(f"no: {feeds['input_ids'].shape}")

    with pytest.raises(OptimError) as caught:
        synthesize_feeds(model, tmp_path / "feeds", 0, check=refuse)
    assert caught.value.reference == "feeds-not-found"
    assert "no: (1, 128)" in caught.value.cause
    assert "--data" in caught.value.fix
    assert 40 < next(tried) < 150
    assert not (tmp_path / "feeds").exists()


def test_samples_whose_outputs_are_nan_are_left_out(tmp_path):
    model = write(encoder(), tmp_path / "m.onnx")

    def run(feeds):
        return {"y": np.array([np.nan if not feeds["attention_mask"].all() else 1.0])}

    feeds = synthesize_feeds(model, tmp_path / "feeds", 0, check=run)
    assert len(feeds) == 8
    assert all(sample["attention_mask"].all() for sample in feeds.iterate())
    assert "NaN" in about(feeds, "")


def test_a_model_that_always_gives_nan_still_gets_feeds(tmp_path):
    model = write(encoder(), tmp_path / "m.onnx")
    assert len(synthesize_feeds(model, tmp_path / "feeds", 0, check=lambda _: [np.array([np.nan])])) == 8


def test_ctrl_c_in_a_check_is_not_taken_for_a_refusal(tmp_path):
    model = write(encoder(), tmp_path / "m.onnx")

    def interrupt(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        synthesize_feeds(model, tmp_path / "feeds", 0, check=interrupt)


def test_a_model_without_inputs_gets_empty_feeds(tmp_path):
    node = helper.make_node("Constant", [], ["y"], value=constant("y", np.ones(2, np.float32)))
    _, samples = made(tmp_path, build([node], [], [value("y", FLOAT, [2])]))
    assert samples[0] == {}


def test_made_up_inputs_are_no_larger_than_there_is_room_for(tmp_path):
    names = ["a", "b", "c", "d"]
    node = helper.make_node("Relu", ["x"], ["y"])
    model = write(build([node], [value("x", FLOAT, names)], [value("y", FLOAT, names)]), tmp_path / "m.onnx")
    seen = []

    def only_large(feeds):
        seen.append(feeds["x"].nbytes)
        return []

    feeds = synthesize_feeds(model, tmp_path / "feeds", 0, check=only_large)
    assert max(seen) <= 256 << 20
    assert all(sample["x"].nbytes <= 256 << 20 for sample in feeds.iterate())


@pytest.mark.parametrize("checked", [True, False])
def test_fixed_sizes_beyond_the_bound_ask_for_data(tmp_path, checked):
    shape = [127, 127, 127, 127]
    node = helper.make_node("Relu", ["x"], ["y"])
    model = write(build([node], [value("x", FLOAT, shape)], [value("y", FLOAT, shape)]), tmp_path / "m.onnx")
    with pytest.raises(OptimError) as caught:
        synthesize_feeds(model, tmp_path / "feeds", 0, check=(lambda feeds: pytest.fail("made")) if checked else None)
    assert caught.value.reference == "feeds-not-found"
    assert "its inputs would take 992 MiB a sample; at most 256 MiB are made up" in caught.value.cause
    assert "--data" in caught.value.fix


def test_numbers_beside_a_sample_rate_are_a_sound(tmp_path):
    """As silero's detector of voices, which takes 512 numbers at 16 kHz and nothing else."""
    nodes = [
        helper.make_node("Reshape", ["input", "window"], ["frames"]),
        helper.make_node("Cast", ["sr"], ["rate"], to=FLOAT),
        helper.make_node("Div", ["frames", "rate"], ["y"]),
    ]
    inputs = [value("input", FLOAT, ["n", "m"]), value("sr", INT64, [])]
    proto = build(nodes, inputs, [value("y", FLOAT, [1, 512])], [constant("window", np.array([1, 512]))])
    feeds, samples = made(tmp_path, proto)
    assert samples[0]["input"].shape == (1, 512)
    assert "waveform" not in about(feeds, "sr")
    assert "normal noise, sd 0.1" in about(feeds, "input")


def test_a_model_that_needs_more_numbers_than_usual_gets_them(tmp_path):
    node = helper.make_node("Reshape", ["x", "window"], ["y"])
    proto = build(
        [node],
        [value("x", FLOAT, ["n", "m"])],
        [value("y", FLOAT, ["k", 512])],
        [constant("window", np.array([-1, 512]))],
    )
    _, samples = made(tmp_path, proto)
    assert samples[0]["x"].shape == (1, 512)
