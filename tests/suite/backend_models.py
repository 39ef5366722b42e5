"""Models that nobody here wrote: the backend tests that come inside the package ``onnx``, each with inputs.

They are many small graphs, one operator or a few each, in every version and type that the standard has: what a pass
meets in the world and its own tests do not think of. Each comes in three variants: as it is; with all inputs but the
first as weights, since passes look at weights; and with open dimensions. ``light`` ones are whole networks, their
weights left out.
"""

from __future__ import annotations

import importlib
import pkgutil
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.backend.test.loader import DATA_DIR

from optim.onnx.sessions import runtime_limits

FOLDERS = ("simple", "pytorch-operator", "pytorch-converted")
WEIGHTS, OPEN = "weights", "open"


@dataclass(frozen=True)
class Case:
    """A model and what it is fed.

    Attributes:
        name: of the test, and of the variant behind a ``+``.
        model: the graph.
        samples: by name of the input; arrays, or lists of them for sequences.
    """

    name: str
    model: onnx.ModelProto
    samples: Sequence[dict[str, Any]]


def operator_modules() -> list[str]:
    """Names of the modules that hold the tests of one operator each."""
    package = importlib.import_module("onnx.backend.test.case.node")
    return sorted(
        found.name.removeprefix(f"{package.__name__}.")
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}.")
    )


def node_cases(modules: Iterable[str]) -> Iterator[Case]:
    """Tests of single operators; importing a module makes its cases."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # casts that overflow on purpose
        package = importlib.import_module("onnx.backend.test.case.node")
        for module in modules:
            importlib.import_module(f"onnx.backend.test.case.node.{module}")
    for found in sorted(package._NodeTestCases, key=lambda case: case.name):
        samples = [_named(found.model, inputs) for inputs, _ in found.data_sets]
        yield Case(found.name, found.model, samples)


def folder_cases(kind: str) -> Iterator[Case]:
    """Tests that lie in files: what old versions of PyTorch exported, and models of a few nodes."""
    for folder in sorted(Path(DATA_DIR, kind).glob("test_*")):
        model = onnx.load(folder / "model.onnx")
        samples = [_named(model, _read(model, data)) for data in sorted(folder.glob("test_data_set_*"))]
        yield Case(folder.name, model, samples)


def light_cases() -> Iterator[Case]:
    """Whole networks; what their weights would be is computed from one number, so they are small files."""
    generator = np.random.default_rng(0)
    for path in sorted(Path(DATA_DIR, "light").glob("*.onnx")):
        model = onnx.load(path)
        weights = {tensor.name for tensor in model.graph.initializer}
        sample = {
            value.name: generator.random([size.dim_value for size in value.type.tensor_type.shape.dim], np.float32)
            for value in model.graph.input
            if value.name not in weights
        }
        yield Case(path.stem, model, [sample])


def own_cases() -> Iterator[Case]:
    """What no model of onnx has: steps beside a convolution of constant weights, and HardSwish written out."""
    graph = onnx.parser.parse_model("""
        <ir_version: 8, opset_import: ["" : 17]>
        steps (float[1, 2, 6, 6] x) => (float[1, 3, 4, 4] y)
        <float two = {2.0}, float three = {3.0}, float zero = {0.0}, float six = {6.0}>
        {
            scaled = Mul(x, two)
            c = Conv(scaled, w)
            d = Mul(c, three)
            moved = Add(d, three)
            clipped = Clip(moved, zero, six)
            product = Mul(d, clipped)
            y = Div(product, six)
        }
    """)
    generator = np.random.default_rng(0)
    graph.graph.initializer.append(numpy_helper.from_array(generator.random((3, 2, 3, 3), np.float32) - 0.5, "w"))
    yield Case("optim_steps_beside_a_convolution", graph, [{"x": generator.random((1, 2, 6, 6), np.float32)}])


def with_variants(cases: Iterable[Case]) -> Iterator[Case]:
    """Each case, the same with weights, and with open dimensions."""
    newest = runtime_limits().ir_version
    for case in cases:
        case.model.ir_version = min(case.model.ir_version, newest)  # what writes them is newer than what runs them
        yield case
        for changed in (_with_weights(case), _with_open_dimensions(case)):
            if changed is not None:
                yield changed


def all_cases() -> Iterator[Case]:
    """Everything there is."""
    yield from with_variants(node_cases(operator_modules()))
    for kind in FOLDERS:
        yield from with_variants(folder_cases(kind))
    yield from with_variants(own_cases())
    yield from light_cases()


def operators(model: onnx.ModelProto) -> set[str]:
    """Types of operators in the graph and in its branches."""
    found: set[str] = set()
    waiting = [model.graph]
    while waiting:
        for node in waiting.pop().node:
            found.add(f"{node.domain}:{node.op_type}")
            for attribute in node.attribute:
                waiting += [attribute.g] if attribute.HasField("g") else list(attribute.graphs)
    return found


def _with_weights(case: Case) -> Case | None:
    """All inputs but the first as initializers, where they are plain tensors and the same in every sample."""
    weights = {tensor.name for tensor in case.model.graph.initializer}
    inputs = [value for value in case.model.graph.input if value.name not in weights]
    if len(inputs) < 2 or len(case.samples) != 1:
        return None
    (sample,) = case.samples
    rest = {value.name: sample.get(value.name) for value in inputs[1:]}
    if not all(isinstance(array, np.ndarray) for array in rest.values()):
        return None
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    kept = [value for value in case.model.graph.input if value.name not in rest]
    del model.graph.input[:]
    model.graph.input.extend(kept)
    model.ir_version = max(model.ir_version, 4)
    for value in inputs[1:]:
        tensor = numpy_helper.from_array(rest[value.name], value.name)
        if tensor.data_type != value.type.tensor_type.elem_type:
            return None
        model.graph.initializer.append(tensor)
    return Case(f"{case.name}+{WEIGHTS}", model, [{inputs[0].name: sample[inputs[0].name]}])


def _with_open_dimensions(case: Case) -> Case | None:
    """A name for every dimension of an input, and no shape for outputs."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    weights = {tensor.name for tensor in model.graph.initializer}
    opened = 0
    for value in model.graph.input:
        if value.name not in weights and value.type.HasField("tensor_type"):
            for axis, size in enumerate(value.type.tensor_type.shape.dim):
                size.dim_param = f"{value.name}_{axis}"
                opened += 1
    for value in (*model.graph.output, *model.graph.value_info):
        if value.type.HasField("tensor_type"):
            value.type.tensor_type.ClearField("shape")
    return Case(f"{case.name}+{OPEN}", model, case.samples) if opened else None


def _named(model: onnx.ModelProto, inputs: Sequence[Any]) -> dict[str, Any]:
    """Inputs by name; one that is left out is not fed."""
    weights = {tensor.name for tensor in model.graph.initializer}
    names = [value.name for value in model.graph.input]
    if len(names) > len(inputs):
        names = [name for name in names if name not in weights]
    return {name: _array(value) for name, value in zip(names, inputs, strict=False)}


def _array(value: Any) -> Any:
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return value if value is None or isinstance(value, list | np.ndarray | dict) else np.asarray(value)


def _read(model: onnx.ModelProto, folder: Path) -> list[Any]:
    """The inputs of one data set."""
    arrays: list[Any] = []
    for number, value in enumerate(model.graph.input):
        path = folder / f"input_{number}.pb"
        if not path.exists():
            break
        if value.type.HasField("sequence_type"):
            arrays.append(numpy_helper.to_list(onnx.SequenceProto.FromString(path.read_bytes())))
        else:
            arrays.append(numpy_helper.to_array(onnx.TensorProto.FromString(path.read_bytes())))
    return arrays
