"""Passes over a source and exporters, one after another: who is taken, who is blamed, what is said of the others."""

from __future__ import annotations

import logging
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import onnx_ir as ir
import pytest

from optim import Applicable, Target
from optim._engine.plugins.offers import OfferedPass
from optim._engine.sources.exported import Choice, ExportConditions
from optim._engine.store import Store
from optim.errors import OptimError
from optim.model import TensorInfo
from optim.passes import Role, Stage
from optim.source import Component, Source, SourceContext, SourceRequest
from optim.source_passes import Exported, Exporter, SourcePass, SourceResult
from optim_plugins.export import make
from optim_plugins.export.pipeline import Pipeline

PLUGIN = SimpleNamespace(name="acme", release="optim-plugin-acme 2.1.0")
APPLIES = Applicable(True)
INFO = TensorInfo("x", "float32", ("batch",))
COMPONENT = Component("model", None, (INFO,), (TensorInfo("y", "float32", ("batch",)),), {}, lambda: (), dict)


def graph() -> ir.Model:
    kind = ir.TensorType(ir.DataType.FLOAT)
    given = ir.Value(name="x", shape=ir.Shape(["batch"]), type=kind)
    node = ir.Node("", "Relu", [given])
    node.outputs[0].name, node.outputs[0].type, node.outputs[0].shape = "y", kind, ir.Shape(["batch"])
    return ir.Model(ir.Graph([given], node.outputs, nodes=[node], opset_imports={"": 20}), ir_version=10)


def exporter(label: str, does: Any, says: Applicable = APPLIES) -> type[Exporter]:
    class Made(Exporter):
        name = f"acme.{label}"
        summary = "Exports."

        def applicable(self, component: Component, target: Target) -> Applicable:
            return says

        def export(self, component: Component, options: Any, context: SourceContext) -> Exported:
            if isinstance(does, Exception):
                raise does
            return does

    return Made


def loader(label: str, does: Any, says: Applicable = APPLIES) -> type[SourcePass]:
    class Made(SourcePass):
        name = f"acme.{label}"
        summary = "Loads."
        role = Role.IMPROVE
        loads = True

        def applicable(self, source: Source, target: Target) -> Applicable:
            return says

        def apply(self, source: Source, options: Any, context: SourceContext) -> SourceResult:
            if isinstance(does, Exception):
                raise does
            return does(source)

    return Made


def pipeline(*classes: Any, tmp_path: Path, **choice: Any) -> Pipeline:
    """Of these passes and exporters, in this order."""
    offers = [
        OfferedPass(one, Stage.EXPORT if issubclass(one, Exporter) else Stage.PRE_EXPORT, PLUGIN)  # type: ignore[arg-type]
        for one in classes
    ]
    registry: Any = SimpleNamespace(passes=lambda stage, target: [one for one in offers if one.stage is stage])
    target = Target("cpu", "ort", "CPUExecutionProvider", device="CPU")
    context = SourceContext(target, tmp_path, logging.getLogger("acme"), lambda share, text: None)
    return Pipeline(registry, context, Choice(**choice))


BROKEN = OptimError("export-failed", "it cannot be exported", "an operator is missing")


def test_the_first_exporter_that_can_is_taken_and_those_before_it_are_named(tmp_path):
    made = pipeline(
        exporter("none", None, Applicable(False, "not for such modules")),
        exporter("broken", BROKEN),
        exporter("sound", Exported(graph(), notes=("folded",), counts={"Relu": 1})),
        exporter("later", BROKEN),
        tmp_path=tmp_path,
    )
    assert made.export(COMPONENT).counts == {"Relu": 1}
    assert [(one.name, one.status, one.reason) for one in made.steps] == [
        ("acme.none", "not-applicable", "not for such modules"),
        ("acme.broken", "failed", "it cannot be exported: an operator is missing"),
        ("acme.sound", "kept", "instead of acme.broken, which failed"),
    ]


def test_where_all_exporters_fail_the_first_one_is_heard(tmp_path):
    other = OptimError("export-failed", "neither", "can this one")
    made = pipeline(exporter("broken", BROKEN), exporter("other", other), tmp_path=tmp_path)
    with pytest.raises(OptimError) as refused:
        made.export(COMPONENT)
    assert refused.value is BROKEN


def test_where_none_applies_it_is_said_what_brings_one(tmp_path):
    made = pipeline(exporter("left-out", Exported(graph())), tmp_path=tmp_path, without=("acme.left-out",))
    with pytest.raises(OptimError, match="no-exporter") as refused:
        made.export(COMPONENT)
    assert refused.value.fix == "install torch and transformers: docs/install.md#torch-and-hugging-face"
    assert made.steps[0].reason == "left out by --without"


@pytest.mark.parametrize(("does", "reference"), [(ValueError("oh"), "source-pass-failed"), ("text", "bad-result")])
def test_an_exporter_that_breaks_its_contract_is_named_with_its_package(tmp_path, does, reference):
    made = pipeline(exporter("rude", does), tmp_path=tmp_path)
    with pytest.raises(OptimError, match=reference) as refused:
        made.export(COMPONENT)
    assert refused.value.package == "optim-plugin-acme 2.1.0"


def test_a_source_that_nobody_loads_says_what_each_pass_said(tmp_path):
    made = pipeline(loader("picky", None, Applicable(False, "it is no folder")), tmp_path=tmp_path)
    with pytest.raises(OptimError, match="source-not-loadable") as refused:
        made.load(SourceRequest("package.module:factory"))
    assert refused.value.cause == "acme.picky: it is no folder"


def test_the_first_pass_that_loads_a_source_is_the_only_one(tmp_path):
    def load(source: Source) -> SourceResult:
        return SourceResult(Source(source.request, (COMPONENT,)), True)

    made = pipeline(loader("first", load), loader("second", ValueError("never asked")), tmp_path=tmp_path)
    assert made.load(SourceRequest("package.module:factory")).components == (COMPONENT,)
    assert [one.name for one in made.steps] == ["acme.first"]


@pytest.mark.parametrize("name", ["model.pt", "weights.pth", "chat_template.jinja", "config.json", "part/adapter.bin"])
def test_an_export_is_made_anew_when_a_file_of_its_source_changes(tmp_path, name):
    registry: Any = SimpleNamespace(offers=lambda target: [])
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text("before")

    def key() -> str:
        store, target = Store(tmp_path / "cache"), Target("cpu", "ort", "CPU", device="CPU")
        conditions = ExportConditions(registry, store, print, target, 60.0)
        return make._key(SourceRequest(str(tmp_path)), conditions)

    before = key()
    assert key() == before
    file.write_text("and after")
    assert key() != before
