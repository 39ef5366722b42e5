"""Files that are no model, broken graphs, graphs that lie about themselves, and odd ones that are right."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
from case import Case, hold, rows
from feed_models import BOOL, FLOAT, INT64, build, constant, value
from onnx import helper
from world import World

INSPECT = ("inspect", "{model}")
VERIFY = ("verify", "{model}", "{model}")
ESCAPES = "evil\x1b]0;title\x07\x1b[2J\r\n\u202eeman"


def small(*nodes: onnx.NodeProto, opset: int = 17, **kwargs) -> onnx.ModelProto:
    """Two layers, or the nodes that are given between x and y."""
    made = nodes or (helper.make_node("MatMul", ["x", "w"], ["a"], name="mm"), helper.make_node("Relu", ["a"], ["y"]))
    weight = constant("w", np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32))
    return build(made, [value("x", FLOAT, [2, 4])], [value("y", FLOAT, [2, 4])], [weight], opset=opset, **kwargs)


def saved(model: onnx.ModelProto | Callable[[], onnx.ModelProto]) -> Callable[[World], None]:
    def make(world: World) -> None:
        made = model if isinstance(model, onnx.ModelProto) else model()
        world.model.write_bytes(made.SerializeToString())

    return make


def content(data: bytes) -> Callable[[World], None]:
    return lambda world: world.model.write_bytes(data)


def changed(change: Callable[[onnx.ModelProto], object]) -> Callable[[World], None]:
    def make(world: World) -> None:
        model = small()
        change(model)
        world.model.write_bytes(model.SerializeToString())

    return make


def cut(share: float) -> Callable[[World], None]:
    def make(world: World) -> None:
        data = small().SerializeToString()
        world.model.write_bytes(data[: int(len(data) * share)])

    return make


def many_nodes(count: int) -> onnx.ModelProto:
    names = ["x", *(f"v{i}" for i in range(count - 1)), "y"]
    nodes = [helper.make_node("Relu", [names[i]], [names[i + 1]], name=f"n{i}") for i in range(count)]
    return build(nodes, [value("x", FLOAT, [4])], [value("y", FLOAT, [4])])


def nested_ifs(depth: int) -> onnx.ModelProto:
    def branch(level: int, name: str) -> onnx.GraphProto:
        out = f"{name}_{level}"
        inner = (
            helper.make_node("Identity", ["x"], [out])
            if level == 0
            else helper.make_node(
                "If", ["c"], [out], then_branch=branch(level - 1, f"{name}t"), else_branch=branch(0, f"{name}e{level}")
            )
        )
        return helper.make_graph([inner], out, [], [value(out, FLOAT, None)])

    node = helper.make_node("If", ["c"], ["y"], then_branch=branch(depth, "t"), else_branch=branch(0, "e"))
    return build([node], [value("c", BOOL, []), value("x", FLOAT, [2])], [value("y", FLOAT, [2])])


def loop() -> onnx.ModelProto:
    body = helper.make_graph(
        [
            helper.make_node("Add", ["state", "one"], ["next"]),
            helper.make_node("Identity", ["going"], ["go_on"]),
            helper.make_node("Identity", ["next"], ["seen"]),
        ],
        "body",
        [value("i", INT64, []), value("going", BOOL, []), value("state", FLOAT, [2])],
        [value("go_on", BOOL, []), value("next", FLOAT, [2]), value("seen", FLOAT, [2])],
    )
    node = helper.make_node("Loop", ["trips", "start", "x"], ["y", "all"], body=body)
    tables = [
        constant("one", np.ones(2, np.float32)),
        constant("trips", np.array(3)),
        constant("start", np.array(True)),
    ]
    outputs = [value("y", FLOAT, [2]), value("all", FLOAT, [3, 2])]
    return build([node], [value("x", FLOAT, [2])], outputs, tables)


def scan() -> onnx.ModelProto:
    body = helper.make_graph(
        [helper.make_node("Add", ["sum", "row"], ["more"]), helper.make_node("Identity", ["more"], ["shown"])],
        "body",
        [value("sum", FLOAT, [2]), value("row", FLOAT, [2])],
        [value("more", FLOAT, [2]), value("shown", FLOAT, [2])],
    )
    node = helper.make_node("Scan", ["start", "x"], ["last", "y"], body=body, num_scan_inputs=1)
    outputs = [value("last", FLOAT, [2]), value("y", FLOAT, [5, 2])]
    return build([node], [value("x", FLOAT, [5, 2])], outputs, [constant("start", np.zeros(2, np.float32))])


def recursive_function() -> onnx.ModelProto:
    function = helper.make_function(
        "own",
        "Again",
        ["a"],
        ["b"],
        [helper.make_node("Again", ["a"], ["b"], domain="own")],
        [helper.make_opsetid("own", 1), helper.make_opsetid("", 17)],
    )
    node = helper.make_node("Again", ["x"], ["y"], domain="own")
    return small(node, domains=("own",), functions=[function])


def named(name: str) -> onnx.ModelProto:
    """A right model with one name in every place."""
    node = helper.make_node("Relu", [name], [f"{name}2"], name=name, doc_string=name)
    model = build([node], [value(name, FLOAT, ["batch", 4])], [value(f"{name}2", FLOAT, ["batch", 4])])
    model.producer_name = model.producer_version = model.domain = model.graph.name = name
    model.metadata_props.add(key=name, value=name)
    return model


def unknown_operator(name: str) -> onnx.ModelProto:
    return small(helper.make_node(name, ["x"], ["y"], name=name))


def dims_of_weight(*dims: int) -> Callable[[onnx.ModelProto], None]:
    def change(model: onnx.ModelProto) -> None:
        del model.graph.initializer[0].dims[:]
        model.graph.initializer[0].dims.extend(dims)

    return change


NOT_MODELS = {
    "an empty file": (b"", "model-empty"),
    "text": (b"hello world, this is not a model", "not-onnx"),
    "a pointer of Git LFS": (b"version https://git-lfs.github.com/spec/v1\noid sha256:1", "not-onnx"),
    "a zip archive": (b"PK\x03\x04" + b"\0" * 60, "not-onnx"),
    "the format of the runtime": (b"\x18\x00\x00\x00ORTM" + b"\0" * 60, "not-onnx"),
    "safetensors": (b'\x40\x00\x00\x00\x00\x00\x00\x00{"a":1}' + b" " * 60, "not-onnx"),
    "a web page": (b"<!DOCTYPE html><html>404</html>", "not-onnx"),
    "all bytes": (bytes(range(256)) * 40, "not-onnx"),
    "zeros": (bytes(4096), "not-onnx"),
    "one byte": (b"\x08", "model-truncated"),
    "a version alone": (b"\x08\x09", "not-onnx"),
    "a pickle": (b"\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00cos\nsystem\n.", "not-onnx"),
    "a field of exabytes": (b"\x08\x08\x3a\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "model-truncated"),
    "a number without end": (b"\xff" * 64, "not-onnx"),
    "groups in groups": (b"\x0b" * 2000, "not-onnx"),
    "graphs in graphs": (b"\x3a\x80\x08" + b"\x3a\x02" * 700, "not-onnx"),
    "escapes of a terminal": (ESCAPES.encode(), "not-onnx"),
}

CHANGES: dict[str, tuple[Callable[[onnx.ModelProto], object], str]] = {
    "no graph": (lambda m: m.ClearField("graph"), "not-onnx"),
    "no nodes": (lambda m: m.graph.ClearField("node"), "invalid-graph"),
    "no outputs": (lambda m: m.graph.ClearField("output"), "invalid-graph"),
    "no opset": (lambda m: m.ClearField("opset_import"), "invalid-graph"),
    "no IR version": (lambda m: m.ClearField("ir_version"), "invalid-graph"),
    "an IR version of the future": (lambda m: setattr(m, "ir_version", 999), "ir-too-new"),
    "a negative IR version": (lambda m: setattr(m, "ir_version", -1), "invalid-graph"),
    "an opset of the future": (lambda m: setattr(m.opset_import[0], "version", 999), "opset-too-new"),
    "a negative opset": (lambda m: setattr(m.opset_import[0], "version", -3), "unknown-operator"),
    "opset zero": (lambda m: setattr(m.opset_import[0], "version", 0), "unknown-operator"),
    "an output that nothing makes": (lambda m: setattr(m.graph.output[0], "name", "nobody"), "invalid-graph"),
    "an input without a name": (lambda m: setattr(m.graph.input[0], "name", ""), "invalid-graph"),
    "an input without a type": (lambda m: m.graph.input[0].ClearField("type"), "invalid-graph"),
    "an input of an unknown type": (
        lambda m: setattr(m.graph.input[0].type.tensor_type, "elem_type", 777),
        "invalid-graph",
    ),
    "two inputs of one name": (lambda m: m.graph.input.append(m.graph.input[0]), "invalid-graph"),
    "two weights of one name": (lambda m: m.graph.initializer.append(m.graph.initializer[0]), "invalid-graph"),
    "a weight without a name": (lambda m: setattr(m.graph.initializer[0], "name", ""), "invalid-graph"),
    "a weight of an unknown type": (lambda m: setattr(m.graph.initializer[0], "data_type", 777), "invalid-graph"),
    "a weight of no type": (lambda m: setattr(m.graph.initializer[0], "data_type", 0), "invalid-graph"),
    "a weight that is too short": (lambda m: setattr(m.graph.initializer[0], "raw_data", bytes(8)), "invalid-graph"),
    "a weight that is too long": (lambda m: setattr(m.graph.initializer[0], "raw_data", bytes(800)), "invalid-graph"),
    "a weight of negative size": (dims_of_weight(-4, -4), "invalid-graph"),
    "a weight of huge size": (dims_of_weight(2**62, 2**62), "invalid-graph"),
    "a weight of a hundred thousand dimensions": (dims_of_weight(*[1] * 100_000), "invalid-graph"),
    "a node without an operator": (lambda m: setattr(m.graph.node[0], "op_type", ""), "unknown-operator"),
    "a node without an output": (lambda m: m.graph.node[1].ClearField("output"), "invalid-graph"),
    "a node that reads itself": (lambda m: m.graph.node[0].input.__setitem__(0, "a"), "invalid-graph"),
    "nodes in the wrong order": (
        lambda m: (m.graph.node.append(m.graph.node[0]), m.graph.node.__delitem__(0)),
        "invalid-graph",
    ),
    "a node of a domain that is not imported": (
        lambda m: setattr(m.graph.node[0], "domain", "nowhere"),
        "invalid-graph",
    ),
    "an attribute that the operator lacks": (
        lambda m: m.graph.node[1].attribute.append(helper.make_attribute("odd", 1)),
        "invalid-graph",
    ),
    "an attribute without a type": (lambda m: m.graph.node[1].attribute.add(name="odd"), "invalid-graph"),
    "too many inputs of a node": (lambda m: m.graph.node[1].input.extend(["a"] * 40), "invalid-graph"),
}

GRAPHS: dict[str, tuple[Callable[[], onnx.ModelProto], str]] = {
    "an operator that does not exist": (lambda: unknown_operator("MatMull"), "unknown-operator"),
    "an operator of a later opset": (lambda: unknown_operator("Gelu"), "unknown-operator"),
    "an operator whose name is an escape": (lambda: unknown_operator(ESCAPES), "unknown-operator"),
    "a function that calls itself": (recursive_function, "invalid-graph"),
    "a domain of nobody": (
        lambda: small(helper.make_node("F", ["x"], ["y"], domain="acme"), domains=("acme",)),
        "unknown-domain",
    ),
    "shapes that do not multiply": (lambda: small(helper.make_node("MatMul", ["x", "x"], ["y"])), "invalid-graph"),
}

RIGHT: dict[str, Callable[[], onnx.ModelProto]] = {
    "a name of many letters": lambda: named("n" * 10_000),
    "a name in another alphabet": lambda: named("имя-層-😀"),
    "a name that is a path": lambda: named("../../../etc/passwd"),
    "a name that is a tag": lambda: named("<script>alert(1)</script>"),
    "a name that is an escape": lambda: named(ESCAPES),
    "a name of markup": lambda: named("[bold red]x[/] [link=file:///etc/passwd]y[/link]"),
    "a loop": loop,
    "a scan": scan,
    "nested branches": lambda: nested_ifs(5),
    "no weights": lambda: small(helper.make_node("Relu", ["x"], ["y"])),
    "no inputs": lambda: build(
        [helper.make_node("Identity", ["w"], ["y"])],
        [],
        [value("y", FLOAT, [2])],
        [constant("w", np.ones(2, np.float32))],
    ),
    "an empty tensor": lambda: build(
        [helper.make_node("Identity", ["x"], ["y"])], [value("x", FLOAT, ["n", 0])], [value("y", FLOAT, ["n", 0])]
    ),
}

TABLE = [
    *(Case(f"run: {name}", content(data), reference=(ref,)) for name, (data, ref) in NOT_MODELS.items()),
    *(Case(f"inspect: {name}", content(data), INSPECT, reference=(ref,)) for name, (data, ref) in NOT_MODELS.items()),
    *(Case(f"run: cut to {share:.0%}", cut(share), reference=("model-truncated",)) for share in (0.01, 0.3, 0.6, 0.99)),
    *(Case(f"run: {name}", changed(change), reference=(ref,)) for name, (change, ref) in CHANGES.items()),
    *(Case(f"run: {name}", saved(model), reference=(ref,)) for name, (model, ref) in GRAPHS.items()),
    *(Case(f"inspect: {name}", saved(model), INSPECT, (0,)) for name, model in RIGHT.items()),
    *(Case(f"inspect as text: {name}", saved(model), INSPECT, (0,), json=False) for name, model in RIGHT.items()),
    *(
        Case(f"verify: {name}", saved(model), VERIFY, (0,))
        for name, model in RIGHT.items()
        if name != "an empty tensor"
    ),
    Case("verify: an empty tensor", saved(RIGHT["an empty tensor"]), VERIFY, reference=("nothing-compared",)),
    *(
        Case(f"verify as text: {name}", saved(model), VERIFY, (0,), json=False)
        for name, model in RIGHT.items()
        if name != "an empty tensor"
    ),
    Case("inspect: 10,000 nodes", saved(lambda: many_nodes(10_000)), INSPECT, (0,)),
    Case(
        "run: two outputs of one name",
        changed(lambda m: m.graph.output.append(m.graph.output[0])),
        status=(0,),
        dear=True,
    ),
    Case("inspect: twenty nested branches", saved(lambda: nested_ifs(20)), INSPECT, (0,)),
    Case("run: twenty nested branches", saved(lambda: nested_ifs(20)), status=(0,), dear=True),
    Case("run: a folder in place of a model", lambda world: world.model.mkdir(), reference=("model-is-a-folder",)),
    Case("run: nothing at all", reference=("model-missing",)),
    Case("run: a link to nothing", lambda world: world.model.symlink_to("gone"), reference=("model-missing",)),
    Case(
        "run: a link to itself",
        lambda world: world.model.symlink_to(world.model),
        reference=("model-missing", "model-unreadable"),
    ),
    Case("run: a device", command=("run", "/dev/null", "-o", "{out}"), status=(2, 3), reference=("model-not-a-file",)),
]


@rows(TABLE)
def test_a_malformed_model(case, world):
    hold(case, world)
