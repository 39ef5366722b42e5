"""Small architectures of transformers with random weights, seeded, made from their configurations: no hub is asked.

    python benchmarks/models/configs.py albert squeezebert --out FOLDER

Writes FOLDER/<name>/model.onnx, calib.npz (eight samples) and unseen.npz (eight others). Texts are 128 random tokens,
images and sounds are noise. Each 100th weight of a normalization over channels is four times as large (exports.py):
trained transformers have such channels.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from exports import Built, add_outliers, export, write_samples
from torch import nn

WORDS, LENGTH, SAMPLES = 1000, 128, 8
WIDE = {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 1024}


class Returned(nn.Module):
    """A model of transformers that returns one of its outputs alone.

    Args:
        model: of transformers.
        takes: name of its input.
        gives: name of its output.
    """

    def __init__(self, model: nn.Module, takes: str, gives: str) -> None:
        super().__init__()
        self.model, self.takes, self.gives = model, takes, gives

    def forward(self, given: Any) -> Any:
        """That output."""
        return getattr(self.model(**{self.takes: given}), self.gives)


@dataclass(frozen=True)
class Architecture:
    """What a model is made of.

    Attributes:
        model: name of its class in transformers.
        config: name of the class of its configuration.
        settings: of the configuration.
        shape: of an image or a sound; empty: it takes tokens.
        takes: name of its input.
        gives: name of its output.
    """

    model: str
    config: str
    settings: dict[str, Any]
    shape: tuple[int, ...] = ()
    takes: str = "input_ids"
    gives: str = "last_hidden_state"


def _text(model: str, **settings: Any) -> Architecture:
    return Architecture(f"{model}Model", f"{model}Config", {"vocab_size": WORDS, **WIDE, **settings})


def _causal(model: str, **settings: Any) -> Architecture:
    """A small decoder, on a whole prompt."""
    own = {"vocab_size": WORDS, "use_cache": False, **WIDE, **settings}
    return Architecture(f"{model}ForCausalLM", f"{model}Config", own, gives="logits")


def _image(model: str, size: int, **settings: Any) -> Architecture:
    return Architecture(f"{model}Model", f"{model}Config", settings, (3, size, size), "pixel_values")


DEBERTA = {
    "hidden_size": 384,
    "num_hidden_layers": 6,
    "num_attention_heads": 6,
    "intermediate_size": 1536,
    "relative_attention": True,
    "position_buckets": 256,
    "norm_rel_ebd": "layer_norm",
    "share_att_key": True,
    "pos_att_type": ["p2c", "c2p"],
    "position_biased_input": False,
    "type_vocab_size": 0,
}
MODELS = {
    "albert": _text("Albert", embedding_size=128),
    "squeezebert": _text("SqueezeBert", embedding_size=256),
    "deberta": _text("DebertaV2", **DEBERTA),
    "roformer": _text("RoFormer", embedding_size=256),
    "fnet": _text("FNet"),
    "mpnet": _text("MPNet"),
    "xlnet": Architecture(
        "XLNetModel", "XLNetConfig", {"vocab_size": WORDS, "d_model": 256, "n_layer": 4, "n_head": 4, "d_inner": 1024}
    ),
    "qwen2": _causal("Qwen2", num_key_value_heads=2),
    "gpt-neox": _causal("GPTNeoX"),
    "opt": _causal("OPT", ffn_dim=1024, word_embed_proj_dim=256),
    "mobilevit": _image("MobileViT", 128, hidden_sizes=[96, 120, 144]),
    "efficientnet": _image("EfficientNet", 128, image_size=128, width_coefficient=0.5, hidden_dim=640),
    "convnextv2": _image("ConvNextV2", 128, hidden_sizes=[40, 80, 160, 320], depths=[2, 2, 6, 2]),
    "mobilenet-v2": _image("MobileNetV2", 128, image_size=128),
    "segformer": _image("Segformer", 128),
    "poolformer": _image("PoolFormer", 128),
    "levit": _image("Levit", 224),
    "convbert": _text("ConvBert"),
    "gemma": _causal("Gemma", num_key_value_heads=2, head_dim=64),
    "bloom": _causal("Bloom", n_layer=4, n_head=4),
    "swin": _image("Swin", 224, embed_dim=32, depths=[2, 2, 2, 2], num_heads=[2, 4, 8, 16]),
    "dinov2": _image("Dinov2", 112, image_size=112, **WIDE),
    "regnet": _image("RegNet", 128, embedding_size=32, hidden_sizes=[64, 128, 256, 512], depths=[2, 2, 4, 2]),
    "conformer": Architecture(
        "Wav2Vec2ConformerModel",
        "Wav2Vec2ConformerConfig",
        {**WIDE, "conv_dim": [128] * 7, "num_conv_pos_embedding_groups": 16},
        (16000,),
        "input_values",
    ),
    "ast": Architecture(
        "ASTModel", "ASTConfig", {**WIDE, "max_length": 128, "num_mel_bins": 64}, (128, 64), "input_values"
    ),
}


def main() -> None:
    """Make what was asked for; what is there already stays."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="+", choices=sorted(MODELS))
    parser.add_argument("--out", type=Path, required=True)
    chosen = parser.parse_args()
    for name in chosen.names:
        if not (chosen.out / name / "unseen.npz").is_file():
            make(MODELS[name], chosen.out / name)


def make(one: Architecture, folder: Path) -> None:
    """Write the model and its samples."""
    built = built_of(one)
    folder.mkdir(parents=True, exist_ok=True)
    with torch.no_grad():
        export(built, folder / "model.onnx", "dynamo")
    write_samples(folder / "calib.npz", built.samples)
    write_samples(folder / "unseen.npz", _samples(one, np.random.default_rng(1)))


def built_of(one: Architecture) -> Built:
    """The module with samples to calibrate on, the same each time."""
    import transformers

    torch.manual_seed(0)
    config = getattr(transformers, one.config)(**one.settings)
    model = getattr(transformers, one.model)(config).eval()
    add_outliers(model)
    axes = {0: "batch"} if one.shape else {0: "batch", 1: "sequence"}
    samples = _samples(one, np.random.default_rng(0))
    return Built(Returned(model, one.takes, one.gives), samples, [one.gives], {"given": axes})


def _samples(one: Architecture, rng: np.random.Generator) -> list[dict[str, Any]]:
    drawn: Callable[[], Any] = (
        (lambda: rng.standard_normal((1, *one.shape)).astype(np.float32))
        if one.shape
        else (lambda: rng.integers(0, WORDS, (1, LENGTH)))
    )
    return [{"given": drawn()} for _ in range(SAMPLES)]


if __name__ == "__main__":
    main()
