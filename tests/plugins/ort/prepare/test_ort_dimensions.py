from __future__ import annotations

import onnx
import onnx.parser
import onnx_ir as ir
import pytest

from optim_plugins.ort.graph.dimensions import AxisOrigin, Sizes

HEAD = '<ir_version: 8, opset_import: ["" : 17]> g (float[b, s, 12] x, float[b, t, 12] z) => (float[b, s, 12] y) '


def graph_of(body: str, *, initializers: str = "") -> ir.Model:
    text = HEAD + (f"<{initializers}> " if initializers else "") + "{ " + body + " y = Identity(x) }"
    return ir.serde.deserialize_model(onnx.parser.parse_model(text))


def find(graph: ir.Model, name: str) -> ir.Value:
    values = [*graph.graph.inputs, *(value for node in graph.graph for value in node.outputs)]
    return next(value for value in values if value.name == name)


def size(graph: ir.Model, name: str, axis: int) -> object:
    return Sizes(graph).of(find(graph, name), axis)


def origin(graph: ir.Model, name: str, axis: int) -> AxisOrigin:
    return AxisOrigin(find(graph, name), axis)


def test_a_fixed_size_is_a_number_and_another_an_axis_of_an_input() -> None:
    graph = graph_of("")

    assert size(graph, "x", 2) == 12
    assert size(graph, "x", 1) == origin(graph, "x", 1)


def test_a_scalar_has_no_last_axis() -> None:
    graph = graph_of("one = Constant <value_float = 1.0> ()")

    assert size(graph, "one", -1) is None


def test_sizes_of_one_name_are_the_same() -> None:
    graph = graph_of("")

    assert size(graph, "z", 0) == size(graph, "x", 0)
    assert size(graph, "z", 1) != size(graph, "x", 1)


SPLIT = (
    "shape = Shape(x) batch = Gather(shape, first) one = Unsqueeze(batch, axes) "
    "target = Concat<axis = 0>(one, rest) four = Reshape(x, target) "
)
NUMBERS = "int64 first = {0}, int64[1] axes = {0}, int64[3] rest = {-1, 3, 4}"


def test_a_target_spelled_out_from_a_shape_is_followed_back() -> None:
    graph = graph_of(SPLIT, initializers=NUMBERS)

    assert [size(graph, "four", axis) for axis in range(4)] == [origin(graph, "x", 0), origin(graph, "x", 1), 3, 4]


def test_what_stays_the_same_is_followed_through_operators() -> None:
    graph = graph_of(
        SPLIT + "turned = Transpose<perm = [0, 2, 1, 3]>(four) small = Softmax(turned) sum = Add(small, bias) ",
        initializers=NUMBERS + ", float[4] bias = {0, 0, 0, 0}",
    )

    assert [size(graph, "sum", axis) for axis in range(4)] == [origin(graph, "x", 0), 3, origin(graph, "x", 1), 4]


def test_what_grows_is_not_taken_for_its_parts() -> None:
    graph = graph_of("both = Concat<axis = 1>(x, z) ")

    assert size(graph, "both", 0) == origin(graph, "x", 0)
    assert size(graph, "both", 1) == origin(graph, "both", 1)


def test_a_sum_of_tensors_that_may_differ_has_a_size_of_its_own() -> None:
    graph = graph_of("sum = Add(x, z) ")

    assert size(graph, "sum", 1) == origin(graph, "sum", 1)


def test_an_operand_of_length_one_does_not_count() -> None:
    graph = graph_of(
        "row = Slice(x, start, end, axis) sum = Add(row, x) ",
        initializers="int64[1] start = {0}, int64[1] end = {1}, int64[1] axis = {1}",
    )
    find(graph, "row").shape = ir.Shape([None, 1, 12])

    assert size(graph, "sum", 1) == origin(graph, "x", 1)


@pytest.mark.parametrize(("target", "kept"), [("{0, -1, 12}", True), ("{0, 0, 12}", True), ("{-1, 3, 12}", False)])
def test_a_reshape_keeps_the_shape_only_where_that_is_shown(target: str, kept: bool) -> None:
    graph = graph_of("same = Reshape(x, target) ", initializers=f"int64[3] target = {target}")
    reshape = find(graph, "same").producer()
    assert reshape is not None

    assert Sizes(graph).keeps_shape(reshape) is kept


def test_a_target_of_another_tensors_sizes_is_not_taken_for_its_own() -> None:
    graph = graph_of("other = Shape(z) same = Reshape(x, other) ")
    reshape = find(graph, "same").producer()
    assert reshape is not None

    assert Sizes(graph).target(reshape) == [origin(graph, "x", 0), origin(graph, "z", 1), 12]
    assert Sizes(graph).keeps_shape(reshape)


@pytest.mark.parametrize(("number", "instead", "sizes"), [(-1, 1, [1, 7]), (1, 5, None), (-1, 5, None), (5, 1, None)])
def test_minus_one_in_the_target_of_an_expand_is_one_only_if_the_graph_says_so(
    number: int, instead: int, sizes: list[int] | None
) -> None:
    """Exporters write ``Where(target == -1, 1, target)``; any other choice is a target that nobody knows."""
    graph = graph_of(
        "test = Equal(given, number) target = Where(test, instead, given) wide = Expand(x, target) ",
        initializers=f"int64[2] given = {{{-1 if sizes else 1}, 7}}, int64 number = {{{number}}}, "
        f"int64[2] instead = {{{instead}, {instead}}}",
    )
    expand = find(graph, "wide").producer()
    assert expand is not None
    assert Sizes(graph).target(expand) == sizes


def test_a_batch_of_a_product_is_known_where_both_operands_have_it() -> None:
    graph = graph_of("turned = Transpose<perm = [0, 2, 1]>(z) same = MatMul(x, turned) wide = MatMul(x, other) ")
    other = ir.Value(name="other", shape=ir.Shape(["other", 12, "t"]), type=ir.TensorType(ir.DataType.FLOAT))
    graph.graph.inputs.append(other)
    wide = find(graph, "wide").producer()
    assert wide is not None
    wide.replace_input_with(1, other)
    for name in ("turned", "same", "wide"):
        find(graph, name).shape = ir.Shape([None, None, None])

    assert size(graph, "same", 0) == origin(graph, "x", 0)
    assert size(graph, "wide", 0) == origin(graph, "wide", 0)  # one of both may be 1 in a run
    assert size(graph, "wide", 1) == origin(graph, "x", 1)


def test_a_shape_known_from_elsewhere_is_believed() -> None:
    graph = graph_of("unknown = NonZero(x) ")
    sizes = Sizes(graph, {find(graph, "unknown"): find(graph, "x")})

    assert sizes.of(find(graph, "unknown"), 1) == origin(graph, "x", 1)
