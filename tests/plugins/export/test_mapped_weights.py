"""Weights that are mapped from files: read from there when a graph is written, unless somebody changed them."""

from __future__ import annotations

import json
import mmap
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest

from optim_plugins.export import weights
from optim_plugins.export.weights import link_weights, unmap_weights

SHAPE = (64, 64)
VALUES = np.arange(SHAPE[0] * SHAPE[1], dtype=np.float32).reshape(SHAPE)

pytestmark = pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="only Linux tells what is mapped where")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Two tensors as safetensors keeps them."""
    size = VALUES.nbytes
    entries = {
        name: {"dtype": "F32", "shape": SHAPE, "data_offsets": [place * size, (place + 1) * size]}
        for place, name in enumerate("ab")
    }
    header = json.dumps(entries).encode()
    header += b" " * (-len(header) % 8)
    path = tmp_path / "model.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + VALUES.tobytes() + (VALUES + 1).tobytes())
    return path


def mapped(file: Path) -> dict[str, np.ndarray]:
    """The tensors in memory of this process's own, as torch and safetensors map them."""
    with file.open("rb") as stream:
        memory = mmap.mmap(stream.fileno(), 0, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
    begin = len(memory) - 2 * VALUES.nbytes
    return {
        name: np.frombuffer(memory, np.float32, VALUES.size, begin + place * VALUES.nbytes).reshape(SHAPE)
        for place, name in enumerate("ab")
    }


def graph_of(arrays: dict[str, np.ndarray]) -> ir.Model:
    values = [ir.Value(name=name, const_value=ir.Tensor(array, name=name)) for name, array in arrays.items()]
    total = ir.node("Add", values)
    graph = ir.Graph([], total.outputs, nodes=[total], initializers=values, opset_imports={"": 20}, name="g")
    return ir.Model(graph, ir_version=10)


def found(graph: ir.Model) -> dict[str, np.ndarray]:
    return {name: value.const_value.numpy() for name, value in graph.graph.initializers.items()}  # type: ignore[union-attr]


def test_mapped_weights_are_read_from_their_file(file: Path) -> None:
    graph = graph_of(mapped(file))
    assert unmap_weights(graph, [file]) == 2 * VALUES.nbytes
    assert np.array_equal(found(graph)["a"], VALUES) and np.array_equal(found(graph)["b"], VALUES + 1)


def triple(array: np.ndarray) -> None:
    array *= 3


def change_last(array: np.ndarray) -> None:
    array[-1, -1] = 0


@pytest.mark.parametrize("change", [triple, change_last])
@pytest.mark.parametrize("transposed", [False, True])
def test_a_mapped_weight_that_a_pass_changed_in_place_is_kept_as_it_is(
    file: Path, change: Callable[[np.ndarray], None], transposed: bool
) -> None:
    arrays = mapped(file)
    change(arrays["a"])
    given = {name: array.T if transposed else array for name, array in arrays.items()}
    expected = {name: array.copy() for name, array in given.items()}
    graph = graph_of(given)
    assert unmap_weights(graph, [file]) == VALUES.nbytes
    assert all(np.array_equal(array, expected[name]) for name, array in found(graph).items())


def test_a_mapped_weight_that_a_pass_changed_in_place_is_not_linked(file: Path) -> None:
    arrays = mapped(file)
    triple(arrays["a"])
    graph = graph_of(arrays)
    assert link_weights(graph, [file]) == (VALUES.nbytes, VALUES.nbytes)
    assert np.array_equal(found(graph)["a"], VALUES * 3)


def test_bytes_are_compared_only_where_pages_were_written(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(weights, "_is_in_file", lambda tensor, place: bool(asked.append(tensor.name)))
    arrays = mapped(file)
    unmap_weights(graph_of(arrays), [file])
    assert asked == []
    change_last(arrays["b"])
    unmap_weights(graph_of(arrays), [file])
    assert asked == ["a", "b"]
