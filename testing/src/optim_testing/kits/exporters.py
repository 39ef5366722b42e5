"""What every exporter must hold, as tests: subclass, say which exporter and a component, and run pytest."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from optim.arrays import Feeds, Outputs
from optim.drift import compare_outputs
from optim.errors import OptimError
from optim.options import parse_options
from optim.passes import Applicable, Stage
from optim.source import Component, SourceContext
from optim.source_passes import Exported, Exporter
from optim.target import Target
from optim_testing.offered import StageConformance


class ExporterConformance(StageConformance):
    """Subclass as ``TestMyExporter``, with the two fixtures that raise here.

    Attributes:
        max_drift: largest drift between graph and module; no default, so that somebody thought of it.
        options: what a user would write, for the options that have no default.
        stage: where a plugin offers it.
    """

    stage: ClassVar[Stage] = Stage.EXPORT

    @pytest.fixture
    def exporter_class(self) -> type[Exporter]:
        """The exporter."""
        raise NotImplementedError(f"{type(self).__name__} needs a fixture exporter_class that returns the exporter")

    @pytest.fixture
    def offered(self, exporter_class: type[Any]) -> type[Any]:
        """The class that the plugin offers."""
        return exporter_class

    @pytest.fixture
    def component(self) -> Component:
        """A component that it exports, made anew, with trials in sizes that its example does not have."""
        raise NotImplementedError(f"{type(self).__name__} needs a fixture component that returns an optim.Component")

    @pytest.fixture
    def refused(self) -> Component | None:
        """A component that it cannot export; None where it exports everything."""
        return None

    @pytest.fixture
    def source_context(self, target: Target, tmp_path: Path) -> SourceContext:
        """The context for the exporter."""
        return SourceContext(target, tmp_path, logging.getLogger("optim.pass"), lambda share, text: None)

    def export(self, exporter_class: type[Exporter], component: Component, context: SourceContext) -> Exported:
        """Export with the options of this class."""
        found = exporter_class().export(component, parse_options(exporter_class, self.options), context)
        assert isinstance(found, Exported), f"export returned {type(found).__name__}, not an Exported"
        return found

    def test_it_takes_its_component(self, exporter_class: type[Exporter], component: Component, target: Target) -> None:
        """It says that it applies."""
        applicable = exporter_class().applicable(component, target)
        assert isinstance(applicable, Applicable), f"applicable returned {type(applicable).__name__}"
        assert applicable.yes, f"it declines the component that it should export: {applicable.reason}"

    def test_its_graph_has_what_the_component_declares(
        self, exporter_class: type[Exporter], component: Component, source_context: SourceContext
    ) -> None:
        """Inputs that are read, outputs, and dimensions that stay dynamic: an exporter loses them without a word."""
        graph = self.export(exporter_class, component, source_context).graph.graph
        inputs, outputs = ({value.name: value for value in values} for values in (graph.inputs, graph.outputs))
        read = {value.name for node in graph.all_nodes() for value in node.inputs if value is not None}
        for declared in component.inputs:
            assert declared.name in inputs, f"the graph has no input '{declared.name}'"
            assert declared.name in {*read, *outputs}, f"no node reads input '{declared.name}'"
            shape = inputs[declared.name].shape
            if shape is not None and declared.shape is not None:
                assert len(shape) == len(declared.shape), f"input '{declared.name}' has {len(shape)} dimensions"
                pairs = zip(shape, declared.shape, strict=True)
                fixed = [meant for size, meant in pairs if isinstance(meant, str) and isinstance(size, int)]
                assert not fixed, f"dimension '{fixed[0]}' of input '{declared.name}' became a constant"
        missing = [info.name for info in component.outputs if info.name not in outputs]
        assert not missing, f"the graph does not have output '{missing[0]}'"

    def test_its_graph_computes_what_the_module_does(
        self, exporter_class: type[Exporter], component: Component, source_context: SourceContext
    ) -> None:
        """On the example and on every trial, each step fed the state that the one before it returned."""
        limit = getattr(self, "max_drift", None)
        assert isinstance(limit, float) and 0 < limit < 1, "say max_drift = 1e-4, or what is right for your exporter"
        run = _runner(self.export(exporter_class, component, source_context))
        steps = list(_steps(component, run))
        for name, expected, outputs, _ in steps:
            missing = set(expected) - set(outputs)
            assert not missing, f"on {name} the graph does not give {', '.join(sorted(missing))}"
        pairs, valid = [(expected, outputs) for _, expected, outputs, _ in steps], [one for *_, one in steps]
        for found in compare_outputs(pairs, valid):
            name = steps[found.by_sample.index(found.relative_error)][0]
            assert not found.problem, f"on {name}: output '{found.name}' {found.problem}"
            drift = f"{found.place} drifts by {found.relative_error:.3g}, max_drift {limit:.3g}"
            assert found.relative_error <= limit, f"on {name}: {drift}"

    def test_it_leaves_the_module_alone(
        self, exporter_class: type[Exporter], component: Component, source_context: SourceContext
    ) -> None:
        """The next exporter is given the same module."""
        before = {name: np.array(array) for name, array in component.run(component.example).items()}
        self.export(exporter_class, component, source_context)
        after = component.run(component.example)
        changed = [name for name, array in before.items() if not np.array_equal(array, after[name], equal_nan=True)]
        assert not changed, f"after the export the module gives another {', '.join(changed)}"

    def test_it_refuses_what_it_cannot_export_with_a_reason(
        self, exporter_class: type[Exporter], refused: Component | None, source_context: SourceContext, target: Target
    ) -> None:
        """It declines, or raises an OptimError: the next exporter is tried then, and the report says why."""
        if refused is None:
            pytest.skip("it says that it exports everything (fixture refused)")
        applicable = exporter_class().applicable(refused, target)
        if not applicable.yes:
            assert applicable.reason.strip(), "Applicable.no(...) needs the reason that a user reads in the report"
            return
        try:
            self.export(exporter_class, refused, source_context)
        except OptimError as error:
            assert error.cause.strip(), "say in cause why it cannot, with the operator or the line"
            return
        except Exception as error:
            pytest.fail(f"it raised {type(error).__name__}: raise optim.OptimError with cause and fix", pytrace=False)
        pytest.fail("it exported what it says that it cannot", pytrace=False)


def _runner(exported: Exported) -> Any:
    """The graph in onnx's reference evaluator, as a function of feeds."""
    import onnx_ir
    from onnx.reference import ReferenceEvaluator

    evaluator = ReferenceEvaluator(onnx_ir.to_proto(exported.graph))
    names = [str(value.name) for value in exported.graph.graph.outputs]
    taken = {value.name for value in exported.graph.graph.inputs}

    def run(feeds: Feeds) -> Outputs:
        given = {name: array for name, array in feeds.items() if name in taken}
        outputs: Any = evaluator.run(None, given)
        return dict(zip(names, outputs, strict=True))

    return run


def _steps(component: Component, run: Any) -> Any:
    """Every run: its name, what the module computes, what the graph does, and which positions count."""
    yield "the example", _copied(component.run(component.example)), run(component.example), {}
    for trial in component.trials():
        carried: dict[str, Any] = {}
        for place, step in enumerate(trial.steps, start=1):
            feeds = {**step.feeds, **carried}
            outputs = run(feeds)
            yield f"trial '{trial.name}', step {place}", _copied(component.run(feeds)), outputs, step.valid
            carried = {taker: outputs[giver] for giver, taker in component.state.items()}


def _copied(outputs: Outputs) -> Outputs:
    """Outputs that the next run does not write over."""
    return {name: np.array(array) for name, array in outputs.items()}
