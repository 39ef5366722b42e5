"""``ort.tune-execution``: how the runtime computes once a model is open.

Each setting is proposed alone; the search races them, drops what is beaten, and tries together what won.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from optim import APPLICABLE, Applicable, Context, Model, Pass, PassResult, SessionConfig, Target
from optim_plugins.ort.kernels import CPU_PROVIDER, WASM, runs_as_cpu

if TYPE_CHECKING:
    from optim_plugins.ort.tune.tune_execution_options import TuneExecutionOptions

_MODES = {"sequential": "ORT_SEQUENTIAL", "parallel": "ORT_PARALLEL"}


class TuneExecution(Pass):
    """Execution mode, spinning, arena and memory pattern, denormals, packed weights."""

    name = "ort.tune-execution"
    summary = "tries how the runtime computes: execution mode, spinning, arena, memory pattern, denormals, prepacking"
    options = "optim_plugins.ort.tune.tune_execution_options:TuneExecutionOptions"
    after = ("ort.tune-session",)
    session_only = True
    hardware = "a processor: these are settings of the runtime's CPU provider"

    def applicable(self, model: Model, target: Target) -> Applicable:
        """If onnxruntime runs the model on the CPU."""
        if not runs_as_cpu(target.made_for):
            return Applicable.no(f"these settings are of {CPU_PROVIDER}; the target runs on {target.made_for}")
        return APPLICABLE

    def candidates(self, model: Model, target: Target, context: Context) -> Iterator[TuneExecutionOptions]:
        """One setting at a time, those that help more often first; branches at once need threads beside the others."""
        from optim.jobs import usable_processors
        from optim_plugins.ort.tune.tune_execution_options import TuneExecutionOptions

        yield TuneExecutionOptions(flush_denormals=True)
        yield TuneExecutionOptions(memory_pattern=False)
        one_thread = target.made_for == WASM or target.threads == 1  # a page has one, unless it is isolated from others
        if not one_thread:
            yield TuneExecutionOptions(spinning=False)
        yield TuneExecutionOptions(arena=False)
        if not (one_thread or target.threads) and usable_processors() > 1 and _has_branches(model):
            yield TuneExecutionOptions(execution_mode="parallel", inter_op_num_threads=2)
        yield TuneExecutionOptions(prepacking=False)

    def apply(self, model: Model, options: TuneExecutionOptions, context: Context) -> PassResult:
        """Lay the settings over the model's."""
        chosen = _session_options(options)
        entries = _config_entries(options)
        tuned = model.with_session(SessionConfig(chosen, entries))
        if tuned.digest == model.digest:
            return PassResult(model, changed=False, notes=("the model has these settings already",))
        return PassResult(tuned, changed=True, counts={"settings": len(chosen) + len(entries)})


def _session_options(options: TuneExecutionOptions) -> dict[str, bool | int | str]:
    """Attributes of ``onnxruntime.SessionOptions``."""
    found: dict[str, bool | int | str] = {}
    if options.memory_pattern is not None:
        found["enable_mem_pattern"] = options.memory_pattern
    if options.arena is not None:
        found["enable_cpu_mem_arena"] = options.arena
    if options.execution_mode is not None:
        found["execution_mode"] = _MODES[options.execution_mode]
    if options.inter_op_num_threads is not None:
        found["inter_op_num_threads"] = options.inter_op_num_threads
    return found


def _config_entries(options: TuneExecutionOptions) -> dict[str, str]:
    """Config entries, by the keys of onnxruntime_session_options_config_keys.h."""
    found: dict[str, str] = {}
    if options.spinning is not None:
        found["session.intra_op.allow_spinning"] = str(int(options.spinning))
    if options.flush_denormals is not None:
        found["session.set_denormal_as_zero"] = str(int(options.flush_denormals))
    if options.prepacking is not None:
        found["session.disable_prepacking"] = str(int(not options.prepacking))
    return found


def _has_branches(model: Model) -> bool:
    """Whether two operators ever wait for the same value, and so could run at the same time."""
    return any(len(value.uses()) > 1 for node in model.ir_to_read().graph for value in node.outputs)
