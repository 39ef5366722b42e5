"""Files that are no model, or a broken one: each is refused with what is wrong, and nothing is left behind."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from feed_models import FLOAT, build, helper, value
from ingest_models import WEIGHT, external, linear, refused
from onnx import TensorProto

from optim._engine.graphs.ingest import ingest
from optim.errors import OptimError


@pytest.fixture
def store(tmp_path):
    return tmp_path / "store"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.onnx"


def test_a_missing_file_lists_what_is_there(tmp_path, path, store):
    onnx.save(linear(), tmp_path / "other.onnx")
    error = refused(path, store)
    assert error.reference == "model-missing"
    assert "other.onnx" in error.cause


def test_a_folder_is_no_model_and_the_file_in_it_is_named(tmp_path, store):
    folder = tmp_path / "exported"
    folder.mkdir()
    onnx.save(linear(), folder / "net.onnx")
    error = refused(folder, store)
    assert error.reference == "model-is-a-folder"
    assert str(folder / "net.onnx") in error.fix


def test_feeds_in_the_place_of_a_model_are_recognized(tmp_path, store):
    np.savez(tmp_path / "feeds.npz", x=np.zeros(3))
    error = refused(tmp_path / "feeds.npz", store)
    assert (error.reference, error.fix) == ("not-onnx", "optim run model.onnx --data feeds.npz")


@pytest.mark.parametrize(
    ("content", "reference", "hint"),
    [
        (b"", "model-empty", "0 bytes"),
        (b"hello world, this is not a model", "not-onnx", "protobuf"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:1", "not-onnx", "Git LFS"),
        (b"PK\x03\x04" + b"\0" * 60, "not-onnx", "torch checkpoint"),
        (b"\x18\x00\x00\x00ORTM" + b"\0" * 60, "not-onnx", "ORT format"),
        (b'\x40\x00\x00\x00\x00\x00\x00\x00{"a":1}' + b" " * 60, "not-onnx", "safetensors"),
        (b"<!DOCTYPE html><html>404</html>", "not-onnx", "web page"),
        (bytes(range(256)) * 40, "not-onnx", "protobuf"),
        (b"\x08\x09", "not-onnx", "protobuf"),
    ],
)
def test_a_file_that_is_something_else_is_recognized(path, store, content, reference, hint):
    path.write_bytes(content)
    error = refused(path, store)
    assert error.reference == reference
    assert hint in error.cause


def test_an_archive_with_a_model_says_how_to_unpack_it(path, store):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("inside/net.onnx", b"")
    error = refused(path, store)
    assert "inside/net.onnx" in error.cause and error.fix == "python -m zipfile -e model.onnx unpacked"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes and devices are files on POSIX alone")
def test_a_pipe_or_a_device_is_refused_before_it_is_waited_for(path, store):
    os.mkfifo(path)
    ways_out = {path: f"cat {path} > model.onnx, then name model.onnx", Path("/dev/zero"): "name an .onnx file"}
    for one, way_out in ways_out.items():  # of a device without an end, a copy would fill the disk
        error = refused(one, store)
        assert error.reference == "model-not-a-file" and error.fix == way_out


CHECKS = """
import sys
from pathlib import Path
from optim._engine.graphs.user_files import check_file
from optim.errors import OptimError
for path in sorted(Path(sys.argv[1]).iterdir()):
    try:
        check_file(path)
    except OptimError as error:
        print(error.reference, ascii(error.cause), error.fix)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="names are bytes, and a locale says how they are read")
def test_a_name_that_is_no_text_says_whether_the_file_or_the_locale_is_to_be_changed(tmp_path):
    for name in (b"a-\xff.onnx", "b-\u00fc.onnx".encode()):
        Path(os.fsdecode(bytes(tmp_path) + b"/" + name)).write_bytes(b"model")
    for locale, others in (
        ("C.UTF-8", []),
        ("C", [("file-refused", "and this Python reads names as", "PYTHONUTF8=1")]),
    ):
        environment = {**os.environ, "LC_ALL": locale, "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
        command = [sys.executable, "-c", CHECKS, tmp_path]
        said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()
        expected = [("file-refused", "its name is no text in UTF-8", "rename it"), *others]
        assert len(said) == len(expected)
        assert all(part in line for line, parts in zip(said, expected, strict=True) for part in parts)


def test_an_address_is_no_file(store):
    error = refused(Path("https://example.com/model.onnx"), store)
    assert error.reference == "model-missing" and "cannot follow" in error.cause


@pytest.mark.parametrize("share", [0.02, 0.5, 0.95])
def test_a_truncated_file_is_called_truncated(path, store, share):
    onnx.save(linear(), path)
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * share)])
    assert refused(path, store).reference == "model-truncated"


@pytest.mark.parametrize("seed", range(16))
def test_a_file_with_flipped_bytes_never_ends_in_a_traceback(path, store, seed):
    onnx.save(linear(), path)
    content = bytearray(path.read_bytes())
    rng = np.random.default_rng(seed)
    for place in rng.integers(0, 120, 4):
        content[-int(place) - 1] = int(rng.integers(0, 256))
        content[int(place) % 40] = int(rng.integers(0, 256))
    path.write_bytes(content)
    try:
        ingest(path, store)
    except OptimError as error:
        known = {"model-truncated", "not-onnx", "invalid-graph", "unknown-operator", "ir-too-new"}
        assert error.reference in known or error.reference.startswith("external-data")


def test_an_invalid_graph_names_the_place(path, store):
    onnx.save(build([helper.make_node("Relu", ["nowhere"], ["y"], name="act")], [], [value("y", FLOAT, [1])]), path)
    error = refused(path, store)
    assert error.reference == "invalid-graph"
    assert "nowhere" in error.cause
    assert "act" in error.cause


def test_two_nodes_that_make_one_value_are_invalid(path, store):
    node = helper.make_node("Relu", ["x"], ["y"])
    onnx.save(build([node, node], [value("x", FLOAT, [1])], [value("y", FLOAT, [1])]), path)
    assert refused(path, store).reference == "invalid-graph"


def test_weights_that_do_not_fill_their_shape_are_invalid(path, store):
    onnx.save(linear(TensorProto(name="w", dims=[64, 32], data_type=FLOAT, raw_data=bytes(8000))), path)
    error = refused(path, store)
    assert error.reference == "invalid-graph"
    assert "8192 bytes" in error.cause


@pytest.mark.parametrize(
    ("op_type", "opset", "hint"),
    [("MatMull", 17, "MatMul"), ("Gelu", 17, "came with opset 20"), ("Upsample", 17, "removed")],
)
def test_an_unknown_operator_is_named_with_the_near_ones(path, store, op_type, opset, hint):
    node = helper.make_node(op_type, ["x"], ["y"], name="odd")
    onnx.save(build([node], [value("x", FLOAT, [1])], [value("y", FLOAT, [1])], opset=opset), path)
    error = refused(path, store)
    assert error.reference == "unknown-operator"
    assert op_type in error.what
    assert "odd" in error.cause
    assert hint in error.cause


def test_missing_external_data_is_named(path, store):
    onnx.save(external("gone.bin"), path)
    error = refused(path, store)
    assert error.reference == "external-data-missing"
    assert "gone.bin" in error.cause
    assert "'w'" in error.cause


def test_external_data_that_ends_too_soon(tmp_path, path, store):
    (tmp_path / "w.bin").write_bytes(WEIGHT.tobytes()[:-1])
    onnx.save(external("w.bin"), path)
    error = refused(path, store)
    assert error.reference == "external-data-too-short"
    assert "8191" in error.cause


@pytest.mark.parametrize("offset", [-4, "x"])
def test_a_place_that_makes_no_sense(tmp_path, path, store, offset):
    (tmp_path / "w.bin").write_bytes(WEIGHT.tobytes())
    onnx.save(external("w.bin", offset=offset), path)
    assert refused(path, store).reference == "invalid-graph"


def test_text_that_is_no_utf_8_is_refused_wherever_it_stands(path, store):
    model = linear()
    model.producer_name = "maker"
    path.write_bytes(model.SerializeToString().replace(b"maker", b"mak\xffr"))
    with pytest.raises(OptimError, match="invalid-graph"):
        ingest(path, store)


def test_an_output_of_maps_is_refused_with_the_command_that_takes_the_tensor_before_it(path, store):
    maps = helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(FLOAT, None))
    nodes = [
        helper.make_node("Softmax", ["x"], ["scores"]),
        helper.make_node("ZipMap", ["scores"], ["by_label"], domain="ai.onnx.ml", classlabels_int64s=[3, 5]),
    ]
    output = helper.make_value_info("by_label", helper.make_sequence_type_proto(maps))
    onnx.save(build(nodes, [value("x", FLOAT, [4, 2])], [output], domains=("ai.onnx.ml",)), path)
    error = refused(path, store)
    assert error.reference == "map-type"
    command = error.fix.removeprefix('python -c "').split('"; or ')[0]
    subprocess.run([sys.executable, "-c", command], check=True)
    (output,) = ingest(path.with_name("model-tensors.onnx"), store).outputs
    assert output.name == "scores"
