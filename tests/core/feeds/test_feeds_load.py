from __future__ import annotations

import shutil
import subprocess
import sys
import tracemalloc
from pathlib import Path

import ml_dtypes
import numpy as np
import onnxruntime
import pytest
from feed_models import FLOAT, INT64, TensorProto, build, constant, encoder, helper, value, write
from given_feeds import load, negation, refused, sample

from optim._engine.feeds import sources as load_module
from optim._engine.feeds.feedset import FeedSet, FeedWriter
from optim._engine.feeds.sources import load_feeds


def test_an_npz_whose_names_are_inputs_is_one_sample(tmp_path, model):
    feeds = load(tmp_path, model)
    assert (len(feeds), feeds.origin, feeds.assumptions) == (1, "given.npz", ())
    given = sample()
    for name, array in feeds.sample(0).items():
        np.testing.assert_array_equal(array, given[name])
        assert array.dtype == given[name].dtype


def test_an_input_with_a_default_may_be_fed_and_left_out(tmp_path):
    node = helper.make_node("Mul", ["x", "scale"], ["y"])
    inputs, default = [value("x", FLOAT, [2]), value("scale", FLOAT, [1])], constant("scale", np.ones(1, np.float32))
    model = write(build([node], inputs, [value("y", FLOAT, [2])], [default]), tmp_path / "m.onnx")
    x, scale = np.ones(2, np.float32), np.full(1, 3, np.float32)
    fed = load(tmp_path, model, {"0/x": x, "0/scale": scale, "1/x": x})
    assert [list(sample) for sample in fed.iterate()] == [["x", "scale"], ["x"]]
    session = onnxruntime.InferenceSession(model.path, providers=["CPUExecutionProvider"])
    assert [session.run(None, sample)[0][0] for sample in fed.iterate()] == [3, 1]
    shutil.rmtree(tmp_path / "feeds")
    assert refused(tmp_path, model, {"x": x, "scale": np.ones(2, np.float32)}).reference == "feeds-shape"
    assert refused(tmp_path, model, {"scale": scale}).reference == "feeds-missing-input"


def test_numbered_samples_come_in_the_order_of_their_numbers(tmp_path, model):
    arrays = {f"{i}/{name}": a for i in (10, 2, 0) for name, a in sample(length=i + 1).items()}
    lengths = [feeds["input_ids"].shape[1] for feeds in load(tmp_path, model, arrays).iterate()]
    assert lengths == [1, 3, 11]


def test_a_folder_is_read_in_the_order_of_its_numbers(tmp_path, model):
    folder = tmp_path / "many"
    folder.mkdir()
    for index in (10, 9, 1):
        np.savez(folder / f"{index}.npz", **sample(length=index))
    feeds = load(tmp_path, model, spec=folder)
    assert [feeds.sample(i)["input_ids"].shape[1] for i in range(3)] == [1, 9, 10]
    assert feeds.origin == "many"


@pytest.mark.parametrize("signature", ["", "seed"])
def test_a_function_in_the_working_folder_gives_samples(tmp_path, model, monkeypatch, signature):
    name = f"my_feeds_{signature or 'plain'}"
    (tmp_path / f"{name}.py").write_text(
        "import numpy as np\n"
        f"def make({signature}):\n"
        f"    for length in (3, {'seed' if signature else 4}):\n"
        "        ids = [[1] * length]\n"
        "        yield {'input_ids': ids, 'attention_mask': np.ones((1, length), 'int64'), 'token_type_ids': ids}\n"
    )
    monkeypatch.chdir(tmp_path)
    before = list(sys.path)
    feeds = load_feeds(f"{name}:make", model, tmp_path / "feeds", seed=7)
    assert [f["input_ids"].shape[1] for f in feeds.iterate()] == [3, 7 if signature else 4]
    assert sys.path[: len(before)] == before  # what is installed is found first


def test_an_endless_function_is_cut_off_and_this_is_said(tmp_path, model, monkeypatch):
    (tmp_path / "endless.py").write_text(
        "import numpy as np\n"
        "def make():\n"
        "    while True:\n"
        "        yield dict.fromkeys(('input_ids', 'attention_mask', 'token_type_ids'), np.ones((1, 2), 'int64'))\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(load_module, "MAX_SAMPLES", 3)
    feeds = load_feeds("endless:make", model, tmp_path / "feeds", seed=0)
    assert len(feeds) == 3
    assert "first 3 samples" in feeds.assumptions[0].text


def test_another_process_opens_the_feeds_by_their_folder(tmp_path, model):
    feeds = load(tmp_path, model, {**sample(), "label": np.array([1])})
    code = (
        "import sys, pathlib; from optim._engine.feeds.feedset import FeedSet;"
        "f = FeedSet.open(pathlib.Path(sys.argv[1]));"
        "print(f.digest, len(f), f.origin, sum(int(s['input_ids'].sum()) for s in f.iterate()), f.sample_labels(0))"
    )
    answer = subprocess.run([sys.executable, "-c", code, str(feeds.folder)], capture_output=True, text=True, check=True)
    assert answer.stdout.split(maxsplit=4) == [feeds.digest, "1", "given.npz", "10", "{'label': array([1])}\n"]


def test_the_digest_is_of_the_content_and_not_of_the_container(tmp_path, model):
    first = load(tmp_path, model)
    folder = tmp_path / "again"
    folder.mkdir()
    np.savez_compressed(folder / "x.npz", **dict(reversed(sample().items())))
    same = load_feeds(str(folder), model, tmp_path / "feeds2", seed=1)
    other = load_feeds(str(tmp_path / "given.npz"), write(encoder(), tmp_path / "e.onnx"), tmp_path / "feeds3", seed=0)
    np.savez(folder / "x.npz", **sample(input_ids=np.array([[0, 1, 2, 3, 5]])))
    changed = load_feeds(str(folder), model, tmp_path / "feeds4", seed=0)
    assert first.digest == same.digest == other.digest
    assert changed.digest != first.digest


def test_loading_again_replaces_the_folder(tmp_path, model):
    load(tmp_path, model, {f"{i}/{name}": a for i in range(3) for name, a in sample().items()})
    assert len(load(tmp_path, model)) == 1
    assert len(list((tmp_path / "feeds").glob("*.npz"))) == 1


def test_a_sample_at_a_time_is_in_memory(tmp_path):
    with FeedWriter(tmp_path / "big") as writer:
        for index in range(20):
            writer.add({"x": np.full((1 << 20,), index, np.float32)})
        feeds = writer.finish("test", ())
    tracemalloc.start()
    total = sum(float(sample["x"][0]) for sample in feeds.iterate())
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert total == sum(range(20))
    assert peak < 3 * 4 * (1 << 20)


def test_an_interrupted_write_leaves_nothing(tmp_path):
    with pytest.raises(KeyboardInterrupt), FeedWriter(tmp_path / "feeds") as writer:
        writer.add({"x": np.zeros(3)})
        raise KeyboardInterrupt
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, np.float16, np.bool_, np.uint8])
def test_types_that_numpy_files_cannot_name_come_back_as_they_were(tmp_path, dtype):
    array = np.array([0, 1, 1], dtype=dtype)
    with FeedWriter(tmp_path / "feeds") as writer:
        writer.add({"file": array, "a/b.c": np.array(3, dtype=dtype)})
        feeds = writer.finish("test", ())
    back = FeedSet.open(feeds.folder).sample(0)
    assert back["file"].dtype == dtype
    assert back["a/b.c"].shape == ()
    np.testing.assert_array_equal(back["file"].astype(np.float32), array.astype(np.float32))


def test_arrays_called_label_are_kept_apart_from_the_feeds(tmp_path, model):
    feeds = load(tmp_path, model, {**sample(), "label_class": np.array([3])})
    assert feeds.labels == ("label_class",)
    assert set(feeds.sample(0)) == set(sample())
    np.testing.assert_array_equal(feeds.sample_labels(0)["label_class"], [3])


def test_an_input_called_labels_is_an_input(tmp_path):
    model = write(
        build([helper.make_node("Neg", ["labels"], ["y"])], [value("labels", FLOAT, [2])], [value("y", FLOAT, [2])]),
        tmp_path / "m.onnx",
    )
    feeds = load(tmp_path, model, {"labels": np.ones(2, np.float32)})
    assert feeds.labels == ()
    assert "labels" in feeds.sample(0)


def test_values_that_lose_nothing_are_converted_and_this_is_said(tmp_path, model):
    feeds = load(tmp_path, model, sample(input_ids=np.arange(5, dtype=np.int32)[None]))
    assert feeds.sample(0)["input_ids"].dtype == np.int64
    (note,) = feeds.assumptions
    assert (note.input, note.text) == ("input_ids", "given as int32, fed as int64")


def test_float64_is_taken_for_float32_and_big_endian_for_native(tmp_path):
    model = negation(tmp_path)
    feeds = load(tmp_path, model, {"x": np.array([1.5, 2], ">f8")})
    assert feeds.sample(0)["x"].dtype == np.dtype("float32")
    np.testing.assert_array_equal(feeds.sample(0)["x"], [1.5, 2])
    assert "float64" in feeds.assumptions[0].text


def test_strings_can_be_given(tmp_path):
    info = value("text", TensorProto.STRING, ["batch"])
    node = helper.make_node("Identity", ["text"], ["y"])
    model = write(build([node], [info], [value("y", TensorProto.STRING, ["batch"])]), Path(tmp_path / "m.onnx"))
    feeds = load(tmp_path, model, {"text": np.array(["a", "bc"])})
    assert feeds.sample(0)["text"].tolist() == ["a", "bc"]


def test_a_dimension_of_minus_one_is_not_fixed(tmp_path):
    node = helper.make_node("Identity", ["x"], ["y"])
    model = write(build([node], [value("x", INT64, [-1])], [value("y", INT64, [-1])]), tmp_path / "m.onnx")
    assert load(tmp_path, model, {"x": np.arange(4)}).sample(0)["x"].shape == (4,)


def test_texts_that_a_runtime_gives_as_objects_are_kept_and_digested_by_their_letters(tmp_path):
    digests = set()
    for number in range(2):
        with FeedWriter(tmp_path / str(number)) as writer:
            writer.add({"labels": np.array([["se" + "ven"], ["grün"]], dtype=object)})
            kept = writer.finish("outputs", ())
        assert kept.sample(0)["labels"].tolist() == [["seven"], ["grün"]]
        digests.add(kept.digest)
    assert len(digests) == 1
