"""The parts of a model that are wrong: suspected by their own error, tried alone, held against float64."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from optim.arrays import Array
from optim.onnx import qualified_name
from optim_plugins.diagnose.blame.expected import FLOAT_LIMIT, ExpectedPrecision, as_rounded, precision_of, rounded
from optim_plugins.diagnose.blame.found import Blamed, finite
from optim_plugins.diagnose.blame.neighbourhood import node_name, path_to_output
from optim_plugins.diagnose.graphs.couple import Couple, worst
from optim_plugins.diagnose.graphs.cutting import GraphPart
from optim_plugins.diagnose.graphs.distances import Distance, distance, float64_of, histogram, worst_drift
from optim_plugins.diagnose.graphs.modules import modules_of

_SUSPECTS = 12
"""Parts that are tried alone, the farthest beyond their limit first, and last those that were given what overflowed
before them: each costs a run and holds its value in memory."""

_LEAST_SHARE = 0.2
"""Of the outputs' distance that a blamed part makes alone: the noise of 25 equal parts adds up to five times one's."""

_TAKEN_BACK = 0.25
"""Of an error, what is left of one that the next node takes back; a sum with a residual leaves more of a fault."""

_BY_CLIPPING = 4.0
"""Times what rounding in the same steps leaves: calibration balances both, so honest ends lose about as much."""

_JUDGED = 4
"""Parts that are computed in float64, whichever move the outputs most."""


@dataclass(frozen=True, slots=True)
class _Suspect:
    """A part, how it rounds, and how far it is off and may be."""

    value: str
    part: GraphPart
    precision: ExpectedPrecision
    local: Distance
    limit: float
    alone: float


def find_blamed(couple: Couple, drift: float) -> list[Blamed]:
    """The parts that are wrong, whichever moves the outputs most first.

    Args:
        couple: with outputs that are not alike.
        drift: of the worst output; infinite where one is lost.
    """
    cuts = couple.cuts
    parts = {name: couple.other.part(name, set(cuts) - {name}) for name in cuts}
    precisions = {name: precision_of(couple.other, part) for name, part in parts.items()}
    local = worst(couple.replayed(cuts, cuts))
    limits = _limits(couple, precisions)
    suspects = [name for name in cuts if local[name].relative_l2 > limits[name]]
    suspects = _without_rescaled(couple, suspects, parts, local, limits)
    carried = _carried(couple, suspects, parts)
    suspects.sort(key=lambda name: (name in carried, limits[name] / local[name].relative_l2))
    del suspects[_SUSPECTS:]
    alone = _alone(couple, suspects, cuts)
    least = _LEAST_SHARE * (drift if math.isfinite(drift) else 1.0)
    order = {name: place for place, name in enumerate(cuts)}
    guilty = [name for name in suspects if alone[name] >= least]
    if not guilty and not math.isfinite(drift):  # the reference's operators take what the other's do not
        guilty = [name for name in suspects if not math.isfinite(local[name].relative_l2)]
    if any(name not in carried and not math.isfinite(local[name].relative_l2) for name in guilty):
        guilty = [name for name in guilty if name not in carried]
    guilty.sort(key=lambda name: (-alone[name], order[name]))
    firsts = {parts[name].nodes: name for name in reversed(guilty)}  # a node with several outputs is blamed once
    guilty = [name for name in guilty if firsts[parts[name].nodes] == name]
    found = [_Suspect(n, parts[n], precisions[n], local[n], limits[n], alone[n]) for n in guilty]
    return [_blamed(couple, one, judged=place < _JUDGED) for place, one in enumerate(found)]


def _carried(couple: Couple, suspects: Sequence[str], parts: Mapping[str, GraphPart]) -> set[str]:
    """The suspects of which what they are given is beyond float16 already: they were given something else."""
    beyond = couple.beyond_range({given for name in suspects for given in parts[name].given})
    return {name for name in suspects if not beyond.isdisjoint(parts[name].given)}


def _limits(couple: Couple, precisions: Mapping[str, ExpectedPrecision]) -> dict[str, float]:
    """What each part may be off by; where it rounds, its part of the reference is run once more on rounded values."""
    coarse = [name for name, precision in precisions.items() if precision.kind != "float"]
    simulated = dict.fromkeys(precisions, 0.0)
    simulated.update(_simulated(couple, coarse, precisions) if coarse else {})
    return {name: precision.limit(simulated[name]) for name, precision in precisions.items()}


def _simulated(couple: Couple, names: Sequence[str], precisions: Mapping[str, ExpectedPrecision]) -> dict[str, float]:
    ours, cuts = couple.ours, {couple.partner(name) for name in couple.cuts} & set(couple.ours.values)
    wanted = {couple.partner(name): precisions[name] for name in names if couple.partner(name) in ours.values}
    by_node: dict[str, ExpectedPrecision] = {}
    read: set[str] = set()
    for value, precision in wanted.items():
        part = ours.part(value, cuts - {value})
        read |= set(part.given) & set(ours.values)
        by_node.update((node.outputs[0].name or "", precision) for node in part.nodes)
    found: dict[str, float] = {}
    change = partial(rounded, precisions=by_node)
    with ours.values_of({*wanted, *read}) as run, ours.values_of(wanted, read, change) as again:
        for feeds in couple.feeds:
            expected = run(feeds)
            got = again({**feeds, **ours.as_given({name: expected[name] for name in read})})
            for value, precision in wanted.items():
                gap = distance(expected[value], np.asarray(got[value])).relative_l2
                if precision.inputs:  # what is made is rounded too
                    own = distance(expected[value], as_rounded(expected[value], precision)).relative_l2
                    gap = math.hypot(gap, own)
                found[value] = max(found.get(value, 0.0), gap)
    for name in names:
        if (value := couple.partner(name)) in couple.ours.inputs:  # it is only passed on
            arrays = [feeds[value] for feeds in couple.feeds]
            found[value] = max(distance(array, as_rounded(array, precisions[name])).relative_l2 for array in arrays)
    return {name: found.get(couple.partner(name), 0.0) for name in names}


def _without_rescaled(
    couple: Couple,
    suspects: list[str],
    parts: Mapping[str, GraphPart],
    local: dict[str, Distance],
    limits: Mapping[str, float],
) -> list[str]:
    """The suspects but those that are meant to be different: what reads them takes it back.

    Such a value is far from the reference's; given the other model's own value, what follows is right. A scale that
    moved into the next weight is one, given the reference's value what follows is far off; a Relu that the next
    QuantizeLinear does by where its range ends is another. One that loses by clipping is none, though a normalization
    or a GELU takes most of that back.
    """
    readers = {one: [name for name in couple.cuts if one in parts[name].given] for one in suspects}
    if not any(readers.values()):
        return suspects
    after = sorted({name for found in readers.values() for name in found})
    cuts = set(couple.cuts) - set(suspects)
    through = worst(couple.replayed(after, cuts))

    def is_right(one: str) -> bool:
        return all(through[n].relative_l2 <= max(limits[n], FLOAT_LIMIT) + limits[one] for n in readers[one])

    def has_moved(one: str) -> bool:
        return any(local[n].relative_l2 > limits[n] for n in readers[one])

    def is_taken_back(one: str) -> bool:
        return max(through[n].relative_l2 for n in readers[one]) < _TAKEN_BACK * local[one].relative_l2

    right = [one for one in suspects if readers[one] and math.isfinite(local[one].relative_l2) and is_right(one)]
    moved = [one for one in right if has_moved(one)]
    taken_back = [one for one in right if one not in moved and is_taken_back(one)]
    clipped = _clipped(couple, {one: parts[one] for one in taken_back}, readers, through, cuts)
    rescaled = [*moved, *(one for one in taken_back if one not in clipped)]
    for one in rescaled:
        local.update((name, through[name]) for name in readers[one])
    return [name for name in suspects if name not in rescaled and local[name].relative_l2 > limits[name]]


def _clipped(
    couple: Couple,
    candidates: Mapping[str, GraphPart],
    readers: Mapping[str, Sequence[str]],
    through: Mapping[str, Distance],
    cuts: Collection[str],
) -> set[str]:
    """Those that would leave far less if they rounded in the same steps and clipped nothing.

    Args:
        couple: of both models.
        candidates: parts that may clip, by the value that they make.
        readers: values that are made of it.
        through: what they are off by, given the other model's own.
        cuts: values that were given then.
    """
    steps = {name: _step_of(part, len(couple.other.shapes[0][name])) for name, part in candidates.items()}
    rounded_only = {name: partial(_in_steps, step=step) for name, step in steps.items() if step is not None}
    after = sorted({reader for name in rounded_only for reader in readers[name]})
    left = worst(couple.replayed(after, {*cuts, *rounded_only}, rounded_only))
    return {
        name
        for name in rounded_only
        if any(through[one].relative_l2 > _BY_CLIPPING * left[one].relative_l2 for one in readers[name])
    }


def _alone(couple: Couple, suspects: Sequence[str], cuts: Sequence[str]) -> dict[str, float]:
    """How far the reference's outputs move with the error of one part alone put into it.

    All suspects are cut out of one session: opening one for each would take minutes on a large model. What follows a
    suspect and is one itself then has the reference's value, and may hide the first; one that overflows is therefore
    tried once more, with nothing else cut out.
    """
    if not suspects:
        return {}
    wrong: dict[str, list[Array]] = {}
    lost: set[str] = set()
    for name, expected, theirs in couple.replayed(suspects, cuts):
        wrong.setdefault(name, []).append(theirs)
        if not math.isfinite(distance(expected, theirs).relative_l2):
            lost.add(name)
    moved = _moved(couple, wrong)
    hidden = [name for name in suspects if name in lost and math.isfinite(moved[name])]
    for name in hidden if len(suspects) > 1 else ():
        moved |= _moved(couple, {name: wrong[name]})
    return moved


def _moved(couple: Couple, wrong: Mapping[str, Sequence[Array]]) -> dict[str, float]:
    """How far the reference's outputs move with each of these values, which are all cut out of it, wrong alone.

    Args:
        couple: of both models.
        wrong: for each value of the other model, what it is in each sample.
    """
    ours, moved = couple.ours, dict.fromkeys(wrong, 0.0)
    inside = {couple.partner(name) for name in wrong} & set(ours.values)
    outputs = [value.name for value in ours.graph.graph.outputs if value.name in ours.values]
    with ours.values_of({*inside, *outputs}) as run, ours.cut(outputs, inside) as session:
        all_expected = [run(feeds) for feeds in couple.feeds]
        pairs: dict[tuple[str, str], list[tuple[Array, Array]]] = {}
        for number, (feeds, expected) in enumerate(zip(couple.feeds, all_expected, strict=True)):
            given = ours.as_given({name: expected[name] for name in inside})
            for name, arrays in wrong.items():
                value = couple.partner(name)
                put = {value: arrays[number].astype(feeds[value].dtype)} if value in feeds else {}
                own = given | (ours.as_given({value: arrays[number]}) if value in inside else {})
                got = session.run({**feeds, **put, **own})
                # an output itself is not read by anything: it is what was put in
                made = {n: arrays[number] if n == value else np.asarray(got[n]) for n in outputs}
                for output in outputs:
                    pairs.setdefault((name, output), []).append((expected[output], made[output]))
    for (name, output), samples in pairs.items():
        moved[name] = max(moved[name], worst_drift(output, samples))
    return moved


def _blamed(couple: Couple, suspect: _Suspect, *, judged: bool) -> Blamed:
    name, part, local = suspect.value, suspect.part, suspect.local
    ours, value = couple.ours, couple.partner(name)
    cuts = {couple.partner(one) for one in couple.cuts if couple.partner(one) != value}
    same = ours.part(value, cuts) if value in ours.values else GraphPart((), ())
    _, expected, got = next(couple.replayed([name], couple.cuts))
    nearer, errors = "", None
    if judged and same.nodes:
        with ours.values_of(same.given) as run:
            feeds = couple.feeds[0]
            exact = float64_of(ours, same, value, {**feeds, **run(feeds)})
        if exact is not None:
            errors = (distance(exact, expected).relative_l2, distance(exact, got).relative_l2)
            nearer = "reference" if errors[0] < errors[1] else "other"
            errors = errors if all(map(math.isfinite, errors)) else None
    edges, *counts = histogram(expected, got)
    return Blamed(
        nodes=tuple(map(node_name, part.nodes)),
        operators=tuple(qualified_name(node.domain, node.op_type) for node in part.nodes),
        reference_nodes=tuple(map(node_name, same.nodes)),
        value=name,
        reference_value=value,
        given=part.given,
        local=finite(local.relative_l2),
        limit=suspect.limit,
        alone=finite(suspect.alone),
        max_abs=local.max_abs if math.isfinite(local.max_abs) else 0.0,
        ulp=local.ulp,
        nearer=nearer,
        errors=errors,
        precision=suspect.precision.kind,
        problem=local.problem,
        path=path_to_output(couple.other.graph.graph, name),
        edges=edges,
        counts=(counts[0], counts[1]),
        modules=modules_of(part.nodes) or modules_of(same.nodes),
    )


def _step_of(part: GraphPart, rank: int) -> NDArray[np.float64] | None:
    """The scale of the last QuantizeLinear of a part, ready to divide a value of so many axes; None without one."""
    node = next((node for node in reversed(part.nodes) if node.op_type == "QuantizeLinear"), None)
    scale = node.inputs[1] if node is not None and len(node.inputs) > 1 else None
    tensor = ir.convenience.get_const_tensor(scale) if scale is not None else None
    if node is None or tensor is None or not (step := tensor.numpy().astype(np.float64)).all():
        return None
    if step.size == 1:
        return step.reshape(())
    axis = node.attributes["axis"].as_int() if "axis" in node.attributes else 1
    if step.ndim != 1 or not -rank <= axis < rank:  # in blocks
        return None
    return step.reshape([-1 if place == axis % rank else 1 for place in range(rank)])


def _in_steps(array: Array, step: NDArray[np.float64]) -> Array:
    """A value as a quantizer leaves it that clips nothing."""
    found: Array = (np.round(array.astype(np.float64) / step) * step).astype(array.dtype)
    return found
