"""Whether onnxruntime opens a graph, asked before it is written, and without its weights."""

from __future__ import annotations

import onnx_ir as ir

from optim_plugins.ort.graph.inferred_shapes import weights_as_inputs


def refusal(graph: ir.Model) -> str:
    """Why onnxruntime does not open a graph on the processor; it is given inputs in place of large weights."""
    import onnxruntime

    from optim.onnx import operator_libraries, operator_library_path, plain_message

    with weights_as_inputs(graph):
        proto = ir.serde.serialize_model(graph)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    for folder in _folders(graph):
        options.add_session_config_entry("session.model_external_initializers_file_folder_path", folder)
    for package in operator_libraries(graph.opset_imports):
        options.register_custom_ops_library(operator_library_path(package))
    try:
        onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # onnxruntime has no base class for what it raises
        return plain_message(str(error))
    return ""


def _folders(graph: ir.Model) -> set[str]:
    tensors = [value.const_value for part in graph.graphs() for value in part.initializers.values()]
    return {str(tensor.base_dir) for tensor in tensors if isinstance(tensor, ir.ExternalTensor)}
