"""What every pass over a source must hold, as tests: subclass, say which pass and a source, and run pytest."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from optim.arrays import Outputs
from optim.drift import compare_outputs
from optim.options import parse_options
from optim.passes import Applicable, Stage
from optim.source import Component, Source, SourceContext, SourceRequest
from optim.source_passes import SourcePass, SourceResult
from optim.target import Target
from optim_testing.offered import StageConformance


class SourcePassConformance(StageConformance):
    """Subclass as ``TestMySourcePass``, with the two fixtures that raise here.

    Attributes:
        max_drift: largest drift between what components compute before and after; of a pass that does not load.
        options: what a user would write, for the options that have no default.
        stage: where a plugin offers it.
    """

    stage: ClassVar[Stage] = Stage.PRE_EXPORT

    @pytest.fixture
    def pass_class(self) -> type[SourcePass]:
        """The pass."""
        raise NotImplementedError(f"{type(self).__name__} needs a fixture pass_class that returns the pass")

    @pytest.fixture
    def offered(self, pass_class: type[Any]) -> type[Any]:
        """The class that the plugin offers."""
        return pass_class

    @pytest.fixture
    def source(self) -> Source:
        """A source that it should do something for, made anew; of a loader ``Source(SourceRequest(...))``."""
        raise NotImplementedError(f"{type(self).__name__} needs a fixture source that returns an optim.source.Source")

    @pytest.fixture
    def nothing_to_do(self) -> Source:
        """A source that it leaves alone: by default one that nobody can load."""
        return Source(SourceRequest("a.module.of.nobody:factory"))

    @pytest.fixture
    def source_context(self, target: Target, tmp_path: Path) -> SourceContext:
        """The context for the pass."""
        return SourceContext(target, tmp_path, logging.getLogger("optim.pass"), lambda share, text: None)

    def apply(self, pass_class: type[SourcePass], source: Source, context: SourceContext) -> SourceResult:
        """Apply the pass with the options of this class."""
        found = pass_class().apply(source, parse_options(pass_class, self.options), context)
        assert isinstance(found, SourceResult), f"apply returned {type(found).__name__}, not a SourceResult"
        return found

    def test_it_fires(
        self, pass_class: type[SourcePass], source: Source, source_context: SourceContext, target: Target
    ) -> None:
        """It changes the source that it should fire on, and says what it did."""
        applicable = pass_class().applicable(source, target)
        assert isinstance(applicable, Applicable), f"applicable returned {type(applicable).__name__}"
        assert applicable.yes, f"it declines the source that it should fire on: {applicable.reason}"
        result = self.apply(pass_class, source, source_context)
        assert result.changed, f"it changed nothing: {' '.join(result.notes)}"
        assert result.counts or result.notes, "say in counts (or notes) what happened, so that a no-op is visible"
        assert result.source.components, "afterwards the source has no components"

    def test_it_declines_with_a_reason(
        self, pass_class: type[SourcePass], nothing_to_do: Source, source_context: SourceContext, target: Target
    ) -> None:
        """Where there is nothing to do it says so, and why."""
        applicable = pass_class().applicable(nothing_to_do, target)
        if not applicable.yes:
            assert applicable.reason.strip(), "Applicable.no(...) needs the reason that a user reads in the report"
            return
        result = self.apply(pass_class, nothing_to_do, source_context)
        assert not result.changed, "it says that it changed a source that has nothing to do for it"

    def test_components_run_as_they_are_declared(
        self, pass_class: type[SourcePass], source: Source, source_context: SourceContext
    ) -> None:
        """Each computes on its example, and on trials that are made anew, the outputs that it declares."""
        for component in self.apply(pass_class, source, source_context).source.components:
            missing = {info.name for info in component.inputs} - set(component.example)
            assert not missing, f"{component.name}: the example lacks {', '.join(sorted(missing))}"
            _require_outputs(component, component.run(component.example))
            first = [trial.name for trial in component.trials()]
            assert first, f"{component.name}: give trials, in shapes that the exporter has not seen"
            assert [trial.name for trial in component.trials()] == first, (
                f"{component.name}: trials() can be asked once"
            )
            for trial in component.trials():
                _require_outputs(component, component.run(trial.steps[0].feeds))

    def test_it_leaves_what_components_compute(
        self, pass_class: type[SourcePass], source: Source, source_context: SourceContext
    ) -> None:
        """Names, inputs and outputs stay, and every output is within max_drift."""
        if pass_class.loads:
            pytest.skip("it loads: others are compared with what it gives")
        limit = getattr(self, "max_drift", None)
        assert isinstance(limit, float) and 0 < limit < 1, "say max_drift = 1e-5, or what is right for your pass"
        before = [(one.name, one.inputs, one.outputs, _computed(one)) for one in source.components]
        after = self.apply(pass_class, source, source_context).source.components
        assert [one.name for one in after] == [name for name, *_ in before], "components have other names"
        for (name, inputs, outputs, expected), one in zip(before, after, strict=True):
            assert (one.inputs, one.outputs) == (inputs, outputs), f"{name}: inputs or outputs changed"
            for found in compare_outputs(zip(expected, _computed(one), strict=True)):
                assert not found.problem, f"{name}: output '{found.name}' {found.problem}"
                drift = found.relative_error
                assert drift <= limit, f"{name}: {found.place} drifts by {drift:.3g}, max_drift {limit:.3g}"


def _require_outputs(component: Component, found: Outputs) -> None:
    declared = {info.name for info in component.outputs}
    assert set(found) == declared, f"{component.name} gives {sorted(found)}, and declares {sorted(declared)}"


def _computed(component: Component) -> list[Outputs]:
    """What it computes on its example, and on the first step of every trial."""
    samples = [component.example, *(trial.steps[0].feeds for trial in component.trials())]
    return [{name: np.array(array) for name, array in component.run(feeds).items()} for feeds in samples]
