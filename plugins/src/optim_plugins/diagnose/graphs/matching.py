"""Which value of one graph is which of another: the one place for what "the same tensor in two graphs" means.

In this order, and only where both have as many elements on every sample:

1. outputs of the models, by name, or as the user maps them;
2. outputs of nodes that an exporter gave the same name scope and operator, and that both graphs have as often there;
3. values with the same name, or with one that a pass made of it (``x_quantized`` of ``x``);
4. what only passes a value on (a pair of QuantizeLinear and DequantizeLinear, a Cast, an Identity);
5. values that are alike on samples of different sizes, in whatever layout: :func:`fingerprint`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from optim.arrays import Array, Feeds
from optim_plugins.diagnose.graphs.cutting import MOST_ELEMENT_BYTES, OpenGraph, chunks

Fingerprint = NDArray[np.float64]
Ran = tuple[OpenGraph, Sequence[Feeds]]
"""A graph and the samples that it is run on."""

_ALIKE = 1e-3
"""Fingerprints this near are of one value: rounding moves them by 1e-5, the next layer's value by more than 1e-2."""

_SCOPES = ("pkg.torch.onnx.name_scopes", "namespace", "pkg.torch.onnx.class_hierarchy")
_PASSES_ON = ("DequantizeLinear", "QuantizeLinear", "Cast", "Identity")


@dataclass(slots=True)
class Pairs:
    """Values of the other graph, each with the one of the reference that it stands for.

    Attributes:
        partner: the reference's value, by the other's.
        how: ``output``, ``scope``, ``name``, ``passed on`` or ``alike``, by the other's value.
        ambiguous: those of which several of the reference are alike; the first was taken.
    """

    partner: dict[str, str] = field(default_factory=dict)
    how: dict[str, str] = field(default_factory=dict)
    ambiguous: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def add(self, other: str, reference: str, how: str) -> None:
        """Note a pair, unless the other's value has one."""
        if other not in self.partner:
            self.partner[other], self.how[other] = reference, how


def fingerprint(array: Array) -> Fingerprint:
    """Size, mean, mean magnitude, root mean square and 16 quantiles: what no change of layout changes."""
    values = np.asarray(array, np.float64).ravel()
    values = values[np.isfinite(values)]
    if not values.size:
        return np.full(19, float(array.size))
    moments = [values.mean(), np.abs(values).mean(), np.sqrt(np.square(values).mean())]
    return np.array([*moments, *np.quantile(values, np.linspace(0, 1, 16))])


def paired(reference: Ran, other: Ran, outputs: Mapping[str, str]) -> Pairs:
    """Pairs of the values of two graphs, on samples of both.

    Args:
        reference: a graph and its samples; it is measured on them.
        other: the same of the other graph.
        outputs: of the other model, with the reference's.
    """
    for graph, samples in (reference, other):
        graph.measure(samples)
    pairs = _pair_by_structure(reference[0], other[0], outputs)
    ours, theirs = reference[0], other[0]
    taken = set(pairs.partner.values())
    left = [name for name in theirs.values if name not in pairs.partner]
    sizes = {theirs.sizes(name) for name in left}
    mine = [name for name in ours.values if name not in taken and ours.sizes(name) in sizes]
    sizes = {ours.sizes(name) for name in mine}
    left = [name for name in left if theirs.sizes(name) in sizes and max(theirs.sizes(name)) > 1]
    _pair_alike(
        _fingerprints(reference, mine), _fingerprints(other, left), pairs, lambda a, b: theirs.sizes(a) == ours.sizes(b)
    )
    return pairs


def _fingerprints(ran: Ran, names: Sequence[str]) -> dict[str, list[Fingerprint]]:
    graph, samples = ran
    found: dict[str, list[Fingerprint]] = {}
    for group in chunks(names, lambda name: MOST_ELEMENT_BYTES * graph.size(name)):
        with graph.values_of(group) as run:
            for feeds in samples:
                for name, array in run(feeds).items():
                    if array.dtype.kind == "f":
                        found.setdefault(name, []).append(fingerprint(array))
    return found


def _pair_by_structure(reference: OpenGraph, other: OpenGraph, outputs: Mapping[str, str]) -> Pairs:
    """Pairs by outputs, scopes, names and what is only passed on.

    Args:
        reference: measured.
        other: measured.
        outputs: of the other model, with the reference's.
    """
    pairs = Pairs()

    def fits(theirs: str, ours: str) -> bool:
        known = theirs in other.values and (ours in reference.values or ours in reference.inputs)
        return known and other.sizes(theirs) == reference.sizes(ours)

    def add(found: Iterable[tuple[str, str]], how: str) -> None:
        for theirs, ours in found:
            if fits(theirs, ours):
                pairs.add(theirs, ours, how)

    add(outputs.items(), "output")
    add(_by_scope(reference, other), "scope")
    add(((name, name) for name in other.values), "name")
    add(_by_stem(reference, other), "name")
    for name, value in other.values.items():
        source = _passed_on(value, other)
        ours = pairs.partner.get(source, source if source in other.inputs else "")
        if fits(name, ours):
            pairs.add(name, ours, "passed on")
    return pairs


def _pair_alike(
    reference: Mapping[str, Sequence[Fingerprint]],
    other: Mapping[str, Sequence[Fingerprint]],
    pairs: Pairs,
    fits: Callable[[str, str], bool],
) -> None:
    """Pairs of what is left, by fingerprints on every sample; several that are alike are noted as ambiguous.

    Args:
        reference: fingerprints of values on each sample.
        other: the same of the other model.
        pairs: where found pairs go.
        fits: whether a value of the other may stand for one of the reference.
    """
    for theirs, prints in other.items():
        wanted = np.concatenate(prints)
        scale = max(float(np.abs(wanted).max(initial=0)), 1e-12)
        near = [
            name
            for name, known in reference.items()
            if fits(theirs, name) and np.abs(np.concatenate(known) - wanted).max() <= _ALIKE * scale
        ]
        if near:
            pairs.add(theirs, near[0], "alike")
        if len(near) > 1:
            pairs.ambiguous[theirs] = tuple(near)


def _by_scope(reference: OpenGraph, other: OpenGraph) -> Iterable[tuple[str, str]]:
    ours, theirs = _scopes(reference), _scopes(other)
    for key, nodes in theirs.items():
        same = ours.get(key, [])
        if len(same) == len(nodes):
            for one, two in zip(nodes, same, strict=True):
                yield from ((a.name or "", b.name or "") for a, b in zip(one.outputs, two.outputs, strict=False))


def _scopes(graph: OpenGraph) -> dict[tuple[str, str], list[ir.Node]]:
    found = defaultdict(list)
    for node in graph.graph.graph:
        scope = next((node.metadata_props[key] for key in _SCOPES if key in node.metadata_props), "")
        if scope:
            found[scope, node.op_type].append(node)
    return found


def _by_stem(reference: OpenGraph, other: OpenGraph) -> Iterable[tuple[str, str]]:
    for name in other.values:
        stem = name
        while stem and stem not in reference.values:
            stem = stem.rpartition("_")[0]
        if stem and stem not in other.values:
            yield name, stem


def _passed_on(value: ir.Value, graph: OpenGraph) -> str:
    """The float value that a value only passes on, rounded or not; empty where it is made anew."""
    node = value.producer()
    seen = ""
    while node is not None and node.op_type in _PASSES_ON and node.inputs[0] is not None:
        seen = node.inputs[0].name or ""
        node = node.inputs[0].producer() if seen in graph.values else None
        if node is None or node.op_type not in _PASSES_ON:
            break
    return seen
