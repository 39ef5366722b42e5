"""``adapters.extract``: weights of LoRA, DoRA and LoHa adapters become inputs of the graph.

    y = base + s * MatMul(MatMul(x, A'), B')    becomes    y = base + MatMul(MatMul(x, lora_A), lora_B)

``lora_A`` and ``lora_B`` are inputs with a default of rank 0, so that the model without an adapter computes the base
exactly, and adapters of any rank are fed to one graph. Scales are in ``lora_B``;
:mod:`optim_plugins.adapters.extract.sites` has the form for the three methods. The adapter that the model was exported
with becomes a file of the run folder.

The gate holds the new graph, fed with that file, against the original, and without an adapter against the exported
graph whose adapters are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim import APPLICABLE, Applicable, Context, Interface, Model, OptimError, Pass, PassResult, Role, Target, Variant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optim_plugins.adapters.extract.extract_options import ExtractOptions
    from optim_plugins.adapters.extract.sites import Site

_FED = "optim_plugins.adapters.extract.feeds:with_adapter"
_NOT_FED = "optim_plugins.adapters.extract.feeds:without_adapter"


class Extract(Pass):
    """Takes adapters out of the graph."""

    name = "adapters.extract"
    summary = "make inputs of the weights of LoRA, DoRA and LoHa adapters: many adapters over one optimized model"
    options = "optim_plugins.adapters.extract.extract_options:ExtractOptions"
    role = Role.REQUESTED
    before = ("ort:*", "qnn:*", "cuda:*", "tensorrt:*", "openvino:*")

    def applicable(self, model: Model, target: Target) -> Applicable:
        """To graphs with weights of adapters."""
        from optim_plugins.adapters.extract.sites import find_parts

        del target
        if model.adapters:
            return Applicable.no("the adapters are inputs already")
        if not find_parts(model.ir()):
            return Applicable.no(
                "the graph has no weights of LoRA, DoRA or LoHa adapters: they are found by the names that peft gives "
                "them, in models exported with --without torch.merge-lora"
            )
        return APPLICABLE

    def apply(self, model: Model, options: ExtractOptions, context: Context) -> PassResult:
        """Take them out, and keep the adapter that the model has as a file."""
        from optim.adapters.adapter_file import Adapter, write_adapter
        from optim_plugins.adapters.extract.rewrite import adapters_as_inputs, without_adapters
        from optim_plugins.adapters.extract.sites import find_sites, require_none_left

        base = model.ir()
        without_adapters(base, find_sites(base))
        reference = context.save(base, model)
        graph = model.ir()
        sites = find_sites(graph)
        rank = _rank(sites, options)
        extracted = adapters_as_inputs(graph, sites, required=options.required, rank=rank)
        require_none_left(graph)
        name = sites[0].adapter
        file = context.scratch / f"{name}.onnx_adapter"
        write_adapter(Adapter(extracted.arrays), file)
        result = context.save(graph, model, attachments={file.name: file})
        parameters = {"file": str(result.attachments[file.name])}
        none = Variant("without an adapter", reference, _NOT_FED, parameters if options.required else {})
        interface = Interface(feeds=_FED, parameters=parameters, variants=(none,))
        kinds = "DoRA" if any(site.factors.gain is not None for site in sites) else "LoRA"
        counts = {"layers": len(sites), "inputs": len(extracted.inputs)}
        notes = (f"{kinds} adapter '{name}' is in {file.name}; without one the model computes its base",)
        return PassResult(result, changed=True, notes=notes, counts=counts, interface=interface)


def _rank(sites: Sequence[Site], options: ExtractOptions) -> int | None:
    most = max(site.factors.down.shape[1] for site in sites)
    if options.rank is not None and options.rank < most:
        raise OptimError(
            "adapter-rank-too-large",
            f"the adapter of the model does not fit rank {options.rank}",
            f"it has rank {most}",
            f"optim run MODEL --with adapters.extract:rank={most}",
        )
    return options.rank
