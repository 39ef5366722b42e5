"""Options that name nodes of a stand-in, for the whole model: each layer takes what one of the stand-in's says.

The nodes of both lie in order, layer after layer, with as many nodes in each::

    stand-in   before | 0 | 1 | 2 | 3 | behind
    whole      before | 0 | 1 | 2 | 1 | 2 | 1 | 3 | behind

The first layer and the last are those of the stand-in, and what lies between takes turns, so that as large a share of
the nodes is named. Where operators of two nodes that stand for each other differ, nothing is said of the whole.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias

from optim._engine.runs.stand_in.layers import NAMING_OPTIONS, StandIn
from optim.model import Model
from optim.onnx.files import shared_ir

Signature: TypeAlias = tuple[str, str, int]
Nodes: TypeAlias = Sequence[tuple[str, Signature]]


def names_nodes(options: Mapping[str, Any]) -> bool:
    """Whether options of a step name nodes."""
    return any(options.get(name) for name in NAMING_OPTIONS)


def nodes_of(model: Model) -> Nodes:
    """Names of the nodes of the main graph, in order, and what tells them apart."""
    return [(node.name or "", (node.domain, node.op_type, len(node.inputs))) for node in shared_ir(model.path).graph]


def options_of_whole(
    options: Mapping[str, Any], small: Nodes, whole: Nodes, stand_in: StandIn
) -> dict[str, Any] | None:
    """A step's options with the names of the whole model's nodes; None where these cannot be told.

    Args:
        options: of the step, as it was found on the stand-in.
        small: nodes of the stand-in's model that it was applied to.
        whole: nodes of the whole model that it is applied to.
        stand_in: how many layers they have.
    """
    named = {option: options[option] for option in NAMING_OPTIONS if options.get(option)}
    places = counterparts([node for _, node in small], [node for _, node in whole], stand_in)
    known = {name for name, _ in small}
    if places is None or any(name not in known for names in named.values() for name in names):
        return None

    def names_of(chosen: Collection[str]) -> tuple[str, ...]:
        return tuple(name for (name, _), place in zip(whole, places, strict=True) if small[place][0] in chosen)

    return {**options, **{option: names_of(frozenset(names)) for option, names in named.items()}}


def counterparts(small: Sequence[Signature], whole: Sequence[Signature], stand_in: StandIn) -> list[int] | None:
    """For each node of the whole model the place of the stand-in's node that it is like; None where they differ.

    Args:
        small: nodes of the stand-in, in order.
        whole: nodes of the whole model, in order.
        stand_in: how many layers they have.
    """
    more, layers = len(whole) - len(small), stand_in.whole - stand_in.layers
    period = more // layers
    if more <= 0 or more % layers:
        return None
    begin = _first_of_layers(whole, period, stand_in.whole)
    if begin is None:
        return None
    places = [_place(place - begin, period, stand_in, begin, more) for place in range(len(whole))]
    same = all(0 <= place < len(small) and small[place] == node for place, node in zip(places, whole, strict=True))
    return places if same else None


def _first_of_layers(whole: Sequence[Signature], period: int, layers: int) -> int | None:
    """Where the first layer may begin: from there on nodes come again with every layer."""
    long = period * (layers - 1)
    alike = [one == other for one, other in zip(whole, whole[period:], strict=False)]
    return next((begin for begin in range(len(alike) - long + 1) if all(alike[begin : begin + long])), None)


def _place(after: int, period: int, stand_in: StandIn, begin: int, more: int) -> int:
    """The place in the stand-in of a node that comes so many nodes after the begin of the first layer."""
    layer, inside = divmod(after, period)
    if layer < 1:
        return begin + after
    if layer >= stand_in.whole - 1:
        return begin + after - more
    return begin + (1 + (layer - 1) % (stand_in.layers - 2)) * period + inside
