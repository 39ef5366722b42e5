"""A past in integers: what a decoder computes with it, how it is found, and how it is compared."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from ort_models import CPU, apply, export, feeds_for, run

from optim import Model, PassResult
from optim._engine.plugins.registry import load_registry
from optim._engine.search.plan import make_plan
from optim._engine.search.settings import RunSettings
from optim.cli_kit import write_model
from optim.onnx import open_session
from optim_plugins.goals.decoders.decoder import SessionDecoder
from optim_plugins.goals.decoders.steps import GrowingSteps
from optim_plugins.ort.fuse.past.share_past import SharePast
from optim_plugins.ort.measure import captured_values
from optim_plugins.ort.quantize.past import stored_past
from optim_plugins.ort.quantize.past.past_scales import Extremes, find_pasts, rotation_of
from optim_plugins.ort.quantize.past.quantize_past import QuantizePast

NAMES = ("gpt2.dynamo", "llama.dynamo")


def _shared(name: str, folder: Path) -> Model:
    return apply(SharePast, export(name, folder), folder).model


def _quantized(model: Model, name: str, folder: Path, **options: object) -> PassResult:
    samples = [feeds_for(name, sequence=count, past=4, batch=1) for count in (9, 1)]
    return apply(QuantizePast, model, folder, samples, **options)


def _distances(model: Model, result: PassResult, feeds: dict[str, np.ndarray]) -> dict[str, float]:
    """Relative distance of each output, with the feeds and the outputs that the pass's interface makes."""
    assert result.interface is not None
    expected = run(model, feeds)
    made = run(result.model, stored_past.integers_of(feeds, **result.interface.parameters))
    back = stored_past.floats_of(made, **result.interface.parameters)
    return {name: float(np.linalg.norm(back[name] - array) / np.linalg.norm(array)) for name, array in expected.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(("bits", "most"), [(8, 0.015), (4, 0.25)])
def test_it_computes_with_a_past_of_few_bits(name: str, bits: int, most: float, tmp_path: Path) -> None:
    model = _shared(name, tmp_path)
    result = _quantized(model, name, tmp_path, bits=bits)
    assert result.counts == {"pasts quantized": 4, "left in float": 0}
    pasts = [one for one in result.model.inputs if one.name.startswith("past_")]
    assert {one.dtype for one in pasts} == {"int8" if bits == 8 else "uint8"}
    assert {one.shape[-1] for one in pasts if one.shape} == {16 * bits // 8}
    found = _distances(model, result, feeds_for(name, sequence=1, past=4, batch=1))
    assert max(found.values()) < most
    assert max(found.values()) > most / 100  # something was rounded


@pytest.mark.parametrize("bits", [8, 4])
def test_it_generates_in_buffers_of_integers(bits: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = _shared("llama.dynamo", tmp_path)
    small = _quantized(model, "llama.dynamo", tmp_path, bits=bits).model
    decoder, ids = _decoder(small), np.array([[5, 6, 7, 8, 9, 10, 11]])
    steps, expected, mask = GrowingSteps(decoder.session, decoder.interface, 1, {}), [], np.ones_like(ids)
    for _ in range(4):
        fed = ids if not expected else np.array([[expected[-1]]])
        expected.append(int(steps.advance(fed, mask)[0, -1].argmax()))
        mask = np.ones((1, mask.shape[1] + 1), np.int64)
    assert decoder.generate(ids, max_new_tokens=4)[0].tolist() == expected
    assert list(_load_py(small, tmp_path / "out", monkeypatch).generate(ids[0], max_new_tokens=4)) == expected
    shapes = [_decoder(one).interface.buffers(1, 10)["past_key_values.0.key"] for one in (model, small)]
    assert shapes[1][-1] * 8 == shapes[0][-1] * bits


def test_scales_hold_for_keys_at_any_position() -> None:
    rng = np.random.default_rng(0)
    keys = rng.standard_normal((1, 1, 20, 8)).astype(np.float32)
    angles = np.arange(4) + 1.0
    turned = np.concatenate([_turn(keys, angle * angles) for angle in np.linspace(0, 7, 500)], axis=2)
    other = np.array([4, 5, 6, 7, 0, 1, 2, 3])
    known, unknown, plain = Extremes(other), Extremes(np.zeros(0, np.int64)), Extremes(None)
    for one in (known, unknown, plain):
        one.see(keys)
    largest = np.abs(turned).max(axis=(0, 2)) / 127
    assert (known.scales(8) >= largest * 0.999).all() and (known.scales(8) <= largest * 1.01).all()
    assert (unknown.scales(8) >= largest * 0.999).all()
    assert (plain.scales(8) < largest * 0.999).any()


def test_keys_are_known_to_be_rotated_or_not(tmp_path: Path) -> None:
    rotations = {name: rotation_of(next(find_pasts(_shared(name, tmp_path).ir())), 16) for name in NAMES}
    assert rotations["gpt2.dynamo"] is None
    assert rotations["llama.dynamo"].tolist() == [*range(8, 16), *range(8)]


@pytest.mark.parametrize("bits", [8, 4])
def test_what_is_stored_comes_back(bits: int) -> None:
    scales = {"past": [[0.5] * 4, [0.25] * 4]}
    numbers = np.array([-3, 0, 1, 2.0], np.float32) * np.array(scales["past"], np.float32)[None, :, None]
    stored = stored_past.integers_of({"past": numbers, "ids": np.zeros(1)}, scales, {}, bits)
    assert np.array_equal(stored_past.floats_of(stored, {}, scales, bits)["past"], numbers)
    beyond = stored_past.integers_of({"past": numbers * 1000}, scales, {}, bits)
    assert stored_past.floats_of(beyond, {}, scales, bits)["past"].min() == -(1 << (bits - 1)) * 0.5


def test_what_is_kept_stays_in_float(tmp_path: Path) -> None:
    model = _shared("llama.dynamo", tmp_path)
    names = QuantizePast().keepable(model, None)
    result = _quantized(model, "llama.dynamo", tmp_path, keep=(names[0], "nobody"))
    kinds = {one.name: one.dtype for one in result.model.inputs}
    assert kinds["past_key_values.0.key"] == "float32" and kinds["past_key_values.1.key"] == "int8"
    assert result.notes == ("keep names no attention with a past: nobody",)
    assert not _quantized(model, "llama.dynamo", tmp_path, keep=tuple(names)).changed


def test_without_samples_or_a_shared_past_it_says_so(tmp_path: Path) -> None:
    model = _shared("llama.dynamo", tmp_path)
    assert "no sample shows" in apply(QuantizePast, model, tmp_path).notes[0]
    refused = QuantizePast().applicable(export("llama.dynamo", tmp_path), CPU)
    assert not refused and "ort.share-past" in refused.reason
    assert not QuantizePast().applicable(_quantized(model, "llama.dynamo", tmp_path).model, CPU)


def test_it_is_tried_where_answers_are_the_goal(tmp_path: Path) -> None:
    settings, registry = RunSettings(tmp_path / "model.onnx", goal="generate"), load_registry(only={"goals", "ort"})
    names = make_plan(settings, registry, CPU).names
    assert names.index("ort.quantize-past") > names.index("ort.quantize-weights")
    assert "ort.quantize-past" not in make_plan(RunSettings(tmp_path / "model.onnx"), registry, CPU).names


def _turn(keys: np.ndarray, angles: np.ndarray) -> np.ndarray:
    low, high = keys[..., :4], keys[..., 4:]
    cosine, sine = np.cos(angles), np.sin(angles)
    return np.concatenate([low * cosine - high * sine, high * cosine + low * sine], -1).astype(np.float32)


def _load_py(model: Model, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The module ``load.py`` of a run folder."""
    write_model(model, folder, CPU)
    spec = importlib.util.spec_from_file_location("loaded", folder / "load.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)  # where dataclasses look for their module
    spec.loader.exec_module(module)
    return module


def _decoder(model: Model) -> SessionDecoder:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    session = ort.InferenceSession(str(model.path), options, providers=["CPUExecutionProvider"])
    return SessionDecoder(session, {"eos": [], "pad": 0})


def test_samples_are_run_with_weights_where_they_are_mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = []

    def opened(*arguments: object, **options: object) -> object:
        given.append(options["extra_config"])
        return open_session(*arguments, **options)

    model = _shared("llama.dynamo", tmp_path)
    monkeypatch.setattr(captured_values, "open_session", opened)
    assert _quantized(model, "llama.dynamo", tmp_path).changed
    assert given == [{"session.disable_prepacking": "1"}]
