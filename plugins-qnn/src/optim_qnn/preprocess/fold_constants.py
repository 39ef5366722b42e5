"""What computes constants is replaced by them, by onnxruntime's first level: it keeps standard operators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim import Context, OptimError

if TYPE_CHECKING:
    import onnx_ir as ir

_LEFT_ALONE = ["MatMulAddFusion", "GeluFusionL1", "LayerNormFusionL1"]
"""The first makes Gemm between two Reshapes of MatMul and Add, which HTP takes as they are; the others come later, are
counted, and one of them is an option."""


def folded(graph: ir.Model, context: Context) -> ir.Model:
    """The graph without what computes constants, and with shapes inferred.

    Args:
        graph: with fixed input shapes; left alone.
        context: of the pass; files go into its scratch folder.

    Raises:
        OptimError[session-failed]: onnxruntime refuses the graph.
    """
    import onnx_ir
    import onnxruntime

    from optim.onnx import infer_shapes_again, session_failed

    source, target = context.scratch / "to_fold.onnx", context.scratch / "folded.onnx"
    onnx_ir.save(graph, source, external_data="to_fold.data")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(target)
    options.add_session_config_entry("session.optimized_model_external_initializers_file_name", "folded.data")
    options.add_session_config_entry("session.optimized_model_external_initializers_min_size_in_bytes", "1024")
    try:
        onnxruntime.InferenceSession(
            str(source), options, providers=["CPUExecutionProvider"], disabled_optimizers=_LEFT_ALONE
        )
    except Exception as error:
        raise session_failed(source, error) from error
    if not target.is_file():
        raise OptimError(
            "session-failed",
            "onnxruntime folded no constants",
            "it wrote no graph",
            "leave the pass out with --without PASS, and report it to its plugin",
        )
    found = onnx_ir.load(target)
    _in_order(found, graph)
    infer_shapes_again(found)
    return found


def _in_order(found: ir.Model, graph: ir.Model) -> None:
    """Nodes in the order of the graph that was folded, attributes by name: onnxruntime writes both as they come.

    Of the domains only those that are used: onnxruntime writes all that any library registered in this process.
    """
    places = {node.outputs[0].name: place for place, node in enumerate(graph.graph)}
    nodes = sorted(found.graph, key=lambda node: places.get(node.outputs[0].name, len(places)))
    found.graph.remove(nodes)
    found.graph.extend(nodes)
    found.graph.sort()
    for node in found.graph.all_nodes():
        attributes = sorted(node.attributes.items())
        node.attributes.clear()
        node.attributes.update(attributes)
    used = {"", *(node.domain for node in found.graph.all_nodes())}
    domains = sorted((domain, version) for domain, version in found.opset_imports.items() if domain in used)
    found.opset_imports.clear()
    found.opset_imports.update(domains)
