"""``onnxruntime.transformers.optimizer``, with the model type found from the graph.

It reads and writes whole models in memory, and some of what it makes is invalid or crashes it: the core checks what
comes out. It needs no torch. Its fusion of RMS normalization is kept off, because the operator is in the standard
domain, where no checker knows it.
"""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optim import ExitStatus, Model, OptimError
from optim.onnx import operator_counts

if TYPE_CHECKING:
    from optim_plugins.ort.fuse.fuse_transformer_options import FuseTransformerOptions

_LARGE_BYTES = 1 << 30
_ATTRIBUTES = {
    "group_norm_channels_last": "group_norm_channels_last",
    "multi_head_attention": "use_multi_head_attention",
    "multi_head_attention_bias": "disable_multi_head_attention_bias",
}
"""Attributes of FusionOptions for flags that are not called ``enable_`` there."""

_HAS_LAYER_NORMALIZATION = 17
"""The opset since which exporters write LayerNormalization themselves."""


def fuse(
    model: Model, chosen: FuseTransformerOptions, scratch: Path, *, use_gpu: bool = False
) -> tuple[Path, dict[str, int], tuple[str, ...]]:
    """Optimize a model into ``scratch``.

    Args:
        model: that is fused.
        chosen: model type, sizes and switches.
        scratch: where the file is written.
        use_gpu: fuse into operators that onnxruntime has for CUDA alone, too.

    Returns:
        The file written, how often each operator was fused, and what to say of it.

    Raises:
        OptimError[optimizer-crashed]: it fails on this graph, as every model type that fits.
    """
    optimizer, notes = _first_that_works(model, chosen, use_gpu=use_gpu)
    if chosen.packing and not optimizer.get_nodes_by_op_type("RemovePadding"):
        notes = (*notes, "nothing is packed: the optimizer fused no attention")
    before = operator_counts(model.path)
    after = {name: int(count) for name, count in optimizer.get_fused_operator_statistics().items()}
    grown = {name: after[name] - before.get(name, 0) - before.get(f"com.microsoft:{name}", 0) for name in after}
    without_use = [name for name in ("num_heads", "hidden_size", "mask") if getattr(chosen, name)]
    if without_use and not any(count > 0 for name, count in grown.items() if name.endswith("Attention")):
        notes = (*notes, f"{', '.join(without_use)} changed nothing: the optimizer fused no attention")
    path = scratch / "fused.onnx"
    size = sum(len(tensor.raw_data) for tensor in optimizer.model.graph.initializer)
    optimizer.save_model_to_file(str(path), use_external_data_format=size > _LARGE_BYTES)
    return path, {name: count for name, count in grown.items() if count > 0}, notes


def _model_family(model: Model) -> str:
    """The model type whose fusions fit: decoders with a past, vision transformers, or any other."""
    if any("past" in value.name for value in model.inputs):
        return "gpt2"
    convolutions = operator_counts(model.path).get("Conv", 0)
    return "vit" if convolutions and any(value.name == "pixel_values" for value in model.inputs) else "bert"


def _first_that_works(model: Model, chosen: FuseTransformerOptions, *, use_gpu: bool) -> tuple[Any, tuple[str, ...]]:
    """The optimizer's model, and how it crashed as other model types."""
    crashes: list[str] = []
    families = (chosen.model_type,) if chosen.model_type else (_model_family(model), "bert")
    for family in dict.fromkeys(families):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)  # it leaves a temporary folder behind when it crashes
            try:
                return _optimized(model, family, chosen, use_gpu=use_gpu), tuple(crashes)
            except Exception as error:
                crashes.append(f"as model type {family} it crashed: {type(error).__name__}: {error}")
    raise OptimError(
        "optimizer-crashed",
        "onnxruntime's optimizer cannot fuse this graph",
        "; ".join(crashes),
        "use the other engine: --with \"ort.fuse-transformer:engine='optim'\"",
        "onnxruntime",
        ExitStatus.NOT_HELD,
    )


def _optimized(model: Model, family: str, chosen: FuseTransformerOptions, *, use_gpu: bool) -> Any:
    from onnxruntime.transformers.fusion_options import FusionOptions
    from onnxruntime.transformers.optimizer import optimize_model

    options = FusionOptions(family)
    options.enable_layer_norm = model.opset.get("", 1) < _HAS_LAYER_NORMALIZATION
    for flag, is_on in chosen.flags.items():
        name, value = _ATTRIBUTES.get(flag, f"enable_{flag}"), is_on
        setattr(options, name, not value if name.startswith("disable_") else value)
    if chosen.mask == "none":
        options.disable_attention_mask()
    elif chosen.mask is not None:
        options.use_raw_attention_mask(chosen.mask == "raw")
    logging.getLogger("onnxruntime.transformers").setLevel(logging.ERROR)
    with contextlib.redirect_stdout(io.StringIO()):
        made = optimize_model(
            str(model.path),
            model_type=family,
            num_heads=chosen.num_heads or 0,
            hidden_size=chosen.hidden_size or 0,
            opt_level=0,
            use_gpu=use_gpu,
            optimization_options=options,
        )
        if chosen.packing and _packs(made):
            made.convert_to_packing_mode(True)
        return made


def _packs(optimizer: Any) -> bool:
    """Whether there is an attention whose padding can be removed."""
    return bool(optimizer.get_nodes_by_op_type("Attention") or optimizer.get_nodes_by_op_type("MultiHeadAttention"))
