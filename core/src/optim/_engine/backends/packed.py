"""Weights packed once and mapped from disk: what onnxruntime makes of a model when it opens it, kept for the next time.

Opening a model, onnxruntime rewrites its graph and lays weights out anew for the kernels of this processor. Both are
written once, with the packed weights as external data, which later sessions map: they compute nothing anew, and
processes share the pages. MiniLM (90 MB, float32, busy machine): open in 0.24 s in place of 0.55, 9 MB of its own in
place of 55.

What was packed belongs to one model, one onnxruntime and one kind of processor; its folder is called by all three, so
nothing else opens it.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from optim.errors import OptimError
from optim.model import PACKED_WEIGHTS, SessionConfig
from optim.providers.names import CPU

if TYPE_CHECKING:
    import onnxruntime

_GRAPH, _WEIGHTS = "model.onnx", "model.packed"
_LEAST_BYTES = 1024
"""Smaller weights stay in the graph: each that lies outside costs a mapping."""

_ABANDONED_S = 24 * 3600.0
"""Age of what a process that was killed had begun to pack; younger, another process may be packing it."""

_WRITING = {
    "session.optimized_model_external_initializers_file_name": _WEIGHTS,
    "session.optimized_model_external_initializers_min_size_in_bytes": str(_LEAST_BYTES),
    "session.save_external_prepacked_constant_initializers": "1",
}


def open_packed(
    model: Path, settings: SessionConfig, provider: str, *, extra_config: Mapping[str, str] | None = None
) -> onnxruntime.InferenceSession:
    """A session over packed weights; they are packed where that was not done on this machine.

    Refuses another provider than the CPU's, because a provider packs its own weights.
    """
    from optim._engine.store import Store
    from optim.onnx.sessions import open_session

    if provider != CPU:
        raise OptimError.usage(
            "cannot-be-packed",
            f"{model} cannot be opened with packed weights",
            f"it runs on {provider or 'another runtime'}, and onnxruntime packs weights for its CPU provider",
            "open it without packed=True",
        )
    entries = {key: text for key, text in settings.session_config.items() if key != PACKED_WEIGHTS}
    settings = replace(settings, session_config=entries)
    key = _key(model, settings)
    place = Store().folder("packed", key, partial(_pack, model, settings, key.rpartition("/")[2]))
    with suppress(OSError):
        os.utime(place.parent)  # what was used longest ago is pruned first
    level = {"graph_optimization_level": "ORT_DISABLE_ALL"}  # the graph is what the model's own level made
    opened = SessionConfig({**settings.session_options, **level}, settings.session_config)
    return open_session(place / _GRAPH, opened, extra_config=extra_config)


def _pack(model: Path, settings: SessionConfig, name: str, folder: Path) -> None:
    """Write the graph and the weights as onnxruntime has them; what was packed of the model before goes.

    Args:
        model: that is packed.
        settings: that it is opened with.
        name: that the folder has when it is whole: another process may be quicker.
        folder: to write into.
    """
    from optim.onnx.sessions import open_session

    quiet = {"log_severity_level": 3}  # it warns that the file is for this machine only
    writing = SessionConfig({"optimized_model_filepath": str(folder / _GRAPH), **quiet}, _WRITING)
    open_session(model, settings.updated(writing))
    for older in folder.parent.iterdir():
        is_whole = older.suffix != folder.suffix
        if older.name != name if is_whole else time.time() - older.stat().st_mtime > _ABANDONED_S:
            shutil.rmtree(older, ignore_errors=True)


def _key(model: Path, settings: SessionConfig) -> str:
    """The folder of packed weights: the model, and below it a digest of all else that they depend on."""
    import onnxruntime

    from optim._engine.machine import this_machine

    machine = this_machine()
    files = sorted(model.parent.glob(f"{model.name}*"))
    stamps = [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    said = [dict(settings.session_options), dict(settings.session_config), list(settings.disabled_optimizers)]
    depends_on = [stamps, said, onnxruntime.__version__, machine.cpu, list(machine.instruction_sets), os.name]
    names = [str(model.resolve()), json.dumps(depends_on, sort_keys=True)]
    whose, what = (hashlib.sha256(name.encode()).hexdigest()[:24] for name in names)
    return f"{whose}/{what}"
