"""Part of a report: passes whose own code broke."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from pydantic import Field

from optim._engine.reports.parts.figures import Part
from optim._engine.search.state import Attempt
from optim.errors import ExitStatus, OptimError


class BrokenPassReport(Part):
    """A pass whose own code broke: with an exception that is no diagnosis, or a crash of its process."""

    pass_name: str = Field(validation_alias="pass", serialization_alias="pass", description="name of the pass")
    plugin: str = Field(description="plugin with the pass")
    distribution: str = Field(description="distribution of the plugin")
    version: str = Field(description="version of the distribution")
    times: int = Field(description="number of steps in which the pass broke")
    error: str = Field(description="first of its errors; that step has the traceback")
    fix: str = Field(description="how to report the error, and how to run without the pass")

    @property
    def diagnosis(self) -> OptimError:
        """The same as an error."""
        times = "" if self.times == 1 else f" {self.times} times"
        return OptimError(
            "pass-broke",
            f"{self.pass_name} broke{times}: what it would have gained is not known",
            self.error,
            self.fix,
            f"{self.distribution} {self.version}".strip(),
            ExitStatus.INTERNAL,
        )


def broken_passes(attempts: Iterable[Attempt], packages: Mapping[str, tuple[str, str]]) -> tuple[BrokenPassReport, ...]:
    """The passes that broke, each once.

    Args:
        attempts: of the run.
        packages: distribution and version by plugin.
    """
    found: dict[str, list[Attempt]] = {}
    for attempt in attempts:
        if attempt.broke:
            found.setdefault(attempt.step.pass_name, []).append(attempt)
    return tuple(_broken(name, rows, packages) for name, rows in found.items())


def _broken(name: str, rows: list[Attempt], packages: Mapping[str, tuple[str, str]]) -> BrokenPassReport:
    plugin = rows[0].step.plugin
    distribution, version = packages.get(plugin, ("", ""))
    return BrokenPassReport(
        pass_name=name,
        plugin=plugin,
        distribution=distribution,
        version=version,
        times=len(rows),
        error=rows[0].reason,
        fix=f"report it to the authors of {distribution or plugin}, with the traceback of that step in report.html; "
        f"--without {name} runs without the pass",
    )
