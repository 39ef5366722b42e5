"""Job: run tests of one file in a process that pytest can do without, each when the parent names it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import pytest

from optim.engine.testing import Job
from optim.jobs import Channel


@dataclass(frozen=True, slots=True)
class Request:
    """Where the tests are, and how the parent's pytest was called.

    Attributes:
        file: with the tests.
        options: of the command line, by name.
        path: where modules are looked for.
    """

    file: str
    options: dict[str, Any]
    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Answer:
    """It ends when it is told to."""


JOB = Job(__name__, Request, Answer)


BEGINS, REPORT, DONE, UNKNOWN = "begins", "report", "done", "unknown"
"""What is said of a test: in this order, with several reports; or that no such test was collected."""


class Told:
    """Runs the tests that the parent names, and sends what pytest reports of them.

    Args:
        channel: to the parent.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Answer each ``{"test": ..., "next": ...}`` with what comes of that test."""
        tests = {item.nodeid: item for item in session.items}
        while (asked := self._channel.receive()).get("test"):
            item = tests.get(asked["test"])
            if item is None:
                self._channel.event(UNKNOWN)
                continue
            self._channel.event(BEGINS)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=tests.get(asked["next"]))
            self._channel.event(DONE)
        return True

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Send it on."""
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._channel.event(REPORT, report=data)

    @pytest.hookimpl
    def pytest_configure(self, config: pytest.Config) -> None:
        """Note how reports are written."""
        self._config = config


def run(request: Request, channel: Channel) -> Answer:
    """Collect the file, then do what the parent says."""
    sys.path[:] = request.path
    config = pytest.Config.fromdictargs(request.options, [request.file])
    config.pluginmanager.register(Told(channel))
    config.hook.pytest_cmdline_main(config=config)
    return Answer()
