"""Folders of sentence-transformers: pooling, products and lengths of 1 are in the graph."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime as ort
import pytest
from exporting import export
from tiny_models import build, save

from optim import OptimError
from optim._engine.sources.naming import graph_of, needs_export

TOKENS = [[[1.0, -2.0], [3.0, 4.0], [100.0, 100.0]], [[9.0, 9.0], [5.0, 6.0], [7.0, -8.0]]]
MASK = [[1, 1, 0], [0, 1, 1]]


def sentence_parts(folder: Path) -> Any:
    """What stands behind the encoder; torch is imported here, and not where tests are collected."""
    from optim_plugins.torch.sources.huggingface import sentence_encoder

    return sentence_encoder.sentence_parts(folder)


def sentences(folder: Path, *, modes: dict[str, Any], dense: int = 0, normalize: bool = False) -> Path:
    """A tiny BERT with what sentence-transformers puts behind it."""
    import torch
    from safetensors.torch import save_file

    save("bert", folder)
    width = json.loads((folder / "config.json").read_text())["hidden_size"]
    parts = [("", "Transformer"), ("1_Pooling", "Pooling")]
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": width, **modes}))
    if dense:
        parts.append(("2_Dense", "Dense"))
        (folder / "2_Dense").mkdir()
        said = {"in_features": width, "out_features": dense, "activation_function": "torch.nn.modules.activation.Tanh"}
        (folder / "2_Dense" / "config.json").write_text(json.dumps(said))
        weights = {"linear.weight": torch.full((dense, width), 0.1), "linear.bias": torch.arange(float(dense))}
        save_file(weights, folder / "2_Dense" / "model.safetensors")
    if normalize:
        parts.append(("3_Normalize", "Normalize"))
    kinds = [
        {"idx": place, "name": str(place), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for place, (path, kind) in enumerate(parts)
    ]
    (folder / "modules.json").write_text(json.dumps(kinds))
    return folder


@pytest.mark.slow
def test_the_graph_gives_the_embedding_of_a_sentence(tmp_path: Path) -> None:
    import torch

    folder = sentences(tmp_path / "source", modes={"pooling_mode_mean_tokens": True}, dense=5, normalize=True)
    found = export(folder, tmp_path)
    graph = found.graphs["model"].model
    assert [output.name for output in graph.outputs] == ["sentence_embedding"]
    assert found.verified["model"].drift.relative_error < 1e-4
    ids = np.array([[5, 6, 7, 8], [9, 10, 0, 0]])
    mask = np.array([[1, 1, 1, 1], [1, 1, 0, 0]])
    feeds = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
    (got,) = ort.InferenceSession(graph.path).run(None, feeds)
    with torch.inference_mode():
        named = {name: torch.from_numpy(array) for name, array in feeds.items()}
        tokens = build("bert")(**named).last_hidden_state.numpy()
    pooled = (tokens * mask[..., None]).sum(1) / mask.sum(1, keepdims=True)
    dense = np.tanh(pooled @ np.full((tokens.shape[-1], 5), 0.1) + np.arange(5))
    np.testing.assert_allclose(got, dense / np.linalg.norm(dense, axis=1, keepdims=True), atol=1e-5)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ("mean", [[2, 1], [6, -1]]),
        ("cls", [[1, -2], [5, 6]]),
        ("max", [[3, 4], [7, 6]]),
        ("lasttoken", [[3, 4], [7, -8]]),
        ("mean_sqrt_len_tokens", [[4 / 2**0.5, 2 / 2**0.5], [12 / 2**0.5, -2 / 2**0.5]]),
        ("weightedmean", [[7 / 3, 2], [19 / 3, -10 / 3]]),
    ],
)
def test_what_the_mask_hides_counts_nowhere(mode: str, expected: list[list[float]]) -> None:
    import torch

    from optim_plugins.torch.sources.huggingface.sentence_encoder import Pooling

    pooled = Pooling([mode])(torch.tensor(TOKENS), torch.tensor(MASK))
    torch.testing.assert_close(pooled, torch.tensor(expected, dtype=torch.float32))


def test_several_modes_stand_side_by_side(tmp_path: Path) -> None:
    modes = {"pooling_mode_max_tokens": True, "pooling_mode_cls_token": True}
    parts = sentence_parts(sentences(tmp_path / "source", modes=modes))
    assert parts is not None and parts.after[0].modes == ("cls", "max")
    assert sentence_parts(save("bert", tmp_path / "plain")) is None
    newer = sentence_parts(sentences(tmp_path / "newer", modes={"pooling_mode": "lasttoken"}))
    assert newer is not None and newer.after[0].modes == ("lasttoken",)


@pytest.mark.parametrize(
    ("file", "text", "reference"),
    [
        ("modules.json", "[", "source-config-unreadable"),
        ("modules.json", '[{"type": "x.WordEmbeddings", "path": ""}]', "source-unknown-module"),
        ("modules.json", '[{"type": "x.Transformer", "path": "../.."}]', "source-unknown-module"),
        ("1_Pooling/config.json", '{"pooling_mode": "attention"}', "source-unknown-module"),
        ("1_Pooling/config.json", "{}", "source-unknown-module"),
        ("2_Dense/config.json", '{"activation_function": "my.Own"}', "source-unknown-module"),
        ("2_Dense/config.json", '{"in_features": 3, "out_features": 2}', "source-config-unreadable"),
    ],
)
def test_what_is_not_known_is_refused(tmp_path: Path, file: str, text: str, reference: str) -> None:
    folder = sentences(tmp_path / "source", modes={"pooling_mode": "mean"}, dense=2)
    (folder / file).write_text(text)
    with pytest.raises(OptimError) as refused:
        sentence_parts(folder)
    assert refused.value.reference == reference


def test_weights_that_are_no_safetensors_are_not_read(tmp_path: Path) -> None:
    folder = sentences(tmp_path / "source", modes={"pooling_mode": "mean"}, dense=2)
    (folder / "2_Dense" / "model.safetensors").rename(folder / "2_Dense" / "pytorch_model.bin")
    with pytest.raises(OptimError) as refused:
        sentence_parts(folder)
    assert refused.value.reference == "source-is-pickled"


def test_a_folder_of_optimum_is_its_graph(tmp_path: Path) -> None:
    folder = tmp_path / "optimum"
    (folder / "onnx").mkdir(parents=True)
    assert graph_of(folder) == folder
    (folder / "config.json").write_text("{}")
    for name in ("model.onnx", "model_quantized.onnx"):
        (folder / "onnx" / name).write_bytes(b"x")
    assert graph_of(folder) == folder / "onnx" / "model.onnx"
    (folder / "onnx" / "model.onnx").rename(folder / "decoder_model.onnx")
    with pytest.raises(OptimError, match=r"decoder_model\.onnx, onnx.model_quantized\.onnx") as refused:
        graph_of(folder)
    assert refused.value.reference == "which-graph"
    (folder / "model.safetensors").write_bytes(b"")
    assert graph_of(folder) == folder and needs_export(str(folder))
