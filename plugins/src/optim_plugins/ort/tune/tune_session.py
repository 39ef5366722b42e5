"""``ort.tune-session``: how the runtime opens the model.

ONNX Runtime's default is not always its best: on some models its own graph optimizations make it slower, because a
fused kernel is slower on this processor than the parts it replaces. So levels, single optimizers switched off and
thread counts are proposed, and the clock decides. The runtime starts a thread for each core of the machine, also where
a container or a batch system gives the process fewer: there a thread for each that it has is the best guess.

Level ``all`` is the runtime's default: on a model without a level it is no change, and nothing is timed.

Affinities are never proposed, because they are for one machine. IO binding has no option, because the calling program
binds and not the session: it saved 7 of 65 microseconds in each run of a small network, and nothing in longer runs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from optim import APPLICABLE, Applicable, Context, Model, OptimError, Pass, PassResult, SessionConfig, Target
from optim_plugins.ort.kernels import WASM

if TYPE_CHECKING:
    from optim_plugins.ort.tune.tune_session_options import TuneSessionOptions

_LEVEL = "graph_optimization_level"
_LEVELS = {
    "disable": "ORT_DISABLE_ALL",
    "basic": "ORT_ENABLE_BASIC",
    "extended": "ORT_ENABLE_EXTENDED",
    "all": "ORT_ENABLE_ALL",
}
_NORMALIZATIONS = ("LayerNormalization", "SkipLayerNormalization", "ReduceMean")


class TuneSession(Pass):
    """Optimization level, single optimizers of the runtime switched off, threads."""

    name = "ort.tune-session"
    summary = "tries how the runtime opens the model: optimization level, optimizers switched off, threads"
    options = "optim_plugins.ort.tune.tune_session_options:TuneSessionOptions"
    session_only = True

    def applicable(self, model: Model, target: Target) -> Applicable:
        """Always."""
        return APPLICABLE

    def refuse(self, options: TuneSessionOptions, target: Target) -> None:
        """More threads than the target has, and names of optimizers that onnxruntime does not have.

        Raises:
            OptimError[too-many-threads]: they would be no more than the target's.
            OptimError[unknown-optimizer]: onnxruntime would ignore it in silence.
        """
        for name in options.disabled_optimizers:
            _require_optimizer(name)
        asked = options.intra_op_num_threads
        if asked is not None and target.threads and asked > target.threads:
            raise OptimError.usage(
                "too-many-threads",
                f"pass {self.name} cannot give a session {asked} threads",
                f"target {target.name} has {target.threads} at most",
                f"--target cpu:threads={asked}, or intra_op_num_threads={target.threads}",
            )

    def candidates(self, model: Model, target: Target, context: Context) -> Iterator[TuneSessionOptions]:
        """Best guess first, by the operators in the graph; the runtime's default is what they are raced against."""
        from optim.jobs import usable_processors
        from optim.onnx import operator_counts
        from optim_plugins.ort.tune.tune_session_options import TuneSessionOptions

        operators = operator_counts(model.path)
        normalizes = any(name.rpartition(":")[2] in _NORMALIZATIONS for name in operators)
        skip = ("SkipLayerNormFusion",)
        threaded = target.made_for != WASM  # there the page says how many threads
        processors = target.threads or usable_processors()
        if threaded and not target.threads and processors < (os.cpu_count() or 1):
            yield TuneSessionOptions(intra_op_num_threads=processors)
        lower = not _needs_extended(model)
        if lower:
            yield TuneSessionOptions(level="basic")
        if normalizes:
            yield TuneSessionOptions(disabled_optimizers=skip)
        if lower:
            yield TuneSessionOptions(level="disable")
        yield TuneSessionOptions(level="extended")
        if normalizes:
            yield TuneSessionOptions(level="extended", disabled_optimizers=skip)
        if threaded and processors > 2:
            yield TuneSessionOptions(intra_op_num_threads=processors // 2)

    def apply(self, model: Model, options: TuneSessionOptions, context: Context) -> PassResult:
        """Lay the settings over the model's."""
        chosen: dict[str, bool | int | str] = {}
        level = model.session.session_options.get(_LEVEL, _LEVELS["all"])
        if options.level is not None and _LEVELS[options.level] != level:
            chosen[_LEVEL] = _LEVELS[options.level]
        if options.intra_op_num_threads is not None:
            chosen["intra_op_num_threads"] = options.intra_op_num_threads
        entries: dict[str, str] = {}
        if options.intra_op_thread_affinities:
            entries["session.intra_op_thread_affinities"] = ";".join(options.intra_op_thread_affinities)
        tuned = model.with_session(SessionConfig(chosen, entries, options.disabled_optimizers))
        if tuned.digest == model.digest:
            return PassResult(model, changed=False, notes=("the model has these settings already",))
        count = len(chosen) + len(entries) + len(options.disabled_optimizers)
        return PassResult(tuned, changed=True, counts={"settings": count})


def _require_optimizer(name: str) -> None:
    """Refuses a name that onnxruntime does not have.

    Raises:
        OptimError[unknown-optimizer]: with the near ones.
    """
    from optim.errors import unknown_name
    from optim_plugins.ort.tune.optimizer_names import OPTIMIZERS

    if name not in OPTIMIZERS:
        raise unknown_name("optimizer", name, OPTIMIZERS, fix="correct the name in disabled_optimizers")


def _needs_extended(model: Model) -> bool:
    """Whether the model is set to add 8-bit products exactly, which lower levels ignore."""
    from optim.onnx import EXACT_INTEGERS

    return model.session.updated(EXACT_INTEGERS) == model.session
