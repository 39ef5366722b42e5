"""Made-up inputs of what reads all at once: texts, images, films, sounds, series, of the sizes that a config says."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from optim import TensorInfo, Trial, TrialStep
from optim.arrays import Array
from optim_plugins.torch.sources.huggingface.made_up_inputs import Vocabulary, longest, padding_mask


class EncoderInputs:
    """Makes the inputs of one encoder, of any size.

    Args:
        call: what takes them: a model's forward, or another of its methods.
        config: says their sizes.
        main: the input that holds what is read.
        seed: of the values.
    """

    def __init__(self, call: Callable[..., Any], config: Any, main: str, seed: int) -> None:
        self.config = config
        self.main = main
        self.random = np.random.default_rng(seed)
        self.sizes = self._sizes()
        self.taken = frozenset(inspect.signature(call).parameters)

    def make(self, batch: int, size: int, *, padded: str = "") -> dict[str, Array]:
        """Inputs by name; ``size`` is the length of a text or of a sound, and nothing of an image."""
        if self.main == "input_ids":
            return self._text(batch, size, padded)
        if self.main == "pixel_values":
            return {self.main: self._noise((batch, *self._image()))}
        if self.main == "past_values":
            return {self.main: self._noise((batch, *self._series()))}
        if self.main == "input_values":
            arrays = {"input_values": self._noise((batch, size))}
            if getattr(self.config, "feat_extract_norm", "") == "layer":
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
        vocabulary = Vocabulary.of(self.config)
        lengths = [max(1, size - 2 * row) if padded and row else size for row in range(batch)]
        mask = padding_mask(lengths, size, left=padded == "left")
        ids = np.where(mask == 1, vocabulary.draw((batch, size), self.random), vocabulary.padding)
        if vocabulary.end is not None:  # some models read a text's features where it ends
            ids[np.arange(batch), size - 1 if padded == "left" else np.array(lengths) - 1] = vocabulary.end
        arrays = {"input_ids": ids}
        if "attention_mask" in self.taken:
            arrays["attention_mask"] = mask
        if "token_type_ids" in self.taken and getattr(self.config, "type_vocab_size", 0) > 1:
            second = (np.arange(size)[None] >= size // 2) & (mask == 1)
            arrays["token_type_ids"] = second.astype(np.int64)
        return arrays

    def _noise(self, shape: tuple[int, ...]) -> Array:
        return self.random.standard_normal(shape).astype(np.float32)

    def _image(self) -> tuple[int, ...]:
        size = getattr(self.config, "image_size", None) or 224
        height, width = (size, size) if isinstance(size, int) else tuple(size)
        frames = getattr(self.config, "num_frames", None)  # a film is a row of images
        image = (int(getattr(self.config, "num_channels", 3)), int(height), int(width))
        return (int(frames), *image) if frames else image

    def _features(self) -> tuple[int, ...]:
        bins = int(getattr(self.config, "num_mel_bins", 80))
        if spectrogram := getattr(self.config, "spec_size", None):  # CLAP folds a long sound into a square
            return 1, int(spectrogram) * (int(spectrogram) // bins), bins
        return int(getattr(self.config, "max_length", 1024)), bins

    def _series(self) -> tuple[int, int]:
        length, channels = (getattr(self.config, name, None) for name in ("context_length", "num_input_channels"))
        if not isinstance(length, int) or not isinstance(channels, int):
            raise TypeError("its config has no context_length or num_input_channels, the sizes of a series")
        return length, channels

    def _sizes(self) -> tuple[int, int, int, int]:
        if self.main == "input_values":
            return (1600, 4000, 5600, 8000)
        limit = longest(self.config) if self.main == "input_ids" else 16
        return (1, min(9, limit), min(14, limit), min(23, limit))


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
