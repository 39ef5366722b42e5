"""A backend on ONNX Runtime with any provider: the standard plugin's ``ort``, and the base of vendors' own.

A vendor whose provider needs more (a library to register, devices to choose) overrides ``open``.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from optim.arrays import Feeds, Outputs
from optim.backend import Backend, BackendLimits, Session
from optim.errors import OptimError
from optim.model import Model, SessionConfig
from optim.target import Target

if TYPE_CHECKING:
    import onnxruntime

_DISTRIBUTIONS = ("onnxruntime", "onnxruntime-gpu")

HARNESS = {"session.force_spinning_stop": "1"}
"""Threads of one session must not spin into the next one's time; never part of a model's settings."""

_NOT_OF_NUMPY = ("bfloat16", "float8")
"""Parts of the names of types that onnxruntime neither takes from numpy nor gives to it."""

_LEVEL = "graph_optimization_level"

_LEAST_WEIGHT_BYTES = 1024
"""Smaller constants are part of the graph that is compared: an optimizer may fold a number."""


class OnnxRuntimeSession(Session):
    """An ``onnxruntime.InferenceSession``."""

    def __init__(self, session: onnxruntime.InferenceSession, provider: str, *, recorded: bool = False) -> None:
        self._session = session
        self._names = [output.name for output in session.get_outputs()]
        self._inputs = {value.name for value in (*session.get_inputs(), *session.get_overridable_initializers())}
        kinds = {value.type for value in (*session.get_inputs(), *session.get_outputs())}
        self._has_numpys_types = not any(name in kind for kind in kinds for name in _NOT_OF_NUMPY)
        self._shares = {provider: 1.0}
        if recorded:
            from optim.providers.assignment import nodes_by_provider, provider_shares

            counts = {name: len(nodes) for name, nodes in nodes_by_provider(session).items()}
            self._shares = provider_shares(counts, provider)

    def run(self, feeds: Feeds) -> Outputs:
        """Runs the model once. Ignores input arrays that the graph no longer has."""
        given = {name: array for name, array in feeds.items() if name in self._inputs}
        run = self._session.run if self._has_numpys_types else self._run_in_other_types
        return dict(zip(self._names, run(None, given), strict=True))

    def _run_in_other_types(self, _: None, feeds: Feeds) -> list[Any]:
        """The same where onnxruntime takes and gives arrays of bfloat16 by their bytes alone."""
        import numpy as np
        import onnx
        import onnxruntime as ort

        values = {}
        for name, array in feeds.items():
            if array.dtype.isbuiltin == 2:
                kind = onnx.helper.np_dtype_to_tensor_dtype(array.dtype)
                values[name] = ort.OrtValue.ortvalue_from_numpy_with_onnx_type(np.ascontiguousarray(array), kind)
            else:
                values[name] = ort.OrtValue.ortvalue_from_numpy(array)
        found = self._session.run_with_ort_values(self._names, values)
        return [_array(one) for one in found]

    @property
    def inference_session(self) -> onnxruntime.InferenceSession:
        """The session of onnxruntime, e.g. to bind memory to it."""
        return self._session

    @property
    def executed_on(self) -> Mapping[str, float]:
        """Reads the record of onnxruntime. Without a record all nodes are on the provider, because fallback is off."""
        return self._shares

    def close(self) -> None:
        """Releases the memory of the runtime, even if something still refers to this object."""
        self.__dict__.pop("_session", None)


def _array(value: onnxruntime.OrtValue) -> Any:
    """A copy of what a value holds, in a type of ml_dtypes if numpy lacks its own."""
    if not any(name in value.data_type() for name in _NOT_OF_NUMPY):
        return value.numpy()
    import ctypes

    import numpy as np
    import onnx

    dtype = onnx.helper.tensor_dtype_to_np_dtype(value.element_type())
    memory = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
    return np.frombuffer(memory, dtype).reshape(value.shape()).copy()


class OnnxRuntimeBackend(Backend):
    """A backend on ONNX Runtime. A subclass gives it a name."""

    opened_by_onnxruntime = True
    """The delivered model only needs onnxruntime."""

    def open(self, model: Model, target: Target) -> Session:
        """Opens a model with its own settings. Maps weights that are large beside the memory."""
        from optim.onnx.libraries import operator_libraries
        from optim.onnx.sessions import open_session
        from optim.providers.memory import mapped_config

        own = model.session.session_config
        mapped = {key: text for key, text in mapped_config(model.path, target).items() if key not in own}
        extra, libraries = {**HARNESS, **mapped}, operator_libraries(model.opset)
        session = open_session(model.path, model.session, target, extra_config=extra, libraries=libraries)
        return OnnxRuntimeSession(session, target.provider, recorded=target.shapes_on_cpu)

    def limits(self) -> BackendLimits:
        """Measures the limits of the installed runtime."""
        from optim.onnx.sessions import runtime_limits

        return runtime_limits()

    def equivalent_settings(self, target: Target) -> Sequence[SessionConfig]:
        """Returns optimization levels, and one thread: each only reorders reductions."""
        return (
            SessionConfig({_LEVEL: "ORT_DISABLE_ALL"}),
            SessionConfig({_LEVEL: "ORT_ENABLE_BASIC"}),
            SessionConfig({"intra_op_num_threads": 1}),
        )

    def session_digest(self, model: Model, target: Target, scratch: Path) -> str:
        """Returns a digest of the graph that onnxruntime makes under the model's settings, and of the other settings.

        Weights count by type, by shape, and by how many of their numbers are denormal
        (``operations_digest``, ``denormal_weights``). Providers that compile whole graphs cannot write their graph.
        """
        from optim.onnx.digests import operations_digest

        graph, writing = writing_optimized(scratch)
        try:
            with self.open(replace(model, session=model.session.updated(writing)), target):
                written = graph.read_bytes()
        except (OptimError, OSError):
            return ""
        options = {name: value for name, value in model.session.session_options.items() if name != _LEVEL}
        of_providers = {name: dict(one) for name, one in model.session.provider_options.items()}
        rest = json.dumps([options, dict(model.session.session_config), of_providers], sort_keys=True)
        denormals, others = _count_denormals(model.path), hashlib.sha256(rest.encode()).hexdigest()
        return f"{operations_digest(written)}-{denormals}:{others}"

    def versions(self) -> Mapping[str, str]:
        """Returns the version of the installed build of onnxruntime. Imports only a build that pip does not know."""
        for name in _DISTRIBUTIONS:
            try:
                return {name: importlib.metadata.version(name)}
            except importlib.metadata.PackageNotFoundError:
                continue
        import onnxruntime

        return {"onnxruntime": onnxruntime.__version__}


@functools.lru_cache(maxsize=4)
def _count_denormals(path: Path) -> int:
    """How many denormal numbers the weights of a graph in the store have; known for all settings of one graph."""
    from optim.onnx.edit import denormal_weights
    from optim.onnx.files import read_ir

    return sum(count for _, count in denormal_weights(read_ir(path)))


def writing_optimized(folder: Path) -> tuple[Path, SessionConfig]:
    """Has a session write the graph that onnxruntime makes of a model, without its weights.

    Args:
        folder: to write into; a graph that an earlier session wrote there goes.

    Returns:
        The file, and the settings to open the model with, beside its own. Such a session is not for running.
    """
    graph, weights = folder / "optimized.onnx", folder / "weights.bin"
    for path in (graph, weights):
        path.unlink(missing_ok=True)
    if os.name == "posix":
        weights.symlink_to(os.devnull)  # those of large models would be written for nothing
    return graph, SessionConfig(
        {"optimized_model_filepath": str(graph)},
        {
            "session.optimized_model_external_initializers_file_name": weights.name,
            "session.optimized_model_external_initializers_min_size_in_bytes": str(_LEAST_WEIGHT_BYTES),
            "session.disable_prepacking": "1",  # it runs nothing, and repacked weights would be held twice
        },
    )
