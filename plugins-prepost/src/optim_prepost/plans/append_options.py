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
            raise ValueError(f"'{value}' is not a type; known: {', '.join(_TYPES)}")
        return value


class AppendOptions(PassOptions):
    """A ``preset``, or lists ``pre`` and ``post`` with the inputs in ``tool_command_args``."""

    preset: Preset | None = Field(None, description="task of the model")
    input: Literal["auto", "bytes", "pixels", "text", "ids", "samples"] = Field(
        "auto",
        description=(
            "input of the new model: bytes of an image or audio file, pixels (RGB, uint8), text, token ids, or "
            "samples of sound. By default (`auto`) bytes or text on a CPU, and pixels, ids or samples for the web"
        ),
    )
    settings: str | None = Field(
        None,
        description="Hugging Face model folder or its preprocessor_config.json: sizes, means, labels and vocabulary",
    )
    resize: Literal["exact", "shortest", "none"] | None = Field(
        None,
        description=(
            "how an image gets its size: exact sets both edges, shortest sets the shortest edge and crops the middle"
        ),
    )
    size: tuple[int, ...] | None = Field(None, description="height and width, or the shortest edge, in pixels")
    interpolation: Literal["bilinear", "bicubic", "nearest"] | None = Field(
        None, description="interpolation of resizing"
    )
    scale: float | None = Field(None, gt=0, description="factor of pixels; by default that of the settings, or 1/255")
    mean: tuple[float, ...] | None = Field(None, description="value for each channel, after the factor")
    std: tuple[float, ...] | None = Field(None, description="value for each channel, after the factor")
    labels: tuple[str, ...] | str | None = Field(
        None, description="names of classes, or a text file with one name per line"
    )
    top_k: int = Field(1, ge=1, description="number of classes to return")
    scores: Literal["logits", "probabilities"] = Field(
        "logits", description="kind of scores that the model returns; softmax turns logits into probabilities"
    )
    score_threshold: float = Field(0.25, ge=0, le=1, description="lowest score of a box")
    iou_threshold: float = Field(
        0.5, ge=0, le=1, description="largest overlap of two boxes; if two overlap more, the better one stays"
    )
    max_detections: int = Field(100, ge=1, description="largest number of boxes, for each class and in total")
    box_layout: Literal["auto", "rows", "columns"] = Field(
        "auto", description="rows: [boxes, 4 + 1 + classes] (YOLO 5, 7); columns: [4 + classes, boxes] (YOLO 8, later)"
    )
    image_format: Literal["png", "jpg"] = Field("png", description="format of an output image, on a CPU")
    pooling: Literal["mean", "first"] | None = Field(None, description="how an embedding is pooled over tokens")
    normalize: bool | None = Field(
        None, description="scale an embedding to length 1; by default as in the settings, or true"
    )
    vocabulary: str | None = Field(None, description="vocab.txt, vocab.json or tokenizer.json of a BERT tokenizer")
    lower_case: bool | None = Field(None, description="let the tokenizer convert to lower case")
    strip_accents: bool | None = Field(None, description="let the tokenizer strip accents; by default as lower_case")
    blank: int = Field(0, ge=0, description="index of the blank token of CTC")
    pre: tuple[dict[str, Any], ...] | None = Field(
        None, description="steps before the model, each as {step: parameters}"
    )
    post: tuple[dict[str, Any], ...] | None = Field(
        None, description="steps after the model, each as {step: parameters}"
    )
    tool_command: str | None = Field(
        None,
        description=(
            "predefined list of steps, by its name in Olive: superresolution, mobilenet, yolo_detection, "
            "transformers_and_bert, whisper"
        ),
    )
    tool_command_args: dict[str, Any] | tuple[PrePostProcessorInput, ...] | None = Field(
        None,
        description="inputs for pre and post, each with name, data_type and shape; or the arguments of tool_command",
    )
    target_opset: int = Field(18, ge=16, description="lowest version of the standard operators; images need 18")
    samples: str | None = Field(
        None,
        description=(
            "raw samples for the comparison: a folder of images or WAV files, or a text file with one sample per line"
        ),
    )
    files: str = Field(
        "", description="sha256 of the files named here; optim fills it in, and checks it when a lock is repeated"
    )

    @model_validator(mode="after")
    def _whole(self) -> AppendOptions:
        explicit = bool(self.pre or self.post)
        if sum((self.preset is not None, explicit, self.tool_command is not None)) != 1:
            raise ValueError("give one of preset, tool_command, or lists pre and post")
        if explicit and (not isinstance(self.tool_command_args, tuple) or not self.tool_command_args) and self.pre:
            raise ValueError("pre needs tool_command_args: a list of inputs with name, data_type and shape")
        first = next(iter(self.pre[0]), "") if self.pre else ""
        given = self.tool_command_args if isinstance(self.tool_command_args, tuple) else ()
        if first in _READS_FILES and given and any(isinstance(size, int) for size in given[0].shape):
            raise ValueError(
                f"{first} takes the bytes of a file, whose number differs from file to file: "
                f"give '{given[0].name}' the shape [\"num_bytes\"] instead of {list(given[0].shape)}"
            )
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


_READS_FILES = ("ConvertImageToBGR", "AudioDecoder")
"""Steps whose input is a whole file in memory."""

_READ = (".json", ".txt", ".png", ".jpg", ".jpeg", ".wav")
