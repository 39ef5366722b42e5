"""Models that read all at once: encoders of text, images and sound, with any head."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from optim import Source, SourceRequest, TensorInfo, Trial, TrialStep
from optim.arrays import Array
from optim_plugins.torch.arguments.dimension_symbols import named_shapes
from optim_plugins.torch.arguments.flat_module import FlatModule, component_of, shapes_of, to_tensor, without_computing
from optim_plugins.torch.arguments.named_dimensions import with_named_dimensions
from optim_plugins.torch.sources.huggingface.made_up_inputs import Vocabulary, longest, padding_mask, takes

_SKIPPED_OUTPUTS = frozenset({"hidden_states", "attentions", "past_key_values", "loss", "cross_attentions"})


def encoder_source(model: Any, request: SourceRequest) -> Source:
    """One component ``model`` with the outputs that the model names, without hidden states and attentions."""
    maker = _Inputs(model, request.seed)
    example, sizes = maker.make(2, maker.sizes[1], padded="right"), maker.sizes_of(2, 1)
    module = FlatModule(model, list(example))
    module.output_names = _output_names(module, example)
    other, other_sizes = maker.make(3, maker.sizes[2]), maker.sizes_of(3, 2)
    inputs = with_named_dimensions(maker.declare(example), example, request)
    outputs = named_shapes(
        module.output_names, shapes_of(module, example), shapes_of(module, other), sizes, other_sizes
    )

    def trials() -> Iterator[Trial]:
        return maker.trials(inputs, outputs)

    component = component_of("model", module, inputs, outputs, example, trials)
    return Source(request, (component,), {"kind": "encoder"})


class _Inputs:
    """Makes the inputs of one model, of any size."""

    def __init__(self, model: Any, seed: int) -> None:
        self.model = model
        self.main = model.main_input_name
        self.random = np.random.default_rng(seed)
        self.sizes = self._sizes()

    def make(self, batch: int, size: int, *, padded: str = "") -> dict[str, Array]:
        """Inputs by name; ``size`` is the length of a text or of a sound, and nothing of an image."""
        if self.main == "input_ids":
            return self._text(batch, size, padded)
        if self.main == "pixel_values":
            return {"pixel_values": self._noise((batch, *self._image()))}
        if self.main == "input_values":
            arrays = {"input_values": self._noise((batch, size))}
            if getattr(self.model.config, "feat_extract_norm", "") == "layer":
                arrays["attention_mask"] = np.ones((batch, size), np.int64)
            return arrays
        return {self.main: self._noise((batch, *self._features()))}

    def declare(self, example: Mapping[str, Array]) -> list[TensorInfo]:
        """The inputs with the dimensions that may vary."""
        found = []
        for name, array in example.items():
            shape: tuple[int | str, ...] = ("batch", *array.shape[1:])
            if self.main == "input_ids" or (self.main == "input_values" and array.ndim == 2):
                shape = ("batch", "sequence" if self.main == "input_ids" else "samples")
            found.append(TensorInfo(name, array.dtype.name, shape))
        return found

    def sizes_of(self, batch: int, index: int) -> dict[str, int]:
        """Sizes of the symbols, for one of :attr:`sizes`."""
        name = {"input_ids": "sequence", "input_values": "samples"}.get(self.main)
        return {"batch": batch} | ({name: self.sizes[index]} if name else {})

    def trials(self, inputs: list[TensorInfo], outputs: list[TensorInfo]) -> Iterator[Trial]:
        """Shapes that were not in the example; nothing but its batch for what is fixed."""
        shapes = {info.name: info.shape for info in inputs}
        free = any(shape and "batch" in shape for shape in shapes.values())
        batches = (1, 3, 2) if free else (2,) * 3
        several = any("sequence" in (shape or ()) or "samples" in (shape or ()) for shape in shapes.values())
        sizes = self.sizes if several else (self.sizes[1],) * len(self.sizes)
        plans = [
            (batches[0], sizes[2], ""),
            (batches[1], sizes[3], "right"),
            (batches[2], sizes[2], "left"),
            (batches[0], sizes[0], ""),
        ]
        for batch, size, padded in plans:
            feeds = self.make(batch, size, padded=padded if self.main == "input_ids" else "")
            feeds = {name: array for name, array in feeds.items() if name in shapes}
            padding = f", {padded} padding" if padded and self.main == "input_ids" else ""
            length = f", length {size}" if several else ""
            yield Trial(f"batch {batch}{length}{padding}", (TrialStep(feeds, _valid(feeds, outputs)),))

    def _text(self, batch: int, size: int, padded: str) -> dict[str, Array]:
        vocabulary = Vocabulary.of(self.model.config)
        lengths = [max(1, size - 2 * row) if padded and row else size for row in range(batch)]
        mask = padding_mask(lengths, size, left=padded == "left")
        ids = np.where(mask == 1, vocabulary.draw((batch, size), self.random), vocabulary.padding)
        arrays = {"input_ids": ids}
        if takes(self.model, "attention_mask"):
            arrays["attention_mask"] = mask
        if takes(self.model, "token_type_ids") and getattr(self.model.config, "type_vocab_size", 0) > 1:
            second = (np.arange(size)[None] >= size // 2) & (mask == 1)
            arrays["token_type_ids"] = second.astype(np.int64)
        return arrays

    def _noise(self, shape: tuple[int, ...]) -> Array:
        return self.random.standard_normal(shape).astype(np.float32)

    def _image(self) -> tuple[int, int, int]:
        config = self.model.config
        size = getattr(config, "image_size", None) or 224
        height, width = (size, size) if isinstance(size, int) else tuple(size)
        return int(getattr(config, "num_channels", 3)), int(height), int(width)

    def _features(self) -> tuple[int, int]:
        config = self.model.config
        bins, frames = getattr(config, "num_mel_bins", 80), getattr(config, "max_length", 1024)
        return int(frames), int(bins)

    def _sizes(self) -> tuple[int, int, int, int]:
        if self.main == "input_values":
            return (1600, 4000, 5600, 8000)
        limit = longest(self.model.config) if self.main == "input_ids" else 16
        return (1, min(9, limit), min(14, limit), min(23, limit))


def _output_names(module: FlatModule, example: Mapping[str, Array]) -> tuple[str, ...]:
    import torch

    found = without_computing(
        lambda: module.module(**{name: to_tensor(array) for name, array in example.items()}, return_dict=True)
    )
    return tuple(
        name for name, value in found.items() if isinstance(value, torch.Tensor) and name not in _SKIPPED_OUTPUTS
    )


def _valid(feeds: Mapping[str, Array], outputs: list[TensorInfo]) -> dict[str, Array]:
    """What counts of each output that runs along the text: where there is text."""
    mask = feeds.get("attention_mask")
    if mask is None:
        return {}
    found: dict[str, Array] = {}
    for info in outputs:
        if info.shape is not None and info.shape[:2] == ("batch", "sequence"):
            found[info.name] = (mask == 1).reshape(*mask.shape, *[1] * (len(info.shape) - 2))
    return found
