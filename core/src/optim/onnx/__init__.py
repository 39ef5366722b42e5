"""ONNX files and sessions, for passes and backends: read, write, look at, and run."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from optim.onnx.adapter_inputs import adapter_names as adapter_names
    from optim.onnx.adapter_inputs import name_adapter_inputs as name_adapter_inputs
    from optim.onnx.backend import OnnxRuntimeBackend as OnnxRuntimeBackend
    from optim.onnx.backend import OnnxRuntimeSession as OnnxRuntimeSession
    from optim.onnx.checker import check_graph as check_graph
    from optim.onnx.edit import UniqueNames as UniqueNames
    from optim.onnx.edit import add_constant as add_constant
    from optim.onnx.edit import constant_values as constant_values
    from optim.onnx.edit import denormal_weights as denormal_weights
    from optim.onnx.edit import is_denormal as is_denormal
    from optim.onnx.edit import make_constant as make_constant
    from optim.onnx.edit import only_reader as only_reader
    from optim.onnx.edit import read_constant as read_constant
    from optim.onnx.external_data import external_files as external_files
    from optim.onnx.external_data import model_size_bytes as model_size_bytes
    from optim.onnx.external_data import openable_file as openable_file
    from optim.onnx.files import deliver_model as deliver_model
    from optim.onnx.files import describe_model as describe_model
    from optim.onnx.files import discard_measured as discard_measured
    from optim.onnx.files import embedded_tensor as embedded_tensor
    from optim.onnx.files import read_ir as read_ir
    from optim.onnx.files import save_for_measuring as save_for_measuring
    from optim.onnx.libraries import operator_libraries as operator_libraries
    from optim.onnx.libraries import operator_library_path as operator_library_path
    from optim.onnx.operators import operator_counts as operator_counts
    from optim.onnx.operators import qualified_name as qualified_name
    from optim.onnx.operators import subgraphs as subgraphs
    from optim.onnx.refusals import plain_message as plain_message
    from optim.onnx.refusals import session_failed as session_failed
    from optim.onnx.sessions import EXACT_INTEGERS as EXACT_INTEGERS
    from optim.onnx.sessions import measure_limits as measure_limits
    from optim.onnx.sessions import open_session as open_session
    from optim.onnx.sessions import register_provider as register_provider
    from optim.onnx.sessions import runtime_limits as runtime_limits
    from optim.onnx.shapes import fix_shapes as fix_shapes
    from optim.onnx.shapes import fixed_inputs as fixed_inputs
    from optim.onnx.shapes import infer_shapes_again as infer_shapes_again
    from optim.onnx.shapes import require_shapes as require_shapes
    from optim.onnx.shapes import require_shapes_of as require_shapes_of
    from optim.onnx.shapes import shapes_of_feeds as shapes_of_feeds
else:
    from optim._engine.handed_on import hand_on

    __getattr__, __dir__, __all__ = hand_on(__name__)
