from __future__ import annotations

import subprocess
import sys
import tracemalloc
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from feed_models import FLOAT, INT64, TensorProto, build, decoder, encoder, helper, value, write

from optim._engine.feeds import load as load_module
from optim._engine.feeds.feedset import FeedSet, FeedWriter
from optim._engine.feeds.load import load_feeds
from optim.errors import OptimError


@pytest.fixture
def model(tmp_path):
    return write(encoder(), tmp_path / "encoder.onnx")


def sample(length=5, batch=1, **changed):
    arrays = {
        "input_ids": np.arange(batch * length).reshape(batch, length),
        "attention_mask": np.ones((batch, length), np.int64),
        "token_type_ids": np.zeros((batch, length), np.int64),
    }
    return {name: array for name, array in {**arrays, **changed}.items() if array is not None}


def load(tmp_path, model, arrays=None, spec=None):
    if spec is None:
        spec = tmp_path / "given.npz"
        np.savez(spec, **(sample() if arrays is None else arrays))
    return load_feeds(str(spec), model, tmp_path / "feeds", seed=0)


def refused(tmp_path, model, arrays=None, spec=None) -> OptimError:
    with pytest.raises(OptimError) as caught:
        load(tmp_path, model, arrays, spec)
    assert caught.value.cause
    assert caught.value.fix
    assert not (tmp_path / "feeds").exists()
    assert not list(tmp_path.glob(".feeds*"))
    return caught.value


def test_an_npz_whose_names_are_inputs_is_one_sample(tmp_path, model):
    feeds = load(tmp_path, model)
    assert (len(feeds), feeds.origin, feeds.assumptions) == (1, "given.npz", ())
    given = sample()
    for name, array in feeds.sample(0).items():
        np.testing.assert_array_equal(array, given[name])
        assert array.dtype == given[name].dtype


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


@pytest.mark.parametrize(
    ("body", "reference"),
    [
        ("def make(): raise RuntimeError('no such file')", "feeds-function-failed"),
        ("def make(): return [1, 2]", "feeds-function-failed"),
        ("def make(): return []", "feeds-empty"),
        ("def other(): return []", "feeds-missing"),
        ("make = 3", "feeds-missing"),
        ("import no_such_module_anywhere", "feeds-missing"),
    ],
)
def test_a_function_that_gives_no_samples_is_one_clear_error(tmp_path, model, monkeypatch, body, reference):
    name = f"bad_feeds_{abs(hash(body))}"
    (tmp_path / f"{name}.py").write_text(body)
    monkeypatch.chdir(tmp_path)
    assert refused(tmp_path, model, spec=f"{name}:make").reference == reference


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


def negation(tmp_path):
    node = helper.make_node("Neg", ["x"], ["y"])
    return write(build([node], [value("x", FLOAT, [2])], [value("y", FLOAT, [2])]), tmp_path / "m.onnx")


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint64, np.bool_])
def test_other_types_are_refused_with_the_conversion_to_write(tmp_path, model, dtype):
    error = refused(tmp_path, model, sample(input_ids=np.ones((1, 5), dtype)))
    assert error.reference == "feeds-dtype"
    assert "input_ids" in error.what
    assert "astype('int64')" in error.fix


def test_a_misspelt_input_names_the_near_one(tmp_path, model):
    error = refused(tmp_path, model, sample(input_ids=None, input_id=np.ones((1, 5), np.int64)))
    assert error.reference == "feeds-unknown-input"
    assert "input_ids" in error.cause


def test_a_missing_input_is_named(tmp_path, model):
    error = refused(tmp_path, model, sample(token_type_ids=None))
    assert error.reference == "feeds-missing-input"
    assert "token_type_ids" in error.cause


def test_a_wrong_rank_is_refused(tmp_path, model):
    error = refused(tmp_path, model, sample(input_ids=np.arange(5)))
    assert error.reference == "feeds-shape"
    assert "batch dimension" in error.fix


def test_a_wrong_fixed_size_is_refused(tmp_path):
    model = write(decoder(), tmp_path / "decoder.onnx")
    past = np.zeros((1, 1, 4, 9), np.float32)
    arrays = {"input_ids": [[1]], "attention_mask": [[1] * 5], "position_ids": [[4]]}
    arrays |= {"past_key_values.0.key": past, "past_key_values.0.value": past}
    error = refused(tmp_path, model, arrays)
    assert error.reference == "feeds-shape"
    assert "dimension 3" in error.cause


def test_one_dimension_cannot_have_two_sizes_in_a_sample(tmp_path, model):
    error = refused(tmp_path, model, sample(attention_mask=np.ones((1, 4), np.int64)))
    assert error.reference == "feeds-inconsistent"
    assert "'seq'" in error.what
    assert "input_ids" in error.cause
    assert "attention_mask" in error.cause


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_nan_and_infinity_are_refused(tmp_path, bad):
    model = negation(tmp_path)
    error = refused(tmp_path, model, {"x": np.array([1, bad], np.float32)})
    assert error.reference == "feeds-not-finite"
    assert "'x' has 1" in error.what


def test_nan_in_bfloat16_is_seen_too(tmp_path):
    info = value("x", TensorProto.BFLOAT16, [2])
    model = write(
        build([helper.make_node("Identity", ["x"], ["y"])], [info], [value("y", TensorProto.BFLOAT16, [2])]),
        tmp_path / "m.onnx",
    )
    assert load(tmp_path, model, {"x": np.array([1, 2], ml_dtypes.bfloat16)}).sample(0)["x"].dtype == ml_dtypes.bfloat16
    (tmp_path / "feeds" / "feeds.json").unlink()
    for file in (tmp_path / "feeds").iterdir():
        file.unlink()
    (tmp_path / "feeds").rmdir()
    assert refused(tmp_path, model, {"x": np.array([1, np.nan], ml_dtypes.bfloat16)}).reference == "feeds-not-finite"


def test_ids_past_the_embedding_table_are_refused(tmp_path, model):
    error = refused(tmp_path, model, sample(input_ids=np.array([[0, 1, 2, 3, 200]])))
    assert error.reference == "feeds-out-of-range"
    assert "200 rows" in error.cause


def test_a_later_bad_sample_is_named(tmp_path, model):
    arrays = {f"{i}/{name}": a for i in range(2) for name, a in sample().items()}
    arrays["1/input_ids"] = np.full((1, 5), 10_000)
    assert "sample 1" in refused(tmp_path, model, arrays).what


def test_a_pickled_array_is_not_read(tmp_path, model):
    error = refused(tmp_path, model, sample(input_ids=np.array([[print]], dtype=object)))
    assert error.reference == "feeds-pickled"


@pytest.mark.parametrize("content", [b"", b"no zip at all", None])
def test_a_corrupt_file_is_one_clear_error(tmp_path, model, content):
    path = tmp_path / "bad.npz"
    if content is None:
        np.savez(path, **sample(length=2000))
        data = bytearray(path.read_bytes())
        data[1000:1100] = b"\xff" * 100
        content = bytes(data)
    path.write_bytes(content)
    assert refused(tmp_path, model, spec=path).reference == "feeds-unreadable"


def test_a_truncated_file_is_one_clear_error(tmp_path, model):
    path = tmp_path / "cut.npz"
    np.savez(path, **sample())
    path.write_bytes(path.read_bytes()[:-40])
    assert refused(tmp_path, model, spec=path).reference == "feeds-unreadable"


def test_an_npy_file_is_refused(tmp_path, model):
    np.save(tmp_path / "one.npy", np.zeros(3))
    assert refused(tmp_path, model, spec=tmp_path / "one.npy").reference == "feeds-unreadable"


def test_a_missing_file_lists_what_is_there(tmp_path, model):
    np.savez(tmp_path / "calibration.npz", **sample())
    error = refused(tmp_path, model, spec=tmp_path / "calib.npz")
    assert error.reference == "feeds-missing"
    assert "calibration.npz" in error.cause


def test_nothing_to_feed_is_an_error(tmp_path, model):
    (tmp_path / "empty").mkdir()
    assert refused(tmp_path, model, spec=tmp_path / "empty").reference == "feeds-empty"
    assert refused(tmp_path, model, {}).reference == "feeds-missing-input"


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
