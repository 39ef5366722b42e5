"""Reads a ``session.json``, whoever wrote it: it may set the runtime, and name no file and no code.

A run folder may come from a stranger, and so may any file in it. What is not on these lists is refused, not ignored:
the model would then run otherwise than its report says.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from pydantic import ValidationError

from optim._engine.json_file import read_json
from optim._engine.plugins.registry import load_registry
from optim._engine.runs.session_file import MODEL_FILE, SESSION_FILE, SessionFile
from optim.errors import OptimError
from optim.jobs.wire import from_wire
from optim.model import PACKED_WEIGHTS
from optim.onnx.libraries import OPERATOR_LIBRARIES

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
        PACKED_WEIGHTS,
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

_PROVIDER_LIBRARIES = frozenset({"onnxruntime_ep_openvino", "onnxruntime_qnn"})
"""Packages of a provider beside those that targets of installed plugins name."""

PROVIDER_OPTIONS: Mapping[str, frozenset[str]] = {
    "CPUExecutionProvider": frozenset({"use_arena"}),
    "CoreMLExecutionProvider": frozenset(
        {"EnableOnSubgraphs", "MLComputeUnits", "ModelFormat", "RequireStaticInputShapes", "SpecializationStrategy"}
    ),
    "DmlExecutionProvider": frozenset({"device_filter", "device_id", "disable_metacommands", "performance_preference"}),
    "OpenVINOExecutionProvider": frozenset(
        {"device_type", "disable_dynamic_shapes", "model_priority", "num_of_threads", "num_streams", "precision"}
    ),
    "XnnpackExecutionProvider": frozenset({"intra_op_num_threads"}),
}
"""Options of the CPU and of the providers of ``ep:NAME``. Others name files (``profiling_file_path``: a bare name is in
the working folder), load libraries (``backend_path``) or are addresses in memory (``gpu_external_alloc``). Of another
provider those are taken that an installed plugin's target calls harmless."""

_SEPARATORS = ("/", "\\")


def read_session_file(folder: Path) -> SessionFile:
    """What ``session.json`` in ``folder`` says.

    Raises:
        OptimError[not-a-run-folder]: there is none.
        OptimError[bad-session-file]: it is not what :func:`write_session_files` writes.
        OptimError[untrusted-setting]: it says what no session file may say.
        OptimError[runtime-missing]: nobody here knows what may be said of its target.
    """
    path = folder / SESSION_FILE
    try:
        saved = from_wire(SessionFile, read_json(path))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise OptimError.usage(
            "not-a-run-folder",
            f"{folder} is not a folder that optim run wrote",
            f"there is no {path}",
            "optim run MODEL -o DIR",
        ) from error
    except ValidationError as error:
        problems = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise OptimError("bad-session-file", f"{path} cannot be used", problems, "run optim run again") from error
    except ValueError as error:
        raise OptimError("bad-session-file", f"{path} is not JSON", str(error), "run optim run again") from error
    _require_harmless(saved, path)
    return saved


def _require_harmless(saved: SessionFile, path: Path) -> None:
    """Refuse a setting that is on no list, a library that nothing here is known to need, and a place on the disk."""
    from optim.onnx.context_files import ARRAY_FILE  # onnx with it

    listed: tuple[tuple[str, Iterable[str], Collection[str]], ...] = (
        ("session option", saved.session_options, OPTIONS),
        ("config entry", saved.session_config, CONFIG),
        ("library", saved.operator_libraries, OPERATOR_LIBRARIES.values()),
    )
    for kind, names, known in listed:
        for name in names:
            if name not in known:
                raise _untrusted(path, f"{kind} '{name}'", known)
    if saved.library:
        libraries = _PROVIDER_LIBRARIES | {target.library for target in load_registry().targets().values()}
        if saved.library not in libraries:
            raise _untrusted(path, f"library '{saved.library}'", libraries)
    if saved.adapter and not ARRAY_FILE.fullmatch(saved.adapter):
        raise _untrusted(path, f"adapter '{saved.adapter}'", ())
    for name, zeros in saved.warm_up.items():
        if not zeros.is_allowed:
            raise _untrusted(path, f"warm-up of input '{name}' on {list(zeros.shape)} of {zeros.dtype}", ())
    _require_harmless_options(saved, path)


def _require_harmless_options(saved: SessionFile, path: Path) -> None:
    """The same of the options of providers: those that a provider's plugin calls harmless, none of which is a place."""
    told = {saved.provider: saved.provider_options}
    for provider, options in (*told.items(), *saved.also.items(), *saved.tuned_provider_options.items()):
        harmless = _harmless_options(provider, saved, path) if options else frozenset()
        for name, value in options.items():
            if name not in harmless:
                raise _untrusted(path, f"option '{name}' of {provider or saved.target}", harmless)
            if any(separator in value for separator in _SEPARATORS):
                raise _untrusted(path, f"provider option '{name}', which names the place '{value}'", ())


def _harmless_options(provider: str, saved: SessionFile, path: Path) -> frozenset[str]:
    """Options of a provider, or of the target where it has a runtime of its own, whose plugin must be here then."""
    if provider in PROVIDER_OPTIONS:
        return PROVIDER_OPTIONS[provider]
    from optim._engine.backends.own_session import runtime_missing

    registry, known = load_registry(), saved.target.partition(":")[0]
    if known:
        try:
            registry.target(known)
        except OptimError as error:
            raise runtime_missing(path.with_name(MODEL_FILE), saved.target, saved.package, error) from error
    there = registry.targets().values()
    meant = [one for one in there if (one.runs_on == provider if provider else one.name == known)]
    return frozenset(option for one in meant for option in one.harmless_options)


def _untrusted(path: Path, what: str, known: Iterable[str]) -> OptimError:
    listed = ", ".join(sorted(set(known)))
    return OptimError(
        "untrusted-setting",
        f"{path} cannot be used",
        f"it has the {what}" + (f"; a session file may have {listed}" if listed else ""),
        f"take it out of {path.name}, or make the folder again: optim run MODEL -o DIR",
    )
