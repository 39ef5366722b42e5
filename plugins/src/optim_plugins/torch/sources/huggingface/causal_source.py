"""Causal language models as one graph: a prefill is a step without a past.

    input_ids         [batch, sequence]     new tokens
    attention_mask    [batch, total]        of past and new tokens
    position_ids      [batch, sequence]
    past_key_values.<i>.key, .value   [batch, heads, past, size]
        -> logits [batch, sequence, vocabulary], present.<i>.key, .value [batch, heads, total, size]

There is no If and no second copy of the weights: concatenating a past of length 0 is a prefill.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import torch

from optim import Generation, OptimError, Source, SourceRequest, TensorInfo, Trial, TrialStep
from optim.arrays import Array
from optim_plugins.torch.arguments.flat_module import (
    FlatModule,
    component_of,
    dtype_name,
    to_array,
    to_tensor,
    without_computing,
)
from optim_plugins.torch.arguments.named_dimensions import with_named_dimensions
from optim_plugins.torch.sources.huggingface.greedy_generation import generation_facts, greedy
from optim_plugins.torch.sources.huggingface.made_up_inputs import (
    Vocabulary,
    longest,
    padding_mask,
    positions_of,
    takes,
)


class CausalModule(FlatModule):
    """A causal model whose cache is a list of keys and values."""

    def forward(self, tensors: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        """Wrap the past into a cache, and unwrap it again."""
        from transformers import DynamicCache

        plain = {name: tensor for name, tensor in zip(self.names, tensors, strict=True) if not _is_past(name)}
        past = [tensor for name, tensor in zip(self.names, tensors, strict=True) if _is_past(name)]
        cache = DynamicCache(list(zip(past[::2], past[1::2], strict=True)))
        found = self.module(**plain, past_key_values=cache, use_cache=True, return_dict=True)
        return (found.logits, *layers_of(found.past_key_values))


def causal_source(model: Any, request: SourceRequest) -> Source:
    """One component ``model``, verified on prefill, decode steps and padding, and on greedy generation."""
    maker = _Inputs(model, request.seed)
    names = maker.names()
    state = {name.replace("past_key_values", "present"): name for name in names if _is_past(name)}
    module = CausalModule(model, names, ("logits", *state))
    example = maker.example()
    inputs = with_named_dimensions(maker.declare(example), example, request)
    vocabulary = model.config.get_text_config().vocab_size
    outputs = [TensorInfo("logits", maker.dtype, ("batch", "sequence", vocabulary))]
    outputs += [TensorInfo(name, maker.dtype, maker.past_shape(source, "total")) for name, source in state.items()]

    def trials() -> Iterator[Trial]:
        return maker.trials(list(state))

    def generations() -> Iterator[Generation]:
        return maker.generations()

    component = component_of("model", module, inputs, outputs, example, trials, state)
    facts = {"kind": "decoder", **generation_facts(model)}
    return Source(request, (component,), facts, generations=generations)


def layers_of(cache: Any) -> list[torch.Tensor]:
    """Keys and values of a cache of transformers, layer by layer."""
    return [tensor for layer in cache.layers for tensor in (layer.keys, layer.values)]


class _Inputs:
    """Makes inputs of any batch, length and past, with padding on either side."""

    def __init__(self, model: Any, seed: int) -> None:
        self.model = model
        self.random = np.random.default_rng(seed)
        self.vocabulary = Vocabulary.of(model.config)
        self.longest = longest(model.config)
        self.layers = _probe_layers(model)
        self.dtype = dtype_name(self.layers[0])

    def names(self) -> list[str]:
        """Of the inputs, in order."""
        plain = ["input_ids", "attention_mask"] + (["position_ids"] if takes(self.model, "position_ids") else [])
        layers = range(len(self.layers) // 2)
        return plain + [f"past_key_values.{layer}.{part}" for layer in layers for part in ("key", "value")]

    def past_shape(self, name: str, length: str) -> tuple[int | str, ...]:
        """The declared shape of a key or value."""
        probed = self._probed(name)
        return ("batch", probed.shape[1], length, probed.shape[3])

    def declare(self, example: Mapping[str, Array]) -> list[TensorInfo]:
        """The inputs with their dynamic dimensions."""
        shapes: dict[str, tuple[int | str, ...]] = {
            "input_ids": ("batch", "sequence"),
            "attention_mask": ("batch", "total"),
            "position_ids": ("batch", "sequence"),
        }
        return [
            TensorInfo(name, array.dtype.name, shapes.get(name) or self.past_shape(name, "past"))
            for name, array in example.items()
        ]

    def example(self) -> dict[str, Array]:
        """Batch 2, three new tokens after a past of five; the second row is padded on the left."""
        mask = padding_mask([8, 6], 8, left=True)
        return self._feeds(mask, new=3, past=self._random_past(2, 5))

    def trials(self, state: list[str]) -> Iterator[Trial]:
        """Prefill and steps, none of them of the example's shape."""
        room = self.longest - 4
        long, short = max(2, min(11, room)), max(2, min(7, room))
        yield self._trial("one token without a past", [1], 1, [0], state)
        yield self._trial("a prefill and three steps", [short], short, [0, 1, 1, 1], state)
        rows = [long, max(1, long - 4), 1]
        yield self._trial("left padding, a prefill and two steps", rows, long, [0, 1, 1], state, left=True)
        yield self._trial("right padding, a prefill and a step", rows[:2], long, [0, 1], state)
        yield self._trial("a prefill and a chunk of four", [short, short - 1], short, [0, 4], state, left=True)

    def generations(self) -> Iterator[Generation]:
        """Greedy generation of one row, and of two with left padding."""
        room = self.longest - 2
        width = max(1, min(6, room // 2))
        for lengths in ([width], [width, max(1, width - 2)]):
            mask = padding_mask(lengths, width, left=True)
            prompt = {"input_ids": self._ids(mask), "attention_mask": mask}
            yield Generation(prompt, greedy(self.model, prompt, new_tokens=min(16, room - width), skip=width))

    def _trial(
        self, name: str, lengths: list[int], width: int, chunks: list[int], state: list[str], *, left: bool = False
    ) -> Trial:
        """A prefill with padding, then steps of unpadded new tokens; the state is carried over."""
        mask = padding_mask(lengths, width, left=left)
        past: dict[str, Array] | None = self._random_past(len(lengths), 0)
        steps = []
        for new in chunks:
            if new:
                mask = np.concatenate([mask, np.ones((len(lengths), new), np.int64)], 1)
            feeds = self._feeds(mask, new=new or width, past=past)
            past = None  # the steps that follow are fed what the step before them returned
            valid: dict[str, Array] = {"logits": (mask[:, -(new or width) :] == 1)[:, :, None]}
            valid |= dict.fromkeys(state, (mask == 1)[:, None, :, None])
            steps.append(TrialStep(feeds, valid))
        return Trial(name, tuple(steps))

    def _feeds(self, mask: Array, *, new: int, past: dict[str, Array] | None) -> dict[str, Array]:
        feeds = {"input_ids": self._ids(mask[:, -new:]), "attention_mask": mask}
        if takes(self.model, "position_ids"):
            feeds["position_ids"] = positions_of(mask, new)
        return feeds | (past or {})

    def _ids(self, mask: Array) -> Array:
        return np.where(mask == 1, self.vocabulary.draw(mask.shape, self.random), self.vocabulary.padding)

    def _random_past(self, batch: int, length: int) -> dict[str, Array]:
        found = {}
        for name in self.names():
            if _is_past(name):
                _, heads, _, size = self._probed(name).shape
                noise = torch.from_numpy(self.random.standard_normal((batch, heads, length, size)) * 0.5)
                found[name] = to_array(noise.to(self._probed(name).dtype))
        return found

    def _probed(self, name: str) -> torch.Tensor:
        _, layer, part = name.split(".")
        return self.layers[2 * int(layer) + (part == "value")]


def _probe_layers(model: Any) -> list[torch.Tensor]:
    """Keys and values after three tokens.

    Raises:
        OptimError[task-not-supported]: the model keeps something else than keys and values.
    """
    from transformers import DynamicCache

    def run() -> Any:
        ids = to_tensor(np.full((2, 3), 1, np.int64))
        return model(input_ids=ids, past_key_values=DynamicCache(), use_cache=True).past_key_values

    try:
        layers = layers_of(without_computing(run))
    except (AttributeError, TypeError, ValueError) as error:
        raise _unknown_cache(model, f"{type(error).__name__}: {error}") from error
    if not layers or any(tensor is None or tensor.ndim != 4 or tensor.shape[2] != 3 for tensor in layers):
        raise _unknown_cache(model, "its cache holds other shapes than (batch, heads, tokens, size)")
    return layers


def _unknown_cache(model: Any, cause: str) -> OptimError:
    return OptimError.usage(
        "task-not-supported",
        f"{type(model).__name__} keeps no keys and values that can be inputs and outputs",
        cause,
        "export it from a factory of your own with --state, which takes any nested memory",
    )


def _is_past(name: str) -> bool:
    return name.startswith("past_key_values.")
