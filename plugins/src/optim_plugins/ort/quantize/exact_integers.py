"""``ort.exact-integers``: 8-bit products without saturation, on processors whose fast kernels add pairs in 16 bits.

On x86 without VNNI onnxruntime computes a model with 8-bit weights (Q/DQ, QLinearConv, QLinearMatMul, MatMulInteger and
others) by the instruction vpmaddubsw, which saturates (:mod:`optim_plugins.ort.quantize.saturation`). Two entries of a
session avoid that::

    session.x64quantprecision=1    makes unsigned integers of the weights, whose kernels add in 32 bits and take longer
    session.disable_quant_qdq=1    computes Q/DQ in float, which takes longer still

The second is for models in which nodes share an int8 constant, such as one zero point for all weights: with the first
onnxruntime 1.31 refuses them ("Attempt to replace the existing tensor"). Integer operators that share one have neither.

A run adds this pass by itself if the original's outputs differ with and without the entry.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from optim import Applicable, Context, Model, Pass, PassResult, Role, SessionConfig, Target
from optim.processor import ExactSettings
from optim_plugins.ort.kernels import CPU_PROVIDER

if TYPE_CHECKING:
    from optim import PassOptions

_EQUIVALENT = (
    SessionConfig({"graph_optimization_level": "ORT_ENABLE_EXTENDED"}),
    SessionConfig({"intra_op_num_threads": 1}),
)
"""At lower levels the first entry does nothing."""

_IN_FLOAT = SessionConfig({}, {"session.disable_quant_qdq": "1"})

_CAUSE = (
    "onnxruntime's integer kernels for x86 without VNNI add pairs of 8-bit products in 16 bits, and large sums saturate"
)


class ExactIntegers(Pass):
    """One of the entries, laid over the session settings."""

    name = "ort.exact-integers"
    summary = "rewrites 8-bit products without saturation if the kernels of this processor saturate"
    role = Role.REQUESTED
    before = ("ort:*",)
    session_only = True
    hardware = "x86-64 without VNNI: on other processors the products are exact already"

    def applicable(self, model: Model, target: Target) -> Applicable:
        """If the model has 8-bit products and the kernels of the processor saturate."""
        from optim_plugins.ort.hardware import multiplies_integers_exactly

        if target.made_for != CPU_PROVIDER:
            return Applicable.no(f"the setting is of {CPU_PROVIDER}; the target runs on {target.made_for}")
        if multiplies_integers_exactly():
            return Applicable.no("this processor adds 8-bit products in 32 bits")
        return Applicable(entry_for(model) is not None, "the model has no 8-bit products that a setting makes exact")

    def apply(self, model: Model, options: PassOptions, context: Context) -> PassResult:
        """Lay the entry over the model's settings."""
        entry = entry_for(model)
        if entry is None or _is_set(model, entry):
            return PassResult(model, changed=False, notes=("the model has this setting already",))
        how = "computed in float" if entry is _IN_FLOAT else "added in 32 bits, by slower kernels"
        entries = " ".join(f"{key}={value}" for key, value in entry.session_config.items())
        note = f"with {entries} 8-bit products are {how}"
        return PassResult(model.with_session(entry), changed=True, notes=(note,), counts={"settings": 1})


def exact_settings(model: Model) -> ExactSettings | None:
    """Settings without which this processor may saturate in a model; None where it cannot, or nothing helps."""
    from optim_plugins.ort.hardware import multiplies_integers_exactly

    entry = None if multiplies_integers_exactly() else entry_for(model)
    if entry is None or _is_set(model, entry):
        return None
    return ExactSettings(entry, _EQUIVALENT, ExactIntegers.name, _CAUSE)


def entry_for(model: Model) -> SessionConfig | None:
    """The entry with which 8-bit products of a model do not saturate; None where it has none, or nothing helps."""
    from optim.onnx import EXACT_INTEGERS
    from optim_plugins.ort.quantize.quantized_already import multiplies_integers, multiplies_only_dequantized

    if not multiplies_integers(model):
        return None
    if not _shares_integers(model):
        return EXACT_INTEGERS
    return _IN_FLOAT if multiplies_only_dequantized(model) else None


def _shares_integers(model: Model) -> bool:
    """Whether two nodes read one int8 constant."""
    import onnx_ir as ir

    constants = model.ir_to_read().graph.initializers.values()
    return any(value.dtype == ir.DataType.INT8 and len({use.node for use in value.uses()}) > 1 for value in constants)


def _is_set(model: Model, entry: SessionConfig) -> bool:
    return model.session.updated(entry) == model.session
