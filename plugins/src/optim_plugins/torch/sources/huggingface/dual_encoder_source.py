"""Dual encoders (CLIP, SigLIP, CLAP and their kind) as two graphs, one for each side of what they compare.

    text_encoder    input_ids, attention_mask   -> text_embeds  [batch, size]
    image_encoder   pixel_values                -> image_embeds [batch, size]   (audio_encoder: input_features)

The two are run at different times and on different data: pictures are embedded once, texts with every question. What
transformers multiplies them by is told in ``export.json``: the similarity of a text and a picture is
``similarity_scale * text . picture + similarity_bias``, of embeddings that are divided by their length.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from optim import Component, Source, SourceRequest
from optim.arrays import Feeds
from optim_plugins.torch.arguments.dimension_symbols import named_shapes
from optim_plugins.torch.arguments.flat_module import FlatModule, component_of, shapes_of
from optim_plugins.torch.arguments.named_dimensions import for_components, with_named_dimensions
from optim_plugins.torch.sources.huggingface.encoder_inputs import EncoderInputs


@dataclass(frozen=True, slots=True)
class Side:
    """One of the things that a dual encoder compares.

    Attributes:
        name: of the component.
        method: of the model, that computes its features.
        config: attribute of the model's config that says the sizes of its inputs.
        main: the input that holds it.
        output: what the features are called.
    """

    name: str
    method: str
    config: str
    main: str
    output: str


_TEXT = Side("text_encoder", "get_text_features", "text_config", "input_ids", "text_embeds")
_OTHERS = (
    Side("image_encoder", "get_image_features", "vision_config", "pixel_values", "image_embeds"),
    Side("audio_encoder", "get_audio_features", "audio_config", "input_features", "audio_embeds"),
)


class FeaturesModule(FlatModule):
    """One side of a dual encoder."""

    def __init__(self, module: torch.nn.Module, names: list[str], side: Side) -> None:
        super().__init__(module, names, (side.output,))
        self.side = side

    def forward(self, tensors: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """The features, projected into the space that both sides share."""
        found = getattr(self.module, self.side.method)(**dict(zip(self.names, tensors, strict=True)))
        return (found.pooler_output,)


def is_dual_encoder(model: Any) -> bool:
    """Whether a model has features of texts, and of pictures or sounds, each computed alone."""
    return _has(model, _TEXT) and any(_has(model, side) for side in _OTHERS)


def dual_encoder_source(model: Any, request: SourceRequest) -> Source:
    """Components ``text_encoder``, and ``image_encoder`` or ``audio_encoder``."""
    sides = (_TEXT, next(side for side in _OTHERS if _has(model, side)))
    makers = [
        EncoderInputs(getattr(model, side.method), getattr(model.config, side.config), side.main, request.seed)
        for side in sides
    ]
    examples = [maker.make(2, maker.sizes[1], padded="right") for maker in makers]
    requests = for_components(request, examples)
    components = tuple(
        _component(FeaturesModule(model, list(example), side), maker, example, own)
        for side, maker, example, own in zip(sides, makers, examples, requests, strict=True)
    )
    return Source(request, components, {"kind": "dual-encoder", **_similarity(model)})


def _has(model: Any, side: Side) -> bool:
    return hasattr(model, side.method) and hasattr(model.config, side.config)


def _component(module: FeaturesModule, maker: EncoderInputs, example: Feeds, request: SourceRequest) -> Component:
    other = maker.make(3, maker.sizes[2])
    inputs = with_named_dimensions(maker.declare(example), example, request)
    outputs = named_shapes(
        module.output_names,
        shapes_of(module, example),
        shapes_of(module, other),
        maker.sizes_of(2, 1),
        maker.sizes_of(3, 2),
    )
    return component_of(module.side.name, module, inputs, outputs, example, lambda: maker.trials(inputs, outputs))


def _similarity(model: Any) -> Mapping[str, float]:
    """What makes a similarity of two embeddings, where the model has learnt it."""
    found = {}
    if isinstance(scale := getattr(model, "logit_scale", None), torch.Tensor) and scale.numel() == 1:
        found["similarity_scale"] = float(scale.detach().exp())
    if isinstance(bias := getattr(model, "logit_bias", None), torch.Tensor) and bias.numel() == 1:
        found["similarity_bias"] = float(bias.detach())
    return found
