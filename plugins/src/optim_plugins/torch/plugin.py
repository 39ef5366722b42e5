"""The plugin ``torch``: what it offers. A new pass is one file beside this one, and one line here."""

from __future__ import annotations

from collections.abc import Sequence

from optim import Backend, Exporter, SourcePass, Target, hookimpl
from optim_plugins.torch.backend import TARGETS, TorchBackend
from optim_plugins.torch.cast_dtype import CastDtype
from optim_plugins.torch.dynamo import Dynamo
from optim_plugins.torch.fold_batch_norm import FoldBatchNorm
from optim_plugins.torch.load_factory import LoadFactory
from optim_plugins.torch.load_huggingface import LoadHuggingFace
from optim_plugins.torch.merge_lora import MergeLora
from optim_plugins.torch.set_attention import SetAttention
from optim_plugins.torch.torchscript import TorchScript

OPTIM_HOOK_API = 1


@hookimpl
def optim_pre_export(target: Target) -> Sequence[type[SourcePass]]:
    """Loading, and changes that make way for the exporters."""
    del target
    return (LoadHuggingFace, LoadFactory, MergeLora, FoldBatchNorm, SetAttention, CastDtype)


@hookimpl
def optim_export(target: Target) -> Sequence[type[Exporter]]:
    """The exporters of torch."""
    del target
    return (Dynamo, TorchScript)


@hookimpl
def optim_targets() -> Sequence[Target]:
    """Torch itself, to time sources beside what was made of them."""
    return TARGETS


@hookimpl
def optim_backends() -> Sequence[type[Backend]]:
    """Torch itself."""
    return (TorchBackend,)
