"""Encoders with random weights, seeded, exported from torch: of Whisper (base), of T5 (small), a BERT, a DeBERTa.

    python benchmarks/models/encoders.py whisper|t5|bert|deberta --out FOLDER [--layers 4]

Writes FOLDER/<name>.onnx and FOLDER/<name>.npz, nine samples.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
from exports import LENGTH, SAMPLES, Built, export
from torch import nn

LAYERS = 4


class Returned(nn.Module):
    """A model of transformers that returns its hidden states alone."""

    def __init__(self, model: nn.Module, takes: str) -> None:
        super().__init__()
        self.model = model
        self.takes = takes

    def forward(self, given: Any) -> Any:
        """What the last layer returns."""
        return self.model(**{self.takes: given}).last_hidden_state


def main() -> None:
    """Build one and export it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=sorted(MODELS))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--layers", type=int, default=LAYERS)
    chosen = parser.parse_args()
    chosen.out.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    built = MODELS[chosen.name](np.random.default_rng(0), chosen.layers)
    arrays = {f"{i}/{name}": array for i, one in enumerate(built.samples) for name, array in one.items()}
    np.savez(chosen.out / f"{chosen.name}.npz", **arrays)
    with torch.no_grad():
        export(built, chosen.out / f"{chosen.name}.onnx", "dynamo")


def whisper(rng: np.random.Generator, layers: int) -> Built:
    """Thirty seconds of sound: 1,500 positions of 512."""
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    config = WhisperConfig(d_model=512, encoder_layers=layers, encoder_attention_heads=8, encoder_ffn_dim=2048)
    samples = [{"given": rng.standard_normal((1, 80, 3000)).astype(np.float32)} for _ in range(SAMPLES)]
    module = Returned(WhisperEncoder(config), "input_features")
    return Built(module.eval(), samples, ["last_hidden_state"], {"given": {0: "batch"}})


def t5(rng: np.random.Generator, layers: int) -> Built:
    """T5-small's width."""
    from transformers import T5Config, T5EncoderModel

    module = Returned(T5EncoderModel(T5Config(num_layers=layers)), "input_ids")
    return _of_words(module, rng, 32128)


def bert(rng: np.random.Generator, layers: int) -> Built:
    """BERT-base's width."""
    from transformers import BertConfig, BertModel

    module = Returned(BertModel(BertConfig(num_hidden_layers=layers), add_pooling_layer=False), "input_ids")
    return _of_words(module, rng, 30522)


def deberta(rng: np.random.Generator, layers: int) -> Built:
    """Width and relative positions of DeBERTa-v3-xsmall; two products of each layer have no input of the graph."""
    from transformers import DebertaV2Config, DebertaV2Model

    config = DebertaV2Config(
        vocab_size=30522,
        hidden_size=384,
        num_hidden_layers=layers,
        num_attention_heads=6,
        intermediate_size=1536,
        relative_attention=True,
        position_buckets=256,
        norm_rel_ebd="layer_norm",
        share_att_key=True,
        pos_att_type=["p2c", "c2p"],
        position_biased_input=False,
        type_vocab_size=0,
    )
    return _of_words(Returned(DebertaV2Model(config), "input_ids"), rng, 30522)


def _of_words(module: nn.Module, rng: np.random.Generator, vocabulary: int) -> Built:
    samples = [{"given": rng.integers(0, vocabulary, (1, LENGTH))} for _ in range(SAMPLES)]
    return Built(module.eval(), samples, ["last_hidden_state"], {"given": {0: "batch", 1: "sequence"}})


MODELS = {"whisper": whisper, "t5": t5, "bert": bert, "deberta": deberta}

if __name__ == "__main__":
    main()
