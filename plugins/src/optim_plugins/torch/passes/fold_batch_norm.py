"""``torch.fold-batch-norm``: batch normalization behind a convolution becomes part of its weights.

y = (conv(x) - mean) / sqrt(variance + eps) * gamma + beta
-> conv'(x) with weight' = weight * gamma / sqrt(variance + eps), bias' = (bias - mean) * ... + beta
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from optim import APPLICABLE, Applicable, Source, SourceContext, SourcePass, SourceResult, Target

if TYPE_CHECKING:
    import torch

    from optim import NoOptions


class FoldBatchNorm(SourcePass):
    """Folds where the convolution's output is read by the normalization alone, which is seen by running the module."""

    name = "torch.fold-batch-norm"
    summary = "merges batch normalization into convolutions"
    after = ("torch.load-huggingface", "torch.load-factory", "torch.merge-lora")

    def applicable(self, source: Source, target: Target) -> Applicable:
        """To modules with batch normalization."""
        if not source.components:
            return Applicable.no("nothing is loaded")
        from torch.nn import Module
        from torch.nn.modules.batchnorm import _BatchNorm

        modules = [one.module for one in source.components if isinstance(one.module, Module)]
        if any(isinstance(part, _BatchNorm) for module in modules for part in module.modules()):
            return APPLICABLE
        return Applicable.no("there is no batch normalization")

    def apply(self, source: Source, options: NoOptions, context: SourceContext) -> SourceResult:
        """Run each component once to see what follows what, then fold."""
        folded = missed = 0
        for component in source.components:
            done, left = _fold(component.module, lambda one=component: one.run(one.example))
            folded, missed = folded + done, missed + left
        counts = {"folded": folded, "left": missed}
        if not folded:
            return SourceResult(source, False, ("no normalization follows a convolution alone",), counts)
        return SourceResult(source, True, counts=counts)


def _fold(module: torch.nn.Module, run: Any) -> tuple[int, int]:
    import torch
    from torch.nn.modules.batchnorm import _BatchNorm
    from torch.nn.utils.fusion import fuse_conv_bn_weights

    norms = [part for part in module.modules() if isinstance(part, _BatchNorm)]
    folded = 0
    for conv, norm in _pairs(module, run):
        if not norm.track_running_stats or norm.running_mean is None or norm.running_var is None:
            continue
        conv.weight, conv.bias = fuse_conv_bn_weights(
            conv.weight, conv.bias, norm.running_mean, norm.running_var, norm.eps, norm.weight, norm.bias
        )
        _replace(module, norm, torch.nn.Identity())
        folded += 1
    return folded, len(norms) - folded


def _pairs(module: torch.nn.Module, run: Any) -> list[tuple[Any, Any]]:
    """Convolutions and the normalizations that are the only readers of their outputs; each is called once."""
    import torch
    from torch.nn.modules.batchnorm import _BatchNorm
    from torch.overrides import TorchFunctionMode

    made: dict[int, tuple[Any, torch.Tensor]] = {}  # tensors are kept, so that no address is used twice
    reads: dict[int, int] = {}
    found: list[tuple[Any, Any, int]] = []
    calls: dict[int, int] = {}

    class Count(TorchFunctionMode):  # type: ignore[misc]  # torch is not type-checked here
        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            result = function(*args, **(kwargs or {}))
            if isinstance(result, torch.Tensor | list | tuple):  # asking for a size or a type reads nothing
                for value in (*args, *(kwargs or {}).values()):
                    for one in value if isinstance(value, list | tuple) else (value,):
                        if isinstance(one, torch.Tensor):
                            reads[id(one)] = reads.get(id(one), 0) + 1
            return result

    def after_conv(conv: Any, inputs: Any, output: Any) -> None:
        made[id(output)] = (conv, output)
        reads[id(output)] = 0  # whatever was read at this address before is gone
        calls[id(conv)] = calls.get(id(conv), 0) + 1

    def before_norm(norm: Any, inputs: Any) -> None:
        calls[id(norm)] = calls.get(id(norm), 0) + 1
        if id(inputs[0]) in made:
            found.append((made[id(inputs[0])][0], norm, id(inputs[0])))

    kinds = (torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d)
    hooks = [part.register_forward_hook(after_conv) for part in module.modules() if type(part) in kinds]
    hooks += [part.register_forward_pre_hook(before_norm) for part in module.modules() if isinstance(part, _BatchNorm)]
    try:
        with Count():
            run()
    finally:
        for hook in hooks:
            hook.remove()
    once = [(conv, norm) for conv, norm, output in found if reads.get(output, 0) == 1]
    return [(conv, norm) for conv, norm in once if calls[id(conv)] == 1 and calls[id(norm)] == 1]


def _replace(module: torch.nn.Module, old: Any, new: Any) -> None:
    for parent in module.modules():
        for name, child in parent.named_children():
            if child is old:
                setattr(parent, name, new)
