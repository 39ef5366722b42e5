"""Raw samples to prove equality on: files that the user named, or made ones, always the same."""

from __future__ import annotations

import io
import wave
from pathlib import Path
from typing import Any

import numpy as np

from optim import OptimError
from optim.arrays import Feeds, dtype_of
from optim_prepost import PACKAGE
from optim_prepost.plans.plan import Port, StepPlan
from optim_prepost.reference.arrays import Array

_IMAGES = ((97, 131), (240, 180), (333, 500))
"""Heights and widths, odd ones among them."""

_TEXTS = (
    "A small cat sleeps on the warm stone wall.",
    "The committee postponed Tuesday's vote on the 2.5 million euro bridge, again!",
    "Résumé of a naïve café-owner: unbelievably well-organised, isn't it?",
)
_QUESTION = "Who sleeps on the wall?"
_MOST = 8
_OPEN = 7
"""Size of a dimension that a plan leaves open and nothing else says."""


def raw_samples(plan: StepPlan) -> list[Feeds]:
    """Three samples or more.

    Raises:
        OptimError[no-samples]: the folder that the user named has none.
        OptimError[bad-sample]: a file of it cannot be read.
    """
    if plan.samples:
        return _from_files(plan, Path(plan.samples))
    return [_made(plan, number) for number in range(3)]


def picture(height: int, width: int, seed: int) -> Array:
    """RGB pixels [height, width, 3]: smooth shapes with edges and a little noise, as photographs have."""
    from PIL import Image

    random = np.random.default_rng(seed)
    small = random.integers(0, 256, (6, 8, 3), dtype=np.uint8)
    smooth = np.asarray(Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC)).astype(np.int64)
    smooth[height // 4 : height // 2, width // 4 : width // 2] = random.integers(0, 256, 3)
    noisy = smooth + random.integers(-6, 7, smooth.shape)
    pixels: Array = np.clip(noisy, 0, 255).astype(np.uint8)
    return pixels


def sound(seconds: float, rate: int, seed: int) -> Array:
    """Samples, float32 [count]: a few tones that come and go, and noise."""
    random = np.random.default_rng(seed)
    time = np.arange(int(seconds * rate)) / rate
    tones = sum(np.sin(2 * np.pi * hertz * time) for hertz in random.uniform(100, 3000, 4))
    heard = 0.1 * tones * np.sin(np.pi * time / seconds) + 0.01 * random.standard_normal(len(time))
    samples: Array = heard.astype(np.float32)
    return samples


def _made(plan: StepPlan, number: int) -> Feeds:
    first = plan.pre[0].kind if plan.pre else ""
    port, kind = plan.inputs[0], plan.task.get("input")
    if kind == "ids":
        return _ids(plan, _TEXTS[number])
    if len(plan.inputs) == 1:
        if port.dtype == "string":
            return {port.name: _text(port, _TEXTS[number])}
        if first == "ConvertImageToBGR":
            return {port.name: _png(picture(*_edges(plan, number), number))}
        if port.dtype == "uint8" and len(port.shape) == 3 and port.shape[2] == 3:
            edges = zip(port.shape, _edges(plan, number), strict=False)
            height, width = (size if isinstance(size, int) else edge for size, edge in edges)
            return {port.name: picture(height, width, number)}
        if first == "AudioDecoder":
            return {port.name: _wav(sound(0.5 + number / 4, _rate(plan), number), _rate(plan))}
        if kind == "samples":
            return {port.name: sound(0.5 + number / 4, _rate(plan), number)}
    random = np.random.default_rng(number)
    return {port.name: _random(port, random) for port in plan.inputs}


def _edges(plan: StepPlan, number: int) -> tuple[int, int]:
    size = plan.task.get("size")
    return (int(size[0]), int(size[1])) if size else _IMAGES[number]


def _rate(plan: StepPlan) -> int:
    return int(plan.task.get("rate", 16000))


def _text(port: Port, text: str) -> Array:
    count = int(np.prod([size if isinstance(size, int) else 1 for size in port.shape]))
    words = [_QUESTION, text] if count == 2 else [text] * count
    return np.array(words, dtype=object).reshape([size if isinstance(size, int) else 1 for size in port.shape])


def _ids(plan: StepPlan, text: str) -> Feeds:
    """Token ids of a tokenizer outside; without its vocabulary small numbers do."""
    from optim_prepost.reference.text import bert_tokenizer

    params = plan.task.get("tokenizer")
    if params:
        words = np.array([_QUESTION, text] if plan.task.get("pair") else [text], dtype=object)
        made = bert_tokenizer(words, {"params": params})
        rows = dict(zip(("input_ids", "attention_mask", "token_type_ids"), made, strict=True))
    else:
        count = 5 + len(text) % 7
        rows = {"input_ids": np.arange(1, count + 1)[None], "attention_mask": np.ones((1, count), np.int64)}
        rows["attention_mask"][0, -2:] = 0
        rows["token_type_ids"] = np.zeros((1, count), np.int64)
    return {port.name: rows[port.name].astype(dtype_of(port.dtype)) for port in plan.inputs}


def _random(port: Port, random: np.random.Generator) -> Array:
    shape = [size if isinstance(size, int) else _OPEN for size in port.shape]
    if port.dtype == "string":
        return np.array([_TEXTS[0]] * int(np.prod(shape)), dtype=object).reshape(shape)
    dtype = dtype_of({"float": "float32", "double": "float64"}.get(port.dtype, port.dtype))
    if np.issubdtype(dtype, np.integer):
        return random.integers(0, 100, shape).astype(dtype)
    return random.random(shape).astype(dtype)


def _from_files(plan: StepPlan, place: Path) -> list[Feeds]:
    port, kind = plan.inputs[0], plan.task.get("input")
    if place.is_file() and place.suffix == ".txt":
        lines = [line.strip() for line in place.read_text(encoding="utf-8").splitlines() if line.strip()][:_MOST]
        found: list[Feeds] = [_ids(plan, line) if kind == "ids" else {port.name: _text(port, line)} for line in lines]
    else:
        files = [place] if place.is_file() else sorted(path for path in place.iterdir() if path.is_file())
        suffixes = (".wav",) if plan.preset == "speech" else (".png", ".jpg", ".jpeg")
        chosen = [path for path in files if path.suffix.lower() in suffixes][:_MOST]
        found = [{port.name: _read(path, plan)} for path in chosen]
    if not found:
        raise OptimError(
            "no-samples",
            f"{place} has no raw samples",
            "it has no line of text, no image and no WAV file that fits",
            "leave samples out: then they are made",
            PACKAGE,
        )
    return found


def _read(path: Path, plan: StepPlan) -> Array:
    """A file as the plan takes it: its bytes, or what is in it.

    Raises:
        OptimError[bad-sample]: it is no image or sound that can be read.
    """
    from PIL import Image

    from optim_prepost.reference.speech import audio_decoder

    content = np.frombuffer(path.read_bytes(), np.uint8)
    try:
        if plan.preset == "speech":
            samples: Array = audio_decoder(content, _rate(plan))[0]
            return samples if plan.task.get("input") == "samples" else content
        with Image.open(path) as opened:
            pixels = np.asarray(opened.convert("RGB"))
    except Exception as error:  # decoders raise whatever they meet
        raise OptimError(
            "bad-sample",
            f"the raw sample {path} cannot be read",
            f"{type(error).__name__}: {error}",
            f"repair it, or take it out of {path.parent}",
            PACKAGE,
        ) from error
    return pixels if len(plan.inputs[0].shape) == 3 else content


def _png(pixels: Any) -> Array:
    from PIL import Image

    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, "PNG")
    return np.frombuffer(stream.getvalue(), np.uint8)


def _wav(samples: Array, rate: int) -> Array:
    stream = io.BytesIO()
    with wave.open(stream, "wb") as written:
        written.setnchannels(1)
        written.setsampwidth(2)
        written.setframerate(rate)
        written.writeframes((np.clip(samples, -1, 1) * 32767).astype("<i2").tobytes())
    return np.frombuffer(stream.getvalue(), np.uint8)
