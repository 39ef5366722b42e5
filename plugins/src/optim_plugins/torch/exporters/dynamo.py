"""``torch.dynamo``: ``torch.onnx.export`` on ``torch.export``, with weights left where they are mapped from."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from optim import APPLICABLE, Applicable, Component, Exported, Exporter, SourceContext, Target
from optim.errors import describe_exception
from optim_plugins.torch.available import torch_available
from optim_plugins.torch.passes.merge_lora import has_adapters
from optim_plugins.torch.passes.set_attention import use_eager

if TYPE_CHECKING:
    import onnx_ir as ir

    from optim_plugins.torch.arguments.flat_module import FlatModule
    from optim_plugins.torch.options import DynamoOptions

_KEPT_METADATA = ("pkg.torch.onnx.name_scopes", "pkg.torch.onnx.class_hierarchy")
"""Where a node comes from in the module. Stack traces are left out: they name files of this machine."""


class Dynamo(Exporter):
    """The exporter of torch >= 2.5 that traces with torch.export."""

    name = "torch.dynamo"
    summary = "exports with torch.onnx.export and dynamo"
    options = "optim_plugins.torch.options:DynamoOptions"

    def applicable(self, component: Component, target: Target) -> Applicable:
        """To modules of torch."""
        available = torch_available()
        if not available:
            return available
        from optim_plugins.torch.arguments.flat_module import FlatModule

        if not isinstance(component.module, FlatModule):
            return Applicable.no(f"{component.name} is not a module of this plugin")
        if component.module.is_scripted:
            return Applicable.no(f"{component.name} is scripted or traced, and torch.export reads Python alone")
        return APPLICABLE

    def export(self, component: Component, options: DynamoOptions, context: SourceContext) -> Exported:
        """Trace the module on its example, every named dimension dynamic."""
        from optim_plugins.torch.tracebacks import not_traceable

        notes: list[str] = []
        optimize = options.optimize
        if optimize and has_adapters(component.module):
            optimize, notes = False, ["adapters keep their own names: constants are not folded"]
        try:
            program = _export(component, options, optimize=optimize)
        except Exception as error:  # the exporter raises anything, with the user's code somewhere inside
            if not use_eager(component.module):
                raise not_traceable(component, error, self.name) from error
            notes.append("the attention it came with cannot be traced: exported with eager attention")
            try:
                program = _export(component, options, optimize=optimize)
            except Exception as again:  # likewise; the first is about the module as it is, and is what is reported
                error.add_note(f"with eager attention: {describe_exception(again)}")
                raise not_traceable(component, error, self.name) from error
        graph: ir.Model = program.model
        return Exported(tidy(graph), tuple(notes), {"nodes": len(graph.graph)})


def _export(component: Component, options: DynamoOptions, *, optimize: bool) -> Any:
    import torch

    from optim_plugins.torch.arguments.flat_module import tensors_for

    module: FlatModule = component.module
    dimensions = [
        {axis: size for axis, size in enumerate(info.shape or ()) if isinstance(size, str)} for info in component.inputs
    ]
    with torch.no_grad(), quiet():
        return torch.onnx.export(
            module,
            (tensors_for(module, component.example),),
            None,
            dynamo=True,
            input_names=list(module.names),
            output_names=list(module.output_names),
            dynamic_shapes=(dimensions,),
            opset_version=options.opset,
            optimize=optimize,
            verbose=False,
            external_data=False,
        )


def tidy(graph: ir.Model) -> ir.Model:
    """Parameters under the names that they have in the user's module, and no trace of this machine."""
    for value in list(graph.graph.initializers.values()):
        if value.name and value.name.startswith("module."):
            value.name = _free_name(graph, value.name.removeprefix("module."))
    graph.metadata_props.clear()
    graph.graph.metadata_props.clear()
    graph.doc_string = None
    for node in graph.graph.all_nodes():
        for key in [key for key in node.metadata_props if key not in _KEPT_METADATA]:
            del node.metadata_props[key]
        for output in node.outputs:
            output.metadata_props.clear()
    for value in (*graph.graph.inputs, *graph.graph.outputs, *graph.graph.initializers.values()):
        value.metadata_props.clear()
    return graph


def _free_name(graph: ir.Model, name: str) -> str:
    return f"{name}.weight" if name in graph.graph.initializers else name


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Without the exporters' progress, hints and deprecations: what matters is checked afterwards."""
    logger = logging.getLogger("torch.onnx")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(before)
