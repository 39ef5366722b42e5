"""What a user may set of each layout."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from optim import PassOptions

_PLAIN = r"[A-Za-z0-9][A-Za-z0-9_.-]*"


class TransformersJsOptions(PassOptions):
    """Of the layout ``transformers.js``."""

    dtype: Literal["fp32", "fp16", "int8", "uint8", "q8", "q4", "q4f16"] | None = Field(
        default=None, description="suffix of the file; by default the type in which the graph computes"
    )
    without_tokenizer: bool = Field(
        default=False, description="write the folder without a tokenizer, for models without text"
    )


class GenaiOptions(PassOptions):
    """Of the layout ``genai``."""

    tokens: int = Field(
        default=16, ge=2, le=512, description="number of tokens to generate and compare for each prompt"
    )
    without_tokenizer: bool = Field(
        default=False, description="write the folder without a tokenizer, for programs that make the ids"
    )


class TritonOptions(PassOptions):
    """Of the layout ``triton``."""

    name: str = Field(default="model", pattern=rf"^{_PLAIN}$", description="name of the model in the repository")
    batch: int = Field(
        default=8, ge=1, le=4096, description="largest number of samples in one batch, if the graph has a batch"
    )
    delay_us: int = Field(default=100, ge=0, description="time that a request waits for others, in microseconds")
    instances: int = Field(default=1, ge=1, le=64, description="number of copies of the model that run side by side")


class OptimumOptions(PassOptions):
    """Of the layout ``optimum``."""

    tag: str = Field(
        default="optim",
        pattern=rf"^({_PLAIN})?$",
        description="part of the file's name: onnx/model_TAG.onnx; empty: onnx/model.onnx, which is opened unnamed",
    )


class OnnxFilesOptions(PassOptions):
    """Options of the layout ``onnx``, named as in ``onnx.save_model``."""

    size_threshold: int = Field(
        default=1024,
        ge=128,
        description=(
            "bytes from which weights are outside model.onnx, as external data; onnxruntime opens no model with "
            "smaller ones outside"
        ),
    )
    all_tensors_to_one_file: bool = Field(
        default=True, description="put external data into model.onnx.data; false: into a file for each tensor"
    )
