"""An LSTM that an exporter wrote out step by step becomes one operator again.

Loops of torch's LSTMCell, and Keras' LSTMs with ``unroll=True``, are some fifteen nodes a step: each multiplies one
row with all weights of the input, which are read anew every time. Before (:mod:`.lstm_steps` has a step), with X
[T, N, I]::

    x_t = Gather(X, t)                      h_t, c_t = step(x_t, h_(t-1), c_(t-1))          T times
    y = Concat(Unsqueeze(h_0), ..., Unsqueeze(h_(T-1)))

After; inputs that are no parts of one X are joined, and states that others read alone are taken from y by number::

    Y, Y_h, Y_c = LSTM(X, W, R, B, , h_(-1), c_(-1))        y = Squeeze(Y, 1)

Exact but for the order of sums. The captcha reader of ``captcha-whisperer``, two times 20 steps of 4,096 inputs and
100 units behind a ResNet, took 0.66 of its processor time. An LSTM whose input depends on its own earlier steps, as
that of a decoder, stays, and so does one whose cells others read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

import numpy as np
import onnx_ir as ir
from numpy.typing import NDArray

from optim.onnx import UniqueNames, add_constant, read_constant
from optim_plugins.ort.graph.known_values import producer
from optim_plugins.ort.graph.node_writer import NodeWriter, take_over
from optim_plugins.ort.prepare.recurrent.lstm_steps import LstmStep, Product, find_chains, find_steps

_LEAST_STEPS = 3
"""Two have less to gain than the operator costs."""

_FIRST_OPSET = 14
"""Since then Squeeze takes its axes as an input, and LSTM is the one that later operator sets have."""


def roll_lstms(graph: ir.Model) -> int:
    """Rewrite in place; how many steps went. What only they read is left for whoever drops unused nodes."""
    writer, names, count = NodeWriter(graph, "lstm"), UniqueNames(graph), 0
    steps = find_steps(graph.graph) if writer.opset >= _FIRST_OPSET else []
    for chain in reversed(list(find_chains(steps))):  # the last first: it may begin where another ends
        if len(chain) >= _LEAST_STEPS and _roll(chain, graph.graph, writer, names):
            count += len(chain)
    if count:
        graph.graph.sort()
    return count


def _roll(chain: list[LstmStep], graph: ir.Graph, writer: NodeWriter, names: UniqueNames) -> bool:
    found = [step.with_state_first(before.state) for before, step in pairwise(chain)]
    pairs = [pair for pair in found if pair is not None]
    begin = _in_order(chain[0], pairs[0])
    if begin is None or not _fits(*begin):
        return False
    recurrent, given = zip(begin, *pairs, strict=True)
    first, values = recurrent[0].value, [one.value for one in given]
    if _depends([*values, first, chain[0].cell_before], {step.end for step in chain}):
        return False
    writer.before = chain[-1].end
    operands = [_joined(values, writer), *_weights(chain[0], recurrent[0], given[0], graph, names), None]
    operands += [_with_axis(value, values[0], recurrent[0], writer) for value in (first, chain[0].cell_before)]
    hidden = recurrent[0].matrix().shape[1]
    lstm = ir.node("LSTM", operands, {"hidden_size": hidden}, num_outputs=3, name=names.take("lstm"))
    for value, part in zip(lstm.outputs, ("Y", "Y_h", "Y_c"), strict=True):
        value.type, value.name = chain[0].state.type, names.take(f"{chain[-1].state.name}_{part}")
    graph.insert_before(chain[-1].end, lstm)
    rows = writer.add("Squeeze", [lstm.outputs[0], writer.integers([1])])
    batch = chain[0].state.shape[0] if chain[0].state.shape is not None else None
    rows.shape = ir.Shape([len(chain), batch, hidden])
    _hand_on([step.state for step in chain], [one.node for one in recurrent], rows, writer)
    if any(use.node not in chain[-1].own for use in chain[-1].cell.uses()) or chain[-1].cell.is_graph_output():
        take_over(chain[-1].cell, writer.add("Squeeze", [lstm.outputs[2], writer.integers([0])]))
    return True


def _in_order(step: LstmStep, following: tuple[Product, Product]) -> tuple[Product, Product] | None:
    """The two products of the first step, whose state before is told by the weights alone."""
    for one, other in (step.products, step.products[::-1]):
        if one.has_weight_of(following[0]) and other.has_weight_of(following[1]):
            return one, other
    return None


def _fits(recurrent: Product, given: Product) -> bool:
    """Whether the weights are those of an LSTM: [4 H, H] and [4 H, I]."""
    size, hidden = recurrent.matrix().shape
    return bool(size == 4 * hidden and len(given.matrix()) == size)


def _depends(values: Sequence[ir.Value], ends: set[ir.Node]) -> bool:
    """Whether a value is made from what one of these nodes gives."""
    waiting, seen = list(values), set[ir.Node]()
    while waiting:
        node = waiting.pop().producer()
        if node is None or node in seen:
            continue
        if node in ends:
            return True
        seen.add(node)
        waiting += [value for value in node.inputs if value is not None]
        inner = (one for part in _bodies(node) for one in part.all_nodes())
        waiting += [value for one in inner for value in one.inputs if value is not None]
    return False


def _bodies(node: ir.Node) -> Iterable[ir.Graph]:
    for attribute in node.attributes.values():
        if attribute.type == ir.AttributeType.GRAPH:
            yield attribute.as_graph()
        elif attribute.type == ir.AttributeType.GRAPHS:
            yield from attribute.as_graphs()


def _joined(values: list[ir.Value], writer: NodeWriter) -> ir.Value:
    """The inputs of all steps as [T, N, I]."""
    parts = [producer(value, "Gather") for value in values]
    first = parts[0].inputs[0] if parts[0] is not None else None
    axes = {part.attributes.get_int("axis", 0) if part is not None else None for part in parts}
    places = [_place(part, first) for part in parts]
    if first is None or None in places or axes not in ({0}, {1}):
        return writer.add("Concat", [writer.add("Unsqueeze", [one, writer.integers([0])]) for one in values], axis=0)
    axis = 1 if axes == {1} else 0
    length = first.shape[axis] if first.shape is not None else None
    whole = length == len(places) and places == list(range(len(places)))
    taken = first if whole else writer.add("Gather", [first, writer.integers([one or 0 for one in places])], axis=axis)
    return taken if axis == 0 else writer.transpose(taken, [1, 0, 2])


def _place(part: ir.Node | None, source: ir.Value | None) -> int | None:
    """Which row of three axes a Gather takes, by a number alone; None for any other node."""
    if part is None or source is None or part.inputs[0] is not source:
        return None
    if source.shape is None or len(source.shape) != 3:
        return None
    index = read_constant(part.inputs[1], at_most=1)
    return int(index) if index is not None and index.ndim == 0 else None


def _weights(step: LstmStep, recurrent: Product, given: Product, graph: ir.Graph, names: UniqueNames) -> list[ir.Value]:
    """W [1, 4 H, I], R [1, 4 H, H] and B [1, 8 H] as new constants, gates in ONNX's order."""
    beside: NDArray[np.float32] = Product(given.node, given.weight, given.is_transposed, step.bias).total_bias()
    biases = [given.total_bias() + beside, recurrent.total_bias()]
    arrays = {
        "W": _in_places(given.matrix(), step.places),
        "R": _in_places(recurrent.matrix(), step.places),
        "B": np.concatenate([_in_places(one, step.places) for one in biases]),
    }
    name = step.state.name or "lstm"
    return [add_constant(graph, names.take(f"{name}_{part}"), array[None]) for part, array in arrays.items()]


def _in_places(array: NDArray[np.float32], places: Sequence[int]) -> NDArray[np.float32]:
    parts = np.split(array, 4)
    return np.ascontiguousarray(np.concatenate([parts[place] for place in places]))


def _with_axis(value: ir.Value, source: ir.Value, recurrent: Product, writer: NodeWriter) -> ir.Value:
    """A first state [N, H], or one row for all, as [1, N, H]."""
    sizes = [one.shape[0] if one.shape is not None and len(one.shape) == 2 else None for one in (value, source)]
    if sizes[0] is None or sizes[0] != sizes[1] or getattr(sizes[0], "value", 0) is None:
        hidden = writer.integers([recurrent.matrix().shape[1]])
        value = writer.add("Expand", [value, writer.add("Concat", [writer.size(source, 0), hidden], axis=0)])
    return writer.add("Unsqueeze", [value, writer.integers([0])])


def _hand_on(states: list[ir.Value], products: list[ir.Node], rows: ir.Value, writer: NodeWriter) -> None:
    """Let others read the states in [T, N, H]; where they are joined to just that, it is what was joined."""
    joining = set[ir.Node]()
    for use in list(states[0].uses()):
        for joined in [one.node for one in use.node.outputs[0].uses()] if use.node.op_type == "Unsqueeze" else []:
            parts = [producer(value, "Unsqueeze") for value in joined.inputs]
            axis = joined.attributes.get_int("axis", 0)
            axes = [read_constant(part.inputs[1]) if part is not None else None for part in parts]
            fits = joined.op_type == "Concat" and all(one is not None and one.tolist() == [axis] for one in axes)
            if fits and axis in (0, 1) and [part.inputs[0] for part in parts if part is not None] == states:
                joining |= {part for part in parts if part is not None and len(part.outputs[0].uses()) == 1}
                whole = writer.transpose(rows, [1, 0, 2]) if axis else rows
                is_named = joined.outputs[0].is_graph_output()  # two outputs of a graph may be the same
                take_over(joined.outputs[0], writer.add("Identity", [whole]) if is_named else whole)
    for number, (state, product) in enumerate(zip(states, [*products[1:], None], strict=True)):
        if state.is_graph_output() or any(use.node not in {product, *joining} for use in state.uses()):
            place = writer.constant(np.array(number, np.int64))
            take_over(state, writer.add("Gather", [rows, place], axis=0))
