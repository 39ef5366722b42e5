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
"""A fixed size, a symbolic name, or unknown."""

SessionValue: TypeAlias = bool | int | str


UNKNOWN_DTYPE = "unknown"
"""What stands for the type of an input or output that is no plain tensor."""


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """An input or output.

    Attributes:
        name: in the graph.
        dtype: as numpy calls it: ``float32``, ``int64``.
        shape: None where not even the number of dimensions is known.
    """

    name: str
    dtype: str
    shape: tuple[Dimension, ...] | None

    @classmethod
    def of(cls, value: onnx.ValueInfoProto) -> TensorInfo:
        """An input or output as the graph declares it."""
        tensor = value.type.tensor_type
        shape = tuple(_size(dimension) for dimension in tensor.shape.dim) if tensor.HasField("shape") else None
        return cls(value.name, dtype_name(tensor.elem_type), shape)

    @property
    def is_tensor(self) -> bool:
        """Whether it is a plain tensor, no sequence, map or optional."""
        return self.dtype != UNKNOWN_DTYPE

    @property
    def is_dynamic(self) -> bool:
        """Whether any dimension is not a fixed size."""
        return self.shape is None or any(not isinstance(size, int) for size in self.shape)


def _size(dimension: onnx.TensorShapeProto.Dimension) -> Dimension:
    """A size, its name, or None where it is free: some exporters write -1 for that."""
    if dimension.HasField("dim_value"):
        return dimension.dim_value if dimension.dim_value >= 0 else None
    return dimension.dim_param or None


def row_inputs(inputs: Iterable[TensorInfo]) -> list[str]:
    """Inputs that have a row for each sample; none where they do not agree on which dimension that is."""
    dynamic = {info.name: info.shape[0] for info in inputs if info.shape and not isinstance(info.shape[0], int)}
    return list(dynamic) if len(set(dynamic.values())) == 1 and None not in dynamic.values() else []


def dtype_name(elem_type: int) -> str:
    """Numpy's name of an ONNX element type, ``UNKNOWN_DTYPE`` where there is none."""
    import onnx_ir

    if not elem_type:
        return UNKNOWN_DTYPE
    name = onnx_ir.DataType(elem_type).name.lower()
    return {"float": "float32", "double": "float64", "string": "str"}.get(name, name)


@dataclass(frozen=True, slots=True)
class AdapterInput:
    """An input that takes weights of an adapter; without one it has a default that changes nothing.

    Attributes:
        info: name, dtype and shape; the rank of the adapter is a dimension with a name where any rank fits.
        module: that the adapter belongs to, as its library calls it: ``model.layers.0.self_attn.q_proj``.
        role: what the arrays are, in the words of the plugin that made the input, e.g. ``down``.
        required: whether a run must feed it, because it has no default.
        details: what the plugin must know of it again, such as how its weights are packed.
        supplied_by: file of the run folder whose array the delivered model is opened with, as an initializer that it
            does not have itself; empty where runs feed it. Until delivery it is an input whose default is that array.
    """

    info: TensorInfo
    module: str
    role: str
    required: bool = False
    details: Mapping[str, int] = field(default_factory=dict)
    supplied_by: str = ""


PACKED_WEIGHTS = "optim.packed_weights"
"""A config entry of optim's own: the session maps weights that onnxruntime packed for this machine. What opens a model
without optim and without ``load.py`` reads them from the graph, as ever."""


THREADS = "intra_op_num_threads"
"""What onnxruntime calls the threads that compute an operator."""


@dataclass(frozen=True, slots=True)
class SessionConfig:
    """How a backend should open the model; what ``session.json`` holds.

    Attributes:
        session_options: attributes of ``onnxruntime.SessionOptions``, enums by name (``ORT_ENABLE_BASIC``).
        session_config: config entries as strings, e.g. ``session.intra_op.allow_spinning``.
        disabled_optimizers: graph optimizers of the runtime to switch off, e.g. ``SkipLayerNormFusion``.
        provider_options: options by execution provider, laid over those of the target. A session that does not have
            the provider leaves its options out.
    """

    session_options: Mapping[str, SessionValue] = field(default_factory=dict)
    session_config: Mapping[str, str] = field(default_factory=dict)
    disabled_optimizers: tuple[str, ...] = ()
    provider_options: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    @property
    def threads(self) -> int:
        """Threads that compute an operator; 0: as many as onnxruntime takes."""
        own = self.session_options.get(THREADS, 0)
        return own if isinstance(own, int) else 0

    def updated(self, other: SessionConfig) -> SessionConfig:
        """These settings with those of ``other`` laid over them."""
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
    """An ONNX graph on disk with its session settings. Never mutated: a change is a new Model.

    Attributes:
        path: the graph; its external data lies beside it.
        digest: sha256 over graph, weights and session settings, hex.
        inputs: what a run must be fed; initializers that are also inputs are left out.
        outputs: what a run returns.
        opset: operator set version by domain; the standard domain is ``""``.
        ir_version: ONNX IR version of the file.
        session: settings to open it with.
        provenance: the steps that made it, oldest first, e.g. ``ort.clean``.
        adapters: inputs for weights of adapters, in graph order. Every pass keeps them as they are.
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
        """Files that stay with the model and all that is made of it (:meth:`optim.Context.save`), by their names."""
        from optim.onnx.context_files import attachments_of

        return attachments_of(self.path)

    @property
    def artefacts(self) -> Mapping[str, Path]:
        """Files that were made of this graph, by what their pass called them (:meth:`optim.Context.save`)."""
        from optim.onnx.context_files import artefacts_of

        return artefacts_of(self.path)

    def ir(self) -> onnx_ir.Model:
        """A fresh onnx-ir model whose weights are memory-mapped; yours to change."""
        from optim.onnx.files import read_ir

        return read_ir(self.path)

    def ir_to_read(self) -> onnx_ir.Model:
        """The same for whoever changes nothing: in one process all that ask for it in a row get one and the same.

        To read a graph of 10,000 nodes takes half a second of processor time, and many passes look at it only.
        """
        from optim.onnx.files import shared_ir

        return shared_ir(self.path)

    def with_session(self, session: SessionConfig) -> Model:
        """The same graph with ``session`` laid over its settings."""
        from optim.onnx.digests import model_digest

        merged = self.session.updated(session)
        return replace(self, session=merged, digest=model_digest(self.path, merged))
