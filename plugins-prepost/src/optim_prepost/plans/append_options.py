"""Options of ``prepost.append``: a preset and what it may choose, or explicit lists of steps as Olive had them."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from optim import PassOptions

Preset = Literal[
    "image-classification",
    "object-detection",
    "segmentation",
    "super-resolution",
    "text-embedding",
    "text-classification",
    "question-answering",
    "speech",
]

_TYPES = (
    "float",
    "uint8",
    "int8",
    "uint16",
    "int16",
    "int32",
    "int64",
    "string",
    "bool",
    "float16",
    "double",
    "uint32",
    "uint64",
    "complex64",
    "complex128",
    "bfloat16",
)


class PrePostProcessorInput(BaseModel):
    """An input of the composed model."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str = Field(description="of the input")
    data_type: str = Field(description="ONNX element type in lower case, e.g. uint8")
    shape: tuple[int | str, ...] = Field(description="sizes, or names of sizes that are known when it runs")

    @field_validator("data_type")
    @classmethod
    def _known(cls, value: str) -> str:
        if value not in _TYPES:
            raise ValueError(f"'{value}' is no type; known: {', '.join(_TYPES)}")
        return value


class AppendOptions(PassOptions):
    """A ``preset``, or lists ``pre`` and ``post`` with the inputs in ``tool_command_args``."""

    preset: Preset | None = Field(None, description="the task")
    input: Literal["auto", "bytes", "pixels", "text", "ids", "samples"] = Field(
        "auto",
        description="what goes in: bytes of an image or audio file, pixels (RGB, uint8), text, token ids, or samples "
        "of sound; auto: bytes or text natively, pixels, ids or samples for the web",
    )
    settings: str | None = Field(
        None, description="Hugging Face model folder, or its preprocessor_config.json: sizes, means, labels, vocabulary"
    )
    resize: Literal["exact", "shortest", "none"] | None = Field(
        None, description="how an image gets its size: both edges, or the shortest edge and a crop of the middle"
    )
    size: tuple[int, ...] | None = Field(None, description="height and width, or the shortest edge, in pixels")
    interpolation: Literal["bilinear", "bicubic", "nearest"] | None = Field(None, description="of resizing")
    scale: float | None = Field(None, gt=0, description="factor of pixels, 1/255 unless the settings say otherwise")
    mean: tuple[float, ...] | None = Field(None, description="of each channel, after the factor")
    std: tuple[float, ...] | None = Field(None, description="of each channel, after the factor")
    labels: tuple[str, ...] | str | None = Field(None, description="names of classes, or a text file with one a line")
    top_k: int = Field(1, ge=1, description="classes to give, a count")
    scores: Literal["logits", "probabilities"] = Field(
        "logits", description="what the model gives for classes; logits are brought to probabilities by softmax"
    )
    score_threshold: float = Field(0.25, ge=0, le=1, description="boxes with a lower score are left out")
    iou_threshold: float = Field(0.5, ge=0, le=1, description="of two boxes that overlap more the better is kept")
    max_detections: int = Field(100, ge=1, description="boxes of a class, and in all, at most; a count")
    box_layout: Literal["auto", "rows", "columns"] = Field(
        "auto", description="rows: [boxes, 4 + 1 + classes] (YOLO 5, 7); columns: [4 + classes, boxes] (YOLO 8, later)"
    )
    image_format: Literal["png", "jpg"] = Field("png", description="of an image that comes out, natively")
    pooling: Literal["mean", "first"] | None = Field(None, description="of an embedding, over tokens")
    normalize: bool | None = Field(None, description="whether an embedding gets length 1; unless the settings say no")
    vocabulary: str | None = Field(None, description="vocab.txt, vocab.json or tokenizer.json of BERT's tokenizer")
    lower_case: bool | None = Field(None, description="whether the tokenizer lowers case")
    strip_accents: bool | None = Field(None, description="whether it strips accents; as lower_case unless given")
    blank: int = Field(0, ge=0, description="number of the blank token of CTC")
    pre: tuple[dict[str, Any], ...] | None = Field(None, description="steps before the model, each {step: parameters}")
    post: tuple[dict[str, Any], ...] | None = Field(None, description="steps after the model, the same way")
    tool_command: str | None = Field(
        None,
        description="a ready list by its name in Olive: superresolution, mobilenet, yolo_detection, "
        "transformers_and_bert, whisper",
    )
    tool_command_args: dict[str, Any] | tuple[PrePostProcessorInput, ...] | None = Field(
        None, description="inputs for pre and post, each with name, data_type and shape; or arguments of tool_command"
    )
    target_opset: int = Field(18, ge=16, description="version of the standard operators, at least; images need 18")
    samples: str | None = Field(
        None, description="raw samples to prove equality on: a folder of images or WAV files, or a text file by lines"
    )
    files: str = Field("", description="sha256 of the files named here; filled in, and checked when a lock is repeated")

    @model_validator(mode="after")
    def _whole(self) -> AppendOptions:
        explicit = bool(self.pre or self.post)
        if sum((self.preset is not None, explicit, self.tool_command is not None)) != 1:
            raise ValueError("give one of preset, tool_command, or lists pre and post")
        if explicit and (not isinstance(self.tool_command_args, tuple) or not self.tool_command_args) and self.pre:
            raise ValueError("pre needs tool_command_args: a list of inputs with name, data_type and shape")
        if (self.mean is None) != (self.std is None) or (self.mean and len(self.mean) != len(self.std or ())):
            raise ValueError("mean and std belong together, one of each for each channel")
        if self.std and any(value == 0 for value in self.std):
            raise ValueError("std must not be 0")
        found = _digest_of_files(self)
        if self.files and found != self.files:
            raise ValueError("the files named here are not those that the lock was made with")
        object.__setattr__(self, "files", found)
        return self


def _digest_of_files(options: AppendOptions) -> str:
    """One digest for what is read beside the options, so that a changed file is a changed request."""
    named = [options.settings, options.vocabulary, options.labels if isinstance(options.labels, str) else None]
    digest = hashlib.sha256()
    paths: list[Path] = []
    for name in (*filter(None, named), *([options.samples] if options.samples else [])):
        path = Path(name)
        if not path.exists():
            raise ValueError(f"there is no {name}")
        wanted = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.suffix in _READ)
        paths += wanted
    for path in paths:
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest() if paths else ""


_READ = (".json", ".txt", ".png", ".jpg", ".jpeg", ".wav")
