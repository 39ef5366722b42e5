"""A decoder exported twice, without and with a past, as Optimum used to do it."""

from __future__ import annotations

import warnings
from pathlib import Path

import torch
from transformers import (
    BartConfig,
    BartForConditionalGeneration,
    DynamicCache,
    EncoderDecoderCache,
    GPT2Config,
    GPT2LMHeadModel,
)
from transformers.modeling_outputs import BaseModelOutput

LAYERS = 2


class Gpt2(torch.nn.Module):
    def __init__(self, model: torch.nn.Module, *, with_past: bool) -> None:
        super().__init__()
        self.model, self.with_past = model, with_past

    def forward(self, tensors: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        ids, mask, *past = tensors
        cache = DynamicCache(list(zip(past[::2], past[1::2], strict=True))) if past else DynamicCache()
        found = self.model(input_ids=ids, attention_mask=mask, past_key_values=cache, use_cache=True)
        return (found.logits, *(t for layer in found.past_key_values.layers for t in (layer.keys, layer.values)))


class Bart(torch.nn.Module):
    def __init__(self, model: torch.nn.Module, *, with_past: bool) -> None:
        super().__init__()
        self.model, self.with_past = model, with_past

    def forward(self, tensors: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        if not self.with_past:
            ids, hidden = tensors
            cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
        else:
            ids, *past = tensors
            own, cross = past[: 2 * LAYERS], past[2 * LAYERS :]
            pairs = [DynamicCache(list(zip(p[::2], p[1::2], strict=True))) for p in (own, cross)]
            cache = EncoderDecoderCache(*pairs)
            cache.is_updated = dict.fromkeys(range(LAYERS), True)
            hidden = cross[0].new_zeros(cross[0].shape[0], cross[0].shape[2], 32)
        found = self.model(
            decoder_input_ids=ids, encoder_outputs=BaseModelOutput(hidden), past_key_values=cache, use_cache=True
        )
        own = [t for layer in found.past_key_values.self_attention_cache.layers for t in (layer.keys, layer.values)]
        cross = [t for layer in found.past_key_values.cross_attention_cache.layers for t in (layer.keys, layer.values)]
        return (found.logits, *own, *(cross if not self.with_past else ()))


def gpt2(folder: Path) -> tuple[Path, Path]:
    torch.manual_seed(0)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=99, n_positions=64, n_embd=32, n_layer=LAYERS, n_head=4)).eval()
    presents = [f"present.{i}.{part}" for i in range(LAYERS) for part in ("key", "value")]
    ids, mask = torch.randint(0, 99, (2, 3)), torch.ones(2, 3, dtype=torch.long)
    mask[1, 0] = 0
    past = [torch.randn(2, 4, 5, 8) for _ in presents]
    long = torch.cat([torch.ones(2, 5, dtype=torch.long), mask], 1)
    plain = [{0: "batch", 1: "sequence"}, {0: "batch", 1: "sequence"}]
    grown = [{0: "batch", 1: "sequence"}, {0: "batch", 1: "total"}, *[{0: "batch", 2: "past"}] * len(past)]
    names, outputs = ["input_ids", "attention_mask"], ["logits", *presents]
    return (
        _export(Gpt2(model, with_past=False), [ids, mask], names, outputs, plain, folder / "without.onnx"),
        _export(
            Gpt2(model, with_past=True),
            [ids, long, *past],
            [*names, *_past(presents)],
            outputs,
            grown,
            folder / "with.onnx",
        ),
    )


def bart(folder: Path) -> tuple[Path, Path]:
    torch.manual_seed(0)
    size = {"d_model": 32, "encoder_layers": 1, "decoder_layers": LAYERS, "encoder_attention_heads": 4}
    config = BartConfig(
        vocab_size=99,
        decoder_attention_heads=4,
        encoder_ffn_dim=48,
        decoder_ffn_dim=48,
        max_position_embeddings=64,
        **size,
    )
    model = BartForConditionalGeneration(config).eval()
    layers = [(i, part) for i in range(LAYERS) for part in ("key", "value")]
    own = [f"present.{i}.decoder.{part}" for i, part in layers]
    cross = [f"present.{i}.encoder.{part}" for i, part in layers]
    ids, hidden = torch.randint(0, 99, (2, 3)), torch.randn(2, 6, 32)
    past = [torch.randn(2, 4, 5, 8) for _ in own] + [torch.randn(2, 4, 6, 8) for _ in cross]
    token = {0: "batch", 1: "sequence"}
    grown = [token, *[{0: "batch", 2: "past"}] * len(own), *[{0: "batch", 2: "source"}] * len(cross)]
    plain = [token, {0: "batch", 1: "source"}]
    return (
        _export(
            Bart(model, with_past=False),
            [ids, hidden],
            ["input_ids", "encoder_hidden_states"],
            ["logits", *own, *cross],
            plain,
            folder / "without.onnx",
        ),
        _export(
            Bart(model, with_past=True),
            [ids, *past],
            ["input_ids", *_past([*own, *cross])],
            ["logits", *own],
            grown,
            folder / "with.onnx",
        ),
    )


def _past(presents: list[str]) -> list[str]:
    return [name.replace("present.", "past_key_values.") for name in presents]


def _export(
    module: torch.nn.Module,
    example: list[torch.Tensor],
    inputs: list[str],
    outputs: list[str],
    dimensions: list[dict[int, str]],
    path: Path,
) -> Path:
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            module.eval(),
            (example,),
            str(path),
            dynamo=True,
            input_names=inputs,
            output_names=outputs,
            dynamic_shapes=(dimensions,),
            verbose=False,
            external_data=False,
        )
    return path
