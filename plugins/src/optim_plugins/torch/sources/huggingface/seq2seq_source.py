"""Encoder-decoders as two graphs: what the encoder says is computed once, in the form that the decoder reads it.

    encoder   input_ids, attention_mask (or input_features)
                  -> present.<i>.encoder.key, .value [batch, heads, source, size]
    decoder   input_ids [batch, sequence], encoder_attention_mask, past_key_values.<i>.encoder.key, .value,
              past_key_values.<i>.decoder.key, .value [batch, heads, past, size]
                  -> logits, present.<i>.decoder.key, .value [batch, heads, total, size]

The encoder's graph holds the decoder's projections of its own outputs; the decoder has none of the encoder's weights.
There is no If: a past of length 0 is the first step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from optim import Generation, Source, SourceRequest, TensorInfo, Trial, TrialStep
from optim.arrays import Array
from optim_plugins.torch.arguments.flat_module import (
    FlatModule,
    component_of,
    dtype_name,
    run_flat,
    to_array,
    to_tensor,
    without_computing,
)
from optim_plugins.torch.arguments.named_dimensions import for_components, with_named_dimensions
from optim_plugins.torch.sources.huggingface.greedy_generation import generation_facts, greedy
from optim_plugins.torch.sources.huggingface.made_up_inputs import Vocabulary, longest, padding_mask, takes


class EncoderModule(FlatModule):
    """The encoder, and the keys and values that the decoder's layers make of its output."""

    def forward(self, tensors: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """Run the decoder on one token and keep only what it made of the encoder's output."""
        from transformers import DynamicCache, EncoderDecoderCache

        named = dict(zip(self.names, tensors, strict=True))
        said = self.module.get_encoder()(**named, return_dict=True)
        cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
        token = torch.zeros(tensors[0].shape[0], 1, dtype=torch.long)
        mask = {"attention_mask": named["attention_mask"]} if "attention_mask" in named else {}
        found = self.module(
            decoder_input_ids=token,
            encoder_outputs=said,
            past_key_values=cache,
            use_cache=True,
            return_dict=True,
            **mask,
        )
        return _layers(found.past_key_values.cross_attention_cache)


class DecoderModule(FlatModule):
    """The decoder with its own past, and the encoder's keys and values as they are."""

    def forward(self, tensors: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """Wrap both pasts into a cache whose cross attention counts as computed."""
        from transformers import DynamicCache, EncoderDecoderCache
        from transformers.modeling_outputs import BaseModelOutput

        named = dict(zip(self.names, tensors, strict=True))
        own, cross = _pairs(named, ".decoder."), _pairs(named, ".encoder.")
        cache = EncoderDecoderCache(DynamicCache(own), DynamicCache(cross))
        cache.is_updated = dict.fromkeys(range(len(cross)), True)
        key = cross[0][0]
        config = self.module.config
        width = getattr(config, "hidden_size", None) or config.encoder.hidden_size
        unread = key.new_zeros(key.shape[0], key.shape[2], width)
        mask = {"attention_mask": named["encoder_attention_mask"]} if "encoder_attention_mask" in named else {}
        found = self.module(
            decoder_input_ids=named["input_ids"],
            encoder_outputs=BaseModelOutput(unread),
            past_key_values=cache,
            use_cache=True,
            return_dict=True,
            **mask,
        )
        return (found.logits, *_layers(found.past_key_values.self_attention_cache))


def seq2seq_source(model: Any, request: SourceRequest) -> Source:
    """Components ``encoder`` and ``decoder``, verified on padded texts, several steps, and on greedy generation."""
    maker = _Inputs(model, request.seed)
    encoder, decoder = maker.encoder, maker.decoder
    encoder_example = maker.source(2, padded=True)
    decoder_example = maker.step(maker.as_if_encoded(encoder_example), sequence=3, past=maker.random_past(2, 5))
    encoder_request, decoder_request = for_components(request, (encoder_example, decoder_example))
    inputs = with_named_dimensions(maker.declare(encoder_example), encoder_example, encoder_request)
    outputs = [maker.declare_state(name, "source") for name in encoder.output_names]
    state = {name.replace("past_key_values", "present"): name for name in decoder.names if ".decoder." in name}
    decoder_inputs = with_named_dimensions(maker.declare(decoder_example), decoder_example, decoder_request)
    vocabulary = model.config.get_text_config(decoder=True).vocab_size
    decoder_outputs = [TensorInfo("logits", maker.dtype, ("batch", "sequence", vocabulary))]
    decoder_outputs += [maker.declare_state(name, "total") for name in state]
    components = (
        component_of("encoder", encoder, inputs, outputs, encoder_example, maker.encoder_trials),
        component_of("decoder", decoder, decoder_inputs, decoder_outputs, decoder_example, maker.decoder_trials, state),
    )
    facts = {"kind": "encoder-decoder", **generation_facts(model)}
    return Source(request, components, facts, generations=maker.generations)


class _Inputs:
    """Makes inputs of both parts, of one model."""

    def __init__(self, model: Any, seed: int) -> None:
        self.model = model
        self.random = np.random.default_rng(seed)
        self.is_text = model.main_input_name == "input_ids"
        self.vocabulary = Vocabulary.of(model.config)
        self.longest = longest(model.config)
        names = ["input_ids", "attention_mask"] if self.is_text else [model.main_input_name]
        self.encoder = EncoderModule(model, names).eval()
        probed = self._probe(names)
        self.dtype = dtype_name(probed[0])
        self.heads, self.size = int(probed[0].shape[1]), int(probed[0].shape[3])
        layers = [f"{i}.{{}}.{part}" for i in range(len(probed) // 2) for part in ("key", "value")]
        self.encoder.output_names = tuple(f"present.{layer.format('encoder')}" for layer in layers)
        cross = [f"past_key_values.{layer.format('encoder')}" for layer in layers]
        self.own = [f"past_key_values.{layer.format('decoder')}" for layer in layers]
        mask = ["encoder_attention_mask"] if self.is_text and takes(model, "attention_mask") else []
        presents = tuple(name.replace("past_key_values", "present") for name in self.own)
        self.decoder = DecoderModule(model, ["input_ids", *mask, *cross, *self.own], ("logits", *presents)).eval()

    def source(self, batch: int, *, padded: bool = False, length: int = 9) -> dict[str, Array]:
        """What the encoder reads."""
        if not self.is_text:
            return {self.model.main_input_name: self._features(batch)}
        length = min(length, self.longest)
        lengths = [max(1, length - 2 * row) if padded else length for row in range(batch)]
        mask = padding_mask(lengths, length, left=False)
        ids = np.where(mask == 1, self.vocabulary.draw(mask.shape, self.random), self.vocabulary.padding)
        return {"input_ids": ids, "attention_mask": mask}

    def as_if_encoded(self, source: Mapping[str, Array]) -> dict[str, Array]:
        """The same shapes, made up."""
        length = source["input_ids"].shape[1] if self.is_text else self._frames()
        found = self._noise([name for name in self.decoder.names if ".encoder." in name], 2, length)
        if "encoder_attention_mask" in self.decoder.names:
            found["encoder_attention_mask"] = source["attention_mask"]
        return found

    def encode(self, source: Mapping[str, Array]) -> dict[str, Array]:
        """What the decoder is given of a source."""
        found = {
            name.replace("present", "past_key_values"): array for name, array in run_flat(self.encoder, source).items()
        }
        if "encoder_attention_mask" in self.decoder.names:
            found["encoder_attention_mask"] = source["attention_mask"]
        return found

    def step(
        self, said: Mapping[str, Array], *, sequence: int, past: Mapping[str, Array] | None = None
    ) -> dict[str, Array]:
        """Inputs of the decoder, in its order; without a past those that a step before it carries over are absent."""
        batch = said[next(name for name in said if ".encoder." in name)].shape[0]
        everything = {"input_ids": self.vocabulary.draw((batch, sequence), self.random), **said, **(past or {})}
        return {name: everything[name] for name in self.decoder.names if name in everything}

    def random_past(self, batch: int, length: int) -> dict[str, Array]:
        """A past of the decoder's own."""
        return self._noise(self.own, batch, length)

    def _noise(self, names: Sequence[str], batch: int, length: int) -> dict[str, Array]:
        shape, dtype = (batch, self.heads, length, self.size), getattr(torch, self.dtype)
        return {name: to_array(torch.from_numpy(self.random.standard_normal(shape) * 0.5).to(dtype)) for name in names}

    def declare(self, example: Mapping[str, Array]) -> list[TensorInfo]:
        """Inputs of either part with their dynamic dimensions."""
        found = []
        for name, array in example.items():
            shape: tuple[int | str, ...]
            if "past_key_values." in name:
                found.append(self.declare_state(name, "source" if ".encoder." in name else "past"))
                continue
            if not self.is_text and name == self.model.main_input_name:
                shape = ("batch", *array.shape[1:])
            elif name == "encoder_attention_mask" or "attention_mask" in example:
                shape = ("batch", "source")
            else:
                shape = ("batch", "sequence")
            if name == "input_ids" and any(".decoder." in other for other in example):
                shape = ("batch", "sequence")
            found.append(TensorInfo(name, array.dtype.name, shape))
        return found

    def declare_state(self, name: str, length: str) -> TensorInfo:
        """A key or value; the length of what the encoder read is fixed where it reads sound of a fixed length."""
        fixed = length == "source" and not self.is_text
        size = self._frames() if fixed else length
        return TensorInfo(name, self.dtype, ("batch", self.heads, size, self.size))

    def encoder_trials(self) -> Iterator[Trial]:
        """Texts of other lengths, padded ones too."""
        for batch, length, padded in ((1, 1, False), (1, 13, False), (3, 11, True)):
            feeds = self.source(batch, padded=padded, length=length)
            valid = {}
            if self.is_text:
                valid = dict.fromkeys(self.encoder.output_names, (feeds["attention_mask"] == 1)[:, None, :, None])
            size = f", length {length}" if self.is_text else ""
            padding = ", right padding" if padded and self.is_text else ""
            yield Trial(f"batch {batch}{size}{padding}", (TrialStep(feeds, valid),))

    def decoder_trials(self) -> Iterator[Trial]:
        """First steps and later ones, on sources that the encoder has read."""
        for name, batch, chunks in (
            ("one token without a past", 1, (1,)),
            ("four tokens and three steps", 1, (4, 1, 1, 1)),
            ("padded source, one token and two steps", 3, (1, 1, 1)),
            ("a first token and a chunk of five", 2, (1, 5)),
        ):
            said = self.encode(self.source(batch, padded=batch > 1, length=12))
            first = self.step(said, sequence=chunks[0], past=self.random_past(batch, 0))
            rest = [self.step(said, sequence=chunk) for chunk in chunks[1:]]
            yield Trial(name, tuple(TrialStep(feeds) for feeds in (first, *rest)))

    def generations(self) -> Iterator[Generation]:
        """Greedy generation for one source, and for two of which one is padded."""
        for batch in (1, 2):
            prompt = self.source(batch, padded=batch > 1)
            tokens = greedy(self.model, prompt, new_tokens=min(16, self.longest), skip=1)
            yield Generation(prompt, tokens)

    def _probe(self, names: list[str]) -> list[torch.Tensor]:
        source = self.source(2)
        return list(without_computing(lambda: self.encoder([to_tensor(source[name]) for name in names])))

    def _features(self, batch: int) -> Array:
        config = self.model.config
        bins, frames = getattr(config, "num_mel_bins", 80), 2 * self._frames()
        return self.random.standard_normal((batch, bins, frames)).astype(np.float32)

    def _frames(self) -> int:
        return int(getattr(self.model.config, "max_source_positions", 1500))


def _layers(cache: Any) -> tuple[torch.Tensor, ...]:
    return tuple(tensor for layer in cache.layers for tensor in (layer.keys, layer.values))


def _pairs(named: Mapping[str, torch.Tensor], kind: str) -> list[tuple[torch.Tensor, torch.Tensor]]:
    tensors = [tensor for name, tensor in named.items() if kind in name]
    return list(zip(tensors[::2], tensors[1::2], strict=True))
