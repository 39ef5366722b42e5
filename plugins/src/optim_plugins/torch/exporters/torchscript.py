"""``torch.torchscript``: the older exporter, which traces one run; taken where dynamo fails."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from optim import APPLICABLE, Applicable, Component, Exported, Exporter, OptimError, SourceContext, Target
from optim_plugins.torch.available import torch_available
from optim_plugins.torch.exporters.dynamo import quiet, tidy
from optim_plugins.torch.passes.merge_lora import has_adapters
from optim_plugins.torch.tracebacks import not_traceable

if TYPE_CHECKING:
    from optim_plugins.torch.options import TorchScriptOptions

_PROTOBUF_BYTES = (2 << 30) - (64 << 20)


class TorchScript(Exporter):
    """Traces a run on the example: branches on values become whatever the example chose, which verifying finds out."""

    name = "torch.torchscript"
    summary = "exports with torch.onnx.export and TorchScript, if dynamo fails"
    options = "optim_plugins.torch.options:TorchScriptOptions"
    after = ("torch.dynamo",)

    def applicable(self, component: Component, target: Target) -> Applicable:
        """To modules below 2 GB, the limit of a protobuf file."""
        available = torch_available()
        if not available:
            return available
        from optim_plugins.torch.arguments.flat_module import FlatModule

        if not isinstance(component.module, FlatModule):
            return Applicable.no(f"{component.name} is not a module of this plugin")
        size = sum(parameter.nbytes for parameter in component.module.parameters())
        if size > _PROTOBUF_BYTES:
            return Applicable.no(f"weights of {size / 1e9:.1f} GB do not fit the one file that TorchScript writes")
        return APPLICABLE

    def export(self, component: Component, options: TorchScriptOptions, context: SourceContext) -> Exported:
        """Trace, and read back what was written."""
        import onnx_ir as ir

        path = context.scratch / f"{component.name}.torchscript.onnx"
        notes = [] if component.module.is_scripted else ["branches on values are fixed as on the example"]
        folds = not has_adapters(component.module)
        if not folds:
            notes.append("adapters keep their own names: constants are not folded")
        try:
            with quiet():
                _export(component, options, path, folds=folds)
        except OptimError:
            raise
        except Exception as error:  # the exporter raises anything, with the user's code somewhere inside
            raise not_traceable(component, error, self.name) from error
        graph = ir.load(path)
        return Exported(tidy(graph), tuple(notes), {"nodes": len(graph.graph)})


def _export(component: Component, options: TorchScriptOptions, path: Path, *, folds: bool) -> None:
    import torch

    from optim_plugins.torch.arguments.flat_module import FlatModule, in_a_row, tensors_for

    module = component.module
    assert isinstance(module, FlatModule)
    dynamic = {
        info.name: {axis: size for axis, size in enumerate(info.shape or ()) if isinstance(size, str)}
        for info in (*component.inputs, *component.outputs)
    }
    tensors = tensors_for(module, component.example)
    traced, arguments = module, (tensors,)
    with torch.no_grad():
        if module.is_scripted:  # the exporter calls scripted parts only of a module that is scripted itself
            arguments = tuple(tensors)
            traced = torch.jit.trace(in_a_row(module), arguments, check_trace=False)
        torch.onnx.export(
            traced,
            arguments,
            str(path),
            dynamo=False,
            input_names=list(module.names),
            output_names=list(module.output_names),
            dynamic_axes={name: axes for name, axes in dynamic.items() if axes},
            opset_version=options.opset,
            do_constant_folding=folds,
        )
