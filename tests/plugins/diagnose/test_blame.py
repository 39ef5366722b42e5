"""``optim blame``: the node that is wrong is named, and none of a model that is right."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto, helper, numpy_helper

import optim
from optim._engine.cli.main import main
from optim.errors import ExitStatus, OptimError
from optim_plugins.diagnose.blame.blame_job import Answer
from optim_plugins.diagnose.blame.command import blame_models
from optim_plugins.diagnose.blame.section import section
from optim_plugins.diagnose.graphs.distances import distance
from optim_plugins.diagnose.graphs.matching import fingerprint
from optim_plugins.diagnose.graphs.modules import modules_of

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("jobs_here")]

WIDTH, LAYERS = 16, 3
SHAPE = ["batch", "seq", WIDTH]


def network(
    seed: int = 0, dtype: int = TensorProto.FLOAT, opset: int = 21, activation: str = "Tanh"
) -> onnx.ModelProto:
    """Layers of normalization, product, activation, product and sum."""
    draw = np.random.default_rng(seed)
    real = helper.tensor_dtype_to_np_dtype(dtype)
    nodes, weights, value = [], [], "x"

    def weight(name: str, *shape: int, scale: float = 0.3) -> str:
        weights.append(numpy_helper.from_array((draw.standard_normal(shape) * scale).astype(real), name))
        return name

    def node(kind: str, inputs: list[str], output: str, **attributes: object) -> str:
        nodes.append(helper.make_node(kind, inputs, [output], name=f"{output}_node", **attributes))
        return output

    for i in range(LAYERS):
        scales = [weight(f"scale{i}", WIDTH, scale=1.0), weight(f"bias{i}", WIDTH)]
        normal = node("LayerNormalization", [value, *scales], f"normal{i}", axis=-1, epsilon=1e-5)
        up = node("MatMul", [normal, weight(f"w{i}", WIDTH, 32)], f"up{i}")
        active = node(activation, [up], f"active{i}")
        soft = node("Softmax", [active], f"soft{i}", axis=-1)
        down = node("MatMul", [soft, weight(f"v{i}", 32, WIDTH)], f"down{i}")
        value = node("Add", [value, down], f"sum{i}")
    node("Identity", [value], "y")
    info = helper.make_tensor_value_info
    graph = helper.make_graph(nodes, "net", [info("x", dtype, SHAPE)], [info("y", dtype, SHAPE)], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def test_sentinels_of_both_values_hide_no_error_beside_them() -> None:
    right = np.random.default_rng(0).standard_normal((8, 100)).astype(np.float32)
    wrong, masked = right * 1.5, np.arange(100) % 10 == 0
    plain = distance(right[:, ~masked], wrong[:, ~masked])
    hidden = distance(*(np.where(masked, np.float32(-1e9), one) for one in (right, wrong)))
    assert hidden.relative_l2 == pytest.approx(plain.relative_l2)
    assert distance(np.where(masked, np.float32(-1e9), right), right).relative_l2 > 0.99


def find(model: onnx.ModelProto, output: str) -> onnx.NodeProto:
    return next(node for node in model.graph.node if output in node.output)


def renamed(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same model with other names for all that is inside."""
    inside = {name for node in model.graph.node for name in node.output} - {"y"}
    for place, node in enumerate(model.graph.node):
        node.name = f"n{place}"
        for names in (node.input, node.output):
            names[:] = [f"v_{hash(name) & 0xFFFF}x" if name in inside else name for name in names]
    return model


def two_samples() -> list[np.ndarray]:
    """Inputs of different lengths."""
    draw = np.random.default_rng(1)
    return [draw.standard_normal((*shape, WIDTH)).astype(np.float32) for shape in ((2, 3), (1, 5))]


@pytest.fixture
def found(tmp_path: Path):
    def compare(reference: onnx.ModelProto, other: onnx.ModelProto, **names: str) -> Answer:
        paths = tmp_path / "a.onnx", tmp_path / "b.onnx"
        for model, path in zip((reference, other), paths, strict=True):
            onnx.save(model, path)
        samples = {f"{i}/x": array for i, array in enumerate(two_samples())}
        if reference.graph.input[0].type.tensor_type.elem_type == TensorProto.FLOAT16:
            samples = {name: array.astype(np.float16) for name, array in samples.items()}
        np.savez(tmp_path / "x.npz", **samples)
        with optim.lab(paths[0], data=tmp_path / "x.npz") as lab:
            return blame_models(lab, paths[1], names)

    return compare


def first(blame: Answer) -> tuple[str, ...]:
    return blame.blamed[0].nodes if blame.blamed else ()


def noisy(model: onnx.ModelProto) -> str:
    weight = next(tensor for tensor in model.graph.initializer if tensor.name == "w1")
    array = numpy_helper.to_array(weight)
    weight.CopyFrom(numpy_helper.from_array(array + np.float32(0.2) * np.sign(array), "w1"))
    return "up1_node"


def turned(model: onnx.ModelProto) -> str:
    find(model, "soft1").attribute[0].i = 1
    return "soft1_node"


def blurred(model: onnx.ModelProto) -> str:
    next(one for one in find(model, "normal2").attribute if one.name == "epsilon").f = 3.0
    return "normal2_node"


def overflowing(model: onnx.ModelProto, value: str = "sum1") -> str:
    add_behind(model, value, ("Mul", "big"), ("Cast", 10), ("Cast", 1), ("Div", "big"))
    if all(tensor.name != "big" for tensor in model.graph.initializer):
        model.graph.initializer.append(numpy_helper.from_array(np.float32(1e5), "big"))
    return f"{value}_half0"


def badly_scaled(model: onnx.ModelProto) -> str:
    pair = (np.float32(2e-3), "step"), (np.int8(0), "zero")
    model.graph.initializer.extend(numpy_helper.from_array(np.asarray(array), name) for array, name in pair)
    add_behind(model, "sum0", ("QuantizeLinear", "step", "zero"), ("DequantizeLinear", "step", "zero"))
    return "sum0_half0"


def add_behind(model: onnx.ModelProto, value: str, *steps: tuple) -> None:
    """Put a chain of nodes between what makes a value and what reads it."""
    node, given = find(model, value), f"{value}_before"
    place = list(model.graph.node).index(node)
    node.output[0] = given
    for number, (kind, *rest) in enumerate(steps):
        made = value if number == len(steps) - 1 else f"{value}_half{number}_out"
        inputs = [given] if kind == "Cast" else [given, *rest]
        attributes = {"to": rest[0]} if kind == "Cast" else {}
        new = helper.make_node(kind, inputs, [made], name=f"{value}_half{number}", **attributes)
        model.graph.node.insert(place + 1 + number, new)
        given = made


FAULTS = [noisy, turned, blurred, overflowing, badly_scaled]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named_and_nothing_else(found, fault):
    broken = network()
    wrong = fault(broken)
    answer = found(network(), broken)
    assert wrong in first(answer)
    assert len(answer.blamed) == 1
    assert answer.drift is None or answer.drift > 1e-3
    one = answer.blamed[0]
    assert one.nearer == "reference" or one.errors is None
    assert (one.ulp or 0) > 100 or one.problem


def test_an_equal_model_with_other_names_blames_nothing_and_is_paired_by_content(found):
    answer = found(network(), renamed(network()))
    assert answer.blamed == ()
    assert answer.matched["alike"] >= 5 * LAYERS
    assert answer.drift == pytest.approx(0, abs=1e-6)


def test_a_fault_in_a_model_with_other_names_is_where_pairs_end(found):
    broken = network()
    turned(broken)
    wrong = next(place for place, node in enumerate(broken.graph.node) if "soft1" in node.output)
    assert f"n{wrong}" in first(found(network(), renamed(broken)))


@pytest.mark.slow
def test_quantization_that_is_honest_is_not_blamed(found, tmp_path):
    from onnxruntime.quantization import quantize_dynamic

    onnx.save(network(), tmp_path / "float.onnx")
    quantize_dynamic(tmp_path / "float.onnx", tmp_path / "int8.onnx")
    quantized = onnx.load(tmp_path / "int8.onnx")
    answer = found(network(), quantized)
    assert answer.blamed == ()
    assert (answer.drift or 0) > 1e-4
    scale = next(tensor for tensor in quantized.graph.initializer if tensor.name == "w1_scale")
    scale.CopyFrom(numpy_helper.from_array(numpy_helper.to_array(scale) * np.float32(3), "w1_scale"))
    worse = found(network(), quantized)
    assert any("up1" in name for name in worse.blamed[0].nodes)
    assert len(worse.blamed) == 1


def test_two_layers_that_overflow_in_float16_are_blamed_and_no_others(found):
    half, reference = network(dtype=TensorProto.FLOAT16, activation="Identity"), network(activation="Identity")
    for one, two in zip(half.graph.initializer, reference.graph.initializer, strict=True):
        array = numpy_helper.to_array(one)
        if one.name in ("scale0", "scale2"):
            array = np.full_like(array, 40000)
        elif one.name.startswith("w"):
            array = array / 10
        one.CopyFrom(numpy_helper.from_array(array, one.name))
        two.CopyFrom(numpy_helper.from_array(array.astype(np.float32), one.name))
    answer = found(reference, half)
    assert {one.nodes for one in answer.blamed} == {("normal0_node",), ("normal2_node",)}
    assert all("infinite" in one.problem for one in answer.blamed)


def test_an_overflow_is_blamed_though_another_lies_on_every_way_from_it_to_the_outputs(found):
    broken = network()
    wrong = [overflowing(broken, "sum0"), overflowing(broken, "sum1")]
    answer = found(network(), broken)
    assert [[name for name in wrong if name in one.nodes] for one in answer.blamed] == [[name] for name in wrong]


def test_what_an_overflow_brings_to_overflow_is_not_blamed(found):
    half, reference = network(dtype=TensorProto.FLOAT16, activation="Identity"), network(activation="Identity")
    for one, two in zip(half.graph.initializer, reference.graph.initializer, strict=True):
        array = numpy_helper.to_array(one)
        array = np.full_like(array, 60000) if one.name == "scale1" else array
        one.CopyFrom(numpy_helper.from_array(array, one.name))
        two.CopyFrom(numpy_helper.from_array(array.astype(np.float32), one.name))
    answer = found(reference, half)
    assert [one.nodes for one in answer.blamed] == [("normal1_node",)]


def test_a_scale_that_moved_into_the_next_weight_is_not_blamed(found):
    moved = network()
    weights = {tensor.name: tensor for tensor in moved.graph.initializer}
    factor = np.linspace(0.1, 4, WIDTH, dtype=np.float32)
    for name, by in (("scale1", factor), ("bias1", factor), ("w1", 1 / factor[:, None])):
        weights[name].CopyFrom(numpy_helper.from_array(numpy_helper.to_array(weights[name]) * by, name))
    noisy_too = onnx.ModelProto.FromString(moved.SerializeToString())
    blurred(noisy_too)
    assert found(network(), moved).blamed == ()
    answer = found(network(), noisy_too)
    assert [one.nodes for one in answer.blamed] == [("normal2_node",)]


def with_branch(fault: bool, above: float = 0.0) -> onnx.ModelProto:
    """A layer behind an If, in whose first branch is the fault; taken where the largest input is above a number."""
    model = network()
    info = helper.make_tensor_value_info("inner", TensorProto.FLOAT, None)
    kinds = ("Neg", "Sin") if not fault else ("Abs", "Sin")
    bodies = [
        helper.make_graph([helper.make_node(kind, ["sum0"], ["inner"], f"body{i}")], f"body{i}", [], [info])
        for i, kind in enumerate(kinds)
    ]
    model.graph.initializer.append(numpy_helper.from_array(np.asarray(above, np.float32), "nothing"))
    sums = helper.make_node("ReduceMax", ["x"], ["most"], "most_node", keepdims=0)
    choice = helper.make_node("Greater", ["most", "nothing"], ["choice"], "choice_node")
    branch = helper.make_node("If", ["choice"], ["chosen"], "branch", then_branch=bodies[0], else_branch=bodies[1])
    place = next(i for i, node in enumerate(model.graph.node) if "normal1" in node.output)
    for new in (branch, choice, sums):
        model.graph.node.insert(place, new)
    find(model, "normal1").input[0] = "chosen"
    return model


def test_a_branch_that_every_sample_takes_is_looked_into(found):
    answer = found(with_branch(False), with_branch(True))
    assert first(answer) == ("body0",)
    assert any("every sample takes it" in note for note in answer.notes)
    clean = found(with_branch(False), with_branch(False))
    assert clean.blamed == ()
    assert clean.values == clean.matched["name"] + clean.matched["output"]


def test_a_branch_that_some_samples_take_is_blamed_at_its_boundary(found):
    between = float(np.mean([array.max() for array in two_samples()]))
    answer = found(with_branch(False, between), with_branch(True, between))
    assert first(answer) == ("branch",)
    assert not any("every sample takes it" in note for note in answer.notes)


def test_what_decides_otherwise_is_blamed_and_not_the_branch(found):
    answer = found(with_branch(False), with_branch(False, above=100.0))
    assert first(answer) == ("choice_node",)


def test_values_of_random_operators_are_not_compared_and_said_to_be_so(found):
    def drawn() -> onnx.ModelProto:
        model = network()
        model.graph.node.insert(0, helper.make_node("RandomNormalLike", ["x"], ["noise"], "noise_node"))
        model.graph.node.insert(1, helper.make_node("Add", ["x", "noise"], ["z"], "z_node"))
        model.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, SHAPE))
        return model

    broken = drawn()
    wrong = turned(broken)
    answer = found(drawn(), broken)
    assert first(answer) == (wrong,)
    assert any("random operators" in note for note in answer.notes)


def test_nan_in_the_reference_is_named(found):
    def holed() -> onnx.ModelProto:
        model = network()
        model.graph.node.append(helper.make_node("Sqrt", ["sum1"], ["root"], "root_node"))
        model.graph.output.append(helper.make_tensor_value_info("root", TensorProto.FLOAT, SHAPE))
        return model

    broken = holed()
    wrong = turned(broken)
    answer = found(holed(), broken)
    assert first(answer) == (wrong,)
    assert any("NaN, first at node root_node" in note for note in answer.notes)


def test_models_with_other_inputs_are_refused_unless_mapped(found):
    other = network()
    find(other, "normal0").input[0] = find(other, "sum0").input[0] = other.graph.input[0].name = "words"
    with pytest.raises(OptimError) as caught:
        found(network(), other)
    assert caught.value.reference == "interface-differs"
    assert caught.value.fix == "--map x=words"
    assert found(network(), other, x="words").blamed == ()


@pytest.mark.parametrize(("names", "which"), [({"q": "x"}, "first"), ({"x": "q"}, "second")])
def test_a_map_of_names_that_nothing_has_is_refused(found, names, which):
    with pytest.raises(OptimError) as caught:
        found(network(), network(), **names)
    assert caught.value.reference == "bad-map"
    assert f"the {which} model has no such" in caught.value.what


def test_models_with_nothing_in_common_are_refused(found):
    with pytest.raises(OptimError) as caught:
        found(network(), renamed(network(seed=9)))
    assert caught.value.reference == "no-common-tensor"


def test_the_verb_prints_the_node_and_exits_with_4(tmp_path, capsys):
    broken = network()
    wrong = turned(broken)
    onnx.save(network(), tmp_path / "a.onnx")
    onnx.save(broken, tmp_path / "b.onnx")
    assert main(["blame", str(tmp_path / "a.onnx"), str(tmp_path / "b.onnx")]) == ExitStatus.NOT_HELD
    text = capsys.readouterr().out
    assert f"1. {wrong} (Softmax)" in text
    assert "nearer to float64: the reference model" in text
    assert "path to an output: down1_node" in text
    assert main(["blame", str(tmp_path / "a.onnx"), str(tmp_path / "a.onnx"), "--json"]) == ExitStatus.DELIVERED
    assert json.loads(capsys.readouterr().out)["blamed"] == []
    assert main(["blame", str(tmp_path / "a.onnx"), str(tmp_path / "b.onnx"), "--map", "x"]) == ExitStatus.USAGE
    assert main(["blame", str(tmp_path / "a.onnx"), str(tmp_path / "b.onnx"), "--plot", "b.png"]) == ExitStatus.USAGE


def test_the_drawing_has_the_blamed_node_in_red_among_its_neighbours(tmp_path, capsys):
    broken = network()
    turned(broken)
    onnx.save(network(), tmp_path / "a.onnx")
    onnx.save(broken, tmp_path / "b.onnx")
    models, drawing = [str(tmp_path / "a.onnx"), str(tmp_path / "b.onnx")], tmp_path / "near.svg"
    assert main(["blame", *models, "--plot", str(drawing)]) == ExitStatus.NOT_HELD
    assert f"drawing: {drawing}" in capsys.readouterr().out
    root = ElementTree.parse(drawing).getroot()
    titles = {kind: [] for kind in ("box missed", "box ")}
    for group in root.iter("{http://www.w3.org/2000/svg}g"):
        titles.setdefault(group[1].get("class"), []).append(group[0].text.split("\n")[0])
    assert titles["box missed"] == ["Softmax soft1_node"]
    assert "MatMul down1_node" in titles["box "]
    assert "var(" not in drawing.read_text()


def test_a_fingerprint_knows_a_value_in_another_layout_and_no_other():
    array = np.random.default_rng(0).standard_normal((4, 6, 5))
    assert np.allclose(fingerprint(array), fingerprint(array.transpose(2, 0, 1).copy()))
    assert not np.allclose(fingerprint(array), fingerprint(array * 1.01), rtol=1e-3)


@pytest.mark.slow
def test_an_input_that_is_quantized_is_held_to_eight_bits(found):
    def quantized(step: float) -> onnx.ModelProto:
        model = network()
        pair = (np.float32(step), "step"), (np.int8(0), "zero")
        model.graph.initializer.extend(numpy_helper.from_array(np.asarray(array), name) for array, name in pair)
        for place, (kind, given, made) in enumerate([("Quantize", "x", "xq"), ("Dequantize", "xq", "xd")]):
            node = helper.make_node(f"{kind}Linear", [given, "step", "zero"], [made], f"{made}_node")
            model.graph.node.insert(place, node)
        find(model, "normal0").input[0] = find(model, "sum0").input[0] = "xd"
        return model

    assert found(network(), quantized(0.03)).blamed == ()
    assert first(found(network(), quantized(0.003))) == ("xq_node", "xd_node")


def test_integers_are_not_held_against_the_floats_that_they_stand_for(found):
    """``up0_codes`` has the name of ``up0``, and codes of -128 to 127 for its values."""
    other = network()
    up, place = find(other, "up0"), list(other.graph.node).index(find(other, "up0"))
    up.output[0] = "up0_raw"
    pair = (np.float32(0.05), "step"), (np.int8(0), "zero")
    other.graph.initializer.extend(numpy_helper.from_array(np.asarray(array), name) for array, name in pair)
    for kind, given, made in [("Dequantize", "up0_codes", "up0_float"), ("Quantize", "up0_raw", "up0_codes")]:
        other.graph.node.insert(
            place + 1, helper.make_node(f"{kind}Linear", [given, "step", "zero"], [made], f"{made}_")
        )
    find(other, "active0").input[0] = "up0_float"
    answer = found(network(), other)
    growth = dict(answer.growth)
    assert "up0_codes" not in growth and growth["up0_float"] < 0.1
    assert answer.steepest is not None and answer.steepest.after < 0.1


def test_a_node_with_several_outputs_is_blamed_once(found):
    def split(fault: bool) -> onnx.ModelProto:
        model = network()
        pair = helper.make_node("Split", ["y_whole"], ["a", "b"], "split", axis=2, num_outputs=2)
        if fault:
            pair = helper.make_node("Split", ["turned"], ["a", "b"], "split", axis=2, num_outputs=2)
            model.graph.node.append(helper.make_node("Neg", ["y_whole"], ["turned"], "neg"))
        find(model, "y").output[0] = "y_whole"
        model.graph.node.extend([pair, helper.make_node("Concat", ["b", "a"], ["y"], "swapped", axis=2)])
        return model

    answer = found(split(False), split(True))
    assert [one.nodes for one in answer.blamed] == [("neg", "split")]


def test_what_the_runtime_refuses_is_told_of_the_users_file(found):
    other = network()
    find(other, "soft1").domain = "acme"
    other.opset_import.append(helper.make_opsetid("acme", 1))
    with pytest.raises(OptimError) as caught:
        found(network(), other)
    assert caught.value.reference == "session-failed"
    assert "b.onnx" in caught.value.what
    assert "acme" in caught.value.cause


def test_the_pytorch_module_behind_a_wrong_node_is_named(tmp_path: Path, found, capsys) -> None:
    """By the reference, if the other model lost what its exporter wrote."""
    reference, other = network(), network()
    blurred(other)
    scopes = "['', 'module', 'module.layers.2', 'module.layers.2.norm', 'layer_norm']"
    classes = "['Call', 'net.Net', 'net.Block', 'torch.nn.LayerNorm', 'aten.layer_norm.default']"
    node = find(reference, "normal2")
    for key, text in (("name_scopes", scopes), ("class_hierarchy", classes)):
        node.metadata_props.add(key=f"pkg.torch.onnx.{key}", value=text)
    answer = found(reference, other)
    assert answer.blamed[0].modules == ("layers.2.norm (LayerNorm)",)
    assert "PyTorch module: layers.2.norm (LayerNorm)" in section(answer, "any.pass", ()).body
    main(["blame", str(tmp_path / "a.onnx"), str(tmp_path / "b.onnx"), "--data", str(tmp_path / "x.npz")])
    assert "PyTorch module: layers.2.norm (LayerNorm)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "scopes", "modules"),
    [
        ("/layers.0/up/MatMul", "", ("layers.0/up",)),
        ("node_add", "['', 'module', 'add']", ()),
        ("node_add", "['', 'layers.0', 'add']", ("layers.0",)),
        ("n", "no list", ()),
        ("n", "", ()),
    ],
)
def test_a_node_says_its_module_as_its_exporter_wrote_it(name: str, scopes: str, modules: tuple[str, ...]) -> None:
    node = ir.node("Add", [], name=name)
    if scopes:
        node.metadata_props["pkg.torch.onnx.name_scopes"] = scopes
    assert modules_of([node, node]) == modules
