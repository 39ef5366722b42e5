from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest
from feed_models import BOOL, FLOAT, INT64, build, constant, decoder, encoder, helper, image, value, write
from made_feeds import about, made
from onnx import TensorProto

from optim._engine.feeds.synthesize import synthesize_feeds
from optim.errors import OptimError


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
    assert len(synthesize_feeds(model, tmp_path / "feeds", 0, check=lambda _: {"y": np.array([np.nan])})) == 8


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
        return {}

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
    assert "its inputs would take 992 MiB a sample; at most 256 MiB are synthesized" in caught.value.cause
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


def test_a_sequence_that_is_a_sound_may_be_longer_than_text(tmp_path):
    node = helper.make_node("Pad", ["x", "pads"], ["y"], mode="reflect")
    inputs, outputs = [value("x", FLOAT, ["batch", "sequence"])], [value("y", FLOAT, None)]
    proto = build([node], inputs, outputs, [constant("pads", np.array([0, 300, 0, 0]))])
    _, samples = made(tmp_path, proto)
    assert samples[0]["x"].shape == (1, 512)


@pytest.mark.parametrize(
    ("kind", "said", "most"),
    [
        (TensorProto.UINT8, "random whole numbers from 0 to 255", 255),
        (TensorProto.INT32, "ones for a single number, else random zeros and ones", 1),
    ],
)
def test_whole_numbers_that_nothing_tells_of_are_said_to_be_guessed(tmp_path, kind, said, most):
    nodes = [helper.make_node("Cast", ["bytes"], ["f"], to=FLOAT), helper.make_node("MatMul", ["f", "w"], ["y"])]
    weight = constant("w", np.ones((300, 2), np.float32))
    feeds, samples = made(
        tmp_path, build(nodes, [value("bytes", kind, [None, 300])], [value("y", FLOAT, None)], [weight])
    )
    assert about(feeds, "bytes") == said
    assert [one.input for one in feeds.assumptions if one.guessed] == ["bytes"]
    assert {0, most} <= {int(sample["bytes"].min()) for sample in samples} | {
        int(sample["bytes"].max()) for sample in samples
    }
    (note,) = feeds.notes
    assert note.endswith(f"your data may differ: 'bytes' is {said}")


def test_sizes_of_pictures_that_are_not_fixed_are_said_to_be_guessed(tmp_path):
    feeds, _ = made(tmp_path, image(FLOAT))
    (note,) = feeds.notes
    assert "your data may differ: dimension pixels[2] is 224, 192; dimension pixels[3] is 224, 256" in note


def test_what_the_graph_tells_of_is_not_said_to_be_guessed(tmp_path):
    feeds, _ = made(tmp_path, encoder())
    assert feeds.notes == ()
