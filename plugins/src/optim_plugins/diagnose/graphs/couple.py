"""Two models side by side: their values paired, run on the same samples, and cut at the same places."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from optim import LabSetup
from optim.arrays import Array, dtype_of, is_float
from optim.model import Model
from optim_plugins.diagnose.graphs.cutting import MOST_ELEMENT_BYTES, OpenGraph, chunks, overflows_half
from optim_plugins.diagnose.graphs.distances import Distance, distance, worst_drift
from optim_plugins.diagnose.graphs.matching import paired

_SCALE_OF_OUTPUT = {
    "QLinearConv": 6,
    "QLinearMatMul": 6,
    "QLinearAdd": 6,
    "QLinearMul": 6,
    "QLinearGlobalAveragePool": 3,
    "QLinearAveragePool": 3,
    "QLinearLeakyRelu": 3,
    "QLinearSigmoid": 3,
    "QLinearSoftmax": 3,
    "QLinearConcat": 0,
    "QGemm": 7,
}
"""Which input of an operator is the scale of its output; the zero point comes behind it."""


class Couple:
    """A reference and another model.

    Args:
        models: the reference and the other.
        setup: where both are run; two of its samples of different sizes are used.
        names: of the other's inputs and outputs by the reference's, where they differ.

    Attributes:
        ours: the reference.
        other: held against it.
        feeds: of the reference.
        cuts: the other's values that the reference has too, in the same shape, in graph order.
        growth: relative L2 of paired values of the other, with everything before them as the other has it.
        outputs: drift of outputs, by the reference's name.
        notes: what could not be compared, and why.
    """

    def __init__(self, models: tuple[Model, Model], setup: LabSetup, names: Mapping[str, str]) -> None:
        self.ours = OpenGraph(models[0], setup)
        self.other = OpenGraph(models[1], setup, _with_float_views)
        self.feeds = [setup.sample(number) for number in two_sizes(setup)]
        dtypes = {info.name: dtype_of(info.dtype) for info in models[1].inputs}
        renamed = [{names.get(name, name): array for name, array in sample.items()} for sample in self.feeds]
        self._feeds = [{n: a.astype(dtypes[n], copy=False) for n, a in one.items() if n in dtypes} for one in renamed]
        self._outputs = {names.get(info.name, info.name): info.name for info in models[0].outputs}
        self.growth: dict[str, float] = {}
        self.outputs: dict[str, float] = {}
        self.notes: list[str] = []
        self._look_into_branches()
        self.pairs = paired((self.ours, self.feeds), (self.other, self._feeds), self._outputs)
        self._compare()
        self.cuts = [name for name in self.other.values if name in self.growth and self._same_shape(name)]

    def partner(self, name: str) -> str:
        """The reference's value for one of the other."""
        return self.pairs.partner[name]

    def replayed(
        self, names: Sequence[str], cuts: Collection[str], changes: Mapping[str, Callable[[Array], Array]] | None = None
    ) -> Iterator[tuple[str, Array, Array]]:
        """What the other model makes of the reference's values at ``cuts``: name, the reference's value, its own.

        Args:
            names: of the values that are made.
            cuts: at which the reference's values are given.
            changes: made to some of these before they are given, by name.
        """
        changed = changes or {}
        for group in self._chunks(names):
            parts = {name: self.other.part(name, set(cuts) - {name}) for name in group}
            read = {value for part in parts.values() for value in part.given if value not in self.other.inputs}
            ours = {self.partner(name) for name in read | set(group)} & set(self.ours.values)
            with self.ours.values_of(ours) as mine, self.other.cut(group, read) as theirs:
                for feeds, fed in zip(self.feeds, self._feeds, strict=True):
                    expected = {**feeds, **mine(feeds)}
                    values = {name: expected[self.partner(name)] for name in read}
                    values.update((name, changed[name](array)) for name, array in values.items() if name in changed)
                    given = self.other.as_given(values)
                    got = theirs.run({**fed, **given})
                    yield from ((name, expected[self.partner(name)], np.asarray(got[name])) for name in group)

    def beyond_range(self, names: Iterable[str]) -> set[str]:
        """Those of the other's values in float16 that are larger in the reference than float16 can be."""
        half = [name for name in names if name in self.other.values and self.other.dtypes[name] == np.float16]
        found: set[str] = set()
        for group in self._chunks(half):
            with self.ours.values_of({self.partner(name) for name in group} & set(self.ours.values)) as mine:
                for feeds in self.feeds:
                    expected = {**feeds, **mine(feeds)}
                    found.update(name for name in group if overflows_half(expected[self.partner(name)]))
        return found

    def _look_into_branches(self) -> None:
        """Put the nodes of a branch in place of its If, where every sample takes it in both models."""
        while True:
            ours, theirs = self.ours.branches(self.feeds), self.other.branches(self._feeds)
            apart = {name for name in ours.keys() & theirs.keys() if ours[name] != theirs[name]}
            found = [{name: taken for name, taken in one.items() if name not in apart} for one in (ours, theirs)]
            if not any(found):
                break
            self.ours.open_branches(found[0])
            self.other.open_branches(found[1])
        if count := len(self.other.taken):
            self.notes.append(f"If nodes with one branch compared, because every sample takes it: {count}")

    def _chunks(self, names: Iterable[str]) -> Iterator[list[str]]:
        return chunks(names, lambda name: 3 * MOST_ELEMENT_BYTES * self.other.size(name))

    def _compare(self) -> None:
        names = [name for name in self.other.values if name in self.pairs.partner]
        chance = [n for n in names if n in self.other.random or self.partner(n) in self.ours.random]
        if chance:
            self.notes.append(f"values that random operators have a part in are not compared: {len(chance)}")
        nan = ""
        made: dict[str, list[tuple[Array, Array]]] = {}
        for group in self._chunks(name for name in names if name not in chance):
            ours = [self.partner(name) for name in group if self.partner(name) in self.ours.values]
            with self.ours.values_of(ours) as mine, self.other.values_of(group) as theirs:
                for feeds, fed in zip(self.feeds, self._feeds, strict=True):
                    expected, got = {**feeds, **mine(feeds)}, theirs(fed)
                    for name in group:
                        array = expected[self.partner(name)]
                        is_coded = is_float(array.dtype) != is_float(got[name].dtype)
                        if is_coded and name not in self._outputs:  # integers that stand for floats of that name
                            continue
                        gap = distance(array, got[name]).relative_l2
                        self.growth[name] = max(self.growth.get(name, 0.0), gap)
                        if name in self._outputs:
                            made.setdefault(name, []).append((array, got[name]))
                        if not nan and array.dtype.kind == "f" and np.isnan(array).any():
                            nan = self.partner(name)
        if nan:
            value = self.ours.values.get(nan)
            node = value.producer() if value is not None else None
            where = f"first at node {node.name}" if node is not None else f"in its input {nan}"
            self.notes.append(f"the reference itself has NaN, {where}; the rest of such values is compared")
        for theirs_name, name in self._outputs.items():
            if theirs_name in made:
                self.outputs[name] = worst_drift(name, made[theirs_name])
            elif theirs_name in self.other.values and theirs_name not in chance:
                self.outputs[name] = math.inf
                self.notes.append(f"output {name} has another size in the other model")

    def _same_shape(self, name: str) -> bool:
        ours = self.partner(name)
        shapes = all(b[name] == a[ours] for a, b in zip(self.ours.shapes, self.other.shapes, strict=True))
        return shapes and is_float(self.other.dtypes[name]) == is_float(self.ours.dtypes[ours])


def two_sizes(setup: LabSetup) -> list[int]:
    """The first sample, and the next one of other sizes; of the same sizes where there is none."""
    samples, first = setup.samples, setup.samples[0]
    shapes = {number: {name: array.shape for name, array in setup.sample(number).items()} for number in samples}
    other = [number for number in samples if shapes[number] != shapes[first]] or list(samples[1:2])
    return [first, *other[:1]]


def worst(found: Iterable[tuple[str, Array, Array]]) -> dict[str, Distance]:
    """The largest distance of each value over the samples."""
    distances: dict[str, Distance] = {}
    for name, ours, theirs in found:
        gap = distance(ours, theirs)
        if name not in distances or not gap.relative_l2 <= distances[name].relative_l2:
            distances[name] = gap
    return distances


def _with_float_views(graph: ir.Model) -> None:
    """Make values of operators on integers visible as floats; changed in place, where the scale is known.

    Before::

        q -> QLinearConv -> r -> QLinearAdd -> s

    After; the two inserted nodes undo each other exactly, and ``r_dequantized`` is a float value like any other::

        q -> QLinearConv -> r -> DequantizeLinear -> r_dequantized -> QuantizeLinear -> QLinearAdd -> s
    """
    for node in list(graph.graph):
        place = _SCALE_OF_OUTPUT.get(node.op_type)
        if place is None or len(node.inputs) < place + 2:
            continue
        made, scale, zero = node.outputs[0], node.inputs[place], node.inputs[place + 1]
        if scale is None or zero is None:
            continue
        down = ir.node("DequantizeLinear", [made, scale, zero], name=f"{node.name}_dequantized")
        up = ir.node("QuantizeLinear", [down.outputs[0], scale, zero], name=f"{node.name}_requantized")
        down.outputs[0].name, up.outputs[0].name = f"{made.name}_dequantized", f"{made.name}_requantized"
        graph.graph.insert_after(node, [down, up])
        ir.convenience.replace_all_uses_with(made, up.outputs[0], replace_graph_outputs=True)
        down.replace_input_with(0, made)
