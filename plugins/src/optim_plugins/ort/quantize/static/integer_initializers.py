"""Weights, biases, scales and zero points of a statically quantized graph, each made once and stored in the graph."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from optim.arrays import Array
from optim.onnx import read_constant
from optim_plugins.ort.graph.products import Product
from optim_plugins.ort.measure.calibrate import SeenRanges
from optim_plugins.ort.quantize.integer_weights import Floats
from optim_plugins.ort.quantize.product_rewriter import ProductRewriter
from optim_plugins.ort.quantize.smoothing import Factors
from optim_plugins.ort.quantize.static.filled_channels import channel_pads, fill_weight, filled_shape, missing_channels
from optim_plugins.ort.quantize.static.scales_and_zero_points import (
    MOST_BIAS,
    IntScale,
    Weight,
    WeightStyle,
    round_bias,
    round_channels,
)
from optim_plugins.ort.quantize.static.static_plan import Quantized


@dataclass(frozen=True)
class Stored:
    """Values of the graph: integers, their scale and their zero point."""

    integers: ir.Value
    scale: ir.Value
    zero: ir.Value


@dataclass(frozen=True)
class StoredConvolution:
    """What a Conv needs.

    Attributes:
        weight: [M, C / groups, ...].
        bias: as int32, with the scale of the accumulator.
        missing: channels that the weight has more than what it is multiplied with.
    """

    weight: Stored
    bias: Stored | None
    missing: int


@dataclass(frozen=True)
class StoredProduct:
    """What a product needs.

    Attributes:
        weight: [K, N].
        vector: in floats, for an accumulator that becomes floats first.
    """

    weight: Stored
    vector: ir.Value | None


class StaticRewriter(ProductRewriter, ABC):
    """What both formats share: numbers in the graph, by what they are of.

    Attributes:
        scales: of tensors, by name.
        style: of weights.
    """

    # ``_made``: what stands for a tensor now (its integers, or floats made of them), and ``_originals`` the way back;
    # ``_done``: nodes rewritten so far.

    def __init__(
        self,
        graph: ir.Model,
        measured: SeenRanges,
        scales: Mapping[str, IntScale],
        style: WeightStyle,
        factors: Factors,
        narrow: Collection[str] = (),
        *,
        correct_bias: bool,
    ) -> None:
        super().__init__(graph)
        self.scales = scales
        self._means = measured.means if correct_bias else {}
        self.style = style
        self._narrow = narrow
        self._factors = factors
        self._made: dict[ir.Value, ir.Value] = {}
        self._originals: dict[ir.Value, ir.Value] = {}
        self._done: list[Quantized] = []
        self._stored_scales: dict[tuple[float, int, str], tuple[ir.Value, ir.Value]] = {}
        self._filled: dict[tuple[ir.Value, int], ir.Value] = {}
        self._stored_weights: dict[tuple[str, tuple[int, ...], bytes], Stored] = {}

    @abstractmethod
    def rewrite(self, one: Quantized) -> bool:
        """Replace a convolution or a carrier; False where it stays float."""

    @abstractmethod
    def rewrite_product(self, product: Product) -> bool:
        """Replace a product; False where it stays float."""

    def scale(self, name: str) -> tuple[ir.Value, ir.Value]:
        """Scale and zero point of a tensor; equal ones are stored once."""
        known = self.scales[name]
        key = (float(known.scale), int(known.zero), known.zero.dtype.name)
        if key not in self._stored_scales:
            self._stored_scales[key] = (
                self.initializer(f"{name}_scale", known.scale),
                self.initializer(f"{name}_zero_point", known.zero),
            )
        return self._stored_scales[key]

    def integer_type(self, name: str) -> ir.TensorType:
        """The type of a tensor's integers."""
        return ir.TensorType(ir.DataType.from_numpy(self.scales[name].zero.dtype))

    def original(self, value: ir.Value) -> ir.Value:
        """The tensor that a value stands for; the value itself where it was not replaced."""
        return self._originals.get(value, value)

    def convolution(self, one: Quantized) -> StoredConvolution | None:
        """Integers of a Conv; None where its weight is not finite."""
        node, source = one.node, one.sources[0]
        weight, bias = _floats(node.inputs[1]), _floats(node.inputs[2] if len(node.inputs) > 2 else None)
        given = self.scales[source.name or ""]
        assert weight is not None
        means = self._means.get(source.name or "")
        groups = node.attributes["group"].as_int() if "group" in node.attributes else 1
        found = round_channels(weight, self._style_of(one.name), source=given, bias=bias, with_error=means is not None)
        if found is None or (bias is not None and not np.isfinite(bias).all()):
            return None
        if means is not None and found.error is not None:
            correction = _mean_error(found.error, means, groups)
            bias = -correction if bias is None else bias - correction
        name = node.inputs[1].name or "weight"  # type: ignore[union-attr]
        missing = missing_channels(weight.shape, groups) if self.style.fill_channels else 0
        stored = self._weight(name, fill_weight(found, missing) if missing else found)
        return StoredConvolution(stored, self._bias(name, bias, given, found), missing)

    def filled(self, integers: ir.Value, name: str, stored: StoredConvolution) -> ir.Value:
        """The integers of a tensor with the channels that a weight has more."""
        missing = stored.missing
        if not missing:
            return integers
        if (integers, missing) not in self._filled:
            rank = len(stored.weight.integers.shape or ())
            pads = self.initializer(f"{name}_pads", channel_pads(rank, missing))
            node = ir.node("Pad", [integers, pads, self.scale(name)[1]], name=f"{name}_fill")
            output = node.outputs[0]
            output.name, output.type = self.names.take(f"{name}_filled"), integers.type
            output.shape = filled_shape(integers.shape, missing)
            self.behind(integers, [node])
            self._filled[integers, missing] = output
        return self._filled[integers, missing]

    def product(self, product: Product) -> StoredProduct | None:
        """Integers of a product's weight; None where that is not finite."""
        tensor = product.weight.const_value
        assert tensor is not None
        array = tensor.numpy()
        columns = array if product.transposed else array.T
        name = self.original(product.a).name or ""
        means = self._means.get(name) if product.vector is not None else None
        given, factor = self.scales[name], self._factors.get(name)
        found = round_channels(
            columns, self._style_of(product.name), source=given, factor=factor, with_error=means is not None
        )
        if found is None:
            return None
        vector = product.vector
        if means is not None and found.error is not None and vector is not None:
            bias = _floats(vector)
            assert bias is not None
            vector = self.initializer(f"{vector.name}_corrected", (bias - found.error @ means).astype(np.float32))
        turned = Weight(np.ascontiguousarray(found.integers.T), found.scale, found.zero, None)
        return StoredProduct(self._weight(product.weight.name or "weight", turned), vector)

    def product_bias(self, product: Product, stored: StoredProduct) -> Stored | None:
        """The vector as the accumulator holds it; None without one, or where it is too large for that."""
        vector = _floats(stored.vector)
        scale = read_constant(stored.weight.scale)
        if vector is None:
            return None
        name = self.original(product.a).name or ""
        step = (self.scales[name].scale * scale).astype(np.float32)
        if not np.isfinite(vector).all() or (np.abs(vector) > step.astype(np.float64) * MOST_BIAS).any():
            return None
        return self._bias_values(product.weight.name or "weight", np.rint(vector / step.astype(np.float64)), step)

    def _style_of(self, name: str) -> WeightStyle:
        return replace(self.style, reduce_range=name in self._narrow)

    def behind(self, value: ir.Value, nodes: list[ir.Node]) -> None:
        """Put nodes behind the one that computes a tensor, or first where it is an input or a weight."""
        producer = value.producer()
        if producer is not None and producer.graph is not None:
            producer.graph.insert_after(producer, nodes)
        else:
            self.graph.graph.insert_before(self.graph.graph[0], nodes)

    def _weight(self, name: str, weight: Weight) -> Stored:
        """A weight that several nodes share is stored once, as long as they share its scale too."""
        key = (name, weight.integers.shape, weight.scale.tobytes())
        if key not in self._stored_weights:
            self._stored_weights[key] = Stored(
                self.initializer(f"{name}_quantized", weight.integers),
                self.initializer(f"{name}_scale", weight.scale),
                self.initializer(f"{name}_zero_point", weight.zero),
            )
        return self._stored_weights[key]

    def _bias(self, name: str, bias: Floats | None, source: IntScale, weight: Weight) -> Stored | None:
        if bias is None:
            return None
        step = (source.scale * weight.scale).astype(np.float32)
        return self._bias_values(name, round_bias(bias, source, weight), step)

    def _bias_values(self, name: str, integers: Array, step: Floats) -> Stored:
        return Stored(
            self.initializer(f"{name}_bias", integers.astype(np.int32)),
            self.initializer(f"{name}_bias_scale", step),
            self.initializer(f"{name}_bias_zero_point", np.zeros(step.shape, np.int32)),
        )


def _floats(value: ir.Value | None) -> Floats | None:
    array = read_constant(value)
    return None if array is None else np.asarray(array, np.float32)


def _mean_error(error: NDArray[np.float32], means: NDArray[np.float32], groups: int) -> NDArray[np.float32]:
    """What rounding the weights adds to each output channel on average, [N]; padding is not told from the rest."""
    summed = error.reshape(*error.shape[:2], -1).sum(axis=2)
    each = len(summed) // groups
    parts = [summed[g * each : (g + 1) * each] @ part for g, part in enumerate(np.split(means, groups))]
    return np.concatenate(parts).astype(np.float32)
