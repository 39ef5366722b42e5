"""Runs the passes over a source, and the exporters on its components; every step is reported."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from optim.engine.export import Choice, ExportStepReport, OfferedPass, Registry, recording
from optim.errors import ExitStatus, OptimError, describe_exception
from optim.options import parse_options
from optim.passes import Applicable, Role, Stage
from optim.source import Component, Source, SourceContext, SourceRequest
from optim.source_passes import Exported, Exporter, SourcePass, SourceResult
from optim_plugins.export.structure import require_structure

T = TypeVar("T")


class Pipeline:
    """The passes and exporters of all plugins, in order, and what came of them."""

    def __init__(self, registry: Registry, context: SourceContext, choice: Choice) -> None:
        self._registry = registry
        self._context = context
        self._choice = choice
        self.lossy = False
        self.steps: list[ExportStepReport] = []

    def load(self, request: SourceRequest) -> Source:
        """The source as it is: only passes that load are run.

        Raises:
            OptimError[source-not-loadable]: no plugin can.
        """
        source = Source(request)
        refusals: list[str] = []
        for offered, source_pass in self._source_passes():
            if source_pass.loads and not source.components:
                source = self._run(offered, source_pass, source, refusals)
        if not source.components:
            raise OptimError.usage(
                "source-not-loadable",
                f"no installed plugin can load {request.spec}",
                "\n".join(refusals) or "no plugin offers a pass that loads sources",
                "install torch and transformers: docs/install.md#torch-and-hugging-face",
            )
        return source

    def prepare(self, source: Source) -> Source:
        """Every pass that applies and does not load, in order."""
        for offered, source_pass in self._source_passes():
            if not source_pass.loads:
                source = self._run(offered, source_pass, source, [])
        return source

    def export(self, component: Component) -> Exported:
        """The graph of the first exporter that gives what the component declares.

        Raises:
            OptimError: what the first exporter that applies said, where all fail.
        """
        first: OptimError | None = None
        failures: list[str] = []
        for offered in self._registry.passes(Stage.EXPORT, self._context.target):
            exporter = _exporter(offered)
            if reason := self._excluded(offered, Role.ENABLE):
                self._step(offered, "skipped", reason, component.name)
                continue
            with _blaming(offered, component.name):
                applicable = _require(exporter.applicable(component, self._context.target), Applicable, offered)
            if not applicable:
                self._step(offered, "not-applicable", applicable.reason, component.name)
                continue
            result = self._tried(offered, exporter, component, failures)
            if isinstance(result, Exported):
                return result
            first = first or result
            failures.append(offered.name)
        raise first or OptimError.usage(
            "no-exporter",
            f"no installed plugin can export {component.name}",
            "none of them has an exporter that applies to it",
            "install torch and transformers: docs/install.md#torch-and-hugging-face",
        )

    def _tried(
        self, offered: OfferedPass, exporter: Exporter, component: Component, failures: Sequence[str]
    ) -> Exported | OptimError:
        """What an exporter makes of a component, or why it does not; either is a step."""
        started = time.monotonic()
        try:
            with recording(self._context.log) as said:
                result = self._export(offered, exporter, component)
        except OptimError as error:
            self._step(
                offered,
                "failed",
                f"{error.what}: {error.cause}" if error.cause else error.what,
                component.name,
                notes=said.notes(changed=False),
                seconds=time.monotonic() - started,
                printed=said.printed(changed=False),
            )
            return error
        self._step(
            offered,
            "kept",
            f"instead of {', '.join(failures)}, which failed" if failures else "",
            component.name,
            counts=result.counts,
            notes=(*result.notes, *said.notes(changed=True)),
            seconds=time.monotonic() - started,
            printed=said.printed(changed=True),
        )
        return result

    def _export(self, offered: OfferedPass, exporter: Exporter, component: Component) -> Exported:
        self._context.report_progress(0.0, f"exporting {component.name} with {exporter.name}")
        options = parse_options(type(exporter), self._choice.named.get(exporter.name) or {})
        with _blaming(offered, component.name):
            result = _require(exporter.export(component, options, self._context), Exported, offered)
            require_structure(result.graph, component)
        return result

    def _source_passes(self) -> Sequence[tuple[OfferedPass, SourcePass]]:
        offers = self._registry.passes(Stage.PRE_EXPORT, self._context.target)
        return [(offered, _source_pass(offered)) for offered in offers]

    def _run(self, offered: OfferedPass, source_pass: SourcePass, source: Source, refusals: list[str]) -> Source:
        if reason := self._excluded(offered, source_pass.role) or self._stepped_back(source_pass):
            self._step(offered, "skipped", reason)
            return source
        with _blaming(offered, source.request.spec):
            applicable = _require(source_pass.applicable(source, self._context.target), Applicable, offered)
        if not applicable:
            self._step(offered, "not-applicable", applicable.reason)
            refusals.append(f"{offered.name}: {applicable.reason}")
            if offered.name in self._choice.named:
                raise OptimError(
                    "pass-does-not-apply",
                    f"{offered.name} was asked for by name, but it does not apply",
                    applicable.reason,
                    f"leave out --with {offered.name}",
                    status=ExitStatus.NOT_HELD,
                )
            return source
        summary = source_pass.summary.rstrip(".")
        self._context.report_progress(0.0, summary[:1].lower() + summary[1:])
        started = time.monotonic()
        chosen = self._choice.named.get(offered.name) or {}
        with recording(self._context.log) as said:
            result = _apply(offered, source_pass, source, chosen, self._context)
        self.lossy = self.lossy or (source_pass.lossy and result.changed)
        self._step(
            offered,
            "kept" if result.changed else "not-applicable",
            "" if result.changed else result.notes[0],
            options=chosen,
            counts=result.counts,
            notes=(*result.notes[0 if result.changed else 1 :], *said.notes(changed=result.changed)),
            seconds=time.monotonic() - started,
            printed=said.printed(changed=result.changed),
        )
        return result.source

    def _excluded(self, offered: OfferedPass, role: Role) -> str:
        if offered.name in self._choice.without:
            return "left out by --without"
        if role is Role.REQUESTED and offered.name not in self._choice.named:
            return "it runs only when named (--with)"
        return ""

    def _stepped_back(self, source_pass: SourcePass) -> str:
        named = self._choice.named
        ahead = next((name for name in source_pass.yields_to if name in named and source_pass.name not in named), "")
        return f"{ahead} was asked for and replaces it" if ahead else ""

    def _step(self, offered: OfferedPass, status: Any, reason: str, component: str = "", **more: Any) -> None:
        words = {"name": offered.name, "plugin": offered.plugin.name, "stage": offered.stage.value, "status": status}
        figures = {"options": {}, "counts": {}, "notes": (), "seconds": 0.0, **more}
        self.steps.append(ExportStepReport(**words, reason=reason, component=component, **figures))


def _apply(
    offered: OfferedPass, source_pass: SourcePass, source: Source, chosen: Mapping[str, Any], context: SourceContext
) -> SourceResult:
    """Run a pass."""
    options = parse_options(type(source_pass), chosen)
    with _blaming(offered, source.request.spec):
        return _require(source_pass.apply(source, options, context), SourceResult, offered)


@contextmanager
def _blaming(offered: OfferedPass, subject: str) -> Iterator[None]:
    """Whatever else than an OptimError a pass raises is a defect of its plugin.

    Raises:
        OptimError[source-pass-failed]: it raised such a thing.
    """
    try:
        yield
    except OptimError:
        raise
    except Exception as error:
        raise OptimError(
            "source-pass-failed",
            f"{offered.name} broke on {subject}",
            describe_exception(error),
            f"leave it out (--without {offered.name}), and report this to its plugin",
            offered.plugin.release,
        ) from error


def _require(value: T, kind: type[T], offered: OfferedPass) -> T:
    if isinstance(value, kind):
        return value
    raise OptimError(
        "bad-result",
        f"{offered.name} returned {type(value).__name__}, not {kind.__name__}",
        "its plugin breaks the contract of passes",
        "leave it out (--without), and report this to its plugin",
        offered.plugin.release,
    )


def _source_pass(offered: OfferedPass) -> SourcePass:
    """An instance; the registry has checked the class against its stage."""
    made = offered.pass_class()
    assert isinstance(made, SourcePass)
    return made


def _exporter(offered: OfferedPass) -> Exporter:
    made = offered.pass_class()
    assert isinstance(made, Exporter)
    return made
