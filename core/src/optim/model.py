"""A model: an ONNX graph with its weights and its session settings, one immutable value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import onnx
    import onnx_ir

Dimension: TypeAlias = int | str | None
"""A size, a symbolic name, or None if unknown."""

SessionValue: TypeAlias = bool | int | str


UNKNOWN_DTYPE = "unknown"
"""The dtype of an input or output that is not a plain tensor."""


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """An input or output of a model.

    Attributes:
        name: name in the graph.
        dtype: type, as numpy names it: ``float32``, ``int64``.
        shape: sizes of the dimensions; None: not even their number is known.
    """

    name: str
    dtype: str
    shape: tuple[Dimension, ...] | None

    @classmethod
    def of(cls, value: onnx.ValueInfoProto) -> TensorInfo:
        """Reads an input or output from its declaration in a graph."""
        tensor = value.type.tensor_type
        shape = tuple(_size(dimension) for dimension in tensor.shape.dim) if tensor.HasField("shape") else None
        return cls(value.name, dtype_name(tensor.elem_type), shape)

    @property
    def is_tensor(self) -> bool:
        """Whether this is a plain tensor, and not a sequence, map or optional."""
        return self.dtype != UNKNOWN_DTYPE

    @property
    def is_dynamic(self) -> bool:
        """Whether a dimension has no fixed size."""
        return self.shape is None or any(not isinstance(size, int) for size in self.shape)


def _size(dimension: onnx.TensorShapeProto.Dimension) -> Dimension:
    """A size, its name, or None where it is free: some exporters write -1 for that."""
    if dimension.HasField("dim_value"):
        return dimension.dim_value if dimension.dim_value >= 0 else None
    return dimension.dim_param or None


def row_inputs(inputs: Iterable[TensorInfo]) -> list[str]:
    """Returns the inputs that have a row for each sample; none if they disagree about the dimension."""
    dynamic = {info.name: info.shape[0] for info in inputs if info.shape and not isinstance(info.shape[0], int)}
    return list(dynamic) if len(set(dynamic.values())) == 1 and None not in dynamic.values() else []


def dtype_name(elem_type: int) -> str:
    """Returns numpy's name of an ONNX element type, or ``UNKNOWN_DTYPE``."""
    import onnx_ir

    if not elem_type:
        return UNKNOWN_DTYPE
    name = onnx_ir.DataType(elem_type).name.lower()
    return {"float": "float32", "double": "float64", "string": "str"}.get(name, name)


@dataclass(frozen=True, slots=True)
class AdapterInput:
    """An input for weights of an adapter. Without an adapter, its default changes nothing.

    Attributes:
        info: name, dtype and shape. If any rank fits, the rank of the adapter is a symbolic dimension.
        module: module of the adapter, as its library names it: ``model.layers.0.self_attn.q_proj``.
        role: role of the weights, in words of the plugin that made the input, e.g. ``down``.
        required: whether each run must feed the input, because it has no default.
        details: facts for the plugin, such as how the weights are packed.
        supplied_by: file of the run folder with the array for this input. Opening the delivered model supplies the
            array as an initializer. Empty: each run feeds the input.
    """

    info: TensorInfo
    module: str
    role: str
    required: bool = False
    details: Mapping[str, int] = field(default_factory=dict)
    supplied_by: str = ""


PACKED_WEIGHTS = "optim.packed_weights"
"""Config entry of optim: the session maps weights that onnxruntime packed for this machine. A program that opens the
model without optim and without ``load.py`` reads the weights from the graph."""


THREADS = "intra_op_num_threads"
"""Session option of onnxruntime: number of threads that compute an operator."""


@dataclass(frozen=True, slots=True)
class SessionConfig:
    """Settings to open a model with; the contents of ``session.json``.

    Attributes:
        session_options: attributes of ``onnxruntime.SessionOptions``, enums by name (``ORT_ENABLE_BASIC``).
        session_config: config entries as strings, e.g. ``session.intra_op.allow_spinning``.
        disabled_optimizers: graph optimizers of the runtime to switch off, e.g. ``SkipLayerNormFusion``.
        provider_options: options by execution provider; they override those of the target. A session without the
            provider ignores its options.
    """

    session_options: Mapping[str, SessionValue] = field(default_factory=dict)
    session_config: Mapping[str, str] = field(default_factory=dict)
    disabled_optimizers: tuple[str, ...] = ()
    provider_options: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def threads(self) -> int:
        """Number of threads that compute an operator; 0: the default of onnxruntime."""
        own = self.session_options.get(THREADS, 0)
        return own if isinstance(own, int) else 0

    def updated(self, other: SessionConfig) -> SessionConfig:
        """Returns these settings, overridden by those of ``other``."""
        return SessionConfig(
            {**self.session_options, **other.session_options},
            {**self.session_config, **other.session_config},
            tuple(sorted({*self.disabled_optimizers, *other.disabled_optimizers})),
            {
                provider: {**self.provider_options.get(provider, {}), **other.provider_options.get(provider, {})}
                for provider in (*self.provider_options, *other.provider_options)
            },
        )


@dataclass(frozen=True, slots=True)
class Model:
    """An ONNX graph on disk with its session settings. A model never changes; each change makes a new one.

    Attributes:
        path: file of the graph, with its external data beside it.
        digest: sha256 over graph, weights and session settings, in hex.
        inputs: inputs that a run must get, without initializers that are also inputs.
        outputs: outputs of a run.
        opset: operator set version by domain; the standard domain is ``""``.
        ir_version: ONNX IR version of the file.
        session: settings to open the model with.
        provenance: steps that made the model, oldest first, e.g. ``ort.clean``.
        adapters: inputs for weights of adapters, in graph order. Every pass must keep them.
    """

    path: Path
    digest: str
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    opset: Mapping[str, int]
    ir_version: int
    session: SessionConfig = field(default_factory=SessionConfig)
    provenance: tuple[str, ...] = ()
    adapters: tuple[AdapterInput, ...] = ()

    @property
    def attachments(self) -> Mapping[str, Path]:
        """Files that this model and all models made from it have (``optim.Context.save``), by name."""
        from optim.onnx.context_files import ATTACHMENT, named_files

        return named_files(self.path, ATTACHMENT)

    @property
    def artefacts(self) -> Mapping[str, Path]:
        """Files made from this graph (``optim.Context.save``), by their name for the backend."""
        from optim.onnx.context_files import ARTEFACT, named_files

        return named_files(self.path, ARTEFACT)

    def ir(self) -> onnx_ir.Model:
        """Reads the graph as a new onnx-ir model with memory-mapped weights. The caller may change it."""
        from optim.onnx.files import read_ir

        return read_ir(self.path)

    def ir_to_read(self) -> onnx_ir.Model:
        """Returns a shared onnx-ir model of the graph, which the caller must not change.

        Reading a graph of 10,000 nodes takes half a second of processor time, and many passes only look at it.
        """
        from optim.onnx.files import shared_ir

        return shared_ir(self.path)

    def with_session(self, session: SessionConfig) -> Model:
        """Returns the same graph with settings overridden by ``session``."""
        from optim.onnx.digests import model_digest

        merged = self.session.updated(session)
        return replace(self, session=merged, digest=model_digest(self.path, merged))
