"""Feeds of the user that cannot be used: each refused with one clear error, and nothing is left behind."""

from __future__ import annotations

import os

import ml_dtypes
import numpy as np
import pytest
from feed_models import TensorProto, build, decoder, helper, value, write
from given_feeds import load, negation, refused, sample

from optim._engine.feeds.fitting import fit_sample
from optim._engine.feeds.sources import read_samples
from optim.errors import OptimError
from optim.model import TensorInfo


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


@pytest.mark.parametrize("wanted", [TensorProto.FLOAT16, TensorProto.INT16])
def test_bytes_of_bfloat16_are_no_other_type_of_that_size(tmp_path, wanted):
    inputs, outputs = [value("x", wanted, [2])], [value("y", wanted, [2])]
    model = write(build([helper.make_node("Identity", ["x"], ["y"])], inputs, outputs), tmp_path / "m.onnx")
    error = refused(tmp_path, model, {"x": np.array([1, 2], ml_dtypes.bfloat16)})
    assert error.reference == "feeds-dtype"
    assert "such as bfloat16" in error.cause


def test_floats_are_fed_as_bfloat16_where_each_has_a_value_in_it():
    info = TensorInfo("x", "bfloat16", (2,))
    fitted = fit_sample({"x": np.array([1.5, -2], np.float32)}, [info], "x.npz")
    assert fitted.feeds["x"].dtype == ml_dtypes.bfloat16
    assert fitted.notes[0].text == "given as float32, fed as bfloat16"
    with pytest.raises(OptimError, match="feeds-dtype"):
        fit_sample({"x": np.array([1.001, -2], np.float32)}, [info], "x.npz")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes here")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "feeds.npz")
    with pytest.raises(OptimError, match="feeds-unreadable") as caught:
        list(read_samples(str(tmp_path / "feeds.npz"), 0))
    assert "a pipe" in caught.value.cause


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
