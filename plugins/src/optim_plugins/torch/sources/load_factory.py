"""``torch.load-factory``: a module from the user's own function."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim import Applicable, Source, SourceContext, SourcePass, SourceResult, Target
from optim_plugins.torch.available import torch_available

if TYPE_CHECKING:
    from optim import NoOptions


class LoadFactory(SourcePass):
    """Calls ``package.module:factory``, which returns a module, or a module and example inputs."""

    name = "torch.load-factory"
    summary = "builds a module with your own function"
    loads = True

    def applicable(self, source: Source, target: Target) -> Applicable:
        """To sources of the form ``package.module:factory``."""
        if source.request.folder is not None or ":" not in source.request.spec:
            return Applicable.no(f"{source.request.spec} is not package.module:factory")
        return torch_available()

    def apply(self, source: Source, options: NoOptions, context: SourceContext) -> SourceResult:
        """Call the factory and find out what its inputs and outputs are."""
        from optim_plugins.torch.sources.call_factory import call_factory
        from optim_plugins.torch.sources.module_source import module_source

        made = call_factory(source.request)
        loaded = module_source(made, source.request)
        sizes = [size for one in loaded.components for info in one.inputs for size in info.shape or ()]
        fixed = "every dimension is fixed: give a second example of other sizes, or --dynamic input=batch,sequence"
        return SourceResult(
            loaded,
            True,
            () if any(isinstance(size, str) for size in sizes) else (fixed,),
            counts={"parameters": sum(parameter.numel() for parameter in made.module.parameters())},
        )
