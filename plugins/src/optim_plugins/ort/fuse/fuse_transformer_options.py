"""Options of ``ort.fuse-transformer``."""

from __future__ import annotations

from typing import Annotated, Literal, Self, get_args

from pydantic import Field, model_validator

from optim import PassOptions

Fusion = Literal[
    "multi_head_attention",
    "attention",
    "rotary_embedding",
    "rms_normalization",
    "reshapes",
    "erf_gelu",
    "gelu",
    "bias_gelu",
    "skip_layer_normalization",
]

Flag = Literal[
    "attention",
    "bias_add",
    "bias_gelu",
    "bias_skip_layer_norm",
    "bias_splitgelu",
    "embed_layer_norm",
    "gelu",
    "gelu_approximation",
    "gemm_fast_gelu",
    "group_norm",
    "group_norm_channels_last",
    "layer_norm",
    "multi_head_attention",
    "multi_head_attention_bias",
    "nhwc_conv",
    "packed_kv",
    "packed_qkv",
    "qordered_matmul",
    "rotary_embeddings",
    "shape_inference",
    "skip_group_norm",
    "skip_layer_norm",
]
"""Switches of ``onnxruntime.transformers.fusion_options.FusionOptions``, without ``enable_``."""

ModelType = Literal[
    "bart",
    "bert",
    "bert_keras",
    "bert_tf",
    "clip",
    "conformer",
    "gpt2",
    "gpt2_tf",
    "gpt_neox",
    "mmdit",
    "phi",
    "qwen3",
    "sam2",
    "swin",
    "t5",
    "tnlr",
    "unet",
    "vae",
    "vit",
]

_OF_DIFFUSION = ("bias_add", "bias_splitgelu", "group_norm", "nhwc_conv", "packed_kv", "packed_qkv", "skip_group_norm")
"""Flags that onnxruntime only has for model types unet, vae and clip."""


class FuseTransformerOptions(PassOptions):
    """Whose fusions, and what they leave alone."""

    engine: Literal["optim", "onnxruntime"] = Field(
        "optim",
        description=(
            "source of the fusions: optim is this package and onnxscript; onnxruntime is "
            "onnxruntime.transformers.optimizer"
        ),
    )
    leave_out: tuple[Fusion, ...] = Field(
        (),
        description=(
            "fusions of engine optim that should not run; attention includes the projections, "
            "multi_head_attention leaves them outside"
        ),
    )
    model_type: ModelType | None = Field(
        None, description="model type for engine onnxruntime; by default optim detects gpt2, vit or bert"
    )
    num_heads: int | None = Field(
        None,
        ge=1,
        description="number of attention heads for engine onnxruntime, if it does not detect them in the graph",
    )
    hidden_size: int | None = Field(
        None, ge=1, description="hidden size for engine onnxruntime, if it does not detect it in the graph"
    )
    flags: dict[Flag, Annotated[bool, Field(strict=True)]] = Field(
        default_factory=dict,
        description=(
            "switches of engine onnxruntime by their names in FusionOptions, e.g. `{gelu_approximation=true}`. "
            f"For model_type unet, vae or clip: `{', '.join(_OF_DIFFUSION)}`. For all: "
            f"`{', '.join(name for name in get_args(Flag) if name not in _OF_DIFFUSION)}`. Here gelu includes QuickGelu"
        ),
    )
    mask: Literal["index", "raw", "none"] | None = Field(
        None,
        description=(
            "mask of attention for engine onnxruntime, by default that of the model type. `index` has the number of "
            "tokens of each row, `raw` has a number for each token, and `none` promises that nothing is padded"
        ),
    )
    packing: bool = Field(
        False,
        description=(
            "remove padding before attention with engine onnxruntime (PackedAttention); needs mask index, and only "
            "CUDA has kernels for it"
        ),
    )

    @model_validator(mode="after")
    def _fits(self) -> Self:
        of_onnxruntime = {
            "model_type": self.model_type,
            "num_heads": self.num_heads,
            "hidden_size": self.hidden_size,
            "flags": self.flags,
            "mask": self.mask,
            "packing": self.packing,
        }
        given = next((name for name, value in of_onnxruntime.items() if value), "")
        if self.engine == "optim" and given:
            raise ValueError(f"{given} is for engine onnxruntime: set engine to onnxruntime")
        if self.engine == "onnxruntime" and self.leave_out:
            raise ValueError("leave_out is for engine optim; for engine onnxruntime set flags to false")
        if (self.num_heads is None) != (self.hidden_size is None):
            raise ValueError("num_heads and hidden_size belong together")
        if self.num_heads and self.hidden_size and self.hidden_size % self.num_heads:
            raise ValueError(f"hidden_size {self.hidden_size} is no multiple of num_heads {self.num_heads}")
        of_diffusion = next((name for name in self.flags if name in _OF_DIFFUSION), "")
        if of_diffusion and self.model_type not in ("unet", "vae", "clip"):
            raise ValueError(f"flag {of_diffusion} is for model_type unet, vae or clip")
        if self.packing and self.mask != "index":
            raise ValueError("packing needs mask index: it counts the tokens of each row")
        return self
