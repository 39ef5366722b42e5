"""Files that a pass made of a graph: carried through the store and to the user, and never beside another graph."""

from __future__ import annotations

import logging
from dataclasses import fields

import onnx
import pytest

from optim._engine.graphs.ingest import ingest
from optim.context import Context, MeasuringContext
from optim.errors import OptimError
from optim.onnx.context_files import ARTEFACT
from optim.onnx.external_data import external_files, model_size_bytes
from optim.onnx.files import deliver_model, describe_model
from optim.target import Target
from optim_testing import models


@pytest.fixture
def model(tmp_path):
    return ingest(models.mlp(tmp_path), tmp_path / "store")


@pytest.fixture
def context(tmp_path):
    (tmp_path / "scratch").mkdir()
    return Context(
        target=Target("cpu", "ort", "CPUExecutionProvider"),
        scratch=tmp_path / "scratch",
        store=tmp_path / "store",
        seed=0,
        samples=lambda: iter(()),
        log=logging.getLogger("test"),
        report_progress=lambda share, text: None,
    )


@pytest.fixture
def compiled(model, context):
    path = context.scratch / "made.tmp"
    path.write_bytes(b"a program")
    return context.save(model.ir(), model, artefacts={"program.bin": path})


def test_an_artefact_lies_in_the_store_and_is_part_of_the_model(model, compiled):
    assert compiled.digest != model.digest
    (path,) = compiled.artefacts.values()
    assert (path.parent, path.read_bytes()) == (compiled.path.parent, b"a program")
    assert path.name in external_files(compiled.path)
    assert model_size_bytes(compiled) > model_size_bytes(model)
    assert not model.artefacts


def test_it_is_delivered_beside_the_model_and_found_there(compiled, tmp_path):
    written = deliver_model(compiled, tmp_path / "out")
    assert tmp_path / "out" / "model.onnx.program.bin" in written
    found = describe_model(tmp_path / "out" / "model.onnx").artefacts
    assert found["program.bin"].read_bytes() == b"a program"
    again = ingest(tmp_path / "out" / "model.onnx", tmp_path / "other")
    assert again.artefacts["program.bin"].parent == tmp_path / "other"


def test_the_next_graph_has_none_of_them(compiled, context):
    assert not context.save(compiled.ir(), compiled).artefacts


@pytest.mark.parametrize("kind", [Context, MeasuringContext])
def test_what_a_library_wrote_is_adopted_with_its_own_artefacts_and_none_of_its_parent(compiled, context, kind):
    """A library that keeps metadata writes on the name of a file that lies in the store."""
    written, program = context.scratch / "written.onnx", context.scratch / "new.tmp"
    written.write_bytes(compiled.path.read_bytes())
    for name in external_files(compiled.path):
        (context.scratch / name).write_bytes((compiled.path.parent / name).read_bytes())
    program.write_bytes(b"another program")
    given = {field.name: getattr(context, field.name) for field in fields(Context)}
    adopted = kind(**given).adopt(str(written), compiled, artefacts={"new.bin": str(program)})
    assert {name: path.read_bytes() for name, path in adopted.artefacts.items()} == {"new.bin": b"another program"}
    assert not kind(**given).adopt(written, compiled).artefacts


@pytest.mark.parametrize(("name", "there"), [("../a.bin", True), ("", True), ("a.bin", False)])
def test_what_cannot_be_kept_is_refused(model, context, name, there):
    path = context.scratch / "made.tmp"
    if there:
        path.touch()
    with pytest.raises(OptimError, match="bad-artefact"):
        context.save(model.ir(), model, artefacts={name: path})


@pytest.mark.parametrize(("file", "reference"), [("../s", "external-data-outside"), ("none", "external-data-missing")])
def test_a_model_of_a_stranger_names_no_other_file(tmp_path, file, reference):
    graph = onnx.load(models.mlp(tmp_path))
    onnx.helper.set_model_props(graph, {f"{ARTEFACT}program.bin": file})
    onnx.save(graph, tmp_path / "theirs.onnx")
    with pytest.raises(OptimError) as caught:
        ingest(tmp_path / "theirs.onnx", tmp_path / "store")
    assert caught.value.reference == reference
