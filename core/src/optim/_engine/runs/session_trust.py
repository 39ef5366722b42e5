"""What a ``session.json`` may say, whoever wrote it: settings of the runtime, and nothing that names a file or code.

A run folder may come from a stranger, and so may any file in it. What is not on these lists is refused, not ignored:
the model would then run otherwise than its report says.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from optim.errors import OptimError
from optim.onnx.libraries import OPERATOR_LIBRARIES

if TYPE_CHECKING:
    from optim._engine.runs.session_file import SessionFile

OPTIONS = frozenset(
    {
        "enable_cpu_mem_arena",
        "enable_mem_pattern",
        "enable_mem_reuse",
        "execution_mode",
        "execution_order",
        "graph_optimization_level",
        "inter_op_num_threads",
        "intra_op_num_threads",
        "log_severity_level",
        "log_verbosity_level",
        "use_deterministic_compute",
        "use_per_session_threads",
    }
)
"""Attributes of ``onnxruntime.SessionOptions``; others write files, such as ``optimized_model_filepath``."""

CONFIG = frozenset(
    {
        "ep.share_ep_contexts",
        "ep.stop_share_ep_contexts",
        "mlas.disable_kleidiai",
        "mlas.enable_gemm_fastmath_arm64_bfloat16",
        "mlas.use_lut_gemm",
        "optimization.disable_specified_optimizers",
        "optimization.enable_cast_chain_elimination",
        "optimization.enable_gelu_approximation",
        "session.allow_released_opsets_only",
        "session.disable_aot_function_inlining",
        "session.disable_cpu_ep_fallback",
        "session.disable_double_qdq_remover",
        "session.disable_prepacking",
        "session.disable_quant_qdq",
        "session.dynamic_block_base",
        "session.enable_quant_qdq_cleanup",
        "session.force_spinning_stop",
        "session.inter_op.allow_spinning",
        "session.intra_op.allow_spinning",
        "session.intra_op_thread_affinities",
        "session.qdqisint8allowed",
        "session.set_denormal_as_zero",
        "session.strict_shape_type_inference",
        "session.use_device_allocator_for_initializers",
        "session.use_env_allocators",
        "session.x64quantprecision",
    }
)
"""Config entries, as ``onnxruntime_session_options_config_keys.h`` has them; others name files or write some."""

PROVIDER_LIBRARIES = frozenset({"onnxruntime_qnn"})
"""Packages of a provider beside those that targets of installed plugins name."""

_SEPARATORS = ("/", "\\")


def require_harmless(saved: SessionFile, path: Path) -> None:
    """Refuse what a session file has no business to say.

    Args:
        saved: what it says.
        path: of the file.

    Raises:
        OptimError[untrusted-setting]: it names a setting that is on no list, a library that nothing here is known to
            need, or a place on the disk.
    """
    for name in saved.session_options:
        if name not in OPTIONS:
            raise _untrusted(path, f"session option '{name}'", OPTIONS)
    for name in saved.session_config:
        if name not in CONFIG:
            raise _untrusted(path, f"config entry '{name}'", CONFIG)
    for name in saved.operator_libraries:
        if name not in OPERATOR_LIBRARIES.values():
            raise _untrusted(path, f"library '{name}'", OPERATOR_LIBRARIES.values())
    if saved.library and saved.library not in PROVIDER_LIBRARIES | _libraries_of_targets():
        raise _untrusted(path, f"library '{saved.library}'", PROVIDER_LIBRARIES | _libraries_of_targets())
    for name, value in saved.provider_options.items():
        if any(separator in value for separator in _SEPARATORS):
            raise _untrusted(path, f"provider option '{name}', which names the place '{value}'", ())


def _libraries_of_targets() -> set[str]:
    from optim._engine.plugins.registry import load_registry

    return {target.library for target in load_registry().targets().values()}


def _untrusted(path: Path, what: str, known: Iterable[str]) -> OptimError:
    listed = ", ".join(sorted(set(known)))
    return OptimError(
        "untrusted-setting",
        f"{path} cannot be used",
        f"it has the {what}" + (f"; a session file may have {listed}" if listed else ""),
        f"take it out of {path.name}, or make the folder again: optim run MODEL -o DIR",
    )
