"""``adapters.extract``: weights of LoRA, DoRA and LoHa adapters become inputs of the graph.

    y = base + s * MatMul(MatMul(x, A'), B')    becomes    y = base + MatMul(MatMul(x, lora_A), lora_B)

``lora_A`` and ``lora_B`` are inputs with a default of rank 0, so that the model without an adapter computes the base
exactly, and adapters of any rank are fed to one graph. Scales are in ``lora_B``;
:mod:`optim_plugins.adapters.extract.sites` has the form for the three methods. The adapter that the model was exported
with becomes a file of the run folder.

The gate holds the new graph, fed with that file, against the original, and without an adapter against the exported
graph whose adapters are left out. Further adapters that are named (``also``) are each held to the budget by themselves.

``adapters.extract-packed`` rounds the weights of adapters to 4 or 8 bits (:mod:`optim_plugins.adapters.packing`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim import APPLICABLE, Applicable, Context, Interface, Model, OptimError, Pass, PassResult, Role, Target, Variant

if TYPE_CHECKING:
    from collections.abc import Sequence

    from optim_plugins.adapters.extract.extract_options import ExtractOptions
    from optim_plugins.adapters.extract.sites import Site
    from optim_plugins.adapters.packing import Packing

_FED = "optim_plugins.adapters.extract.feeds:with_adapter"
_NOT_FED = "optim_plugins.adapters.extract.feeds:without_adapter"


class Extract(Pass):
    """Takes adapters out of the graph."""

    name = "adapters.extract"
    summary = "turns the weights of LoRA, DoRA and LoHa adapters into inputs, so that one model serves many adapters"
    options = "optim_plugins.adapters.extract.extract_options:ExtractOptions"
    role = Role.REQUESTED
    before = ("ort:*", "qnn:*", "cuda:*", "tensorrt:*", "openvino:*")
    alternatives = "adapters.extract"

    def refuse(self, options: ExtractOptions, target: Target) -> None:
        """Ways that a target does not take adapters in."""
        from optim_plugins.adapters.extract.targets import refusal

        if (error := refusal(options, target)) is not None:
            raise error

    def applicable(self, model: Model, target: Target) -> Applicable:
        """To graphs with adapter weights."""
        from optim_plugins.adapters.extract.sites import find_parts

        if model.adapters:
            return Applicable.no("the adapters are inputs already")
        if not find_parts(model.ir()):
            return Applicable.no(
                "the graph has no weights of LoRA, DoRA or LoHa adapters: they are found by the names that peft gives "
                "them, in models exported with --without torch.merge-lora"
            )
        return APPLICABLE

    def apply(self, model: Model, options: ExtractOptions, context: Context) -> PassResult:
        """Take them out, and keep the adapter that the model has as a file, and further ones that are named."""
        from optim_plugins.adapted import Adapter, write_adapter
        from optim_plugins.adapters.extract.further import further_adapters
        from optim_plugins.adapters.extract.rewrite import Supply, adapters_as_inputs, without_adapters
        from optim_plugins.adapters.extract.sites import find_sites, require_none_left

        self.refuse(options, context.target)  # a run asks before only where options were given
        base = model.ir()
        without_adapters(base, find_sites(base))
        reference = context.save(base, model)
        graph = model.ir()
        sites = find_sites(graph)
        name, packing, external = sites[0].adapter, self.packing(options), options.supply == "external"
        rank = self._rank(sites, options, fixed=external or packing is not None)
        file = context.scratch / f"{name}.onnx_adapter"
        supply = Supply(options.required, rank, packing, file.name if external else "")
        extracted = adapters_as_inputs(graph, sites, supply)
        require_none_left(graph)
        write_adapter(Adapter(extracted.arrays), file)
        further = further_adapters(options.also, model.ir(), extracted.inputs, name, context.scratch)
        files = {one.name: one for one in (file, *(each.file for each in further))}
        result = context.save(graph, model, attachments=files)
        parameters = {"file": str(result.attachments[file.name])}
        zeros = parameters if options.required or external else {}
        variants = [Variant("without an adapter", reference, _NOT_FED, zeros)]
        for one in further:
            fed = {"file": str(result.attachments[one.file.name])}
            variants.append(Variant(f"with {one.file.stem}", context.save(one.reference, model), _FED, fed))
        interface = Interface(feeds=_FED, parameters=parameters, variants=tuple(variants))
        kinds = "DoRA" if any(site.factors.gain is not None for site in sites) else "LoRA"
        counts = {"layers": len(sites), "inputs": len(extracted.inputs)}
        notes = (f"{kinds} adapter '{name}' is in {file.name}; {_without(options)}",)
        return PassResult(result, changed=True, notes=notes, counts=counts, interface=interface)

    def packing(self, options: ExtractOptions) -> Packing | None:
        """How weights are packed; None: they stay floats."""
        return None

    def _rank(self, sites: Sequence[Site], options: ExtractOptions, *, fixed: bool) -> int | None:
        most = max(site.factors.down.shape[1] for site in sites)
        if options.rank is not None and options.rank < most:
            raise OptimError(
                "adapter-rank-too-large",
                f"the adapter of the model does not fit rank {options.rank}",
                f"it has rank {most}",
                f"optim run MODEL --with {self.name}:rank={most}",
            )
        return options.rank or (most if fixed else None)


class ExtractPacked(Extract):
    """Takes adapters out of the graph, and rounds their weights."""

    name = "adapters.extract-packed"
    summary = "does the same as adapters.extract, and stores adapters in 4 or 8 bits, all with one rank"
    options = "optim_plugins.adapters.extract.extract_options:PackedOptions"
    lossy = True

    def packing(self, options: ExtractOptions) -> Packing | None:
        """As the options say."""
        from optim_plugins.adapters.extract.extract_options import PackedOptions
        from optim_plugins.adapters.packing import Packing

        assert isinstance(options, PackedOptions)
        return Packing(options.bits, options.block_size, options.mode)


def _without(options: ExtractOptions) -> str:
    if options.required:
        return "every run must bring it, or another"
    if options.supply == "external":
        return "the model opens with it, or with another, and has no weights of its own there"
    return "without one the model computes its base"
