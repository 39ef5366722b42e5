"""Make the tiny exports in ``data/``: real exporters, real architectures, random weights from a fixed seed.

usage: python tests/plugins/make_tiny_exports.py [name ...]        needs torch, transformers and onnxscript

Weights are larger than transformers' own initial ones (0.02 gives attention that looks at everything alike, and
logits that are all about zero), so that a wrong fusion or quantization shows in the outputs.
"""

from __future__ import annotations

import os
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks" / "models"))

import onnx
import torch
from torch import nn
from transformers import BertConfig, BertModel, GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM
from wrapped import Decoder, Encoder

DATA = Path(__file__).parent / "data"
LAYERS, HEADS, HIDDEN, INNER, VOCABULARY = 2, 4, 64, 68, 80


@dataclass
class Recipe:
    """A module, example inputs by name (those of ``past`` as one list), and which dimensions are dynamic."""

    module: nn.Module
    inputs: dict[str, torch.Tensor]
    past: dict[str, torch.Tensor]
    outputs: list[str]
    dynamic: dict[str, dict[int, str]]


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, 2, 1, bias=False), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2))
        self.left = nn.Sequential(nn.Conv2d(16, 32, 3, 1, 1, bias=False), nn.BatchNorm2d(32))
        self.right = nn.Sequential(nn.Conv2d(16, 32, 1, bias=False), nn.BatchNorm2d(32))
        self.head = nn.Linear(32 * 4, 48)

    def forward(self, pixel_values: Any) -> Any:
        x = self.stem(pixel_values)
        x = torch.relu(self.left(x) + self.right(x))
        return self.head(torch.flatten(nn.functional.adaptive_avg_pool2d(x, 2), 1))


def bert() -> Recipe:
    config = BertConfig(
        vocab_size=VOCABULARY,
        hidden_size=HIDDEN,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        intermediate_size=INNER,
        max_position_embeddings=32,
        initializer_range=0.15,
        attn_implementation="sdpa",
    )
    ids = torch.randint(0, VOCABULARY, (2, 9))
    mask = torch.ones_like(ids)
    mask[1, 6:] = 0
    inputs = {"input_ids": ids, "attention_mask": mask, "token_type_ids": torch.zeros_like(ids)}
    dynamic = {name: {0: "batch", 1: "sequence"} for name in inputs}
    return Recipe(Encoder(BertModel(config)), inputs, {}, ["last_hidden_state", "pooler_output"], dynamic)


def gpt2() -> Recipe:
    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_embd=HIDDEN,
        n_layer=LAYERS,
        n_head=HEADS,
        n_inner=INNER,
        n_positions=32,
        initializer_range=0.15,
        bos_token_id=0,
        eos_token_id=0,
        attn_implementation="sdpa",
    )
    return _decoder(GPT2LMHeadModel(config), HEADS)


def llama() -> Recipe:
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=HIDDEN,
        intermediate_size=INNER,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=2,
        max_position_embeddings=32,
        initializer_range=0.15,
        attn_implementation="sdpa",
    )
    return _decoder(LlamaForCausalLM(config), 2)


def convnet() -> Recipe:
    module = Convolutions()
    module.train()
    with torch.no_grad():
        for _ in range(4):
            module(torch.randn(8, 3, 16, 16))
    return Recipe(module, {"pixel_values": torch.randn(2, 3, 16, 16)}, {}, ["logits"], {"pixel_values": {0: "batch"}})


def _decoder(model: nn.Module, key_heads: int) -> Recipe:
    sequence, past_length = 3, 5
    ids = torch.randint(0, VOCABULARY, (2, sequence))
    mask = torch.ones(2, past_length + sequence, dtype=torch.int64)
    mask[1, :2] = 0
    positions = torch.arange(past_length, past_length + sequence).repeat(2, 1)
    names = [f"{layer}.{half}" for layer in range(LAYERS) for half in ("key", "value")]
    past = {f"past_key_values.{n}": torch.randn(2, key_heads, past_length, HIDDEN // HEADS) / 2 for n in names}
    dynamic: dict[str, dict[int, str]] = {
        "input_ids": {0: "batch", 1: "sequence"},
        "attention_mask": {0: "batch", 1: "total"},
        "position_ids": {0: "batch", 1: "sequence"},
        **{name: {0: "batch", 2: "past"} for name in past},
    }
    inputs = {"input_ids": ids, "attention_mask": mask, "position_ids": positions}
    return Recipe(Decoder(model, LAYERS), inputs, past, ["logits", *(f"present.{n}" for n in names)], dynamic)


RECIPES = {"bert": bert, "gpt2": gpt2, "llama": llama, "convnet": convnet}


def main(names: list[str]) -> None:
    DATA.mkdir(exist_ok=True)
    for name in names or list(RECIPES):
        for exporter in ("dynamo", "ts"):
            torch.manual_seed(0)
            recipe = RECIPES[name]()
            _fill_vectors(recipe.module)
            recipe.module.eval()
            path = DATA / f"{name}.{exporter}.onnx"
            _export(recipe, path, dynamo=exporter == "dynamo")
            print(path.name, path.stat().st_size)


def _fill_vectors(module: nn.Module) -> None:
    """Biases and normalization weights start as zeros and ones, all alike: exporters would merge or drop them."""
    with torch.no_grad():
        for vector in module.parameters():
            if vector.dim() == 1:
                vector.add_(torch.randn_like(vector) / 4)


def _export(recipe: Recipe, path: Path, *, dynamo: bool) -> None:
    arguments: tuple[Any, ...] = tuple(recipe.inputs.values())
    shapes: tuple[Any, ...] = tuple(recipe.dynamic[name] for name in recipe.inputs)
    if recipe.past:
        arguments = (*arguments, list(recipe.past.values()))
        shapes = (*shapes, [recipe.dynamic[name] for name in recipe.past])
    names = {"input_names": [*recipe.inputs, *recipe.past], "output_names": recipe.outputs}
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if dynamo:
            torch.onnx.export(
                recipe.module,
                arguments,
                str(path),
                dynamo=True,
                dynamic_shapes=shapes,
                external_data=False,
                verbose=False,
                **names,
            )
        else:
            axes = {**recipe.dynamic, **{output: {0: "batch"} for output in recipe.outputs}}
            torch.onnx.export(
                recipe.module, arguments, str(path), dynamo=False, dynamic_axes=axes, opset_version=17, **names
            )
    _strip(path)


def _strip(path: Path) -> None:
    """Without the exporter's notes on nodes, which hold paths of the machine it ran on."""
    graph = onnx.load(path)
    for entry in (*graph.graph.node, *graph.graph.value_info, *graph.graph.initializer, *graph.graph.input):
        entry.ClearField("doc_string")
        entry.ClearField("metadata_props")
    onnx.save(graph, path)


if __name__ == "__main__":
    main(sys.argv[1:])
