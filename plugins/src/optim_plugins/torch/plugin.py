"""The plugin ``torch``: what it offers. A new pass is one file, and one line here."""

from __future__ import annotations

from collections.abc import Sequence

from optim import Backend, Command, Exporter, SourcePass, Target, hookimpl
from optim_plugins.torch.exporters.dynamo import Dynamo
from optim_plugins.torch.exporters.torchscript import TorchScript
from optim_plugins.torch.passes.cast_dtype import CastDtype
from optim_plugins.torch.passes.fold_batch_norm import FoldBatchNorm
from optim_plugins.torch.passes.merge_lora import MergeLora
from optim_plugins.torch.passes.set_attention import SetAttention
from optim_plugins.torch.sources.load_factory import LoadFactory
from optim_plugins.torch.sources.load_huggingface import LoadHuggingFace
from optim_plugins.torch.sources.torch_backend import TorchBackend
from optim_plugins.torch.sources.torch_targets import torch_targets

OPTIM_HOOK_API = 1


@hookimpl
def optim_pre_export(target: Target) -> Sequence[type[SourcePass]]:
    """Loading, and changes that make way for the exporters."""
    return (LoadHuggingFace, LoadFactory, MergeLora, FoldBatchNorm, SetAttention, CastDtype)


@hookimpl
def optim_export(target: Target) -> Sequence[type[Exporter]]:
    """The exporters of torch."""
    return (Dynamo, TorchScript)


@hookimpl
def optim_targets() -> Sequence[Target]:
    """Torch itself, to time sources beside what was made of them."""
    return torch_targets()


@hookimpl
def optim_backends() -> Sequence[type[Backend]]:
    """Torch itself."""
    return (TorchBackend,)


@hookimpl
def optim_commands() -> Sequence[Command]:
    """What decoders need that were exported without optim, and kernels of torch beside those of onnxruntime."""
    folder = "optim_plugins.torch"
    return (
        Command(f"{folder}.merge_decoders.command:merge_decoders", "Merge a decoder without and one with a past."),
        Command(f"{folder}.swap.command:swap", "Compare the kernels of torch and onnxruntime."),
    )
